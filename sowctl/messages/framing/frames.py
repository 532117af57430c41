"""Input framing: a byte stream cut into messages, in bounded memory, many messages at a time (``sowctl(1)``, INPUT).

=============  ====================================================================================================
``lines``      a message a line; one CR before the LF goes, a UTF-8 BOM at the start of the input is skipped, and so
               are blank lines (empty, or spaces and tabs alone); the last line needs no line break
``nul``        messages end with a zero byte; the last one needs none; empty messages count
``length``     4 bytes, big-endian: the length of the message that follows
``envelope``   lines of JSON objects that carry the message and its metadata (:mod:`sowctl.messages.framing.envelope`)
=============  ====================================================================================================

:class:`FrameReader` hands out a :class:`Chunk` at a time: everything complete so far. Made of a file descriptor it
never waits longer than asked, so a caller can close a batch while the input is silent. Only this module reads the
stream; nothing else may read from it before or meanwhile.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol

from sowctl.errors import SowError, StorageError, UsageError
from sowctl.messages.base import MAX_MESSAGE

if TYPE_CHECKING:
    from sowctl.messages.framing.envelope import Envelope

FRAMINGS = ("lines", "nul", "length", "envelope")
LINE_TYPES = frozenset({"json", "fix", "nvfix", "xml", "binary"})
"""Kinds of message types whose messages are lines unless somebody says otherwise; those of all others have lengths."""
CHUNK = 1 << 20

TOO_LONG = "SOW-INP-001"
TRUNCATED = "SOW-INP-002"
FRAME_TOO_LONG = "SOW-INP-003"
UNKNOWN_FRAMING = "SOW-INP-004"
UNREADABLE = "SOW-INP-005"
LONGEST_WAIT = 0.5
"""Seconds after which a wait for input looks about once."""

Places = tuple[Sequence[int], Sequence[int]]
"""Line (or message) numbers from 1, and byte offsets in the input."""


def default_framing(kind: str) -> str:
    """The framing of messages of a kind of message type where none is given."""
    return "lines" if kind in LINE_TYPES else "length"


def framed(payloads: Sequence[bytes], framing: str) -> bytes:
    """Messages as a stream that this framing cuts again; for envelopes, which need more, lines."""
    if framing == "length":
        return b"".join([len(payload).to_bytes(4, "big") + payload for payload in payloads])
    end = b"\0" if framing == "nul" else b"\n"
    return b"".join([payload + end for payload in payloads])


class RefusedFrame:
    """A message that the framing could not hand out: where, why, and its bytes unless they were too many to keep.

    ``at`` is the offset in these bytes of what is wrong, where that is known.
    """

    __slots__ = ("at", "code", "line", "message", "offset", "payload")

    def __init__(
        self, line: int, offset: int, code: str, message: str, payload: bytes | None = None, at: int | None = None
    ) -> None:
        self.line = line
        self.offset = offset
        self.code = code
        self.message = message
        self.payload = payload
        self.at = at

    def __repr__(self) -> str:
        return f"RefusedFrame({self.line}, {self.offset}, {self.code!r}, {self.message!r})"


class Chunk:
    """Messages that arrived together: ``payloads``, and where they stood, worked out only when somebody asks.

    ``refused`` are messages that did not make it into ``payloads``; ``blank`` counts skipped lines; ``end`` is the
    offset in the input behind the last message (or skipped line) of the chunk; ``envelopes`` has one entry per payload
    with that framing, else it is None.
    """

    __slots__ = ("_places", "_thunk", "blank", "end", "envelopes", "payloads", "refused")

    def __init__(
        self,
        payloads: list[bytes],
        places: Callable[[], Places],
        end: int,
        refused: list[RefusedFrame] | None = None,
        blank: int = 0,
        envelopes: list[Envelope] | None = None,
    ) -> None:
        self.payloads = payloads
        self.refused = refused or []
        self.blank = blank
        self.end = end
        self.envelopes = envelopes
        self._thunk = places
        self._places: Places | None = None

    @property
    def places(self) -> Places:
        """The line numbers and the offsets of all payloads. For ``nul`` and ``length`` a line is a message."""
        if self._places is None:
            self._places = self._thunk()
        return self._places

    def line(self, index: int) -> int:
        """The line of ``payloads[index]``, from 1."""
        return self.places[0][index]

    def offset(self, index: int) -> int:
        """The byte offset of ``payloads[index]`` in the input."""
        return self.places[1][index]


class Cutter(Protocol):
    """Cuts what arrives into messages; keeps what is incomplete. One per framing."""

    error: SowError | None

    def feed(self, data: bytes) -> Chunk | None:
        """Take ``data``; empty means the end of the input. Returns what became complete. ``error`` ends the input."""
        ...


class FrameReader:
    """Reads messages from ``source``: a file descriptor (see :meth:`poll`) or a binary stream, which may block.

    ``blocking`` tells whether :meth:`poll` may wait longer than asked.

    ``max_message``: bytes of the longest message; a longer line is refused and skipped, a longer length-prefixed frame
    ends the input with an error. ``chunk``: bytes to read ahead at most. Raises UsageError ``SOW-INP-004`` for an
    unknown framing.
    """

    def __init__(
        self, source: int | BinaryIO, framing: str, *, max_message: int = MAX_MESSAGE, chunk: int = CHUNK
    ) -> None:
        self.ended = False
        self.blocking = not isinstance(source, int)
        self._chunk = chunk
        self._cutter = _cutter(framing, max_message)
        self._read = _poller(source, chunk) if isinstance(source, int) else _reader(source, chunk)

    def poll(self, timeout: float | None = None) -> Chunk | None:
        """What is complete by now; None if nothing became complete within ``timeout`` seconds or at the end.

        Waits for input at most ``timeout`` seconds (None: as long as it takes) if the source is a descriptor. ``ended``
        tells whether more can come. Raises, after everything before it was handed out, InputError ``SOW-INP-002`` (the
        input ends inside a frame), LimitError ``SOW-INP-003`` (a frame is too long), and StorageError ``SOW-INP-005``.
        """
        if self._cutter.error is not None:
            self.ended = True
            raise self._cutter.error
        if self.ended:
            return None
        try:
            data = self._read(timeout)
        except OSError as problem:
            self.ended = True
            raise StorageError(UNREADABLE, f"the input cannot be read: {problem.strerror or problem}") from problem
        if data is None:
            return None
        result = self._cutter.feed(data)
        if self._cutter.error is None:
            self.ended = not data
        elif result is None:
            return self.poll(0)
        return result

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            chunk = self.poll()
            if chunk is not None:
                yield chunk
            elif self.ended:
                return


def read_frames(
    source: int | BinaryIO, framing: str, *, max_message: int = MAX_MESSAGE, chunk: int = CHUNK
) -> Iterator[Chunk]:
    """All chunks of ``source`` up to its end. Raises as :class:`FrameReader` and its ``poll`` do."""
    return iter(FrameReader(source, framing, max_message=max_message, chunk=chunk))


def _cutter(framing: str, max_message: int) -> Cutter:
    from sowctl.messages.framing import cutters

    if framing == "lines":
        return cutters.LineCutter(max_message)
    if framing == "nul":
        return cutters.NulCutter(max_message)
    if framing == "length":
        return cutters.LengthCutter(max_message)
    if framing == "envelope":
        from sowctl.messages.framing.envelope import EnvelopeCutter

        return EnvelopeCutter(max_message)
    raise UsageError(UNKNOWN_FRAMING, f"there is no framing {framing!r}", hint="framings: " + ", ".join(FRAMINGS))


def _reader(stream: BinaryIO, chunk: int) -> Callable[[float | None], bytes | None]:
    read = getattr(stream, "read1", stream.read)
    return lambda timeout: read(chunk)


def _poller(descriptor: int, chunk: int) -> Callable[[float | None], bytes | None]:
    """Reads what is there, up to ``chunk`` bytes; None if nothing came in time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLPRI)

    def is_readable(timeout: float | None) -> bool:
        # A signal that comes just before the wait does not end it, and its handler runs only after it.
        while timeout is None or timeout > LONGEST_WAIT:
            if poll.poll(LONGEST_WAIT * 1000):
                return True
            timeout = None if timeout is None else timeout - LONGEST_WAIT
        return bool(poll.poll(timeout * 1000))

    def read(timeout: float | None) -> bytes | None:
        if not is_readable(timeout):
            return None
        try:
            data = os.read(descriptor, chunk)
        except BlockingIOError:
            return None
        parts = [data]
        size = len(data)
        while data and size < chunk and poll.poll(0):
            try:
                data = os.read(descriptor, chunk - size)
            except BlockingIOError:
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    return read

"""Input framing: a byte stream split into messages, in bounded memory, many messages at a time (``sowctl(1)``, INPUT).

=============  ====================================================================================================
``lines``      one message per line; one CR before the LF is removed, a UTF-8 BOM at the start of the input is
               skipped, and so are blank lines (empty, or only spaces and tabs); the last line needs no line break;
               a CR alone does not end a line
``json``       as ``lines``, or the elements of arrays, or objects over several lines, depending on the beginning
               of the input (:mod:`sowctl.messages.framing.json_values`)
``nul``        messages end with a zero byte, which the last one may lack; empty messages count
``length``     4 bytes, big-endian: the length of the message that follows
``envelope``   as ``json``: objects with the message and its metadata (:mod:`sowctl.messages.framing.envelope`)
=============  ====================================================================================================

:class:`FrameReader` returns a :class:`~sowctl.messages.framing.chunks.Chunk` at a time: all messages complete so far.
For a file descriptor it never waits longer than requested, so a caller can close a batch while the input is idle.
Only this module reads the stream; no other code may read from it before or meanwhile.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from sowctl.errors import InputError, StorageError, UsageError
from sowctl.messages.base import MAX_MESSAGE_BYTES
from sowctl.messages.framing.chunks import Chunk, Cutter
from sowctl.messages.framing.encodings import HEAD_BYTES, UTF8_BOM, WRONG_ENCODING, refuse_encoding

if TYPE_CHECKING:
    from sowctl.messages.framing.envelope import EnvelopeFormat

FRAMINGS = ("lines", "json", "nul", "length", "envelope")
READ_CHUNK_BYTES = 1 << 20
TAGGED_KINDS = frozenset({"fix", "nvfix"})
"""Kinds of message types that accept any bytes as names and values, so that nothing else refuses a wrong encoding."""
UTF8_KINDS = TAGGED_KINDS | {"json"}
"""Kinds whose messages are UTF-8; XML messages declare their encodings, and binary ones have none."""

UNKNOWN_FRAMING = "SOW-INP-004"
UNREADABLE_CODE = "SOW-INP-005"


class FrameLimits(Struct):
    """Times of waiting for input; tests set shorter ones."""

    max_wait_seconds: float = 0.5
    """Maximum duration of a single wait for input in seconds; signal handlers run between two of them."""


FRAME_LIMITS = FrameLimits()


def frame_messages(payloads: Sequence[bytes], framing: str) -> bytes:
    """Messages as a stream in this framing; as lines for envelopes, which need more than payloads."""
    if framing == "length":
        return b"".join([len(payload).to_bytes(4, "big") + payload for payload in payloads])
    end = b"\0" if framing == "nul" else b"\n"
    return b"".join([payload + end for payload in payloads])


class FrameReader:
    """Reads messages from ``source``: a file descriptor (see :meth:`poll`) or a binary stream, which may block.

    ``blocking`` is whether :meth:`poll` may wait longer than requested.

    ``max_message``: maximum size of a message; a longer line is refused and skipped, a longer length-prefixed frame
    ends the input with an error. ``chunk``: maximum read-ahead in bytes. ``name`` is the input's in errors. ``kind`` is
    that of the message type, None if unknown: input that is read as text must be UTF-8. ``form``: that of envelopes,
    None for sowctl's own. ``arrays``: messages of JSON are arrays, not objects. Raises UsageError ``SOW-INP-004`` for
    an unknown framing.
    """

    def __init__(
        self,
        source: int | BinaryIO,
        framing: str,
        *,
        max_message: int = MAX_MESSAGE_BYTES,
        chunk: int = READ_CHUNK_BYTES,
        name: str = "input",
        kind: str | None = None,
        form: EnvelopeFormat | None = None,
        arrays: bool = False,
    ) -> None:
        self._name = name
        self._head = b""
        self._is_text = framing == "envelope" or (kind in UTF8_KINDS and framing != "length")
        self._has_zeros = framing == "nul"
        self._keeps_mark = framing == "nul" and kind in TAGGED_KINDS
        self.ended = False
        self.blocking = not isinstance(source, int)
        self.descriptor = source if isinstance(source, int) else None
        """The source, if that is a file descriptor."""
        self._chunk = chunk
        self._cutter = _make_cutter(framing, max_message, kind, form, arrays=arrays)
        self._read = (
            _make_descriptor_poller(source, chunk) if isinstance(source, int) else _make_stream_reader(source, chunk)
        )

    @property
    def by_lines(self) -> bool:
        """True if each message is a line, so that an input can be read again from a line on."""
        return self._cutter.by_lines

    def poll(self, timeout: float | None = None) -> Chunk | None:
        """Return the messages complete by now; None at the end or if none was complete within ``timeout`` seconds.

        Waits for input at most ``timeout`` seconds (None: indefinitely) if the source is a descriptor. ``ended`` is
        whether the input has ended. Raises, after all previous messages were returned, InputError ``SOW-INP-002`` (the
        input ends inside a frame) and ``SOW-INP-006`` (it is not UTF-8), LimitError ``SOW-INP-003`` (a frame is too
        long), and StorageError ``SOW-INP-005``.
        """
        # An error is raised only after all previous messages have been returned.
        if self._cutter.error is not None:
            self.ended = True
            # The cutter only knows the position in the input, the reader its name.
            facts = self._cutter.error.facts
            self._cutter.error.place = (
                f"{self._name}:{facts['line']}" if "line" in facts else f"{self._name}@{facts['offset']}"
            )
            raise self._cutter.error
        if self.ended:
            return None
        try:
            data = self._read(timeout)
        except OSError as problem:
            self.ended = True
            reason = problem.strerror or str(problem)
            raise StorageError(UNREADABLE_CODE, f"cannot read the input: {reason}", place=self._name) from problem
        # No input in time, which is not the end: the caller may do something else and call again.
        if data is None:
            return None
        if self._is_text and data and len(self._head) < HEAD_BYTES:
            self._look_at_head(data)
        result = self._cutter.feed(data)
        if self._cutter.error is None:
            # Empty data is the end; an error of the cutter ends the input by itself, one call later.
            self.ended = not data
        # No messages precede the error, so it is raised now.
        elif result is None:
            return self.poll(0)
        return result

    def _look_at_head(self, data: bytes) -> None:
        self._head += data[: HEAD_BYTES - len(self._head)]
        try:
            refuse_encoding(self._head, self._name, marks_alone=self._has_zeros)
            if self._keeps_mark and self._head.startswith(UTF8_BOM):
                words = "the input begins with a byte order mark, which would be a part of its first name"
                raise InputError(
                    WRONG_ENCODING, words, place=self._name, hint="remove the byte order mark: tail -c +4 FILE"
                )
        except InputError:
            self.ended = True
            raise

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            chunk = self.poll()
            if chunk is not None:
                yield chunk
            elif self.ended:
                return


def _make_cutter(
    framing: str, max_message: int, kind: str | None, form: EnvelopeFormat | None, *, arrays: bool
) -> Cutter:
    from sowctl.messages.framing import cutters

    if framing == "lines":
        return cutters.LineCutter(max_message, refuses_returns=kind in TAGGED_KINDS)
    if framing in ("json", "envelope"):
        from sowctl.messages.framing.json_values import JsonCutter

        if framing == "json":
            return JsonCutter(max_message, arrays=arrays)
        # Base64 needs four bytes for three, and the metadata needs room, too.
        return cutters.EnvelopeCutter(max_message, JsonCutter(2 * max_message + (1 << 16)), form)
    if framing == "nul":
        return cutters.NulCutter(max_message)
    if framing == "length":
        return cutters.LengthCutter(max_message, converts_json=kind in ("bson", "msgpack", "bflat"))
    raise UsageError(UNKNOWN_FRAMING, f"unknown framing {framing!r}", hint="framings: " + ", ".join(FRAMINGS))


def _make_stream_reader(stream: BinaryIO, chunk: int) -> Callable[[float | None], bytes | None]:
    # read1() returns the available bytes; read() would wait until the whole chunk is full.
    read = getattr(stream, "read1", stream.read)
    return lambda timeout: read(chunk)


def _make_descriptor_poller(descriptor: int, chunk: int) -> Callable[[float | None], bytes | None]:
    """Reads the available bytes, up to ``chunk``; None if none arrived in time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLPRI)

    def is_readable(timeout: float | None) -> bool:
        # A signal just before the wait does not end it, and its handler runs only afterwards.
        while timeout is None or timeout > FRAME_LIMITS.max_wait_seconds:
            if poll.poll(FRAME_LIMITS.max_wait_seconds * 1000):
                return True
            timeout = None if timeout is None else timeout - FRAME_LIMITS.max_wait_seconds
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
        # One read of a pipe may return little: available bytes are collected, so that batches are large.
        while data and size < chunk and poll.poll(0):
            try:
                data = os.read(descriptor, chunk - size)
            except BlockingIOError:
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    return read

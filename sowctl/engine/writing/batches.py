"""From input to batches: messages are gathered until a batch is full, large or old, also while the input is silent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import field

from sowctl.engine.writing.limits import WRITING_LIMITS
from sowctl.errors import SowError
from sowctl.messages.framing.chunks import Chunk, RefusedFrame
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import PreparedMessages
    from sowctl.messages.framing.envelope import Envelope


class MessageSource(Protocol):
    """A source of chunks of messages; :class:`~sowctl.messages.framing.frames.FrameReader` is one."""

    ended: bool
    blocking: bool
    """Whether :meth:`poll` may wait longer than it was told."""
    descriptor: int | None
    """What is read, where that is a file descriptor and nothing else reads from it."""

    def poll(self, timeout: float | None = None) -> Chunk | None:
        """Return the chunk that is complete by now, None if nothing is within ``timeout`` seconds."""
        ...


READ_AHEAD_MIN_BYTES = 4 << 20
"""So many bytes of an input have been published before another process is started for the rest of it."""

_PAYLOAD_TYPES = frozenset({bytes, bytearray, memoryview})


def require_payload(message: object) -> bytes:
    """Raises TypeError: a message is its bytes."""
    raise TypeError(f"a message must be bytes, not {type(message).__name__}")


class ListSource:
    """A source over messages in memory, or that a program yields.

    ``encode`` makes bytes of a message that is none. Raises TypeError for what is no message; ``call`` tells how one
    message is given.
    """

    def __init__(
        self,
        messages: Iterable[Any],
        size: int | None = None,
        call: str = "publish([message])",
        encode: Callable[[object], bytes] = require_payload,
    ) -> None:
        # One message instead of a list would be taken apart into its bytes, or the names of its fields.
        if isinstance(messages, bytes | bytearray | memoryview | str | Mapping):
            raise TypeError(f"messages must be a list, not {type(messages).__name__}: {call}")
        self.ended = False
        self.descriptor: int | None = None
        # A program may take its time to yield the next message; those of a list are there.
        self.blocking = not isinstance(messages, list | tuple)
        self._messages = iter(messages)
        self._size = size or WRITING_LIMITS.default_batch_messages
        self._count = 0
        self._encode = encode

    def poll(self, timeout: float | None = None) -> Chunk | None:
        """The next messages; a "line" is a message, offsets count messages too."""
        payloads = [message for _, message in zip(range(self._size), self._messages, strict=False)]
        if not payloads:
            self.ended = True
            return None
        # The types of a whole batch are one set, so good input pays for no test of each message.
        if not {*map(type, payloads)} <= _PAYLOAD_TYPES:
            encode = self._encode
            payloads = [one if type(one) in _PAYLOAD_TYPES else encode(one) for one in payloads]
        if any(type(payload) is not bytes for payload in payloads):
            # A view may count items wider than a byte, and a bytearray may change before it is written.
            payloads = [bytes(payload) for payload in payloads]
        start = self._count
        self._count += len(payloads)
        numbers = range(start + 1, self._count + 1)
        return Chunk(payloads, lambda: (numbers, range(start, self._count)), self._count)


class PublishBatch(DescribedStruct):
    """Messages that are published together. ``refused`` are frames that the framing gave up on; ``last`` is the chunk
    that the batch ends in, and how many of its messages it has taken. ``inputs`` of a batch of several inputs: the
    index of the first message and of the first refused frame of each, and its name. ``ahead``: digests and stored
    payloads of all messages, made by the process that has read them.

    Places in the input are worked out when they are asked for: most batches never need theirs.
    """

    name: str
    payloads: list[bytes] = field(default_factory=list)
    envelopes: list[Envelope] | None = None
    refused: list[RefusedFrame] = field(default_factory=list)
    blank: int = 0
    last: tuple[Chunk, int] | None = None
    size: int = 0
    parts: list[tuple[int, Chunk, int]] = field(default_factory=list)
    inputs: list[tuple[int, int, str]] = field(default_factory=list)
    ahead: PreparedMessages | None = None

    @property
    def end_offset(self) -> int:
        """The byte offset in the input behind the batch."""
        if self.last is None:
            return 0
        chunk, taken = self.last
        return chunk.find_offset(taken) if taken < len(chunk.payloads) else chunk.end

    @property
    def last_line(self) -> int:
        """The line of the last message, good or not, 0 without any."""
        good = self.locate_message(len(self.payloads) - 1)[0] if self.payloads else 0
        return max(good, *(frame.line for frame in self.refused)) if self.refused else good

    def count_before(self, offset: int) -> int:
        """Return the number of ``payloads`` before a byte offset; for a batch of one input."""
        return sum(1 for index in range(len(self.payloads)) if self.locate_message(index)[1] < offset)

    def find_input(self, index: int, *, frame: bool = False) -> tuple[int, str]:
        """The number, from 0, and the name of the input of ``payloads[index]``, or of ``refused[index]``."""
        for number in range(len(self.inputs) - 1, -1, -1):
            message, first_frame, name = self.inputs[number]
            if index >= (first_frame if frame else message):
                return number, name
        return 0, self.name

    def locate_message(self, index: int) -> tuple[int, int]:
        """Line and byte offset of ``payloads[index]``."""
        # Parts stand in the order of the batch: the last one that begins at or before the message has it.
        for first, chunk, start in reversed(self.parts):
            if index >= first:
                return chunk.find_line(start + index - first), chunk.find_offset(start + index - first)
        raise IndexError(index)


def iterate_batches(
    name: str,
    source: MessageSource,
    *,
    count: int,
    size: int,
    linger: float,
    monotonic: Callable[[], float],
    before_waiting: Callable[[], None],
) -> Iterator[PublishBatch]:
    """Batches of at most ``count`` messages, about ``size`` bytes, and at most ``linger`` seconds old.

    ``before_waiting`` is called whenever the input has nothing to give at once.
    """
    # A batch ends at one of three limits: messages, bytes, or the age of its first message.
    batch, deadline = PublishBatch(name), 0.0
    while True:
        waiting = bool(batch.payloads or batch.refused)
        chunk, failed = None, None
        # The input is asked without waiting first: before a wait for more, what is under way is to be acknowledged.
        if not source.blocking:
            chunk, failed = _poll_source(source, 0)
        if chunk is None and failed is None and not source.ended:
            # What this raises ends the run: a refused message, or a sync. Nothing behind it is published.
            before_waiting()
            # With messages waiting, the wait ends when the oldest of them has waited long enough; an empty batch waits
            # for ever.
            chunk, failed = _poll_source(source, max(0.0, deadline - monotonic()) if waiting else None)
        if failed is not None:
            # An error of the input does not take back what stood before it: that is published, and only then the error
            # rises.
            if waiting:
                yield batch
            raise failed
        if chunk is None:
            # Silence makes a batch full as well: a lone message is published after ``linger`` seconds, not when more
            # arrive.
            if waiting and (source.ended or monotonic() >= deadline):
                yield batch
                batch = PublishBatch(name)
            if source.ended:
                return
            continue
        if not waiting:
            deadline = monotonic() + linger
        batch.blank += chunk.blank
        start = told = 0
        while start < len(chunk.payloads):
            if batch.envelopes and _get_entry_publisher(batch.envelopes[-1]) != _get_entry_publisher(
                _get_envelope(chunk, start)
            ):
                yield batch
                batch, deadline = PublishBatch(name), monotonic() + linger
            start = _fill_batch(batch, chunk, start, count, size)
            if chunk.refused:
                # A run that stops at a refused frame takes what stands before it for done: a frame must not come
                # into an earlier batch than its neighbours.
                told = _add_refused_frames(batch, chunk, told, start)
            # A chunk may fill several batches: each is handed out as soon as it is full, and the rest of the chunk goes
            # on.
            if len(batch.payloads) >= count or batch.size >= size:
                yield batch
                batch, deadline = PublishBatch(name), monotonic() + linger
        batch.refused.extend(chunk.refused[told:])
        batch.last = chunk, len(chunk.payloads)
        if (batch.payloads or batch.refused) and monotonic() >= deadline:
            yield batch
            batch = PublishBatch(name)


def _poll_source(source: MessageSource, timeout: float | None) -> tuple[Chunk | None, SowError | None]:
    try:
        return source.poll(timeout), None
    except SowError as error:
        return None, error


def merge_batches(parts: Sequence[PublishBatch]) -> PublishBatch:
    """Merge several batches, perhaps of several inputs, into one. An input's name comes once for each of its batches:
    what counts is their order."""
    whole = parts[0] if parts else PublishBatch("")
    whole.inputs = [(0, 0, part.name) for part in parts[:1]]
    for part in parts[1:]:
        # Parts know their places in their own batch: behind the messages of the batches before they are shifted by so
        # many.
        base = len(whole.payloads)
        whole.inputs.append((base, len(whole.refused), part.name))
        whole.parts.extend((base + first, chunk, start) for first, chunk, start in part.parts)
        whole.payloads.extend(part.payloads)
        whole.refused.extend(part.refused)
        whole.blank += part.blank
        whole.last = part.last
        if part.envelopes is not None:
            whole.envelopes = (whole.envelopes or []) + part.envelopes
    return whole


def _add_refused_frames(batch: PublishBatch, chunk: Chunk, told: int, start: int) -> int:
    """The frames of ``chunk`` before its message ``start``, from ``told`` on; returns how many are told then."""
    behind = chunk.find_offset(start) if start < len(chunk.payloads) else chunk.end
    stop = told
    while stop < len(chunk.refused) and chunk.refused[stop].offset < behind:
        stop += 1
    batch.refused.extend(chunk.refused[told:stop])
    return stop


def _get_envelope(chunk: Chunk, index: int) -> Envelope | None:
    return None if chunk.envelopes is None else chunk.envelopes[index]


def _get_entry_publisher(envelope: Envelope | None) -> tuple[str | None] | None:
    """Return the publisher of an entry of a journal in a tuple, ``(None,)`` if it has none; None for any other message.

    Entries keep their publishers, each with numbers of its own, so that a batch has those of one; and so do records of
    Kafka whose partitions are publishers.
    """
    return None if envelope is None or not has_own_publisher(envelope) else (envelope.client,)


def has_own_publisher(envelope: Envelope) -> bool:
    """Return whether a message keeps its publisher, so that a run may have several: an entry of a journal, or a record
    that is numbered by its partition."""
    return envelope.operation is not None or getattr(envelope, "is_numbered", False)


def _fill_batch(batch: PublishBatch, chunk: Chunk, start: int, count: int, size: int) -> int:
    stop = min(len(chunk.payloads), start + count - len(batch.payloads))
    if chunk.envelopes is not None:
        mine = _get_entry_publisher(chunk.envelopes[start])
        others = (at for at in range(start, stop) if _get_entry_publisher(chunk.envelopes[at]) != mine)
        stop = next(others, stop)
    taken = chunk.payloads[start:stop]
    total = sum(map(len, taken))
    if batch.size + total > size:
        ends = list(accumulate(map(len, taken)))
        # One message goes into a batch however large it is, or it would never be taken.
        del taken[max(1, bisect_right(ends, size - batch.size)) :]
        total = ends[len(taken) - 1]
    batch.parts.append((len(batch.payloads), chunk, start))
    batch.payloads.extend(taken)
    batch.size += total
    if chunk.envelopes is not None:
        batch.envelopes = (batch.envelopes or []) + chunk.envelopes[start : start + len(taken)]
    stop = start + len(taken)
    batch.last = chunk, stop
    return stop

"""Collects input messages into batches. A batch ends at a limit of messages, bytes or age, also on a silent input."""

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
    """Whether :meth:`poll` may wait longer than its timeout."""
    descriptor: int | None
    """The file descriptor of the input, if it has one that nothing else reads."""

    def poll(self, timeout: float | None = None) -> Chunk | None:
        """Return the next complete chunk, None if there is none within ``timeout`` seconds."""
        ...


READ_AHEAD_MIN_BYTES = 4 << 20
"""Bytes of an input that are published before another process is started to read the rest."""

_PAYLOAD_TYPES = frozenset({bytes, bytearray, memoryview})


def require_payload(message: object) -> bytes:
    """Raise TypeError: a message must be bytes."""
    raise TypeError(f"a message must be bytes, not {type(message).__name__}")


class ListSource:
    """A source of messages in memory or from an iterator of the program.

    ``encode`` converts a message that is not bytes. Raises TypeError if ``messages`` is a single message; ``call`` is
    the right call for one, shown in the error.
    """

    def __init__(
        self,
        messages: Iterable[Any],
        size: int | None = None,
        call: str = "publish([message])",
        encode: Callable[[object], bytes] = require_payload,
    ) -> None:
        # Iterating over a single message would yield its bytes or the names of its fields.
        if isinstance(messages, bytes | bytearray | memoryview | str | Mapping):
            raise TypeError(f"messages must be a list, not {type(messages).__name__}: {call}")
        self.ended = False
        self.descriptor: int | None = None
        # An iterator may take long to yield the next message; a list has all of them.
        self.blocking = not isinstance(messages, list | tuple)
        self._messages = iter(messages)
        self._size = size or WRITING_LIMITS.default_batch_messages
        self._count = 0
        self._encode = encode

    def poll(self, timeout: float | None = None) -> Chunk | None:
        """Return the next messages. Lines and offsets count messages."""
        payloads = [message for _, message in zip(range(self._size), self._messages, strict=False)]
        if not payloads:
            self.ended = True
            return None
        # One set has the types of the batch: valid input needs no test of each message.
        if not {*map(type, payloads)} <= _PAYLOAD_TYPES:
            encode = self._encode
            payloads = [one if type(one) in _PAYLOAD_TYPES else encode(one) for one in payloads]
        if any(type(payload) is not bytes for payload in payloads):
            # Items of a view may be wider than a byte, and a bytearray may change before it is written.
            payloads = [bytes(payload) for payload in payloads]
        start = self._count
        self._count += len(payloads)
        numbers = range(start + 1, self._count + 1)
        return Chunk(payloads, lambda: (numbers, range(start, self._count)), self._count)


class PublishBatch(DescribedStruct):
    """Messages that are published together. ``refused`` are frames that the framing rejected; ``last`` is the last
    chunk of the batch, and the number of its messages up to the end of the batch. ``inputs``, of a batch of several
    inputs: the index of the first message and of the first refused frame of each, and its name. ``ahead``: digests and
    stored payloads of all messages, computed by the process that read them.

    Places in the input are computed on demand: most batches never need them.
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
        """The byte offset in the input after the batch."""
        if self.last is None:
            return 0
        chunk, taken = self.last
        return chunk.find_offset(taken) if taken < len(chunk.payloads) else chunk.end

    @property
    def last_line(self) -> int:
        """The line of the last message or refused frame, 0 if there is none."""
        good = self.locate_message(len(self.payloads) - 1)[0] if self.payloads else 0
        return max(good, *(frame.line for frame in self.refused)) if self.refused else good

    def count_before(self, offset: int) -> int:
        """Return the number of ``payloads`` before a byte offset; for a batch of one input."""
        return sum(1 for index in range(len(self.payloads)) if self.locate_message(index)[1] < offset)

    def find_input(self, index: int, *, frame: bool = False) -> tuple[int, str]:
        """Return the number, from 0, and the name of the input of ``payloads[index]``; with ``frame``, of
        ``refused[index]``."""
        for number in range(len(self.inputs) - 1, -1, -1):
            message, first_frame, name = self.inputs[number]
            if index >= (first_frame if frame else message):
                return number, name
        return 0, self.name

    def locate_message(self, index: int) -> tuple[int, int]:
        """Return line and byte offset of ``payloads[index]``."""
        # Parts are in the order of the batch: the last one that begins at or before the message contains it.
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
    """Yield batches of at most ``count`` messages, about ``size`` bytes, and at most ``linger`` seconds old.

    ``before_waiting`` is called whenever the input has no data ready. An error of the input is raised after the
    messages before it are yielded.
    """
    # A batch ends at one of three limits: messages, bytes, or the age of its first message.
    batch, deadline = PublishBatch(name), 0.0
    while True:
        waiting = bool(batch.payloads or batch.refused)
        chunk, failed = None, None
        # First poll without waiting: batches in progress must be acknowledged before a wait for more input.
        if not source.blocking:
            chunk, failed = _poll_source(source, 0)
        if chunk is None and failed is None and not source.ended:
            # An error here, of a refused message or a sync, ends the run. Nothing after it is published.
            before_waiting()
            # A batch with messages waits until its oldest message reaches the age limit; an empty one has no limit.
            chunk, failed = _poll_source(source, max(0.0, deadline - monotonic()) if waiting else None)
        if failed is not None:
            # Messages before an error of the input are published, and then the error is raised.
            if waiting:
                yield batch
            raise failed
        if chunk is None:
            # A silent input also ends a batch: a single message is published after ``linger`` seconds, not when more
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
                # A run that stops at a refused frame counts everything before it as done: a frame must not be in an
                # earlier batch than its neighbours.
                told = _add_refused_frames(batch, chunk, told, start)
            # A chunk may fill several batches: each is yielded as soon as it is full.
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
    """Merge several batches, possibly of several inputs, into one. ``inputs`` has an input's name once for each of its
    batches: only their order matters."""
    whole = parts[0] if parts else PublishBatch("")
    whole.inputs = [(0, 0, part.name) for part in parts[:1]]
    for part in parts[1:]:
        # Parts have indexes in their own batch, which are shifted by the number of messages before that batch.
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
    """Add the refused frames of ``chunk`` before its message ``start``, from index ``told``; return the next index."""
    behind = chunk.find_offset(start) if start < len(chunk.payloads) else chunk.end
    stop = told
    while stop < len(chunk.refused) and chunk.refused[stop].offset < behind:
        stop += 1
    batch.refused.extend(chunk.refused[told:stop])
    return stop


def _get_envelope(chunk: Chunk, index: int) -> Envelope | None:
    return None if chunk.envelopes is None else chunk.envelopes[index]


def _get_entry_publisher(envelope: Envelope | None) -> tuple[str | None] | None:
    """Return the publisher of a journal entry in a tuple, ``(None,)`` if it has none; None for any other message.

    Entries keep their publishers, and each publisher has its own sequence numbers, so a batch has entries of only one.
    The same holds for Kafka records whose partitions are publishers.
    """
    return None if envelope is None or not has_own_publisher(envelope) else (envelope.client,)


def has_own_publisher(envelope: Envelope) -> bool:
    """Return whether a message keeps its publisher, so that a run may have several: a journal entry, or a record
    numbered by its partition."""
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
        # A batch accepts at least one message of any size, otherwise that message would never be published.
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

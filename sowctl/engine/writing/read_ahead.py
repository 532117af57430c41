"""A second process that reads a large input ahead: it cuts batches, makes their keys and compresses their payloads.

The process is a copy of this one, made between two batches, and goes on with the same row of batches: what comes out is
what would have come out here. It hands each over through a pipe, in whose bounded room it waits, and this process asks
the store, writes and acknowledges meanwhile. A batch with a message that is refused comes without keys: the refusal is
found again here, where it is reported. Called by :mod:`~sowctl.engine.writing.publish_input`.

Of 1,000,000 orders in a file, publishing took 8.3 s on the clock and 8.3 s of processor time by itself, with lists; by
columns and with this process 5.6 s on the clock and 7.1 s of processor time.
"""

from __future__ import annotations

import marshal
import pickle
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from sowctl.engine.writing.batches import MessageSource, PublishBatch
from sowctl.engine.writing.prepare import PreparedMessages
from sowctl.errors import StorageError
from sowctl.forked_process import ForkedProcess, ProcessLostError, SendFunction, can_fork, count_processors
from sowctl.identity.keys import DIGEST_BYTES, DigestSequence
from sowctl.journal.group import compress_payloads
from sowctl.messages.framing.chunks import Chunk, Places

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer

_PROCESS_LOST_CODE = "SOW-PUB-027"

IntColumn = Sequence[int]
_BatchFacts = tuple[int, int, int, list[tuple[int, int, int]] | None, list[int], bool, bytes]
"""Of a batch: its messages, skipped lines, the offset behind it; where its parts begin (index, line, offset), None
where places are among what is pickled; the sizes of stored payloads; whether there are digests; what is pickled: places
and refused frames."""


def is_read_ahead_useful(source: MessageSource, preparer: Preparer) -> bool:
    """Return whether another process is to read the rest of a large input."""
    if source.ended or source.descriptor is None or not preparer.can_read_ahead:
        return False
    return count_processors() > 1


def start_read_ahead(
    batches: Iterator[PublishBatch], source: MessageSource, preparer: Preparer
) -> ReadAheadProcess | None:
    """The process that goes on with ``batches``; None where there is none, and this one goes on.

    No lock may be held, or the process would hold it, too.
    """
    if not can_fork():
        return None
    try:
        return ReadAheadProcess(batches, source, preparer)
    except OSError:
        return None


class ReadAheadProcess:
    """The process, and what it has read. Raises OSError where the system gives no further process."""

    def __init__(self, batches: Iterator[PublishBatch], source: MessageSource, preparer: Preparer) -> None:
        kept = () if source.descriptor is None else (source.descriptor,)
        self._process = ForkedProcess(partial(_send_batches, batches, preparer), kept_files=kept)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def receive_batches(self, name: str, before_waiting: Callable[[], None]) -> Iterator[PublishBatch]:
        """The batches that follow; ``before_waiting`` is called whenever none is there at once.

        Raises what reading the input raised, behind everything before it; StorageError ``SOW-PUB-027`` where the
        process has come to an end that is not that of the input.
        """
        process = self._process
        while True:
            if not process.has_data():
                before_waiting()
            try:
                facts = process.receive()
                body = process.receive() if facts is not None else None
            except ProcessLostError as error:
                raise StorageError(
                    _PROCESS_LOST_CODE,
                    "the process that was reading the input was terminated",
                    hint="nothing after the last acknowledged message was published; publish the rest",
                ) from error
            if facts is None or body is None:
                return
            yield _build_read_batch(name, marshal.loads(facts), body)

    def close(self) -> None:
        """End the process, should it still run."""
        self._process.terminate()


def _build_read_batch(name: str, facts: _BatchFacts, body: bytes) -> PublishBatch:
    count, blank, end, begins, stored, keyed, rest = facts
    at = 4 * count
    sizes = memoryview(body)[:at].cast("I").tolist()
    made = None
    if keyed:
        digests = DigestSequence(body[at : at + DIGEST_BYTES * count])
        at += DIGEST_BYTES * count
        ends = list(accumulate(stored, initial=at))
        made = digests, [body[start:stop] for start, stop in pairwise(ends)]
        at = ends[-1]
    payloads = [body[start:stop] for start, stop in pairwise(accumulate(sizes, initial=at))]
    # The bytes come from a fork of this very process.
    places, refused = pickle.loads(rest) if rest else (None, [])
    chunk = Chunk(
        payloads, lambda: places if places is not None else _compute_message_offsets(begins or [], sizes), end
    )
    batch = PublishBatch(name, payloads, None, refused, blank, (chunk, count), sum(sizes), [(0, chunk, 0)])
    if made is not None:
        batch.ahead = PreparedMessages(range(count), payloads, made[0], stored=made[1])
    return batch


def _compute_message_offsets(begins: Sequence[tuple[int, int, int]], sizes: IntColumn) -> Places:
    """Lines and offsets of messages that follow each other in parts, each with one byte behind it."""
    lines: list[int] = []
    offsets: list[int] = []
    stops = [index for index, _, _ in begins[1:]] + [len(sizes)]
    for (index, line, offset), stop in zip(begins, stops, strict=True):
        lines += range(line, line + stop - index)
        offsets += list(accumulate((size + 1 for size in sizes[index:stop]), initial=offset))[:-1]
    return lines, offsets


def _send_batches(batches: Iterator[PublishBatch], preparer: Preparer, send: SendFunction) -> None:
    """Read batches ahead in the other process, and send two frames for each: what is known of it, and its bytes."""
    for batch in batches:
        facts, body = _encode_batch(batch, preparer)
        send(marshal.dumps(facts))
        send(*body)


def _encode_batch(batch: PublishBatch, preparer: Preparer) -> tuple[_BatchFacts, list[bytes]]:
    payloads = batch.payloads
    digests = preparer.compute_digests(payloads) if payloads else None
    stored = compress_payloads(payloads) if digests is not None else []
    begins: list[tuple[int, int, int]] | None = []
    for index, chunk, start in batch.parts:
        place = _locate_message_start(chunk, start)
        begins = None if begins is None or place is None else [*begins, (index, *place)]
    rest = b""
    if begins is None or batch.refused:
        places = None
        if begins is None:
            places = _list_places(batch)
        rest = pickle.dumps((places, batch.refused))
    facts = len(payloads), batch.blank, _find_batch_end(batch), begins, [*map(len, stored)], digests is not None, rest
    sizes = array("I", list(map(len, payloads))).tobytes()
    return facts, [sizes, digests or b"", *stored, *payloads]


def _list_places(batch: PublishBatch) -> Places:
    """Lines and offsets of all messages of a batch."""
    lines: list[int] = []
    offsets: list[int] = []
    ends = [first for first, _, _ in batch.parts[1:]] + [len(batch.payloads)]
    for (first, chunk, start), end in zip(batch.parts, ends, strict=True):
        whole = slice(start, start + end - first)
        lines += chunk.places[0][whole]
        offsets += chunk.places[1][whole]
    return lines, offsets


def _locate_message_start(chunk: Chunk, start: int) -> tuple[int, int] | None:
    """Line and offset of a chunk's message ``start``, if its messages follow each other with one byte behind each."""
    if chunk.begins is None or chunk.blank or chunk.refused:
        return None
    line, offset = chunk.begins
    if sum(map(len, chunk.payloads)) + len(chunk.payloads) != chunk.end - offset:
        return None
    return line + start, offset + sum(map(len, chunk.payloads[:start])) + start


def _find_batch_end(batch: PublishBatch) -> int:
    if batch.last is not None:
        chunk, taken = batch.last
        place = _locate_message_start(chunk, taken)
        if place is not None:
            return place[1]
    return batch.end_offset

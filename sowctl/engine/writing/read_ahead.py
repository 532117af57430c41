"""A second process that reads a large input ahead: it cuts batches, makes their keys and compresses their payloads.

The process is a copy of this one, made between two batches, and goes on with the same row of batches: what comes out is
what would have come out here. It hands each over through a pipe, in whose bounded room it waits, and this process asks
the store, writes and acknowledges meanwhile. A batch with a message that is refused comes without keys: the refusal is
found again here, where it is reported. Called by :mod:`sowctl.engine.verbs.publish`.

Of 1,000,000 orders in a file, publishing took 8.3 s on the clock and 8.3 s of processor time by itself, with lists; by
columns and with this process 5.6 s on the clock and 7.1 s of processor time.
"""

from __future__ import annotations

import fcntl
import gc
import marshal
import os
import pickle
import select
import signal
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from struct import Struct
from typing import TYPE_CHECKING, NoReturn

from sowctl.engine.writing.batches import MessageSource, PublishBatch, ReadAheadColumns
from sowctl.errors import SowError, StorageError
from sowctl.identity.keys import DIGEST_BYTES, DigestSequence
from sowctl.journal.group import compress_payloads
from sowctl.messages.framing.chunks import Chunk, Places
from sowctl.messages.framing.frames import FRAME_LIMITS

if TYPE_CHECKING:
    from sowctl.engine.writing.prepare import Preparer

PIPE_BYTES = 1 << 20
"""Bytes that the pipe between the processes holds, where the system allows that."""
_BATCH_HEADER = Struct("<IQ")
_PROCESS_LOST_CODE = "SOW-PUB-027"

IntColumn = Sequence[int]
_BatchFacts = tuple[int, int, int, list[tuple[int, int, int]] | None, list[int], bool, bytes]
"""Of a batch: its messages, skipped lines, the offset behind it; where its parts begin (index, line, offset), None
where places are among what is pickled; the sizes of stored payloads; whether there are digests; what is pickled: places
and refused frames, or an error."""


def is_read_ahead_useful(source: MessageSource, preparer: Preparer) -> bool:
    """Return whether another process is to read the rest of a large input."""
    if source.ended or source.descriptor is None or not preparer.can_read_ahead:
        return False
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


def start_read_ahead(
    batches: Iterator[PublishBatch], source: MessageSource, preparer: Preparer
) -> ReadAheadProcess | None:
    """The process that goes on with ``batches``; None where there is none, and this one goes on.

    No lock may be held, or the process would hold it, too.
    """
    # A copy of a process has none of its threads, and may find their locks held for ever.
    threads = sys.modules.get("threading")
    if threads is not None and threads.active_count() > 1:
        return None
    try:
        return ReadAheadProcess(batches, source, preparer)
    except OSError:
        return None


class ReadAheadProcess:
    """The process, and what it has read. Raises OSError where the system gives no further process."""

    def __init__(self, batches: Iterator[PublishBatch], source: MessageSource, preparer: Preparer) -> None:
        self._reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            with suppress(OSError, AttributeError):
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._child = os.fork()
        except BaseException:
            os.close(self._reading)
            os.close(writing)
            raise
        if not self._child:
            _run_read_ahead(batches, source, preparer, writing)
        os.close(writing)
        self._poll = select.poll()
        self._poll.register(self._reading, select.POLLIN)

    def receive_batches(self, name: str, before_waiting: Callable[[], None]) -> Iterator[PublishBatch]:
        """The batches that follow; ``before_waiting`` is called whenever none is there at once.

        Raises what reading the input raised, behind everything before it; StorageError ``SOW-PUB-027`` where the
        process has come to an end that is not that of the input.
        """
        while True:
            if not self._poll.poll(0):
                before_waiting()
            size, length = _BATCH_HEADER.unpack(self._receive_bytes(_BATCH_HEADER.size))
            if not size:
                return
            facts: _BatchFacts = marshal.loads(self._receive_bytes(size))
            yield _build_read_batch(name, facts, self._receive_bytes(length))

    def _receive_bytes(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            # A signal that comes just before a wait does not end it: its handler runs between two waits.
            while not self._poll.poll(FRAME_LIMITS.max_wait_seconds * 1000):
                pass
            part = os.read(self._reading, size)
            if not part:
                raise StorageError(
                    _PROCESS_LOST_CODE,
                    "the process that was reading the input was terminated",
                    hint="nothing after the last acknowledged message was published; publish the rest",
                )
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """End the process, should it still run."""
        child, self._child = self._child, 0
        if child:
            os.close(self._reading)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _build_read_batch(name: str, facts: _BatchFacts, body: bytes) -> PublishBatch:
    count, blank, end, begins, stored, keyed, rest = facts
    at = 4 * count
    sizes = memoryview(body)[:at].cast("I").tolist()
    ahead = None
    if keyed:
        digests = DigestSequence(body[at : at + DIGEST_BYTES * count])
        at += DIGEST_BYTES * count
        ends = list(accumulate(stored, initial=at))
        ahead = ReadAheadColumns(digests, [body[start:stop] for start, stop in pairwise(ends)])
        at = ends[-1]
    payloads = [body[start:stop] for start, stop in pairwise(accumulate(sizes, initial=at))]
    error, places, refused = pickle.loads(rest) if rest else (None, None, [])
    if error is not None:
        raise error
    chunk = Chunk(
        payloads, lambda: places if places is not None else _compute_message_offsets(begins or [], sizes), end
    )
    batch = PublishBatch(name, payloads, None, refused, blank, (chunk, count), sum(sizes), [(0, chunk, 0)])
    batch.ahead = ahead
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


def _run_read_ahead(
    batches: Iterator[PublishBatch], source: MessageSource, preparer: Preparer, writing: int
) -> NoReturn:
    """Run the other process: read batches ahead and send them through the pipe."""
    try:
        # Signals of the terminal reach both: the first process says what becomes of the run, and ends this one.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _close_inherited_files(writing, source.descriptor if source.descriptor is not None else writing)
        # It inherits much that is no garbage: looking through that would copy it.
        gc.disable()
        _watch_parent(writing)
        try:
            for batch in batches:
                _send_batch(writing, *_encode_batch(batch, preparer))
        except Exception as error:
            # Raised in the first process, behind everything before it. What is no error of the input, is a bug there.
            told = error if isinstance(error, SowError | OSError) else RuntimeError(f"{type(error).__name__}: {error}")
            _send_batch(writing, (0, 0, 0, None, [], False, pickle.dumps((told, None, []))), [])
        _write_pipe(writing, _BATCH_HEADER.pack(0, 0))
    finally:
        # Without what Python does at the end: all of that is the first process's.
        os._exit(0)


def _close_inherited_files(*kept: int) -> None:
    """Let go of all inherited files but these: locks, and pipes whose readers wait for the end."""
    low = 0
    for descriptor in sorted(kept):
        # An end of 0 is none to the system call: it would close everything.
        if low < descriptor:
            os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _watch_parent(writing: int) -> None:
    """End this process as soon as the other one is gone, also while it waits for input that may never come."""
    from threading import Thread

    def wait() -> None:
        poll = select.poll()
        poll.register(writing, 0)  # no more than that the reading end is closed
        poll.poll()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


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
        rest = pickle.dumps((None, places, batch.refused))
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


def _send_batch(writing: int, facts: _BatchFacts, body: list[bytes]) -> None:
    head, whole = marshal.dumps(facts), b"".join(body)
    _write_pipe(writing, _BATCH_HEADER.pack(len(head), len(whole)) + head)
    _write_pipe(writing, whole)


def _write_pipe(writing: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(writing, rest) :]

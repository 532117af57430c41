"""Large files of lines evaluated by several processes, in the order of the file (``sowctl-eval(1)``).

Every process takes every n-th segment of whole lines and sends what came of it through a pipe; the first process reads
the pipes in turn, so that a slow reader of the output stops them all and nothing is held but a segment each.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from sowctl.engine.verbs.eval import Evaluator, Part
from sowctl.errors import SowError, StorageError
from sowctl.messages.base import MAX_MESSAGE
from sowctl.messages.framing.chunks import Chunk
from sowctl.messages.framing.cutters import BOM, LineCutter, counted, line_offsets

if TYPE_CHECKING:
    from sowctl.engine.reports import Rejected

SEGMENT = 4 << 20
BLOCK = 90 << 10
"""Bytes read at a time; larger buffers come from the system page by page, every time."""
_FRAME = struct.Struct("<QQQ")
"""Lines of a segment, and the bytes that follow: what went wrong, and the output."""


def processes(size: int, *, least: int = 4 * SEGMENT) -> int:
    """How many processes a file of ``size`` bytes is worth."""
    if size < least or not sys.platform.startswith("linux"):
        return 1
    return min(len(os.sched_getaffinity(0)), 8)


class Worker:
    """One child process and the pipe from it."""

    def __init__(self, pid: int, stream: BinaryIO) -> None:
        self.pid = pid
        self.stream = stream

    def part(self) -> Part:
        """What came of its next segment. Raises StorageError ``SOW-QRY-020`` if the process is gone."""
        head = self.stream.read(_FRAME.size)
        if len(head) < _FRAME.size:
            raise StorageError("SOW-QRY-020", "a process that read a part of the file ended early")
        lines, *sizes = _FRAME.unpack(head)
        facts, output = map(self.stream.read, sizes)
        return Part(output, *_troubles(facts, lines))

    def end(self) -> None:
        """End the process, finished or not."""
        self.stream.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)


def evaluate_file(
    evaluator: Evaluator, name: str, descriptor: int, start: int, stop: int, count: int
) -> Iterator[Part]:
    """What comes of the lines between two offsets of a file, read by ``count`` processes.

    ``name`` is for messages. Line numbers and offsets count from ``start``. Ends with the part that has an error.
    """
    segment = SEGMENT
    segments = -(-(stop - start) // segment)
    workers: list[Worker] = []
    try:
        for number in range(count):
            spans = [
                (start, start + at * segment, min(stop, start + (at + 1) * segment), stop)
                for at in range(number, segments, count)
            ]
            workers.append(_start(evaluator, name, descriptor, spans))
        line = 0
        for number in range(segments):
            part = workers[number % count].part()
            for refused in part.rejected:
                refused.line += line
            if part.error is not None and "line" in part.error.facts:
                _move(part, name, line)
            line += part.lines
            yield part
            if part.error is not None:
                return
    finally:
        for worker in workers:
            worker.end()


def _move(part: Part, name: str, lines: int) -> None:
    """Count the line of an error from the beginning of the file."""
    assert part.error is not None
    facts = part.error.facts
    facts["line"] += lines
    column = facts.get("column")
    part.error.place = f"{name}:{facts['line']}" + (f":{column}" if column is not None else "")


Span = tuple[int, int, int, int]
"""Where the input begins, nominal start and end of the segment, and where the input ends."""


def _start(evaluator: Evaluator, name: str, descriptor: int, spans: list[Span]) -> Worker:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Worker(pid, os.fdopen(reading, "rb", buffering=BLOCK))
    # The child: it must never return into the caller's code, nor flush the streams that it shares.
    try:
        os.close(reading)
        gc.disable()
        with os.fdopen(writing, "wb") as stream:
            for span in spans:
                _send(stream, _segment(evaluator, name, descriptor, span))
    except BaseException:
        os._exit(1)
    os._exit(0)


def _send(stream: BinaryIO, part: Part) -> None:
    facts = b""
    if part.rejected or part.error is not None:
        import pickle

        facts = pickle.dumps((part.rejected, part.error))
    stream.write(_FRAME.pack(part.lines, len(facts), len(part.output)))
    stream.write(facts)
    stream.write(part.output)
    stream.flush()


def _troubles(facts: bytes, lines: int) -> tuple[list[Rejected], int, SowError | None]:
    """What a child said of its segment, in the order of a Part."""
    if not facts:
        return [], lines, None
    import pickle

    # The bytes come from a child of this very process.
    rejected, error = pickle.loads(facts)
    return rejected, lines, error


def _segment(evaluator: Evaluator, name: str, descriptor: int, span: Span) -> Part:
    """The lines that begin in a segment."""
    origin, first, last, stop = span
    begin = _line_start(descriptor, origin, first, stop)
    end = _line_start(descriptor, origin, last, stop)
    whole = Part()
    outputs = []
    for chunk, block in _chunks(descriptor, begin, end, begin - origin):
        part = evaluator.part(name, chunk, block)
        if part.rejected and block is not None:
            part = evaluator.part(name, _careful(chunk, block))
        outputs.append(part.output)
        whole.rejected += part.rejected
        whole.lines += part.lines
        whole.error = part.error
        if whole.error is not None:
            break
    whole.output = b"".join(outputs)
    return whole


def _chunks(descriptor: int, begin: int, end: int, offset: int) -> Iterator[tuple[Chunk, bytes | None]]:
    """The lines between two places of the file, and the block that each chunk was cut out of.

    ``offset`` is that of ``begin`` in the input. What is not plain - CRs, a BOM, a line longer than a block - is
    left to the cutter, from there on.
    """
    number = 1
    rest = b""
    while begin < end:
        data = os.pread(descriptor, min(BLOCK, end - begin - len(rest)), begin + len(rest))
        last = begin + len(rest) + len(data) >= end or not data
        cut = len(data) if last else data.rfind(b"\n") + 1
        block = rest + data[:cut] if cut else b""
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if not block or b"\r" in block or block.startswith(BOM):
            yield from _cut(descriptor, begin, end, LineCutter(MAX_MESSAGE, offset, number))
            return
        yield _chunk(lines, block, number, offset), block
        number += len(lines)
        rest = data[cut:]
        begin += len(block)
        offset += len(block)


def _chunk(lines: list[bytes], block: bytes, number: int, offset: int) -> Chunk:
    return Chunk(lines, lambda: counted(number, line_offsets(block, offset, len(lines))), offset + len(block))


def _careful(chunk: Chunk, block: bytes) -> Chunk:
    """The chunk once more without blank lines, which no message type can read."""
    again = LineCutter(MAX_MESSAGE, chunk.end - len(block), chunk.line(0)).feed(block.removesuffix(b"\n") + b"\n")
    return again if again is not None else chunk


def _cut(descriptor: int, begin: int, end: int, cutter: LineCutter) -> Iterator[tuple[Chunk, None]]:
    while True:
        data = os.pread(descriptor, min(BLOCK, end - begin), begin)
        begin += len(data)
        chunk = cutter.feed(data)
        if chunk is not None:
            yield chunk, None
        if not data:
            return


def _line_start(descriptor: int, origin: int, at: int, stop: int) -> int:
    """The first offset from ``at`` on at which a line begins."""
    if at <= origin:
        return origin
    position = at - 1
    while position < stop:
        data = os.pread(descriptor, min(1 << 16, stop - position), position)
        if not data:
            return stop
        cut = data.find(b"\n")
        if cut >= 0:
            return position + cut + 1
        position += len(data)
    return stop

"""eval: an expression over messages from files and pipes, without an instance (``sowctl-expressions(7)``).

A tester for filters, and a search in files of messages. :func:`evaluate` reads any input, chunk by chunk as it
arrives; :func:`evaluate_file` shares a large file of lines out among several processes.

Of these every process takes every n-th segment of whole lines and sends what came of it through a pipe. The first
process reads the pipes in turn, so that a slow reader of the output stops them all and no more than a segment each is
held.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from sowctl.errors import InputError, LimitError, SowError, StorageError, UsageError
from sowctl.messages.base import MAX_MESSAGE_BYTES, once_of
from sowctl.messages.framing.chunks import Chunk
from sowctl.messages.framing.cutters import BYTE_ORDER_MARK, LineCutter, counted, line_offsets
from sowctl.messages.types import get_type
from sowctl.values.fields import Refusal, Row

if TYPE_CHECKING:
    from sowctl.engine.reports import Rejected
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.functions.signature import Function
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.envelope import Envelope

SEGMENT = 4 << 20
BLOCK = 90 << 10
"""Bytes read at a time; larger buffers come from the system page by page, every time."""
_FRAME = struct.Struct("<QQQ")
"""Lines of a segment, and the bytes that follow: what went wrong, and the output."""


class EvalInput(Struct, frozen=True):
    """One input: its name, and its chunks."""

    name: str
    chunks: Iterable[Chunk]


class Evaluated:
    """What came of one chunk: bytes to print, refused messages, how many lines it had, and what ends the run, if so."""

    __slots__ = ("error", "lines", "output", "rejected")

    def __init__(
        self,
        output: bytes = b"",
        rejected: Sequence[Rejected] = (),
        lines: int = 0,
        error: SowError | None = None,
    ) -> None:
        self.output = output
        self.rejected = list(rejected)
        self.lines = lines
        self.error = error


class Evaluator:
    """A compiled expression over payloads of one message type.

    ``matches``: it is a filter, and matching messages are the output, as they came and framed as they came; else one
    JSON value a line is. ``stops``: the first refused message ends the run. ``functions`` are those that modules of a
    configuration add, asked for a name that is not built in. Raises ExpressionError, UsageError ``SOW-QRY-003`` where
    messages of the type have no fields, and what looking up a function raises.
    """

    def __init__(
        self,
        expression: str,
        environment: Environment,
        *,
        matches: bool = False,
        message_type: str | MessageType = "json",
        framing: str = "lines",
        stops: bool = True,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        from sowctl.expressions.compile import compile_filter, compile_value

        extra = {} if functions is None else functions
        # Exactly one of the two is there: a filter chooses messages, any other expression makes a value of each.
        self._filter = compile_filter(expression, extra=extra) if matches else None
        self._value = None if matches else compile_value(expression, extra=extra)
        compiled = self._filter or self._value
        assert compiled is not None
        self._uses_header = compiled.uses_header
        self._environment = environment
        self._stops = stops
        self._framing = framing
        kind = get_type(message_type) if isinstance(message_type, str) else message_type
        if compiled.slots and not kind.filterable:
            words = f"messages of type {kind.name} have no fields, so the expression cannot be evaluated"
            raise UsageError("SOW-QRY-003", words)
        self._extract = kind.extractor(compiled.slots)
        self._once = once_of(self._extract)

    def part(self, name: str, chunk: Chunk, block: bytes | None = None) -> Evaluated:
        """Evaluate one chunk of the input ``name``; ``block``: the bytes it was cut out of, if all its lines count."""
        part = Evaluated(lines=len(chunk.payloads) + len(chunk.refused) + chunk.blank)
        payloads = chunk.payloads
        rows, refusals = self._rows(payloads, block)
        if refusals or chunk.refused:
            from sowctl.engine.writing.rejects import placed_in

            part.rejected = placed_in(name, chunk, refusals)
            if self._stops:
                payloads = payloads[: _before(part.rejected[0], chunk)]
                rows, refusals = self._rows(payloads, None)
                part.rejected = part.rejected[:1]
                part.error = _stopped(part.rejected[0])
        part.output = self._output(name, chunk, payloads, rows, refusals, part)
        return part

    def _rows(self, payloads: list[bytes], block: bytes | None) -> tuple[Iterable[Row], list[Refusal]]:
        if block is not None and self._once is not None:
            return self._once(payloads, block)
        return self._extract(payloads) if payloads else ([], [])

    def _output(
        self,
        name: str,
        chunk: Chunk,
        payloads: list[bytes],
        rows: Iterable[Row],
        refusals: Sequence[Refusal],
        part: Evaluated,
    ) -> bytes:
        bad = {refusal.index for refusal in refusals}
        headers = _headers(payloads, chunk.envelopes) if self._uses_header else None
        try:
            found = self._found(payloads, rows, headers, bad)
        except LimitError as error:
            reached = error.facts["index"]
            part.error = _runaway(error, name, chunk, reached)
            part.rejected = [one for one in part.rejected if one.offset < chunk.offset(reached)]
            found = self._found(payloads[:reached], self._rows(payloads[:reached], None)[0], headers, bad)
        except InputError:
            found = self._one_by_one(name, chunk, payloads, headers, bad, part)
        if not found:
            return b""
        if self._filter is not None and self._framing in ("nul", "length"):
            from sowctl.messages.framing.frames import framed

            return framed(found, self._framing)
        return b"\n".join(found) + b"\n"

    def _found(
        self, payloads: Sequence[bytes], rows: Iterable[Row], headers: Sequence[Header] | None, bad: set[int]
    ) -> list[bytes]:
        if self._filter is not None:
            places = self._filter.matches(rows, self._environment, headers)
            return [payloads[place] for place in places if place not in bad]
        from sowctl.messages.json.text import json_text

        assert self._value is not None
        values = self._value.values(rows, self._environment, headers)
        return [json_text(value) for index, value in enumerate(values) if index not in bad]

    def _one_by_one(
        self,
        name: str,
        chunk: Chunk,
        payloads: Sequence[bytes],
        headers: Sequence[Header] | None,
        bad: set[int],
        part: Evaluated,
    ) -> list[bytes]:
        """The output where a function of a module refuses messages: it does not know which of a batch it is given."""
        found: list[bytes] = []
        for index, row in enumerate(self._rows(list(payloads), None)[0]):
            if index in bad:
                continue
            only = slice(index, index + 1)
            try:
                found += self._found(payloads[only], [row], headers and headers[only], set())
            except LimitError as error:
                part.error = _runaway(error, name, chunk, index)
                part.rejected = [one for one in part.rejected if one.offset < chunk.offset(index)]
                break
            except InputError as error:
                from sowctl.engine.writing.rejects import placed_one

                refused = placed_one(name, chunk, Refusal(index, error.code, error.message))
                if self._stops:
                    part.rejected, part.error = [refused], _stopped(refused)
                    break
                part.rejected = sorted([*part.rejected, refused], key=lambda one: one.offset)
        return found


def evaluate(evaluator: Evaluator, sources: Iterable[EvalInput]) -> Iterator[Evaluated]:
    """What comes of all inputs, in order, until one ends the run. Raises what reading raises."""
    for source in sources:
        for chunk in source.chunks:
            part = evaluator.part(source.name, chunk)
            yield part
            if part.error is not None:
                return


def _before(refused: Rejected, chunk: Chunk) -> int:
    """How many messages of the chunk stand before a refused one."""
    return sum(offset < refused.offset for offset in chunk.places[1])


def _stopped(refused: Rejected) -> InputError:
    return InputError(
        refused.code,
        refused.message,
        place=refused.place,
        hint="--on-error skip skips invalid messages",
        line=refused.line,
        column=refused.column,
        offset=refused.offset,
    )


def _runaway(error: LimitError, name: str, chunk: Chunk, index: int) -> LimitError:
    """The error of a match limit with the place of the message instead of its index in the batch."""
    line = chunk.line(index)
    return LimitError(error.code, error.message, place=f"{name}:{line}", hint=error.hint, line=line)


def _headers(payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None) -> list[Header]:
    from sowctl.expressions.environment import Header
    from sowctl.identity.keys import named_key

    if envelopes is None:
        return [Header(payload_size=len(payload)) for payload in payloads]
    return [
        Header(
            topic=envelope.topic,
            sow_key=envelope.sow_key,
            sow_key_hash=envelope.sow_key if named_key(envelope.sow_key or "") is not None else None,
            bookmark=envelope.bookmark,
            correlation_id=envelope.correlation_id,
            last_updated=_instant(envelope.timestamp),
            payload_size=len(payload),
            client_name=envelope.client,
        )
        for payload, envelope in zip(payloads, envelopes, strict=False)
    ]


def _instant(text: str | None) -> int | None:
    from sowctl.values.times import parse_time

    try:
        return None if text is None else parse_time(text, lambda: 0)
    except UsageError:
        return None


def processes(size: int, *, least: int = 4 * SEGMENT) -> int:
    """How many processes a file of ``size`` bytes is worth."""
    if size < least or not sys.platform.startswith("linux"):
        return 1
    return min(len(os.sched_getaffinity(0)), 8)


class EvalChild:
    """One child process and the pipe from it."""

    def __init__(self, pid: int, stream: BinaryIO) -> None:
        self.pid = pid
        self.stream = stream

    def part(self) -> Evaluated:
        """What came of its next segment. Raises StorageError ``SOW-QRY-020`` if the process is gone."""
        head = self.stream.read(_FRAME.size)
        if len(head) < _FRAME.size:
            raise StorageError("SOW-QRY-020", "a process that was reading a part of the file terminated")
        lines, *sizes = _FRAME.unpack(head)
        facts, output = map(self.stream.read, sizes)
        return Evaluated(output, *_troubles(facts, lines))

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
) -> Iterator[Evaluated]:
    """What comes of the lines between two offsets of a file, read by ``count`` processes.

    ``name`` is for messages. Line numbers and offsets count from ``start``. Ends with the part that has an error.
    """
    segment = SEGMENT
    segments = -(-(stop - start) // segment)
    workers: list[EvalChild] = []
    try:
        for number in range(count):
            spans = [
                (start, start + at * segment, min(stop, start + (at + 1) * segment), stop)
                for at in range(number, segments, count)
            ]
            workers.append(_forked(evaluator, name, descriptor, spans))
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


def _move(part: Evaluated, name: str, lines: int) -> None:
    """Count the line of an error from the beginning of the file."""
    assert part.error is not None
    facts = part.error.facts
    facts["line"] += lines
    column = facts.get("column")
    part.error.place = f"{name}:{facts['line']}" + (f":{column}" if column is not None else "")


Span = tuple[int, int, int, int]
"""Where the input begins, nominal start and end of the segment, and where the input ends."""


def _forked(evaluator: Evaluator, name: str, descriptor: int, spans: list[Span]) -> EvalChild:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return EvalChild(pid, os.fdopen(reading, "rb", buffering=BLOCK))
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


def _send(stream: BinaryIO, part: Evaluated) -> None:
    facts = b""
    if part.rejected or part.error is not None:
        import pickle

        facts = pickle.dumps((part.rejected, part.error))
    stream.write(_FRAME.pack(part.lines, len(facts), len(part.output)))
    stream.write(facts)
    stream.write(part.output)
    stream.flush()


def _troubles(facts: bytes, lines: int) -> tuple[list[Rejected], int, SowError | None]:
    """What a child said of its segment, in the order of a Evaluated."""
    if not facts:
        return [], lines, None
    import pickle

    # The bytes come from a child of this very process.
    rejected, error = pickle.loads(facts)
    return rejected, lines, error


def _segment(evaluator: Evaluator, name: str, descriptor: int, span: Span) -> Evaluated:
    """The lines that begin in a segment."""
    origin, first, last, stop = span
    begin = _line_start(descriptor, origin, first, stop)
    end = _line_start(descriptor, origin, last, stop)
    whole = Evaluated()
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
        if not block or b"\r" in block or block.startswith(BYTE_ORDER_MARK):
            yield from _cut(descriptor, begin, end, LineCutter(MAX_MESSAGE_BYTES, offset, number))
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
    again = LineCutter(MAX_MESSAGE_BYTES, chunk.end - len(block), chunk.line(0)).feed(block.removesuffix(b"\n") + b"\n")
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

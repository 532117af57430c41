"""eval: an expression over messages from files and pipes, without an instance (``sowctl-expressions(7)``).

A test of filters, and a search in files of messages. :func:`evaluate_sources` reads any input, chunk by chunk as it
arrives; :func:`evaluate_file` divides a large file of lines among several processes.

Each of n processes evaluates every n-th segment of whole lines and sends the results through a pipe. The first process
reads the pipes in turn, so that a slow reader of the output blocks them all, and each process holds at most one
segment.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.errors import InputError, LimitError, SowError, StorageError, UsageError
from sowctl.forked_process import ForkedProcess, ProcessLostError, SendFunction, can_fork, count_processors
from sowctl.messages.base import MAX_MESSAGE_BYTES, find_single_pass
from sowctl.messages.framing.chunks import Chunk
from sowctl.messages.framing.cutters import BYTE_ORDER_MARK, LineCutter, compute_line_offsets, number_places
from sowctl.messages.types import get_type
from sowctl.values.fields import Refusal, Row

if TYPE_CHECKING:
    from sowctl.engine.reports import Rejected
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.functions.signature import Function
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.envelope import Envelope

READ_BLOCK_BYTES = 90 << 10
"""Bytes per read; the system allocates larger buffers page by page, every time."""
_LINE_COUNT = struct.Struct("<Q")


class EvalLimits(Struct):
    """Segment sizes of the processes of an evaluation; tests set smaller ones."""

    segment_bytes: int = 4 << 20
    """Bytes of a file that a process evaluates at a time."""


EVAL_LIMITS = EvalLimits()


class EvalInput(Struct, frozen=True):
    """One input: its name and its chunks."""

    name: str
    chunks: Iterable[Chunk]


class EvalPart:
    """The result of one chunk: bytes to print, rejected messages, number of lines, and the error that ends the run."""

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
    """A compiled expression, evaluated on payloads of one message type.

    ``matches``: the expression is a filter, and the output is the matching messages, unchanged and in the framing of
    the input; otherwise it is one JSON value per line. ``stops``: the first rejected message ends the run.
    ``functions`` are those of a configuration's modules, for names that are not built in. Raises ExpressionError,
    UsageError ``SOW-QRY-003`` if messages of the type have no fields, and what looking up a function raises.
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
        from sowctl.expressions.compiler import compile_filter, compile_value

        extra = {} if functions is None else functions
        # Exactly one of the two is set: a filter selects messages, any other expression computes a value for each.
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
        self._extract = kind.build_extractor(compiled.slots)
        self._once = find_single_pass(self._extract)

    def evaluate_chunk(self, name: str, chunk: Chunk, block: bytes | None = None) -> EvalPart:
        """Evaluate one chunk of the input ``name``; ``block``: the bytes it was cut from, if all its lines are
        messages."""
        part = EvalPart(lines=len(chunk.payloads) + len(chunk.refused) + chunk.blank)
        payloads = chunk.payloads
        rows, refusals = self._read_rows(payloads, block)
        if refusals or chunk.refused:
            from sowctl.engine.writing.rejects import locate_chunk_refusals

            part.rejected = locate_chunk_refusals(name, chunk, refusals)
            if self._stops:
                payloads = payloads[: _count_before(part.rejected[0], chunk)]
                rows, refusals = self._read_rows(payloads, None)
                part.rejected = part.rejected[:1]
                part.error = _build_stop_error(part.rejected[0])
        part.output = self._format_output(name, chunk, payloads, rows, refusals, part)
        return part

    def _read_rows(self, payloads: list[bytes], block: bytes | None) -> tuple[Iterable[Row], list[Refusal]]:
        if block is not None and self._once is not None:
            return self._once(payloads, block)
        return self._extract(payloads) if payloads else ([], [])

    def _format_output(
        self,
        name: str,
        chunk: Chunk,
        payloads: list[bytes],
        rows: Iterable[Row],
        refusals: Sequence[Refusal],
        part: EvalPart,
    ) -> bytes:
        bad = {refusal.index for refusal in refusals}
        headers = _build_headers(payloads, chunk.envelopes) if self._uses_header else None
        try:
            found = self._select_matching(payloads, rows, headers, bad)
        except LimitError as error:
            reached = error.facts["index"]
            part.error = _locate_limit_error(error, name, chunk, reached)
            part.rejected = [one for one in part.rejected if one.offset < chunk.find_offset(reached)]
            found = self._select_matching(
                payloads[:reached], self._read_rows(payloads[:reached], None)[0], headers, bad
            )
        except InputError:
            found = self._evaluate_one_by_one(name, chunk, payloads, headers, bad, part)
        if not found:
            return b""
        if self._filter is not None and self._framing in ("nul", "length"):
            from sowctl.messages.framing.frames import frame_messages

            return frame_messages(found, self._framing)
        return b"\n".join(found) + b"\n"

    def _select_matching(
        self, payloads: Sequence[bytes], rows: Iterable[Row], headers: Sequence[Header] | None, bad: set[int]
    ) -> list[bytes]:
        if self._filter is not None:
            places = self._filter.find_matches(rows, self._environment, headers)
            return [payloads[place] for place in places if place not in bad]
        from sowctl.messages.json.text import format_json

        assert self._value is not None
        values = self._value.compute_values(rows, self._environment, headers)
        return [format_json(value) for index, value in enumerate(values) if index not in bad]

    def _evaluate_one_by_one(
        self,
        name: str,
        chunk: Chunk,
        payloads: Sequence[bytes],
        headers: Sequence[Header] | None,
        bad: set[int],
        part: EvalPart,
    ) -> list[bytes]:
        """Return the output if a module's function rejects messages: it cannot identify the message within a batch."""
        found: list[bytes] = []
        for index, row in enumerate(self._read_rows(list(payloads), None)[0]):
            if index in bad:
                continue
            only = slice(index, index + 1)
            try:
                found += self._select_matching(payloads[only], [row], headers and headers[only], set())
            except LimitError as error:
                part.error = _locate_limit_error(error, name, chunk, index)
                part.rejected = [one for one in part.rejected if one.offset < chunk.find_offset(index)]
                break
            except InputError as error:
                from sowctl.engine.writing.rejects import locate_refusal

                refused = locate_refusal(name, chunk, Refusal(index, error.code, error.message))
                if self._stops:
                    part.rejected, part.error = [refused], _build_stop_error(refused)
                    break
                part.rejected = sorted([*part.rejected, refused], key=lambda one: one.offset)
        return found


def evaluate_sources(evaluator: Evaluator, sources: Iterable[EvalInput]) -> Iterator[EvalPart]:
    """Evaluate all inputs in order until an error ends the run. Raises what reading raises."""
    for source in sources:
        for chunk in source.chunks:
            part = evaluator.evaluate_chunk(source.name, chunk)
            yield part
            if part.error is not None:
                return


def _count_before(refused: Rejected, chunk: Chunk) -> int:
    """Return the number of messages of the chunk before a rejected one."""
    return sum(offset < refused.offset for offset in chunk.places[1])


def _build_stop_error(refused: Rejected) -> InputError:
    return InputError(
        refused.code,
        refused.message,
        place=refused.place,
        hint="--on-error skip skips invalid messages",
        line=refused.line,
        column=refused.column,
        offset=refused.offset,
    )


def _locate_limit_error(error: LimitError, name: str, chunk: Chunk, index: int) -> LimitError:
    """Return the error of a match limit with the position of the message instead of its index in the batch."""
    line = chunk.find_line(index)
    return LimitError(error.code, error.message, place=f"{name}:{line}", hint=error.hint, line=line)


def _build_headers(payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None) -> list[Header]:
    from sowctl.expressions.environment import Header
    from sowctl.identity.keys import parse_sow_key

    if envelopes is None:
        return [Header(payload_size=len(payload)) for payload in payloads]
    return [
        Header(
            topic=envelope.topic,
            sow_key=envelope.sow_key,
            sow_key_hash=envelope.sow_key if parse_sow_key(envelope.sow_key or "") is not None else None,
            bookmark=envelope.bookmark,
            correlation_id=envelope.correlation_id,
            last_updated=_parse_instant(envelope.timestamp),
            payload_size=len(payload),
            client_name=envelope.client,
        )
        for payload, envelope in zip(payloads, envelopes, strict=False)
    ]


def _parse_instant(text: str | None) -> int | None:
    from sowctl.values.times import parse_time

    try:
        return None if text is None else parse_time(text, lambda: 0)
    except UsageError:
        return None


def count_processes(size: int, *, least: int = 4 * EVAL_LIMITS.segment_bytes) -> int:
    """Return the number of processes to use for a file of ``size`` bytes."""
    if size < least or not can_fork():
        return 1
    return min(max(count_processors(), 1), 8)


def evaluate_file(
    evaluator: Evaluator, name: str, descriptor: int, start: int, stop: int, count: int
) -> Iterator[EvalPart]:
    """Evaluate the lines between two offsets of a file with ``count`` processes.

    ``name`` is used in messages. Line numbers and offsets are relative to ``start``. The last part is the first one
    with an error.
    """
    segment = EVAL_LIMITS.segment_bytes
    segments = -(-(stop - start) // segment)
    workers: list[ForkedProcess] = []
    try:
        for number in range(count):
            spans = [
                (start, start + at * segment, min(stop, start + (at + 1) * segment), stop)
                for at in range(number, segments, count)
            ]
            workers.append(ForkedProcess(partial(_send_parts, evaluator, name, descriptor, spans)))
        line = 0
        for number in range(segments):
            part = _receive_part(workers[number % count])
            for refused in part.rejected:
                refused.line += line
            if part.error is not None and "line" in part.error.facts:
                _shift_lines(part, name, line)
            line += part.lines
            yield part
            if part.error is not None:
                return
    finally:
        for worker in workers:
            worker.terminate()


def _shift_lines(part: EvalPart, name: str, lines: int) -> None:
    """Make the line of an error relative to the beginning of the file."""
    assert part.error is not None
    facts = part.error.facts
    facts["line"] += lines
    column = facts.get("column")
    part.error.place = f"{name}:{facts['line']}" + (f":{column}" if column is not None else "")


SegmentSpan = tuple[int, int, int, int]
"""Start of the input, nominal start and end of the segment, end of the input."""


def _send_parts(evaluator: Evaluator, name: str, descriptor: int, spans: list[SegmentSpan], send: SendFunction) -> None:
    """Evaluate segments in a forked process, and send two frames for each: line count and errors, and the output."""
    for span in spans:
        part = _evaluate_segment(evaluator, name, descriptor, span)
        troubles = b""
        if part.rejected or part.error is not None:
            import pickle

            troubles = pickle.dumps((part.rejected, part.error))
        send(_LINE_COUNT.pack(part.lines), troubles)
        send(part.output)


def _receive_part(worker: ForkedProcess) -> EvalPart:
    """Receive the result of a process's next segment.

    Raises the error of the process; StorageError ``SOW-QRY-020`` if the process has terminated.
    """
    try:
        facts, output = worker.receive(), worker.receive()
    except ProcessLostError:
        facts = output = None
    if facts is None or output is None:
        raise StorageError("SOW-QRY-020", "a process that was reading a part of the file terminated")
    (lines,) = _LINE_COUNT.unpack_from(facts)
    return EvalPart(output, *_decode_troubles(facts[_LINE_COUNT.size :], lines))


def _decode_troubles(facts: bytes, lines: int) -> tuple[list[Rejected], int, SowError | None]:
    """Decode a process's report on its segment: rejected messages, lines, and error."""
    if not facts:
        return [], lines, None
    import pickle

    # The bytes come from a fork of this process.
    rejected, error = pickle.loads(facts)
    return rejected, lines, error


def _evaluate_segment(evaluator: Evaluator, name: str, descriptor: int, span: SegmentSpan) -> EvalPart:
    """Evaluate the lines that start in a segment."""
    origin, first, last, stop = span
    begin = _find_line_start(descriptor, origin, first, stop)
    end = _find_line_start(descriptor, origin, last, stop)
    whole = EvalPart()
    outputs = []
    for chunk, block in _iterate_chunks(descriptor, begin, end, begin - origin):
        part = evaluator.evaluate_chunk(name, chunk, block)
        if part.rejected and block is not None:
            part = evaluator.evaluate_chunk(name, _drop_blank_lines(chunk, block))
        outputs.append(part.output)
        whole.rejected += part.rejected
        whole.lines += part.lines
        whole.error = part.error
        if whole.error is not None:
            break
    whole.output = b"".join(outputs)
    return whole


def _iterate_chunks(descriptor: int, begin: int, end: int, offset: int) -> Iterator[tuple[Chunk, bytes | None]]:
    """Yield the lines between two offsets of the file as chunks, each with the block that it was cut from.

    ``offset`` is that of ``begin`` in the input. From the first line on that is not plain (a CR, a BOM, a line longer
    than a block), the line cutter is used.
    """
    number = 1
    rest = b""
    while begin < end:
        data = os.pread(descriptor, min(READ_BLOCK_BYTES, end - begin - len(rest)), begin + len(rest))
        last = begin + len(rest) + len(data) >= end or not data
        cut = len(data) if last else data.rfind(b"\n") + 1
        block = rest + data[:cut] if cut else b""
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if not block or b"\r" in block or block.startswith(BYTE_ORDER_MARK):
            yield from _cut_chunks(descriptor, begin, end, LineCutter(MAX_MESSAGE_BYTES, offset, number))
            return
        yield _build_chunk(lines, block, number, offset), block
        number += len(lines)
        rest = data[cut:]
        begin += len(block)
        offset += len(block)


def _build_chunk(lines: list[bytes], block: bytes, number: int, offset: int) -> Chunk:
    return Chunk(
        lines, lambda: number_places(number, compute_line_offsets(block, offset, len(lines))), offset + len(block)
    )


def _drop_blank_lines(chunk: Chunk, block: bytes) -> Chunk:
    """Return the chunk without blank lines, which no message type can parse."""
    again = LineCutter(MAX_MESSAGE_BYTES, chunk.end - len(block), chunk.find_line(0)).feed(
        block.removesuffix(b"\n") + b"\n"
    )
    return again if again is not None else chunk


def _cut_chunks(descriptor: int, begin: int, end: int, cutter: LineCutter) -> Iterator[tuple[Chunk, None]]:
    while True:
        data = os.pread(descriptor, min(READ_BLOCK_BYTES, end - begin), begin)
        begin += len(data)
        chunk = cutter.feed(data)
        if chunk is not None:
            yield chunk, None
        if not data:
            return


def _find_line_start(descriptor: int, origin: int, at: int, stop: int) -> int:
    """Return the first offset from ``at`` on at which a line starts."""
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

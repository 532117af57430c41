"""eval: an expression over messages from files and pipes, without an instance (``sowctl-expressions(7)``).

A tester for filters, and a search in files of messages. Large files of lines are read by several processes
(:mod:`sowctl.engine.verbs.evalfile`); everything else here, chunk by chunk as it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from sowctl.errors import InputError, LimitError, SowError, UsageError
from sowctl.messages.types import get_type
from sowctl.values.fields import Refusal, Row

if TYPE_CHECKING:
    from sowctl.engine.reports import Rejected
    from sowctl.expressions.compile import Filter
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.functions.signature import Function
    from sowctl.expressions.rows.program import Value
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.chunks import Chunk
    from sowctl.messages.framing.envelope import Envelope

_Once: TypeAlias = Callable[[Sequence[bytes], bytes], tuple[Iterable[Row], list[Refusal]]]
"""An extractor that also takes the block which the payloads were cut out of, and whose rows can be read only once."""


class Source(Struct, frozen=True):
    """One input: its name, and its chunks."""

    name: str
    chunks: Iterable[Chunk]


class Part:
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
        self.compiled: Filter | Value = (
            compile_filter(expression, extra=extra) if matches else compile_value(expression, extra=extra)
        )
        self._matches = matches
        self._environment = environment
        self._stops = stops
        self._framing = framing
        kind = get_type(message_type) if isinstance(message_type, str) else message_type
        if self.compiled.slots and not kind.filterable:
            words = f"messages of type {kind.name} have no fields: this expression cannot be applied"
            raise UsageError("SOW-QRY-003", words)
        self._extract = kind.extractor(self.compiled.slots)
        self._once: _Once | None = getattr(self._extract, "once", None)

    def part(self, name: str, chunk: Chunk, block: bytes | None = None) -> Part:
        """Evaluate one chunk of the input ``name``; ``block``: the bytes it was cut out of, if all its lines count."""
        part = Part(lines=len(chunk.payloads) + len(chunk.refused) + chunk.blank)
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
        part: Part,
    ) -> bytes:
        bad = {refusal.index for refusal in refusals}
        headers = _headers(payloads, chunk.envelopes) if self.compiled.uses_header else None
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
        if self._matches and self._framing in ("nul", "length"):
            from sowctl.messages.framing.frames import framed

            return framed(found, self._framing)
        return b"\n".join(found) + b"\n"

    def _found(
        self, payloads: Sequence[bytes], rows: Iterable[Row], headers: Sequence[Header] | None, bad: set[int]
    ) -> list[bytes]:
        if self._matches:
            places = self.compiled.matches(rows, self._environment, headers)  # type: ignore[union-attr]
            return [payloads[place] for place in places if place not in bad]
        from sowctl.messages.json.text import json_text

        values = self.compiled.values(rows, self._environment, headers)  # type: ignore[union-attr]
        return [json_text(value) for index, value in enumerate(values) if index not in bad]

    def _one_by_one(
        self,
        name: str,
        chunk: Chunk,
        payloads: Sequence[bytes],
        headers: Sequence[Header] | None,
        bad: set[int],
        part: Part,
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


def evaluate(evaluator: Evaluator, sources: Iterable[Source]) -> Iterator[Part]:
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
        hint="--on-error skip leaves bad messages out",
        line=refused.line,
        column=refused.column,
        offset=refused.offset,
    )


def _runaway(error: LimitError, name: str, chunk: Chunk, index: int) -> LimitError:
    """The error of a match limit with the place of the message instead of its index in the batch."""
    line = chunk.line(index)
    words = error.message.removesuffix(f" on record {error.facts['index']}")
    return LimitError(error.code, words, place=f"{name}:{line}", hint=error.hint, line=line)


def _headers(payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None) -> list[Header]:
    from sowctl.expressions.environment import Header

    if envelopes is None:
        return [Header(payload_size=len(payload)) for payload in payloads]
    return [
        Header(
            topic=envelope.topic,
            sow_key=envelope.sow_key,
            sow_key_hash=envelope.sow_key if (envelope.sow_key or "").isdecimal() else None,
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

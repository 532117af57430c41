"""Texts to callables over rows: filters and values (``sowctl-expressions(7)``).

A row is a tuple of slot values, one per slot of the compiled expression. The loop over rows is generated code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

from sowctl.expressions.check import NO_FUNCTIONS, check
from sowctl.expressions.context import Context
from sowctl.expressions.environment import NO_HEADER, Environment, Header
from sowctl.expressions.functions import Function
from sowctl.expressions.rows.code import Emission, Operand, finish
from sowctl.expressions.rows.emit import LONG, Emitter
from sowctl.expressions.syntax.nodes import Logic, Node
from sowctl.expressions.syntax.parse import parse_expression, parse_filter
from sowctl.values.fields import Row, Slot, SlotValue

MOST_KEPT = 10_000
"""Characters of a filter that is kept at most."""
Run = Callable[[Iterable[Row], Environment, Any, Any], list[Any]]


class Compiled:
    """What filters and values share: the text, the tree, and what they ask of a message.

    ``slots`` are the fields of the message, ``previous_slots`` those of the stored record (``OF PREVIOUS``);
    ``sources`` are the qualifiers of ``slots``, ``()`` where there is none. ``source`` is the generated Python.
    """

    __slots__ = ("_parts", "_run", "node", "previous_slots", "slots", "source", "sources", "text", "uses_header")

    def __init__(self, text: str, node: Node | None, emitter: Emitter | None, final: str) -> None:
        self.text = text
        self.node = node
        self.slots: tuple[Slot, ...] = ()
        self.previous_slots: tuple[Slot, ...] = ()
        self.sources: tuple[tuple[str, ...], ...] = ()
        self.uses_header = False
        self.source = ""
        self._run: Run | None = None
        self._parts: tuple[list[str], dict[str, Any]] | None = None
        if emitter is None:
            return
        code = emitter.code
        self.slots = tuple(wanted.finished() for _, wanted in code.slots.values())
        self.sources = tuple(wanted.field.qualifier for _, wanted in code.slots.values())
        self.previous_slots = tuple(wanted.finished() for _, wanted in code.previous.values())
        self.uses_header = code.uses_header
        main = code.source(final)
        self.source = "\n".join([*code.functions, main])
        self._parts = [*code.functions, main], code.names

    def _runner(self) -> Run:
        """The generated loop, compiled when the first rows come: what an index answers is asked of no row."""
        if self._run is None:
            assert self._parts is not None, "the empty filter has no loop"
            parts, names = self._parts
            for part in parts:
                exec(compile(part, "<expression>", "exec"), names)
            self._run = names["run"]
        return self._run

    def _call(self, rows: Iterable[Row], env: Environment, headers: Any, previous: Any) -> list[Any]:
        run = self._runner()
        if self.uses_header and headers is None:
            headers = repeat(NO_HEADER)
        if self.previous_slots:
            nothing = (None,) * len(self.previous_slots)
            previous = [nothing if row is None else row for row in previous] if previous else repeat(nothing)
        return run(rows, env, headers, previous)


class Filter(Compiled):
    """A compiled filter; the empty one matches everything."""

    __slots__ = ("_conjuncts", "_extra", "_single")

    def __init__(
        self, text: str, node: Node | None, emitter: Emitter | None, extra: Mapping[str, Function] = NO_FUNCTIONS
    ) -> None:
        super().__init__(text, node, emitter, "append(i)")
        self._extra = extra
        self._conjuncts: Sequence[Node] | None = None
        self._single: dict[int, Filter] = {}

    @property
    def conjuncts(self) -> Sequence[Node]:
        """The conditions that must all be TRUE (:func:`sowctl.expressions.rewrites.conjuncts`)."""
        if self._conjuncts is None:
            from sowctl.expressions.rewrites import conjuncts  # which compiles constants

            self._conjuncts = conjuncts(self.node)
        return self._conjuncts

    def conjunct(self, number: int) -> Filter:
        """One of :attr:`conjuncts`, compiled by itself."""
        found = self._single.get(number)
        if found is None:
            found = self._single[number] = _condition(self.conjuncts[number], self.text, self._extra)
        return found

    def matches(self, rows: Iterable[Row], env: Environment, headers: Sequence[Header] | None = None) -> list[int]:
        """The indexes of the rows for which the filter is true; every row is read once.

        Raises LimitError ``SOW-EXP-030``, which names the index, if a pattern exceeds the match limit.
        """
        if self.node is None:
            return [index for index, _ in enumerate(rows)]
        return self._call(rows, env, headers, None)


class Value(Compiled):
    """A compiled value."""

    __slots__ = ()

    def values(
        self,
        rows: Iterable[Row],
        env: Environment,
        headers: Sequence[Header] | None = None,
        previous: Sequence[Row | None] | None = None,
    ) -> list[SlotValue]:
        """The scalar per row; ``previous`` holds the rows of stored records, None where there is none.

        Raises LimitError ``SOW-EXP-030``, which names the index, if a pattern exceeds the match limit.
        """
        return self._call(rows, env, headers, previous)


class Tuples(Compiled):
    """Several compiled values over the same rows."""

    __slots__ = ()

    def values(
        self,
        rows: Iterable[Row],
        env: Environment,
        headers: Sequence[Header] | None = None,
        previous: Sequence[Row | None] | None = None,
    ) -> list[tuple[SlotValue, ...]]:
        """One tuple of scalars per row; see :meth:`Value.values`."""
        return self._call(rows, env, headers, previous)


def compile_filter(
    text: str, context: Context = Context.QUERY_FILTER, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> Filter:
    """Compile a filter for its context; ``extra`` are functions of loaded modules.

    A process keeps some that it compiled, and so the loops that were generated for them. Raises ExpressionError.
    """
    if extra or len(text) > MOST_KEPT:
        return _filter(text, context, extra)
    return _kept_filter(text, context)


@lru_cache(maxsize=32)
def _kept_filter(text: str, context: Context) -> Filter:
    return _filter(text, context, NO_FUNCTIONS)


def _filter(text: str, context: Context, extra: Mapping[str, Function]) -> Filter:
    node = parse_filter(text)
    if node is None:
        return Filter(text, None, None)
    check(node, text, context, extra)
    return _condition(node, text, extra)


def _condition(node: Node, text: str, extra: Mapping[str, Function]) -> Filter:
    """One condition of a filter that was checked; ``text`` is the filter's."""
    emitter = Emitter(text, extra)
    finish(_conditions(emitter, node))
    return Filter(text, node, emitter, extra)


def _conditions(emitter: Emitter, node: Node) -> Emission:
    """A row is left at the first operand of AND that is not true."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Logic) and current.operator == "AND" and len(current.operands) <= LONG:
            waiting.extend(reversed(current.operands))
            continue
        operand: Operand = yield emitter.truth(current)
        emitter.code.add(f"if not {operand.code}: continue")


def compile_value(
    text: str, context: Context = Context.QUERY_FILTER, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> Value:
    """Compile a value for its context; ``extra`` are functions of loaded modules.

    Raises ExpressionError.
    """
    return compile_node(parse_expression(text), text, context, extra)


def compile_node(
    node: Node, text: str, context: Context = Context.QUERY_FILTER, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> Value:
    """Compile a parsed value; ``text`` is what it was parsed from."""
    check(node, text, context, extra)
    emitter = Emitter(text, extra)
    operand: Operand = finish(emitter.value(node, True))
    final = f"append({emitter.as_scalar(operand).code})"
    return Value(text, node, emitter, final)

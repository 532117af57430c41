"""Generated loops over rows: the slots that a compiled expression reads from a message, and the loop that evaluates it.

Used by :mod:`sowctl.expressions.compiler`, by the projections, by the columns for individual nodes and by the rewrites
for constants. A row is a tuple of slot values, one per slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from sowctl.expressions.environment import NO_HEADER, Environment, Header
from sowctl.expressions.functions import Function
from sowctl.expressions.rows.code import Operand, run_emission
from sowctl.expressions.rows.emitter import Emitter
from sowctl.expressions.syntax.errors import BoundExceededError
from sowctl.expressions.syntax.nodes import Node
from sowctl.expressions.syntax.patterns import RegexPattern
from sowctl.values.fields import Row, Slot, SlotValue

RowLoop = Callable[[Iterable[Row], Environment, Any, Any], list[Any]]


class CompiledExpression:
    """The common part of compiled filters and values: text, tree, and the slots of a message that they read.

    ``slots`` are the fields of the message, ``previous_slots`` those of the stored record (``OF PREVIOUS``);
    ``sources`` are the qualifiers of ``slots``, ``()`` if there is none. ``source`` is the generated Python.
    """

    __slots__ = (
        "_is_bounded",
        "_matchers",
        "_parts",
        "_run",
        "node",
        "previous_slots",
        "slots",
        "source",
        "sources",
        "text",
        "uses_header",
    )

    def __init__(self, text: str, node: Node | None, emitter: Emitter | None, final: str) -> None:
        self.text = text
        self.node = node
        self.slots: tuple[Slot, ...] = ()
        self.previous_slots: tuple[Slot, ...] = ()
        self.sources: tuple[tuple[str, ...], ...] = ()
        self.uses_header = False
        self.source = ""
        self._run: RowLoop | None = None
        self._parts: tuple[list[str], dict[str, Any]] | None = None
        self._matchers: list[RegexPattern] = []
        self._is_bounded = False
        # The empty filter reads nothing from a message.
        if emitter is None:
            return
        code = emitter.code
        self.slots = tuple(wanted.build_slot() for _, wanted in code.slots.values())
        self.sources = tuple(wanted.field.qualifier for _, wanted in code.slots.values())
        self.previous_slots = tuple(wanted.build_slot() for _, wanted in code.previous.values())
        self.uses_header = code.uses_header
        self._matchers, self._is_bounded = code.matchers, code.is_bounded
        # Slots are complete only now: every use of a field in the expression may have added requirements.
        main = code.build_source(final)
        self.source = "\n".join([*code.functions, main])
        self._parts = [*code.functions, main], code.names

    def _compile_loop(self) -> RowLoop:
        """The generated loop, compiled for the first rows: an expression that an index evaluates reads no rows."""
        if self._run is None:
            assert self._parts is not None, "the empty filter has no loop"
            parts, names = self._parts
            # Each function is compiled separately; for the reason see LONG_CHAIN_GROUPS in emitter.py.
            for part in parts:
                exec(compile(part, "<expression>", "exec"), names)
            self._run = names["run"]
        return self._run

    def _run_loop(self, rows: Iterable[Row], env: Environment, headers: Any, previous: Any) -> list[Any]:
        run = self._compile_loop()
        if self._is_bounded or env.limits.seconds is not None:
            try:
                env.begin_batch()
            except BoundExceededError as error:
                raise error.at(0) from None
            for matcher in self._matchers:
                matcher.step_counter = env
        # repeat() is endless: zip() in the loop stops with the rows.
        if self.uses_header and headers is None:
            headers = repeat(NO_HEADER)
        if self.previous_slots:
            # Without a stored record every OF PREVIOUS field is NULL.
            nothing = (None,) * len(self.previous_slots)
            previous = [nothing if row is None else row for row in previous] if previous else repeat(nothing)
        return run(rows, env, headers, previous)


class CompiledValue(CompiledExpression):
    """A compiled value."""

    __slots__ = ()

    def compute_values(
        self,
        rows: Iterable[Row],
        env: Environment,
        headers: Sequence[Header] | None = None,
        previous: Sequence[Row | None] | None = None,
    ) -> list[SlotValue]:
        """The scalar per row; ``previous`` contains the rows of stored records, None if there is none.

        Raises LimitError ``SOW-EXP-030``, which contains the index, if a pattern exceeds the match limit.
        """
        return self._run_loop(rows, env, headers, previous)


class CompiledTuples(CompiledExpression):
    """Several compiled values over the same rows."""

    __slots__ = ()

    def compute_tuples(
        self,
        rows: Iterable[Row],
        env: Environment,
        headers: Sequence[Header] | None = None,
        previous: Sequence[Row | None] | None = None,
    ) -> list[tuple[SlotValue, ...]]:
        """One tuple of scalars per row; see :meth:`CompiledValue.compute_values`."""
        return self._run_loop(rows, env, headers, previous)


def compile_checked_value(node: Node, text: str, extra: Mapping[str, Function]) -> CompiledValue:
    """Compile the value of a checked node; ``text`` is its source text."""
    # The text of numbers is requested, because a value may be displayed or stored in its original spelling.
    emitter = Emitter(text, extra)
    operand: Operand = run_emission(emitter.emit_value(node, True))
    return CompiledValue(text, node, emitter, f"append({emitter.convert_to_scalar(operand).code})")

"""Evaluates individual nodes by the row evaluator: over the distinct texts of one column, or over all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sowctl.expressions.columns.kernels import spread_results
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.functions import FUNCTIONS, Function
from sowctl.expressions.rows.code import Operand, run_emission
from sowctl.expressions.rows.emitter import Emitter
from sowctl.expressions.rows.program import CompiledValue
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.trees import replace_children
from sowctl.values.column import Column, Kind, build_column
from sowctl.values.fields import SlotValue
from sowctl.values.paths import Path, Step

OPERAND_QUALIFIER = "\0operand"
"""Qualifier of the fields that represent operands; no topic has this name."""


class NodeFallback:
    """A node with given operands, compiled separately on first use."""

    def __init__(self, node: n.Node, extra: Mapping[str, Function]) -> None:
        self.node = node
        # A pattern is compiled into the node and is not on the stack of columns.
        self.count = sum(not isinstance(child, n.Pattern) for child in node.list_children())
        self._extra = extra
        self._value: CompiledValue | None = None
        self._needs: list[int] = []
        function = None
        if isinstance(node, n.Call):
            function = FUNCTIONS.get(node.name) or extra.get(node.name)
        self.by_header = function is not None and function.gets == "header"
        self.repeatable = function is None or (function.deterministic and not self.by_header)
        """Whether equal operands give equal results in every row."""

    def compile_operand_value(self) -> CompiledValue:
        """The compiled node with one slot per operand that is not a pattern; ``_needs`` has their positions."""
        if self._value is None:
            operands: list[n.Node] = []
            number = 0
            for child in self.node.list_children():
                # Literals stay in the code, where the compiler treats them as constants; every other operand becomes a
                # field of an artificial row.
                given = isinstance(child, n.Pattern | n.Literal)
                operands.append(child if given else n.Field(Path((Step(str(number)),)), (OPERAND_QUALIFIER,), None, 0))
                number += not isinstance(child, n.Pattern)
            emitter = Emitter("", self._extra)
            node = replace_children(self.node, operands)
            result: Operand = run_emission(emitter.emit_value(node, True))
            self._needs = [int(wanted.field.path.steps[0].name) for _, wanted in emitter.code.slots.values()]
            final = f"append({emitter.convert_to_scalar(result).code})"
            self._value = CompiledValue("", node, emitter, final)
        return self._value

    def evaluate_rows(
        self, operands: Sequence[Column], size: int, env: Environment, headers: Sequence[Header] | None
    ) -> Column:
        """The node's values row by row; a constant if nothing differs between rows."""
        value = self.compile_operand_value()
        # Computed once, because equal operands give equal results.
        constant = self.repeatable and all(operand.constant for operand in operands)
        count = 1 if constant else size
        # The slots of the compiled node in its own order, without operands that it never reads.
        lists = [operands[place].repeat_values(count) for place in self._needs]
        rows = list(zip(*lists, strict=True)) if lists else [()] * count
        return build_column(value.compute_values(rows, env, headers if self.by_header else None), constant=constant)

    def evaluate_words(self, operands: Sequence[Column], env: Environment) -> Column | None:
        """The node's values for the texts of the only operand that varies, if it is a STRING column; else None."""
        varying = [operand for operand in operands if not operand.constant]
        if not self.repeatable or len(varying) != 1 or varying[0].kind is not Kind.STRING:
            return None
        column = varying[0]
        if column.listed and isinstance(self.node, n.Call) and self.node.name.startswith("ARRAY_"):
            return None  # an empty list differs from a list of one NULL
        value = self.compile_operand_value()
        # NULL is last, matching its code.
        words: Sequence[Any] = [*column.words, None]
        lists: list[Sequence[SlotValue]] = [
            words if operands[place] is column else operands[place].repeat_values(len(words)) for place in self._needs
        ]
        rows = list(zip(*lists, strict=True)) if lists else [()] * len(words)
        return spread_results(column, value.compute_values(rows, env))

"""Constant folding: what has literal operands only is computed once, by the row evaluator itself."""

from __future__ import annotations

import math

from sowctl.expressions.environment import Environment
from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.rewrites.truths import evaluate_constant, is_constant
from sowctl.expressions.rows.arithmetic import OPERATORS
from sowctl.expressions.rows.program import compile_checked_value
from sowctl.expressions.syntax import nodes as n
from sowctl.values.fields import Number, SlotValue, ValueList

_MAX_FOLDED_BYTES = 4096
"""Bytes of a text that folding may produce."""


def fold(node: n.Node) -> n.Node | None:
    """``1 + 2``: ``3``. Not where a match limit could be exceeded, or the run's clock, names or chance are asked."""
    below = node.list_children()
    # Fields and patterns have no operands either, and are no constants.
    if is_constant(node) or not all(map(is_constant, below)) or isinstance(node, n.Field | n.Pattern):
        return None
    if isinstance(node, n.Call) and not _is_pure(node):
        return None
    # The row evaluator defines every result, so it computes this one, too: folding has no rules of its own.
    value = compile_checked_value(node, "", {})
    return build_literal(value.compute_values([()], Environment(lambda: 0))[0], node.span)


def fold_prefix(node: n.Node) -> n.Node | None:
    """``1 + 2 + /a``: ``3 + /a``. Chains go from left to right, so only their beginning folds."""
    if not isinstance(node, n.Arithmetic) or len(node.operands) < 3:
        return None
    first, second = node.operands[:2]
    if not (is_constant(first) and is_constant(second)):
        return None
    # ``/a + 1 + 2`` is not ``/a + 3``: sums of Doubles round after each step, and Integers overflow at a step.
    value = OPERATORS[node.operators[0]](evaluate_constant(first), evaluate_constant(second))
    folded = build_literal(value, (first.span[0], second.span[1]))
    if folded is None:
        return None
    return n.Arithmetic(node.operators[1:], (folded, *node.operands[2:]), span=node.span)


def build_literal(value: SlotValue, span: n.Span = (0, 0)) -> n.Node | None:
    """The constant node of a value; None where there is none."""
    # Lists, and numbers that remember their text, have no literal; a long text would make the tree larger than it was.
    if isinstance(value, ValueList | Number) or (isinstance(value, bytes) and len(value) > _MAX_FOLDED_BYTES):
        return None
    if isinstance(value, str):
        value = value.encode()
    # Literals have no sign. copysign also sees the sign of -0.0, which ``value < 0`` does not.
    if isinstance(value, int | float) and value == value and math.copysign(1.0, value) < 0:
        return n.Unary("-", n.Literal(-value, span=span), span=span)
    return n.Literal(value, span=span)


def _is_pure(call: n.Call) -> bool:
    if call.name == "IF":
        return True
    function = FUNCTIONS.get(call.name)
    # A function that asks the clock, the header or a name has another result in another run or record.
    if function is None or not function.is_pure:
        return False
    # A match may exceed the limit of the engine, and that error belongs to a message.
    return "pattern" not in function.parameters

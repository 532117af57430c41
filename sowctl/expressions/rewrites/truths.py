"""Tests of nodes for the rewrites: constants, their truth value, and whether a value is a truth value already."""

from __future__ import annotations

from sowctl.expressions.functions import FUNCTIONS
from sowctl.expressions.rows.arithmetic import negate_value
from sowctl.expressions.syntax import nodes as n
from sowctl.values.fields import SlotValue
from sowctl.values.scalars import to_truth

PREDICATE_NODES = (n.Compare, n.Is, n.Like, n.In, n.Affix, n.Between)
"""Their values are TRUE or FALSE, never NULL."""


def is_truth(node: n.Node) -> bool:
    """Return whether the node's value is TRUE, FALSE or NULL, so that it equals its own truth value."""
    if isinstance(node, n.Literal):
        return node.value is None or isinstance(node.value, bool)
    if isinstance(node, n.Call):
        # Functions of loaded modules declare nothing that could be used here.
        function = FUNCTIONS.get(node.name)
        return function is not None and function.result == "truth"
    # AND, OR and NOT give TRUE, FALSE or NULL, whatever their operands are.
    return isinstance(node, (*PREDICATE_NODES, n.Not, n.Logic))


def is_constant(node: n.Node) -> bool:
    """Return whether the node is a literal or a negative number, which is a literal after a minus sign."""
    if isinstance(node, n.Literal):
        return True
    return (
        isinstance(node, n.Unary)
        and node.operator == "-"
        and isinstance(node.operand, n.Literal)
        and isinstance(node.operand.value, int | float)
        # -TRUE is a computation, which is folded to the Integer -1.
        and not isinstance(node.operand.value, bool)
    )


def evaluate_constant(node: n.Node) -> SlotValue:
    """The value of a constant; the empty string is NULL."""
    if isinstance(node, n.Unary):
        return negate_value(evaluate_constant(node.operand))
    assert isinstance(node, n.Literal)
    # The empty string is NULL everywhere in the language.
    return node.value or None if isinstance(node.value, bytes) else node.value


def evaluate_constant_truth(node: n.Node) -> bool | None:
    """The truth value of a constant."""
    return to_truth(evaluate_constant(node))

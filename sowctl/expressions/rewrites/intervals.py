"""Conditions on one field that a sorted index can evaluate: numbers between bounds, listed Strings.

The results are valid only in a column of one kind (``sowctl-expressions(7)``, comparison): for numbers and NULLs a
comparison with a number is numeric; for Strings and NULLs a String without a numeric reading equals only identical
bytes. For all other columns the condition itself must be evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

from sowctl.expressions.rewrites.truths import evaluate_constant, is_constant
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.trees import walk_tree
from sowctl.values.scalars import MAX_EXACT_INTEGER, parse_number


class NumberBounds(NamedTuple):
    """Numbers from ``low`` to ``high``, None for no bound; an open bound is excluded."""

    low: int | float | None = None
    high: int | float | None = None
    open_low: bool = False
    open_high: bool = False


def find_sole_field(node: n.Node) -> n.Field | None:
    """The field of a condition that uses only this field, any number of times, and no other message; else None."""

    # A qualifier refers to another source and OF PREVIOUS to another record: an index of this topic has neither.
    fields = [part for part in walk_tree(node) if isinstance(part, n.Field)]
    if not fields or any(field.qualifier or field.modifier for field in fields):
        return None
    return fields[0] if all(field.path == fields[0].path for field in fields) else None


def find_number_bounds(node: n.Node) -> NumberBounds | None:
    """The numbers for which a condition such as ``/field > 5`` holds, except NULL; None for other conditions."""
    if isinstance(node, n.Compare) and isinstance(node.left, n.Field):
        number = _literal_number(node.right)
        # The field is on the left: the rewrites swap conditions that have it on the right.
        return None if number is None else _comparison_interval(node.operator, number)
    if isinstance(node, n.Between) and not node.negated and isinstance(node.operand, n.Field):
        # A reversed range is kept: it contains no number, as for BETWEEN.
        low, high = _literal_number(node.low), _literal_number(node.high)
        return NumberBounds(low, high) if low is not None and high is not None else None
    return None


def _comparison_interval(operator: str, number: int | float) -> NumberBounds | None:
    if operator == "=":
        return NumberBounds(number, number)
    if operator in (">", ">="):
        return NumberBounds(low=number, open_low=operator == ">")
    # ``<>`` holds for two ranges and for NaN, so it has no bounds.
    if operator in ("<", "<="):
        return NumberBounds(high=number, open_high=operator == "<")
    return None


def _literal_number(node: n.Node) -> int | float | None:
    if not is_constant(node):
        return None
    value: object = evaluate_constant(node)
    if isinstance(value, bytes):
        value = parse_number(value)
    if type(value) is int:
        # Beyond 2**53 comparisons of an Integer with a Double are not exact.
        return value if -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER else None
    return value if type(value) is float and value == value else None


def list_equal_strings(node: n.Node) -> tuple[bytes, ...] | None:
    """The Strings for which ``/field = 'a'`` or ``/field IN ('a', 'b')`` holds; None for other conditions."""
    if isinstance(node, n.Compare) and node.operator == "=" and isinstance(node.left, n.Field):
        return _literal_strings((node.right,))
    if isinstance(node, n.In) and not node.negated and isinstance(node.operand, n.Field):
        return _literal_strings(node.items)
    return None


def _literal_strings(items: tuple[n.Node, ...]) -> tuple[bytes, ...] | None:
    found = []
    for item in items:
        value = evaluate_constant(item) if is_constant(item) else None
        # The empty string is NULL, and a String with a numeric reading equals others with a different spelling.
        if not isinstance(value, bytes) or not value or parse_number(value) is not None:
            return None
        found.append(value)
    # Each String once, in the order of the list.
    return tuple(dict.fromkeys(found))

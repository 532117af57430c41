"""Parses texts: filters, values, fields, projections, groupings, orders (others in ``joins`` and ``selectlist``).

Only syntax is checked here; names, argument counts and contexts are checked when an expression is compiled. Every
function raises :class:`~sowctl.expressions.syntax.errors.ExpressionError` at the first error
(``sowctl-expressions(7)``).
"""

from __future__ import annotations

import re

from sowctl.expressions.syntax.actions import FieldDefinition, OrderKey
from sowctl.expressions.syntax.driver import parse_text
from sowctl.expressions.syntax.errors import ExpressionError, build_expression_error
from sowctl.expressions.syntax.nodes import Field, Node

_TEXT_ORDER_PATTERN = re.compile(r"\bTEXT\s+(ASC|DESC)\b", re.IGNORECASE)

__all__ = [
    "FieldDefinition",
    "OrderKey",
    "parse_expression",
    "parse_field",
    "parse_filter",
    "parse_grouping",
    "parse_order_by",
    "parse_projection",
]


def parse_filter(text: str) -> Node | None:
    """The tree of a filter; None for the empty filter, which matches everything."""
    # Only a filter may be empty; in all other cases the parser refuses an empty text.
    if not text.strip(" \t\r\n"):
        return None
    return parse_expression(text)


def parse_expression(text: str) -> Node:
    """The tree of an expression."""
    node: Node = parse_text("expression", text)
    return node


def parse_field(text: str) -> FieldDefinition:
    """One constructed field: ``expr AS /dest HINT ...``; ``AS`` is required."""
    field: FieldDefinition = parse_text("field", text)
    if field.destination is None:
        hint = "an expression needs a destination: ... AS /name"
        raise build_expression_error("SOW-EXP-020", "AS is missing", text, field.expression.span[1], hint=hint)
    return field


def parse_projection(text: str) -> tuple[FieldDefinition, ...]:
    """The fields of a projection; an identifier alone keeps its own path. Two with one destination are an error."""
    fields: list[FieldDefinition] = parse_text("projection", text)
    check_destinations(fields, text)
    return tuple(fields)


def check_destinations(fields: list[FieldDefinition], text: str) -> None:
    """Refuse two fields of one text with the same destination. Raises ExpressionError ``SOW-EXP-022``."""
    seen = set()
    for field in fields:
        # By member names: a subscript in an identifier does not make the destination different.
        names = find_destination(field)
        if names in seen:
            what = f"two fields have the destination /{'/'.join(names)}"
            raise build_expression_error("SOW-EXP-022", what, text, field.place)
        seen.add(names)


def find_destination(field: FieldDefinition) -> tuple[str, ...]:
    """Member names of the place that a field is written to: its ``AS`` path, else the identifier's own."""
    if field.destination is not None:
        return field.destination.names
    assert isinstance(field.expression, Field)
    return field.expression.path.names


def parse_grouping(text: str) -> tuple[Field, ...]:
    """The identifiers of a grouping, qualified if the view has a join."""
    fields: list[Field] = parse_text("grouping", text)
    return tuple(fields)


def parse_order_by(text: str) -> tuple[OrderKey, ...]:
    """The keys of an order."""
    try:
        keys: list[OrderKey] = parse_text("order_by", text)
    except ExpressionError as error:
        # Unlike in a filter, a bare word is rarely a field without its slash, but usually a direction.
        if error.code == "SOW-EXP-006":
            error.hint = "write an order as paths with optional ASC or DESC: /price DESC, /symbol"
        elif found := _TEXT_ORDER_PATTERN.search(text):
            error.hint = f"TEXT stands behind the direction: {found[1].upper()} TEXT"
        raise
    return tuple(keys)

"""Checks a parsed expression in its context: names, counts, patterns, modifiers (``sowctl-expressions(7)``)."""

from __future__ import annotations

from collections.abc import Mapping

from sowctl.expressions.aggregates.table import AGGREGATES
from sowctl.expressions.context import Context
from sowctl.expressions.functions import FUNCTIONS, Function
from sowctl.expressions.functions.signature import UNLIMITED_ARGUMENTS
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.errors import ExpressionError, build_expression_error, find_near_names

NO_FUNCTIONS: Mapping[str, Function] = {}


def check_node(node: n.Node, text: str, context: Context, extra: Mapping[str, Function] = NO_FUNCTIONS) -> None:
    """Raise ExpressionError for the first error, in the order of the text.

    ``extra`` contains functions of loaded modules by upper-case name.
    """
    # A list instead of recursion, as everywhere: a valid text may be nested more deeply than Python's stack allows.
    stack = [(node, context)]
    while stack:
        current, place = stack.pop()
        below = place
        if isinstance(current, n.Field):
            _check_field(current, text, place)
        elif isinstance(current, n.Call):
            below = _check_call(current, text, place, extra)
        # The leftmost operand is processed next, so that the first error in the text is reported.
        stack.extend((child, below) for child in reversed(current.list_children()))


def _find_node_start(node: n.Node, text: str) -> int:
    """Return the offset at which a node that begins with no operand starts, after parentheses around it."""
    # The span of a node in parentheses begins at the parenthesis, but the caret should point to the name.
    start = node.span[0]
    while start < len(text) and text[start] in "( \t\r\n":
        start += 1
    return start


def _check_field(field: n.Field, text: str, context: Context) -> None:
    rules = context.rules
    if field.qualifier and not rules.qualifiers:
        what = f"qualifiers are not allowed in {rules.words}"
        raise build_expression_error(
            "SOW-EXP-014", what, text, _find_node_start(field, text), hint="use qualifiers only in views"
        )
    allowed = {"CURRENT": rules.current, "PREVIOUS": rules.previous}
    if field.modifier is not None and not allowed[field.modifier]:
        what = f"OF {field.modifier} is not allowed in {rules.words}"
        raise build_expression_error("SOW-EXP-013", what, text, field.modifier_at)


def _check_call(call: n.Call, text: str, context: Context, extra: Mapping[str, Function]) -> Context:
    at = _find_node_start(call, text)
    # The argument of an aggregate is checked in its own context, in which a second aggregate is not allowed.
    if call.name in AGGREGATES:
        if not context.rules.aggregates:
            what = f"aggregate {call.name} is not allowed in {context.rules.words}"
            raise build_expression_error("SOW-EXP-015", what, text, at, hint="use aggregates only in projections")
        aggregate = AGGREGATES[call.name]
        _check_count(call, text, at, aggregate.least, aggregate.most)
        return Context.AGGREGATE
    if call.name == "IF":
        # IF is not in the table of functions: it evaluates only one of its branches.
        _check_count(call, text, at, 3, 3)
        return context
    # Built-in names have precedence: a module cannot change the meaning of a text.
    function = FUNCTIONS.get(call.name) or extra.get(call.name)
    if function is None:
        raise _build_unknown_error(call.name, text, at, extra)
    _check_count(call, text, at, function.least, function.most)
    # A result that may differ between evaluations cannot be stored or maintained.
    if not function.deterministic and not context.rules.nondeterministic:
        what = f"{call.name} is not deterministic, so it is not allowed in {context.rules.words}"
        raise build_expression_error("SOW-EXP-012", what, text, at)
    if function.lookup and not context.rules.lookup:
        what = f"{call.name} is not allowed in {context.rules.words}"
        raise build_expression_error("SOW-EXP-012", what, text, at)
    for position, argument in enumerate(call.arguments):
        # Patterns are compiled once with the expression; a computed pattern would have to be compiled for each row.
        if function.find_argument_kind(position) == "pattern" and not isinstance(argument, n.Pattern):
            hint = "write it as a string or raw string, without parentheses"
            raise build_expression_error(
                "SOW-EXP-017", "a pattern must be a literal", text, argument.span[0], hint=hint
            )
    return context


def _check_count(call: n.Call, text: str, at: int, least: int, most: int) -> None:
    count = len(call.arguments)
    if least <= count <= most:
        return
    wanted = (
        f"at least {least}" if most >= UNLIMITED_ARGUMENTS else f"{least}" if least == most else f"{least} to {most}"
    )
    wanted += " argument" if wanted.endswith("1") else " arguments"
    raise build_expression_error("SOW-EXP-011", f"{call.name} requires {wanted}, not {count},", text, at)


def _build_unknown_error(name: str, text: str, at: int, extra: Mapping[str, Function]) -> ExpressionError:
    known = [*FUNCTIONS, *AGGREGATES, "IF", *extra]
    near = find_near_names(name, known)
    hint = None if near else "sowctl functions lists them"
    return build_expression_error("SOW-EXP-010", f"unknown function {name}", text, at, hint=hint, names=near)

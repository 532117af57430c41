"""Actions of the rules of ``grammar.lark``: one method per alias."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.errors import build_expression_error
from sowctl.expressions.syntax.lexer import Token, decode_pattern, decode_string, split_field
from sowctl.values.paths import MAX_PATH_STEPS, Path, Step, parse_position
from sowctl.values.scalars import NAN, parse_decimal

PATTERN_ARGUMENTS = {"REGEXP_MATCH": 1, "REGEXP_REPLACE": 1}
"""Position of the argument that must be a pattern."""

Chain: TypeAlias = tuple[list[n.Node], list[str]]
_CONSTANT_VALUES: dict[str, bool | float | None] = {"TRUE": True, "FALSE": False, "NULL": None, "NAN": NAN}
_OPERATOR_SYNONYMS = {"==": "=", "!=": "<>"}


class OrderKey(Struct, frozen=True):
    """One key of an order: path, whether the order is descending, whether texts are compared as bytes."""

    path: Path
    descending: bool = False
    text: bool = False


class FieldDefinition(Struct, frozen=True):
    """``expr AS /dest HINT ...``. ``destination`` is None for an identifier without ``AS``."""

    expression: n.Node
    destination: Path | None
    optional: bool = False
    set_current: bool = False
    place: int = 0


class Builder:
    """Builds the nodes of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    # chains ---------------------------------------------------------------------------------------------------------

    def chain_start(self, parts: list[Any]) -> Chain:
        return [parts[0], parts[2]], [self._keyword_text(parts[1])]

    def chain_more(self, parts: list[Any]) -> Chain:
        chain: Chain = parts[0]
        # The chain grows in place: a tuple per operator would make long chains quadratic.
        chain[0].append(parts[2])
        chain[1].append(self._keyword_text(parts[1]))
        return chain

    def disjunction(self, parts: list[Chain]) -> n.Node:
        return n.Logic("OR", tuple(parts[0][0]), span=_cover_span(parts[0][0]))

    def conjunction(self, parts: list[Chain]) -> n.Node:
        return n.Logic("AND", tuple(parts[0][0]), span=_cover_span(parts[0][0]))

    def arithmetic(self, parts: list[Chain]) -> n.Node:
        operands, operators = parts[0]
        return n.Arithmetic(tuple(operators), tuple(operands), span=_cover_span(operands))

    def items_start(self, parts: list[Any]) -> list[Any]:
        return [parts[0]]

    def items_more(self, parts: list[Any]) -> list[Any]:
        parts[0].append(parts[2])
        return parts[0]  # type: ignore[no-any-return]  # what another rule built

    # predicates -----------------------------------------------------------------------------------------------------

    def negation(self, parts: list[Any]) -> n.Node:
        return n.Not(parts[1], span=(parts[0][1], parts[1].span[1]))

    def compare(self, parts: list[Any]) -> n.Node:
        # From here on there is one spelling per operator: == is =, and != is <>.
        word = self._keyword_text(parts[1])
        return n.Compare(_OPERATOR_SYNONYMS.get(word, word), parts[0], parts[2], span=_cover_span([parts[0], parts[2]]))

    def is_what(self, parts: list[Any]) -> n.Node:
        return n.Is(parts[-1][0], parts[0], False, span=(parts[0].span[0], parts[-1][2]))

    def is_not(self, parts: list[Any]) -> n.Node:
        return n.Is(parts[-1][0], parts[0], True, span=(parts[0].span[0], parts[-1][2]))

    # ``x NOT NULL`` is another spelling of ``x IS NOT NULL``.
    not_null = is_not

    def like(self, parts: list[Any], negated: bool = False) -> n.Node:
        return n.Like(parts[0], parts[-1], negated, span=_cover_span([parts[0], parts[-1]]))

    def not_like(self, parts: list[Any]) -> n.Node:
        return self.like(parts, True)

    def pattern(self, parts: list[Token]) -> n.Pattern:
        _, start, end = parts[0]
        return n.Pattern(*decode_pattern(self.text[start:end]), span=(start, end))

    def listed(self, parts: list[Any]) -> tuple[tuple[n.Node, ...], int]:
        return tuple(parts[1]), parts[2][2]

    def one_affix(self, parts: list[Token]) -> tuple[tuple[n.Node, ...], int]:
        # A single text after WITH needs no parentheses; it is a list of one member.
        return (self.string(parts),), parts[0][2]

    def in_list(self, parts: list[Any], negated: bool = False) -> n.Node:
        items, end = parts[-1]
        return n.In(parts[0], items, negated, span=(parts[0].span[0], end))

    def not_in_list(self, parts: list[Any]) -> n.Node:
        return self.in_list(parts, True)

    def between(self, parts: list[Any], negated: bool = False) -> n.Node:
        return n.Between(parts[0], parts[-3], parts[-1], negated, span=_cover_span([parts[0], parts[-1]]))

    def not_between(self, parts: list[Any]) -> n.Node:
        return self.between(parts, True)

    def affix(self, parts: list[Any], negated: bool = False) -> n.Node:
        items, end = parts[-1]
        return n.Affix(parts[-3][0], parts[0], items, negated, span=(parts[0].span[0], end))

    def not_affix(self, parts: list[Any]) -> n.Node:
        return self.affix(parts, True)

    # operands -------------------------------------------------------------------------------------------------------

    def unary(self, parts: list[Any]) -> n.Node:
        return n.Unary(self._keyword_text(parts[0]), parts[1], span=(parts[0][1], parts[1].span[1]))

    def number(self, parts: list[Token]) -> n.Node:
        _, start, end = parts[0]
        digits = self.text[start:end]
        # An integer beyond 64 bits is a Double.
        value = parse_decimal(digits) if digits.isdecimal() else float(digits)
        return n.Literal(value, span=(start, end))

    def string(self, parts: list[Token]) -> n.Node:
        _, start, end = parts[0]
        return n.Literal(decode_string(self.text[start:end]), span=(start, end))

    def constant(self, parts: list[Token]) -> n.Node:
        kind, start, end = parts[0]
        return n.Literal(_CONSTANT_VALUES[kind], span=(start, end))

    def parentheses(self, parts: list[Any]) -> n.Node:
        # Parentheses group and have no node; the span of their content is extended to theirs, for carets of errors.
        inner: n.Node = parts[1]
        return inner.with_span((parts[0][1], parts[2][2]))

    def call_empty(self, parts: list[Token]) -> n.Node:
        return n.Call(self._keyword_text(parts[0]), (), span=(parts[0][1], parts[2][2]))

    def call(self, parts: list[Any]) -> n.Node:
        name = self._keyword_text(parts[0])
        arguments: list[n.Node] = parts[2]
        position = PATTERN_ARGUMENTS.get(name)
        if position is not None and position < len(arguments):
            # The lexer cannot know that this string is a pattern, in which backslashes belong to the engine: it is
            # decoded again from the text, unless it is in parentheses.
            start, end = arguments[position].span
            token = self.text[start:end]
            if isinstance(arguments[position], n.Literal) and token[0] in "'\"rR":
                arguments[position] = n.Pattern(*decode_pattern(token), span=(start, end))
        return n.Call(name, tuple(arguments), span=(parts[0][1], parts[3][2]))

    def identifier(self, parts: list[Token]) -> n.Field:
        return self._make_field(parts[0], None, 0, parts[0][2])

    def identifier_of(self, parts: list[Token]) -> n.Field:
        return self._make_field(parts[0], parts[2][0], parts[1][1], parts[2][2])

    # field definitions and lists ------------------------------------------------------------------------------------

    def field_as(self, parts: list[Any]) -> FieldDefinition:
        return FieldDefinition(parts[0], self._parse_destination(parts[2]), place=parts[2][1])

    def field_hints(self, parts: list[Any]) -> FieldDefinition:
        # A hint may be repeated and their order does not matter.
        hints = {token[0] for token in parts[4]}
        destination = self._parse_destination(parts[2])
        return FieldDefinition(parts[0], destination, "OPTIONAL" in hints, "SET_CURRENT" in hints, parts[2][1])

    def field_alone(self, parts: list[Any]) -> FieldDefinition:
        node: n.Node = parts[0]
        # Only a bare identifier is its own destination; one in parentheses is an expression.
        if not isinstance(node, n.Field) or self.text[node.span[0]] == "(":
            hint = "an expression needs a destination: ... AS /name"
            raise build_expression_error("SOW-EXP-020", "AS is missing", self.text, node.span[1], hint=hint)
        return FieldDefinition(node, None, place=node.span[0])

    def grouping_start(self, parts: list[Token]) -> list[n.Field]:
        return [self.identifier(parts)]

    def grouping_more(self, parts: list[Any]) -> list[n.Field]:
        parts[0].append(self.identifier(parts[2:]))
        return parts[0]  # type: ignore[no-any-return]  # what another rule built

    def order_key(self, parts: list[Token]) -> OrderKey:
        field = self.identifier(parts)
        if field.qualifier:
            raise build_expression_error("SOW-EXP-014", "a qualifier is not allowed here", self.text, field.span[0])
        # The field is followed at most by a direction and TEXT, in this order; ascending is the default.
        words = {token[0] for token in parts[1:]}
        return OrderKey(field.path, "DESC" in words, "TEXT" in words)

    # parts ----------------------------------------------------------------------------------------------------------

    def _keyword_text(self, token: Token) -> str:
        kind, start, end = token
        word = self.text[start:end].upper()
        return "%" if kind == "TIMES" and word == "MOD" else word

    def _parse_destination(self, token: Token) -> Path:
        field = self.identifier([token])
        # A value is written to one place in one message, so neither another topic nor an array element is possible.
        if field.qualifier or any(step.index is not None for step in field.path.steps):
            what = "a destination cannot have a qualifier or a subscript"
            raise build_expression_error("SOW-EXP-021", what, self.text, token[1])
        return field.path

    def _make_field(self, token: Token, modifier: str | None, modifier_at: int, end: int) -> n.Field:
        qualifier, path = split_field(self.text[token[1] : token[2]])
        steps = split_path(path, self.text, token[1])
        if steps is None:
            hint = "every step between slashes needs a name"
            raise build_expression_error("SOW-EXP-005", "not a path in brackets", self.text, token[1], hint=hint)
        return n.Field(Path(steps), qualifier, modifier, modifier_at, span=(token[1], end))


def split_path(path: str, text: str, at: int) -> tuple[Step, ...] | None:
    """The steps of a path that the lexer accepts; None if one in brackets is empty. The path is at offset ``at`` of
    ``text``.

    Raises ExpressionError ``SOW-EXP-040`` for more steps than the levels of any message.
    """
    steps = _split_steps(path)
    if steps is not None and len(steps) > MAX_PATH_STEPS:
        hint = f"a path has at most {MAX_PATH_STEPS} steps, and no message is nested more deeply"
        raise build_expression_error("SOW-EXP-040", f"a path of {len(steps):,} steps", text, at, hint=hint)
    return steps


def _split_steps(path: str) -> tuple[Step, ...] | None:
    bracketed = path[0] == "["
    last = None
    if bracketed:
        path, _, rest = path[1:].partition("]")
        last = parse_position(rest[1:-1]) if rest else None
    names = path[1:].split("/")
    # Two slashes with nothing between them are possible only in brackets.
    if not all(names):
        return None
    if bracketed:
        return (*(Step(name) for name in names[:-1]), Step(names[-1], last))
    steps = []
    for name in names:
        name, _, rest = name.partition("[")
        steps.append(Step(name, parse_position(rest[:-1]) if rest else None))
    return tuple(steps)


def _cover_span(operands: list[n.Node]) -> n.Span:
    return operands[0].span[0], operands[-1].span[1]

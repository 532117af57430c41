"""The tree of an expression: immutable nodes with their position in the text.

``str(node)`` is the canonical text, which parses to an equal node; positions do not affect equality. Chains of one
level (``a AND b AND c``, ``1 - 2 + 3``) are one node with many operands, and no code here is recursive, so that depth
and length are bounded by memory only.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, TypeAlias

from sowctl.values.paths import Path

Span: TypeAlias = tuple[int, int]
"""First character and one past the last, as offsets in the text."""

OR, AND, NOT, PREDICATE, SUM, PRODUCT, UNARY, PRIMARY = range(1, 9)
"""Binding levels, loosest first."""


# Nodes refuse assignment after construction; their own constructors bypass that.
_set_attribute = object.__setattr__


class Node:
    """Base of all nodes. ``FIELDS`` are the names of its parts; ``span`` is its position in the text."""

    __slots__ = ("span",)
    FIELDS: ClassVar[tuple[str, ...]] = ()
    LEVEL: ClassVar[int] = PRIMARY
    span: Span

    def __init__(self, *parts: Any, span: Span = (0, 0)) -> None:
        for name, part in zip(self.FIELDS, parts, strict=True):
            _set_attribute(self, name, part)
        _set_attribute(self, "span", span)

    def __setattr__(self, name: str, value: Any) -> None:
        # Rewrites share subtrees with the original trees, and filters are cached: a change of a node would affect
        # them.
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled by their parts, because restoring slots would assign to them.
        return _rebuild_node, (type(self), self.parts, self.span)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and is_same_tree(self, other)

    def __hash__(self) -> int:
        # Equal trees have the same canonical text. Trees of nodes that are used as keys are small.
        return hash(str(self))

    def __str__(self) -> str:
        return format_node(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @property
    def parts(self) -> tuple[Any, ...]:
        """The values of ``FIELDS``."""
        return tuple(getattr(self, name) for name in self.FIELDS)

    @property
    def level(self) -> int:
        """The binding strength of the canonical text."""
        return self.LEVEL

    def list_children(self) -> tuple[Node, ...]:
        """The operands, from left to right."""
        return ()

    def with_span(self, span: Span) -> Node:
        """A copy with another position (an operand in parentheses begins at its parenthesis)."""
        return type(self)(*self.parts, span=span)


def _rebuild_node(kind: type[Node], parts: tuple[Any, ...], span: Span) -> Node:
    return kind(*parts, span=span)


class Literal(Node):
    """A number, ``TRUE_WORDS``, ``FALSE_WORDS``, ``NULL`` (None), ``NAN``, or a string as bytes."""

    __slots__ = ("value",)
    FIELDS = ("value",)
    value: bool | int | float | bytes | None

    # Literals are the most frequent nodes: a list may have thousands, so they avoid the loop over FIELDS.
    def __init__(self, value: bool | int | float | bytes | None, *, span: Span = (0, 0)) -> None:
        _set_attribute(self, "value", value)
        _set_attribute(self, "span", span)


class Pattern(Node):
    """A pattern: bytes for the regular expression engine, or, if ``exact``, the literal bytes to search for."""

    __slots__ = ("exact", "text")
    FIELDS = ("text", "exact")
    text: bytes
    exact: bool


class Field(Node):
    """An identifier: path, qualifier (nothing, topic, or type and topic), and ``CURRENT`` or ``PREVIOUS`` or None."""

    __slots__ = ("modifier", "modifier_at", "path", "qualifier")
    FIELDS = ("path", "qualifier", "modifier", "modifier_at")
    path: Path
    qualifier: tuple[str, ...]
    modifier: str | None
    modifier_at: int


class Unary(Node):
    """A sign before an operand: ``operator`` is ``-`` or ``+``."""

    __slots__ = ("operand", "operator")
    FIELDS = ("operator", "operand")
    LEVEL = UNARY
    operator: str
    operand: Node

    def list_children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Arithmetic(Node):
    """A chain of ``+ -`` or of ``* / %``: operands, and the operators between them."""

    __slots__ = ("operands", "operators")
    FIELDS = ("operators", "operands")
    operators: tuple[str, ...]
    operands: tuple[Node, ...]

    @property
    def level(self) -> int:
        return SUM if self.operators[0] in "+-" else PRODUCT

    def list_children(self) -> tuple[Node, ...]:
        return self.operands


class Logic(Node):
    """A chain of ``AND`` or of ``OR``."""

    __slots__ = ("operands", "operator")
    FIELDS = ("operator", "operands")
    operator: str
    operands: tuple[Node, ...]

    @property
    def level(self) -> int:
        return AND if self.operator == "AND" else OR

    def list_children(self) -> tuple[Node, ...]:
        return self.operands


class Not(Node):
    """``NOT`` before an operand."""

    __slots__ = ("operand",)
    FIELDS = ("operand",)
    LEVEL = NOT
    operand: Node

    def list_children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Compare(Node):
    """``= <> < <= > >=`` between two operands."""

    __slots__ = ("left", "operator", "right")
    FIELDS = ("operator", "left", "right")
    LEVEL = PREDICATE
    operator: str
    left: Node
    right: Node

    def list_children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


SWAPPED_OPERATORS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator of a comparison with exchanged operands. It is not the negation, which NULL and NaN do not allow."""


class Is(Node):
    """``IS [NOT] NULL`` and ``IS [NOT] NAN``; ``what`` is ``NULL`` or ``NAN``."""

    __slots__ = ("negated", "operand", "what")
    FIELDS = ("what", "operand", "negated")
    LEVEL = PREDICATE
    what: str
    operand: Node
    negated: bool

    def list_children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Like(Node):
    """``[NOT] LIKE`` a pattern."""

    __slots__ = ("negated", "operand", "pattern")
    FIELDS = ("operand", "pattern", "negated")
    LEVEL = PREDICATE
    operand: Node
    pattern: Pattern
    negated: bool

    def list_children(self) -> tuple[Node, ...]:
        return (self.operand, self.pattern)


class In(Node):
    """``[NOT] IN`` a list of expressions."""

    __slots__ = ("items", "negated", "operand")
    FIELDS = ("operand", "items", "negated")
    LEVEL = PREDICATE
    operand: Node
    items: tuple[Node, ...]
    negated: bool

    def list_children(self) -> tuple[Node, ...]:
        return (self.operand, *self.items)


class Affix(Node):
    """``[NOT] BEGINS WITH`` or ``ENDS WITH`` (``word``) a list of expressions."""

    __slots__ = ("items", "negated", "operand", "word")
    FIELDS = ("word", "operand", "items", "negated")
    LEVEL = PREDICATE
    word: str
    operand: Node
    items: tuple[Node, ...]
    negated: bool

    def list_children(self) -> tuple[Node, ...]:
        return (self.operand, *self.items)


class Between(Node):
    """``[NOT] BETWEEN`` two bounds."""

    __slots__ = ("high", "low", "negated", "operand")
    FIELDS = ("operand", "low", "high", "negated")
    LEVEL = PREDICATE
    operand: Node
    low: Node
    high: Node
    negated: bool

    def list_children(self) -> tuple[Node, ...]:
        return (self.operand, self.low, self.high)


class Call(Node):
    """A function or aggregate, and ``IF``; ``name`` in upper case."""

    __slots__ = ("arguments", "name")
    FIELDS = ("name", "arguments")
    name: str
    arguments: tuple[Node, ...]

    def list_children(self) -> tuple[Node, ...]:
        return self.arguments


def is_same_tree(a: Node, b: Node) -> bool:
    """Return whether two trees are equal, except positions; 1, 1.0 and TRUE differ, NAN equals NAN."""
    # A list instead of recursion, so that depth is bounded by memory only.
    pairs = [(a, b)]
    while pairs:
        left, right = pairs.pop()
        if type(left) is not type(right) or _comparable_parts(left) != _comparable_parts(right):
            return False
        below, others = left.list_children(), right.list_children()
        if len(below) != len(others):
            return False
        pairs.extend(zip(below, others, strict=True))
    return True


def _comparable_parts(node: Node) -> tuple[Any, ...]:
    own = []
    for name, part in zip(node.FIELDS, node.parts, strict=True):
        # Operands are compared as separate pairs; here only the node's own parts count.
        below = isinstance(part, Node) or (type(part) is tuple and bool(part) and isinstance(part[0], Node))
        if below or name == "modifier_at":
            continue
        # The type distinguishes 1, 1.0 and TRUE; repr() makes NaN equal to itself and -0.0 differ from 0.0.
        own.append((type(part).__name__, repr(part) if isinstance(part, float) else part))
    return tuple(own)


TextPiece: TypeAlias = "str | tuple[Node, int]"
"""Finished text, or a node and the loosest level that is allowed there without parentheses."""

_CHARACTER_PAIRS = re.compile(r"\\.|.", re.DOTALL)
_ESCAPE_NAMES = {
    0x07: "\\a",
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0C: "\\f",
    0x0D: "\\r",
    0x27: "\\'",
    0x5C: "\\\\",
}


def format_node(node: Node) -> str:
    """The canonical text of a tree."""
    parts: list[str] = []
    # The outermost expression has no context, so any level is allowed without parentheses.
    stack: list[TextPiece] = [(node, OR)]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            parts.append(piece)
            continue
        current, level = piece
        below = _node_pieces(current)
        # Parentheses only if the text would be parsed differently without them.
        if current.level < level:
            below = ["(", *below, ")"]
        stack.extend(reversed(below))
    return "".join(parts)


def quote_string(value: bytes) -> str:
    """A string literal of these bytes."""
    # Bytes that are not UTF-8 become lone surrogates here, which ``_show_character`` writes as \x escapes.
    text = "".join(
        _ESCAPE_NAMES.get(ord(c), c) if ord(c) < 128 else c for c in value.decode("utf-8", "surrogateescape")
    )
    return "'" + "".join(_show_character(c) for c in text) + "'"


def _show_character(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02X}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02X}"
    return character


def _literal_text(value: bool | int | float | bytes | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return quote_string(value)
    if isinstance(value, float):
        # The language has no word for infinity; this number is read as infinity.
        return "NAN" if value != value else "1e999" if value == float("inf") else repr(value)
    return str(value)


def _pattern_literal(pattern: Pattern) -> str:
    text = pattern.text.decode()
    # A raw string cannot contain its own quote, so a parsed one contains at most one kind of quote.
    if pattern.exact:
        return f"r'{text}'" if "'" not in text else f'r"{text}"'
    # A backslash before a quote is kept only in a string delimited by the other kind of quote.
    pairs = [pair for pair in _CHARACTER_PAIRS.findall(text) if len(pair) == 2]
    quote = '"' if "\\'" in pairs else "'"
    return quote + _CHARACTER_PAIRS.sub(lambda m: "\\" + quote if m[0] == quote else m[0], text) + quote


def _list_pieces(items: tuple[Node, ...], level: int = OR, between: str = ", ") -> list[TextPiece]:
    pieces: list[TextPiece] = []
    for item in items:
        if pieces:
            pieces.append(between)
        pieces.append((item, level))
    return pieces


def format_field(field: Field) -> str:
    """An identifier with its qualifier and modifier."""
    text = "".join(f"[{part}]." for part in field.qualifier) + str(field.path)
    return f"{text} OF {field.modifier}" if field.modifier else text


def _node_pieces(node: Node) -> list[TextPiece]:
    match node:
        case Literal():
            return [_literal_text(node.value)]
        case Pattern():
            return [_pattern_literal(node)]
        case Field():
            return [format_field(node)]
        case Unary():
            return [node.operator, (node.operand, UNARY)]
        case Arithmetic():
            # One level tighter: a chain inside a chain keeps its parentheses, because it is a separate node.
            pieces: list[TextPiece] = [(node.operands[0], node.level + 1)]
            for operator, operand in zip(node.operators, node.operands[1:], strict=True):
                pieces += [f" {operator} ", (operand, node.level + 1)]
            return pieces
        case Logic():
            return _list_pieces(node.operands, node.level + 1, f" {node.operator} ")
        case Not():
            return ["NOT ", (node.operand, NOT)]
        case Compare():
            # Comparisons do not chain: one inside another needs parentheses on either side.
            return [(node.left, SUM), f" {node.operator} ", (node.right, SUM)]
        case Call():
            return [f"{node.name}(", *_list_pieces(node.arguments), ")"]
    return _predicate_pieces(node)


def _predicate_pieces(node: Node) -> list[TextPiece]:
    match node:
        case Is():
            return [(node.operand, SUM), " IS NOT " if node.negated else " IS ", node.what]
        case Like():
            return [(node.operand, SUM), _not_prefix(node.negated), "LIKE ", (node.pattern, PRIMARY)]
        case In():
            return [(node.operand, SUM), _not_prefix(node.negated), "IN (", *_list_pieces(node.items), ")"]
        case Affix():
            return [
                (node.operand, SUM),
                _not_prefix(node.negated),
                f"{node.word} WITH (",
                *_list_pieces(node.items),
                ")",
            ]
        case Between():
            bounds: list[TextPiece] = [(node.low, SUM), " AND ", (node.high, SUM)]
            return [(node.operand, SUM), _not_prefix(node.negated), "BETWEEN ", *bounds]
    raise TypeError(f"no text for {type(node).__name__}")


def _not_prefix(negated: bool) -> str:
    return " NOT " if negated else " "

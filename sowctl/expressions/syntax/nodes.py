"""The tree of an expression: immutable nodes with their place in the text.

``str(node)`` is the canonical text, which parses back to an equal node; places do not count for equality. Chains of one
level (``a AND b AND c``, ``1 - 2 + 3``) are one node with many operands, and nothing here recurses, so that depth and
length are bounded by memory only.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from sowctl.values.paths import Path

Span: TypeAlias = tuple[int, int]
"""First character and one past the last, as offsets in the text."""

OR, AND, NOT, PREDICATE, SUM, PRODUCT, UNARY, PRIMARY = range(1, 9)
"""Binding levels, loosest first."""


_put = object.__setattr__


class Node:
    """Base of all nodes. ``FIELDS`` are the parts that make a node what it is; ``span`` is its place."""

    __slots__ = ("span",)
    FIELDS: ClassVar[tuple[str, ...]] = ()
    LEVEL: ClassVar[int] = PRIMARY
    span: Span

    def __init__(self, *parts: Any, span: Span = (0, 0)) -> None:
        for name, part in zip(self.FIELDS, parts, strict=True):
            _put(self, name, part)
        _put(self, "span", span)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.parts, self.span)

    def __eq__(self, other: object) -> bool:
        from sowctl.expressions.syntax.trees import same

        return isinstance(other, Node) and same(self, other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        from sowctl.expressions.syntax.canonical import canonical_text

        return canonical_text(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @property
    def parts(self) -> tuple[Any, ...]:
        """The values of ``FIELDS``."""
        return tuple(getattr(self, name) for name in self.FIELDS)

    @property
    def level(self) -> int:
        """How tightly the canonical text binds."""
        return self.LEVEL

    def children(self) -> tuple[Node, ...]:
        """The operands, from left to right."""
        return ()

    def at(self, span: Span) -> Node:
        """The same node with another place (an operand in parentheses begins at its parenthesis)."""
        return type(self)(*self.parts, span=span)


def _rebuild(kind: type[Node], parts: tuple[Any, ...], span: Span) -> Node:
    return kind(*parts, span=span)


class Literal(Node):
    """A number, ``TRUE``, ``FALSE``, ``NULL`` (None), ``NAN``, or a string as bytes."""

    __slots__ = ("value",)
    FIELDS = ("value",)
    value: bool | int | float | bytes | None

    def __init__(self, value: bool | int | float | bytes | None, *, span: Span = (0, 0)) -> None:
        _put(self, "value", value)
        _put(self, "span", span)


class Pattern(Node):
    """A pattern: bytes for the regular expression engine, or, if ``exact``, the very bytes to look for."""

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

    def children(self) -> tuple[Node, ...]:
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

    def children(self) -> tuple[Node, ...]:
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

    def children(self) -> tuple[Node, ...]:
        return self.operands


class Not(Node):
    """``NOT`` before an operand."""

    __slots__ = ("operand",)
    FIELDS = ("operand",)
    LEVEL = NOT
    operand: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Compare(Node):
    """``= <> < <= > >=`` between two operands."""

    __slots__ = ("left", "operator", "right")
    FIELDS = ("operator", "left", "right")
    LEVEL = PREDICATE
    operator: str
    left: Node
    right: Node

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


class Is(Node):
    """``IS [NOT] NULL`` and ``IS [NOT] NAN``; ``what`` is ``NULL`` or ``NAN``."""

    __slots__ = ("negated", "operand", "what")
    FIELDS = ("what", "operand", "negated")
    LEVEL = PREDICATE
    what: str
    operand: Node
    negated: bool

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Like(Node):
    """``[NOT] LIKE`` a pattern."""

    __slots__ = ("negated", "operand", "pattern")
    FIELDS = ("operand", "pattern", "negated")
    LEVEL = PREDICATE
    operand: Node
    pattern: Pattern
    negated: bool

    def children(self) -> tuple[Node, ...]:
        return (self.operand, self.pattern)


class In(Node):
    """``[NOT] IN`` a list of expressions."""

    __slots__ = ("items", "negated", "operand")
    FIELDS = ("operand", "items", "negated")
    LEVEL = PREDICATE
    operand: Node
    items: tuple[Node, ...]
    negated: bool

    def children(self) -> tuple[Node, ...]:
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

    def children(self) -> tuple[Node, ...]:
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

    def children(self) -> tuple[Node, ...]:
        return (self.operand, self.low, self.high)


class Call(Node):
    """A function or aggregate, and ``IF``; ``name`` in upper case."""

    __slots__ = ("arguments", "name")
    FIELDS = ("name", "arguments")
    name: str
    arguments: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.arguments

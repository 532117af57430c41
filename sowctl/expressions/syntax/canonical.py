"""Canonical text of nodes: one spelling per meaning, parsed back to an equal node."""

from __future__ import annotations

import re
from typing import TypeAlias

from sowctl.expressions.syntax import nodes as n
from sowctl.patterns import pattern

Piece: TypeAlias = "str | tuple[n.Node, int]"
"""Finished text, or a node and the loosest level that may stand there without parentheses."""

_PAIRS = pattern(r"\\.|.", re.DOTALL)
_ESCAPES = {0x07: "\\a", 0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r", 0x27: "\\'", 0x5C: "\\\\"}


def canonical_text(node: n.Node) -> str:
    """The canonical text of a tree."""
    parts: list[str] = []
    stack: list[Piece] = [(node, n.OR)]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            parts.append(piece)
            continue
        current, level = piece
        below = _pieces(current)
        if current.level < level:
            below = ["(", *below, ")"]
        stack.extend(reversed(below))
    return "".join(parts)


def quoted(value: bytes) -> str:
    """A string literal of these bytes."""
    text = "".join(_ESCAPES.get(ord(c), c) if ord(c) < 128 else c for c in value.decode("utf-8", "surrogateescape"))
    return "'" + "".join(_shown(c) for c in text) + "'"


def _shown(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02X}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02X}"
    return character


def _literal(value: bool | int | float | bytes | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return quoted(value)
    if isinstance(value, float):
        return "NAN" if value != value else "1e999" if value == float("inf") else repr(value)
    return str(value)


def _pattern(pattern: n.Pattern) -> str:
    text = pattern.text.decode()
    if pattern.exact:
        return f"r'{text}'" if "'" not in text else f'r"{text}"'
    # A backslash before a quote survives only in a string that the other kind of quote delimits.
    pairs = [pair for pair in _PAIRS.findall(text) if len(pair) == 2]
    quote = '"' if "\\'" in pairs else "'"
    return quote + _PAIRS.sub(lambda m: "\\" + quote if m[0] == quote else m[0], text) + quote


def _listed(items: tuple[n.Node, ...], level: int = n.OR, between: str = ", ") -> list[Piece]:
    pieces: list[Piece] = []
    for item in items:
        if pieces:
            pieces.append(between)
        pieces.append((item, level))
    return pieces


def field_text(field: n.Field) -> str:
    """An identifier with its qualifier and modifier."""
    text = "".join(f"[{part}]." for part in field.qualifier) + str(field.path)
    return f"{text} OF {field.modifier}" if field.modifier else text


def _pieces(node: n.Node) -> list[Piece]:
    match node:
        case n.Literal():
            return [_literal(node.value)]
        case n.Pattern():
            return [_pattern(node)]
        case n.Field():
            return [field_text(node)]
        case n.Unary():
            return [node.operator, (node.operand, n.UNARY)]
        case n.Arithmetic():
            pieces: list[Piece] = [(node.operands[0], node.level + 1)]
            for operator, operand in zip(node.operators, node.operands[1:], strict=True):
                pieces += [f" {operator} ", (operand, node.level + 1)]
            return pieces
        case n.Logic():
            return _listed(node.operands, node.level + 1, f" {node.operator} ")
        case n.Not():
            return ["NOT ", (node.operand, n.NOT)]
        case n.Compare():
            return [(node.left, n.SUM), f" {node.operator} ", (node.right, n.SUM)]
        case n.Call():
            return [f"{node.name}(", *_listed(node.arguments), ")"]
    return _predicate(node)


def _predicate(node: n.Node) -> list[Piece]:
    match node:
        case n.Is():
            return [(node.operand, n.SUM), " IS NOT " if node.negated else " IS ", node.what]
        case n.Like():
            return [(node.operand, n.SUM), _not(node.negated), "LIKE ", (node.pattern, n.PRIMARY)]
        case n.In():
            return [(node.operand, n.SUM), _not(node.negated), "IN (", *_listed(node.items), ")"]
        case n.Affix():
            return [(node.operand, n.SUM), _not(node.negated), f"{node.word} WITH (", *_listed(node.items), ")"]
        case n.Between():
            bounds: list[Piece] = [(node.low, n.SUM), " AND ", (node.high, n.SUM)]
            return [(node.operand, n.SUM), _not(node.negated), "BETWEEN ", *bounds]
    raise TypeError(f"no text for {type(node).__name__}")


def _not(negated: bool) -> str:
    return " NOT " if negated else " "

"""Remarks on filters that compile, but differ in meaning from SQL, each with the probable intention."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from sowctl.errors import shorten_words
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.expressions.syntax.foreign_tokens import build_field
from sowctl.expressions.syntax.parser import parse_filter
from sowctl.expressions.syntax.trees import walk_tree
from sowctl.expressions.translation import is_sql_pattern, quote_text, translate_sql_pattern

_DATE_PATTERN = re.compile(r"\b[12]\d{3}-[01]?\d-[0-3]?\d\b")
_RELATIVE_TIME_PATTERN = re.compile(r"['\"](?:-\d+[smhdw]|now|today|midnight|yesterday|tomorrow)['\"]", re.IGNORECASE)
"""A quoted time in a form that ``--at`` accepts."""
# Texts without any of these are not parsed again.
_SUSPECT_PATTERN = re.compile(
    r"%|__|=\s*NULL\b|[<>]\s*NULL\b|\bNULL\s*[=<>!]|\b[12]\d{3}-|(?:^|[(]|\b(?:AND|OR|NOT)\b)\s*['\"][^\W\d]\w*['\"]"
    r"|['\"](?:-\d+[smhdw]|now|today|midnight|yesterday|tomorrow)['\"]",
    re.IGNORECASE,
)


class FilterRemark(Struct, frozen=True):
    """Describes the effect of a part of a filter, and has the text that should replace the part."""

    words: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.words}; write {shorten_words(self.suggestion)}"


def list_remarks(text: str) -> list[FilterRemark]:
    """The remarks on a filter, at most one of a kind; none for a text that is not a filter."""
    if _SUSPECT_PATTERN.search(text) is None:
        return []
    try:
        node = parse_filter(text)
    except ExpressionError:
        return []
    found: dict[str, FilterRemark] = {}
    for current in walk_tree(node) if node is not None else ():
        for kind, remark in _find_remarks(current, text):
            found.setdefault(kind, remark)
    return list(found.values())


def _find_remarks(node: n.Node, text: str) -> Iterator[tuple[str, FilterRemark]]:
    if isinstance(node, n.Like):
        yield from _check_wildcards(node, text)
    if isinstance(node, n.Compare):
        yield from _check_null(node, text)
        yield from _check_relative_time(node, text)
    if isinstance(node, n.Arithmetic):
        yield from _check_date(node, text)
    if isinstance(node, n.Compare | n.Like | n.In | n.Between | n.Affix | n.Is):
        yield from _check_quoted_name(node, text)


def _check_wildcards(node: n.Like, text: str) -> Iterator[tuple[str, FilterRemark]]:
    pattern = node.pattern.text.decode("utf-8", "replace")
    if not node.pattern.exact and is_sql_pattern(pattern):
        begin = text[node.list_children()[0].span[0] : node.pattern.span[0]]
        words = "LIKE requires a regular expression, in which % and _ have no special meaning"
        yield "LIKE", FilterRemark(words, begin + quote_text(translate_sql_pattern(pattern)))


def _check_null(node: n.Compare, text: str) -> Iterator[tuple[str, FilterRemark]]:
    sides = node.list_children()
    other = next((one for one in sides if not _is_null(one)), None)
    if other is None or len([one for one in sides if _is_null(one)]) != 1 or node.operator not in ("=", "<>"):
        return
    test = "IS NULL" if node.operator == "=" else "IS NOT NULL"
    words = "a comparison with NULL is never TRUE"
    yield "NULL", FilterRemark(words, f"{text[other.span[0] : other.span[1]]} {test}")


def _check_relative_time(node: n.Compare, text: str) -> Iterator[tuple[str, FilterRemark]]:
    if node.operator not in ("<", "<=", ">", ">="):
        return
    for side in node.list_children():
        written = text[side.span[0] : side.span[1]]
        if isinstance(side, n.Literal) and _RELATIVE_TIME_PATTERN.fullmatch(written):
            start, end = node.span
            meant = text[start : side.span[0]] + quote_text("2026-01-05T10:00:00Z") + text[side.span[1] : end]
            yield "time", FilterRemark(f"{written} is compared as text, not as a time", meant)


def _is_null(node: n.Node) -> bool:
    return isinstance(node, n.Literal) and node.value is None


def _check_date(node: n.Arithmetic, text: str) -> Iterator[tuple[str, FilterRemark]]:
    for first, last in zip(node.operands, node.operands[2:], strict=False):
        date = text[first.span[0] : last.span[1]]
        if isinstance(first, n.Literal) and isinstance(last, n.Literal) and _DATE_PATTERN.fullmatch(date):
            yield "date", FilterRemark(f"{date} is a subtraction", f"'{date}'")


def _check_quoted_name(node: n.Node, text: str) -> Iterator[tuple[str, FilterRemark]]:
    name, *others = node.list_children()
    start, end = name.span
    if not isinstance(name, n.Literal) or text[start] not in "\"'" or not text[start + 1 : end - 1].isidentifier():
        return
    # In 'x' IN (/tags) the text is the value to be found.
    if any(not isinstance(one, n.Literal | n.Pattern) for one in others):
        return
    field = build_field(text[start + 1 : end - 1])
    if field is not None:
        yield "name", FilterRemark(f"{text[start:end]} is text, not a field", field + text[end : node.span[1]])

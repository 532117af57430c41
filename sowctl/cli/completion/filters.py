"""Completion of a filter, a list of fields or an option text: paths, values, functions, names.

Each function receives the text so far and returns whole words: the text with its last part completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PATH_REGEX = r"/[^\s=<>!()',+\-]*"
_OPERATOR_REGEX = r"(?:=|==|!=|<>|<=|>=|<|>|\b(?:NOT\s+)?LIKE\b|\bBETWEEN\b)"
_IN_REGEX = r"\bIN\s*\((?:\s*(?:'(?:[^']|'')*'|[^\s'(),]+)\s*,)*"
_BEFORE_VALUE_PATTERN = re.compile(rf"({_PATH_REGEX})\s*(?:{_OPERATOR_REGEX}|{_IN_REGEX})\s*$", re.IGNORECASE)
_PLAIN_VALUE_PATTERN = re.compile(
    rf"({_PATH_REGEX})\s*(?:{_OPERATOR_REGEX}|{_IN_REGEX})\s*([^\s'()/,]*)$", re.IGNORECASE
)
_WORD_PATTERN = re.compile(r"(?<![\w/.])([A-Za-z_]\w*)$")
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "LIKE ", "IN (", "BETWEEN ", "IS NULL")
_CONJUNCTIONS = ("AND ", "OR ")


def complete_filter(text: str, values: Mapping[str, Iterable[str]], functions: Iterable[str]) -> list[str]:
    """Return the texts that continue a filter."""
    quote = _find_open_quote(text)
    if quote is not None:
        found = _BEFORE_VALUE_PATTERN.search(text[:quote])
        return _complete_part(text[:quote], text[quote:], values.get(found[1], ())) if found else []
    if plain := _PLAIN_VALUE_PATTERN.search(text):
        return _complete_part(text[: plain.start(2)], plain[2], values.get(plain[1], ()))
    if path := re.search(rf"{_PATH_REGEX}$", text):
        return _complete_part(text[: path.start()], path[0], values)
    if word := _WORD_PATTERN.search(text):
        known = (*(f"{name}(" for name in functions), "AND ", "OR ", "NOT ", "LIKE ", "IN (", "BETWEEN ", "NULL")
        front = text[: word.start()]
        return [front + one for one in known if one.upper().startswith(word[1].upper())]
    if re.search(rf"{_PATH_REGEX}\s+$", text):
        return _complete_part(text, "", _OPERATORS)
    if re.search(r"(?:^|[(,]|\b(?:AND|OR|NOT))\s*$", text, re.IGNORECASE):
        return _complete_part(text, "", values)
    return _complete_part(text, "", _CONJUNCTIONS) if text.endswith(" ") else []


def complete_list(text: str, names: Iterable[str], *, order: bool = False) -> list[str]:
    """Return the texts that continue a list of fields; with ``order``, a direction may follow each."""
    if order and re.search(rf"{_PATH_REGEX}\s+[A-Za-z]*$", text):
        last = text.rstrip().rpartition(" ")[2] if not text.endswith(" ") else ""
        return _complete_part(text[: len(text) - len(last)], last.upper(), ("ASC", "DESC"))
    # Brackets hold any character of a name.
    part = re.search(r"(?:\[[^\]]*+\]?|[^\s,()+\-\[])*+$", text)
    assert part is not None  # it may be empty
    return _complete_part(text[: part.start()], part[0], names)


def complete_options(text: str, names: Iterable[str]) -> list[str]:
    """Return the texts that continue an option text; none within the value of an option."""
    front, comma, last = text.rpartition(",")
    if "=" in last or text.count("[") > text.count("]"):
        return []
    return _complete_part(front + comma, last, names)


def _find_open_quote(text: str) -> int | None:
    """Return the position of an unterminated text literal; None if there is none."""
    begun = ended = before = None
    for place, letter in enumerate(text):
        if letter != "'":
            continue
        if begun is not None:
            begun, before, ended = None, begun, place
        else:
            # Two quotes in a row are one quote within the literal, which then continues.
            begun = before if ended == place - 1 and ended is not None else place
    return begun


def _complete_part(front: str, part: str, known: Iterable[str]) -> list[str]:
    return [front + one for one in known if one.startswith(part)]

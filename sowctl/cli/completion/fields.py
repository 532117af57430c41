"""What completes a filter, a list of fields or an option text: paths, values, functions, names.

Each function takes what is written so far and gives whole words: that text with its last part completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PATH = r"/[^\s=<>!()',+\-]*"
_OPERATOR = r"(?:=|==|!=|<>|<=|>=|<|>|\b(?:NOT\s+)?LIKE\b|\bBETWEEN\b)"
_IN = r"\bIN\s*\((?:\s*(?:'(?:[^']|'')*'|[^\s'(),]+)\s*,)*"
_BEFORE_VALUE = re.compile(rf"({_PATH})\s*(?:{_OPERATOR}|{_IN})\s*$", re.IGNORECASE)
_PLAIN_VALUE = re.compile(rf"({_PATH})\s*(?:{_OPERATOR}|{_IN})\s*([^\s'()/,]*)$", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w/.])([A-Za-z_]\w*)$")
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "LIKE ", "IN (", "BETWEEN ", "IS NULL")
_JOINTS = ("AND ", "OR ")


def in_filter(text: str, values: Mapping[str, Iterable[str]], functions: Iterable[str]) -> list[str]:
    """What a filter may go on with."""
    quote = _open_quote(text)
    if quote is not None:
        found = _BEFORE_VALUE.search(text[:quote])
        return _ended(text[:quote], text[quote:], values.get(found[1], ())) if found else []
    if plain := _PLAIN_VALUE.search(text):
        return _ended(text[: plain.start(2)], plain[2], values.get(plain[1], ()))
    if path := re.search(rf"{_PATH}$", text):
        return _ended(text[: path.start()], path[0], values)
    if word := _WORD.search(text):
        known = (*(f"{name}(" for name in functions), "AND ", "OR ", "NOT ", "LIKE ", "IN (", "BETWEEN ", "NULL")
        front = text[: word.start()]
        return [front + one for one in known if one.upper().startswith(word[1].upper())]
    if re.search(rf"{_PATH}\s+$", text):
        return _ended(text, "", _OPERATORS)
    if re.search(r"(?:^|[(,]|\b(?:AND|OR|NOT))\s*$", text, re.IGNORECASE):
        return _ended(text, "", values)
    return _ended(text, "", _JOINTS) if text.endswith(" ") else []


def in_list(text: str, names: Iterable[str], *, order: bool = False) -> list[str]:
    """What a list of fields may go on with; ``order``: each may have its direction behind it."""
    if order and re.search(rf"{_PATH}\s+[A-Za-z]*$", text):
        last = text.rstrip().rpartition(" ")[2] if not text.endswith(" ") else ""
        return _ended(text[: len(text) - len(last)], last.upper(), ("ASC", "DESC"))
    part = re.search(r"[^\s,()+\-]*$", text)
    assert part is not None  # it may be empty
    return _ended(text[: part.start()], part[0], names)


def in_options(text: str, names: Iterable[str]) -> list[str]:
    """What an option text may go on with; nothing within the value of an option."""
    front, comma, last = text.rpartition(",")
    if "=" in last or text.count("[") > text.count("]"):
        return []
    return _ended(front + comma, last, names)


def _open_quote(text: str) -> int | None:
    """Where the text literal begins that is not ended yet."""
    begun = ended = before = None
    for place, letter in enumerate(text):
        if letter != "'":
            continue
        if begun is not None:
            begun, before, ended = None, begun, place
        else:
            # Two marks in a row are one within the text, which goes on then.
            begun = before if ended == place - 1 and ended is not None else place
    return begun


def _ended(front: str, part: str, known: Iterable[str]) -> list[str]:
    return [front + one for one in known if one.startswith(part)]

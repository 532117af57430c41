"""JSON text as plain values that keep what the text says: a number its digits, of repeated members the first.

Read where payloads are shown (:mod:`sowctl.output.members`) and where two of them are compared field by field
(:mod:`sowctl.values.differences`). A number is a :class:`NumberText`, so that none is rounded or too long to read.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw

_WORD_VALUES = {"true": True, "false": False, "null": None}


class NumberText(str):
    """A number as it was written."""

    __slots__ = ()


def _keep_first_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        # The first of several members counts (behaviour C136): put in last, it stays.
        for name, value in reversed(pairs):
            row[name] = value
    return row


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


# Made once: json.loads makes a decoder anew for each call with such arguments. Numbers stay texts, so that none is too
# long to be converted; NaN, which Python would take, is no JSON.
loads = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, parse_constant=_refuse_constant, object_pairs_hook=_keep_first_members
).decode
"""The value of a JSON text. Raises ValueError for what is none, RecursionError for what is nested too deeply."""


loads_exact = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, object_pairs_hook=_keep_first_members
).decode
"""As :data:`loads`, of an exact view: the words NaN, Infinity and -Infinity are floats."""


def plain(tree: Any) -> Any:
    """A value with int and float for its numbers, as :func:`json.loads` has them."""
    if isinstance(tree, NumberText):
        return float(tree) if tree.strip("-0123456789") else int(tree)
    if isinstance(tree, dict):
        return {name: plain(inner) for name, inner in tree.items()}
    return [plain(inner) for inner in tree] if isinstance(tree, list) else tree


def member(raw: Raw) -> Any:
    """What :data:`loads` gives for the bytes of one value that a reader has accepted; scalars without a decoder."""
    text = str(raw, "utf-8")
    head = text[0]
    if head == '"':
        # Without an escape a text is what stands between the quotes.
        return text[1:-1] if "\\" not in text else loads(text)
    if head in "-0123456789":
        return NumberText(text)
    return _WORD_VALUES[text] if head in "tfn" else loads(text)

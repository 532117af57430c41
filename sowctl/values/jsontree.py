"""JSON text as plain values that keep what the text says: a number its digits, of repeated members the first.

Read where payloads are shown (:mod:`sowctl.output.members`) and where two of them are compared field by field
(:mod:`sowctl.values.differences`). A number is a :class:`NumberText`, so that none is rounded or too long to read.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from sowctl.values.unique_members import has_all_members

_WORD_VALUES = {"true": True, "false": False, "null": None}


class NumberText(str):
    """A number as it was written."""

    __slots__ = ()


def keep_first_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, for the standard library's decoder, which takes the last of several of one name."""
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
parse_json = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, parse_constant=_refuse_constant, object_pairs_hook=keep_first_members
).decode
"""The value of a JSON text. Raises ValueError for what is none, RecursionError for what is nested too deeply."""


_parse_plain = json.JSONDecoder(object_pairs_hook=keep_first_members).decode
_decode_plain = msgspec.json.Decoder().decode


def parse_plain(text: bytes) -> Any:
    """The value of a JSON text with int and float for its numbers; NaN, Infinity and -Infinity are floats, too.

    Raises ValueError for what is no JSON, RecursionError for what is nested too deeply.
    """
    try:
        found = _decode_plain(text)
        if has_all_members(text, (found,)):
            return found
    except ValueError:
        # Words, half a surrogate pair, a number that is beyond all doubles.
        pass
    return _parse_plain(text.decode())


parse_json_exact = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, object_pairs_hook=keep_first_members
).decode
"""As :data:`parse_json`, of an exact view: the words NaN, Infinity and -Infinity are floats."""


def convert_numbers(tree: Any) -> Any:
    """A value with int and float for its numbers, as :func:`json.loads` has them."""
    if isinstance(tree, NumberText):
        return float(tree) if tree.strip("-0123456789") else int(tree)
    if isinstance(tree, dict):
        return {name: convert_numbers(inner) for name, inner in tree.items()}
    return [convert_numbers(inner) for inner in tree] if isinstance(tree, list) else tree


def parse_member(raw: Raw) -> Any:
    """Parse the bytes of one value that a reader has accepted; scalars without a decoder."""
    text = str(raw, "utf-8")
    head = text[0]
    if head == '"':
        # Without an escape a text is what stands between the quotes.
        return text[1:-1] if "\\" not in text else parse_json(text)
    if head in "-0123456789":
        return NumberText(text)
    return _WORD_VALUES[text] if head in "tfn" else parse_json(text)

"""JSON text as plain values without loss: numbers keep their digits, and the first of duplicate members counts.

Used to display payloads (:mod:`sowctl.output.members`) and to compare two of them field by field
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
    """A number as written in the text."""

    __slots__ = ()


def keep_first_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of members, for the standard library's decoder, which takes the last of duplicate members."""
    row = dict(pairs)
    if len(row) != len(pairs):
        # The first of duplicate members counts (behaviour C136): assigned last, it remains.
        for name, value in reversed(pairs):
            row[name] = value
    return row


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


# Created once: json.loads creates a decoder for each call with such arguments. Numbers remain texts, so that none is
# too long to be converted; NaN, which Python would accept, is not JSON.
parse_json = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, parse_constant=_refuse_constant, object_pairs_hook=keep_first_members
).decode
"""Parse a JSON text. Raises ValueError if it is not JSON, RecursionError if it is nested too deeply."""


_parse_plain = json.JSONDecoder(object_pairs_hook=keep_first_members).decode
_decode_plain = msgspec.json.Decoder().decode


def parse_plain(text: bytes) -> Any:
    """Parse a JSON text, numbers as int and float; NaN, Infinity and -Infinity are accepted as floats.

    Raises ValueError if the text is not JSON, RecursionError if it is nested too deeply.
    """
    try:
        found = _decode_plain(text)
        if has_all_members(text, (found,)):
            return found
    except ValueError:
        # NaN or Infinity, half a surrogate pair, a number outside the range of doubles.
        pass
    return _parse_plain(text.decode())


parse_json_exact = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, object_pairs_hook=keep_first_members
).decode
"""Parse an exact view: as :data:`parse_json`, but NaN, Infinity and -Infinity are accepted as floats."""


def convert_numbers(tree: Any) -> Any:
    """Return a value with int and float for its numbers, as :func:`json.loads` returns it."""
    if isinstance(tree, NumberText):
        return float(tree) if tree.strip("-0123456789") else int(tree)
    if isinstance(tree, dict):
        return {name: convert_numbers(inner) for name, inner in tree.items()}
    return [convert_numbers(inner) for inner in tree] if isinstance(tree, list) else tree


def parse_member(raw: Raw) -> Any:
    """Parse the bytes of one value that a reader has accepted; a scalar without a decoder."""
    text = str(raw, "utf-8")
    head = text[0]
    if head == '"':
        # Without an escape a text is what is between the quotes.
        return text[1:-1] if "\\" not in text else parse_json(text)
    if head in "-0123456789":
        return NumberText(text)
    return _WORD_VALUES[text] if head in "tfn" else parse_json(text)

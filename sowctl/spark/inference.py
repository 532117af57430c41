"""Which fields messages have: a schema as text, inferred from a sample of them (sowctl-spark(7), MESSAGES)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sowctl.messages.jsonexact import with_characters

_LONG = 1 << 63
_NUMBERS = ["BIGINT", "DOUBLE"]


def infer(views: Iterable[bytes]) -> str:
    """The DDL of the struct that holds all of these JSON views; members in the order in which they appear.

    Whole numbers are BIGINT, with others among them DOUBLE; what is mixed is STRING; what was NULL everywhere, too.
    """
    import msgspec

    found: Any = {}
    for view in views:
        try:
            value = msgspec.json.decode(with_characters(view) if b"\\" in view else view)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(value, dict):
            found = _merged(found, _shape(value))
    return _text(found)


def _shape(value: Any) -> Any:
    """A type: a word, a dict of members, a list of one type; None for what NULL says of it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -_LONG <= value < _LONG else "DOUBLE"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        item = None
        for one in value:
            item = _merged(item, _shape(one))
        return [item]
    return "STRING"


def _merged(one: Any, other: Any) -> Any:
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {name: _merged(one.get(name), inner) for name, inner in other.items()}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    if one in _NUMBERS and other in _NUMBERS:
        return "DOUBLE"
    return "STRING"


def _text(shape: Any) -> str:
    if shape is None:
        return "STRING"
    if isinstance(shape, str):
        return shape
    if isinstance(shape, list):
        return f"ARRAY<{_text(shape[0])}>"
    members = [f"`{name.replace('`', '``')}`: {_text(inner)}" for name, inner in shape.items()]
    return f"STRUCT<{', '.join(members)}>"

"""Scalars as JSON text (``sowctl-expressions(7)``, writing a value): for messages, views and printed results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring

from sowctl.values.fields import Number, SlotValue
from sowctl.values.scalars import choose_written_scalar, format_double, is_shortest_text


def format_json(value: SlotValue) -> bytes:
    """A scalar as JSON: JSON numbers with their text, NaN and infinities as null, U+FFFD for invalid UTF-8."""
    scalar = choose_written_scalar(value)
    if scalar is None:
        return b"null"
    if type(scalar) is float and scalar - scalar == 0:
        return format_double(scalar).encode()
    if isinstance(scalar, Number):
        # It comes from JSON: the text is a JSON number, except for the space around it.
        return scalar.text.strip()
    if isinstance(scalar, bool):
        return b"true" if scalar else b"false"
    if isinstance(scalar, int):
        return b"%d" % scalar
    if isinstance(scalar, float):
        # NaN and the infinities are the numbers whose difference from themselves is not 0.
        return format_double(scalar).encode() if scalar - scalar == 0 else b"null"
    text = scalar if isinstance(scalar, str) else scalar.decode("utf-8", "replace")
    return encode_basestring(text).encode()


def format_json_column(values: Sequence[SlotValue]) -> list[bytes]:
    """:func:`format_json` of many values: those of one kind in one pass."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return list(map(b"%d".__mod__, values))
    if kinds == {float}:
        return [repr(value).encode() if value - value == 0 else b"null" for value in values]  # type: ignore[operator]
    if kinds == {bytes}:
        texts = [value.decode("utf-8", "replace") for value in values]  # type: ignore[union-attr]  # bytes
        return [encode_basestring(text).encode() if text else b"null" for text in texts]
    return list(map(format_json, values))


def quote_string(text: str) -> bytes:
    """A JSON string."""
    return encode_basestring(text).encode()


def format_member_start(name: str) -> bytes:
    """Format the text before the value of a member: its name and a colon."""
    return _known_start(name) if len(name) <= _MAX_CACHED_NAME_CHARACTERS else quote_string(name) + b":"


# Few names occur in many messages. Long ones are no names of fields, and would fill the memory.
_MAX_CACHED_NAME_CHARACTERS = 64
_known_start = lru_cache(1024)(lambda name: quote_string(name) + b":")


def format_untyped(raw: bytes) -> bytes:
    """The JSON text of a value of a format without kinds: null for NULL, a number if that preserves it completely."""
    if not raw:
        return b"null"
    return raw if is_shortest_text(raw) else quote_string(raw.decode("utf-8", "replace"))

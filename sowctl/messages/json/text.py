"""Scalars as JSON text (``sowctl-expressions(7)``, writing a value): for messages, views and printed results."""

from __future__ import annotations

import json
import re

from sowctl.values.compare import double_text, first
from sowctl.values.fields import Number, SlotValue

_JSON_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_encoded = json.JSONEncoder(ensure_ascii=False).encode


def json_text(value: SlotValue) -> bytes:
    """A scalar as JSON: original text of numbers where JSON allows it, NaN and infinities null, U+FFFD for no UTF-8."""
    scalar = first(value)
    if scalar is None:
        return b"null"
    if type(scalar) is float and scalar - scalar == 0:
        return double_text(scalar).encode()
    if isinstance(scalar, Number):
        # The text may come from another format, where +5 or 007 are numbers; JSON has no such spelling.
        if _JSON_NUMBER(scalar.text):
            return scalar.text
        scalar = scalar.value
    if isinstance(scalar, bool):
        return b"true" if scalar else b"false"
    if isinstance(scalar, int):
        return b"%d" % scalar
    if isinstance(scalar, float):
        # NaN and the infinities are the numbers whose difference from themselves is not 0.
        return double_text(scalar).encode() if scalar - scalar == 0 else b"null"
    text = scalar if isinstance(scalar, str) else scalar.decode("utf-8", "replace")
    return _encoded(text).encode()


def quoted(text: str) -> bytes:
    """A JSON string."""
    return _encoded(text).encode()


def untyped_text(raw: bytes) -> bytes:
    """The JSON text of a value of a format without types: null for nothing, a number where JSON writes it so."""
    if not raw:
        return b"null"
    return raw if _JSON_NUMBER(raw) else quoted(raw.decode("utf-8", "replace"))

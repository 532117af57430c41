"""Decoded messages as one line of JSON, for output (``sowctl-messages(7)``, JSON VIEW).

Bytes that are not UTF-8 have their Base64 form, NaN and infinities are ``null``, other kinds are shown as their slot
values. In an exact view, which is for formats with such numbers, they are the words NaN, Infinity and -Infinity.
Imported only to show a message, since importing :mod:`json` is not free.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from math import isfinite
from typing import Any

from sowctl.values.fields import Number, Scalar


def format_json_line(tree: object, convert: Callable[[Any], Scalar]) -> bytes:
    """``tree`` as JSON; ``convert`` converts scalars that are neither text nor numbers to slot values."""

    def default(item: object) -> object:
        return convert_for_json(convert(item))

    try:
        return _dump_tree(tree, default)
    except (ValueError, TypeError):
        # The encoder fails at NaN and at names that are bytes: only such trees are copied and cleaned.
        return _dump_tree(_clean_tree(tree, default), default)


def format_exact_line(tree: object, convert: Callable[[Any], Scalar]) -> bytes:
    """As :func:`format_json_line`, with words for numbers that JSON does not have."""

    def default(item: object) -> object:
        return convert_for_json(convert(item))

    try:
        return _dump_tree(tree, default, allow_nan=True)
    except (ValueError, TypeError):
        return _dump_tree(_clean_tree(tree, default, odd=float), default, allow_nan=True)


def convert_for_json(value: Scalar) -> object:
    """A slot value as shown in JSON."""
    if isinstance(value, bytes):
        return format_bytes(value)
    return value.value if isinstance(value, Number) else value


def format_bytes(value: bytes) -> str:
    """The text of bytes if they are UTF-8, else their Base64 form."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        # Not U+FFFD: two different identifiers would be exported as one.
        return b64encode(value).decode()


def format_base64_line(payload: bytes) -> bytes:
    """A JSON string with the Base64 form of ``payload``, for unreadable messages."""
    return b'"%b"' % b64encode(payload)


def _dump_tree(tree: object, default: Callable[[object], object], *, allow_nan: bool = False) -> bytes:
    text = json.dumps(tree, ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":"), default=default)
    return text.encode(errors="replace")


def _null_constant(value: float) -> None:
    """Return None, the JSON form of NaN and infinities."""


def _clean_tree(
    node: object, default: Callable[[object], object], odd: Callable[[float], float | None] = _null_constant
) -> object:
    """The tree without names that are bytes; ``odd`` converts NaN and infinities."""
    if isinstance(node, dict):
        return {_decode_name(name): _clean_tree(child, default, odd) for name, child in node.items()}
    if isinstance(node, list):
        return [_clean_tree(child, default, odd) for child in node]
    value = node if isinstance(node, str | int | float | None) else default(node)
    return odd(value) if isinstance(value, float) and not isfinite(value) else value


def _decode_name(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

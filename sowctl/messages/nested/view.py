"""Decoded messages as one line of JSON, for output (``sowctl-messages(7)``, JSON VIEW).

Bytes that are not UTF-8 become U+FFFD, NaN and infinities ``null``, other kinds what they are as slot values. Imported
where a message is shown, since :mod:`json` is not free.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from math import isfinite
from typing import Any

from sowctl.values.fields import Number, Scalar


def json_line(tree: object, convert: Callable[[Any], Scalar]) -> bytes:
    """``tree`` as JSON; ``convert`` makes slot values of scalars that are neither text nor numbers."""

    def default(item: object) -> object:
        return shown(convert(item))

    try:
        return _dump(tree, default)
    except (ValueError, TypeError):
        # The encoder stops at NaN and at names that are bytes: only such trees are copied and cleaned.
        return _dump(_clean(tree, default), default)


def shown(value: Scalar) -> object:
    """A slot value as JSON shows it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.value if isinstance(value, Number) else value


def base64_line(payload: bytes) -> bytes:
    """A JSON string with the Base64 form of ``payload``, for what cannot be read."""
    return b'"%b"' % b64encode(payload)


def _dump(tree: object, default: Callable[[object], object]) -> bytes:
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)
    return text.encode(errors="replace")


def _clean(node: object, default: Callable[[object], object]) -> object:
    """The tree without what JSON has no text for."""
    if isinstance(node, dict):
        return {_name(name): _clean(child, default) for name, child in node.items()}
    if isinstance(node, list):
        return [_clean(child, default) for child in node]
    if isinstance(node, float):
        return node if isfinite(node) else None
    return node if isinstance(node, str | int | None) else _clean_scalar(default(node))


def _clean_scalar(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value


def _name(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

"""Rows of this program - errors, reports, rejects, progress - as lines of JSON that every reader accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_SURROGATES_PATTERN = "[\ud800-\udfff]"


def format_json_line(row: Mapping[str, Any]) -> str:
    """Format one line of JSON in ASCII, without a line feed; values of kinds that JSON does not have become their text.

    File names and arguments may contain bytes that are not UTF-8, which Python represents as lone surrogates. These are
    not characters, and strict readers refuse them: such a byte is written as ``\\xbf``, as in messages.
    """
    text = json.dumps(row, default=str)
    if "\\ud" in text:
        text = json.dumps(_replace_surrogates(row), default=str)
    # DEL is the only control character that json does not escape.
    return text.replace("\x7f", "\\u007f")


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(_SURROGATES_PATTERN, _show_surrogate, value)
    if isinstance(value, Mapping):
        return {_replace_surrogates(name): _replace_surrogates(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_surrogates(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else _replace_surrogates(str(value))


def _show_surrogate(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"

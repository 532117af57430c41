"""When two results of an expression are the same."""

from __future__ import annotations

from typing import Any

from sowctl.values.fields import Number
from sowctl.values.scalars import to_text


def same(a: Any, b: Any) -> bool:
    """Equal in kind, value and original text; str and bytes are the same text."""
    if isinstance(a, str | bytes) and isinstance(b, str | bytes):
        return to_text(a) == to_text(b)
    if isinstance(a, Number) and isinstance(b, Number):
        return same(a.value, b.value) and a.text == b.text
    return type(a) is type(b) and (repr(a) == repr(b) if isinstance(a, float) else a == b)

"""The canonical spelling of each value: ``5M`` and ``300s`` both become ``5m``.

Called by :mod:`sowctl.config.items`. Ruled by ``sow-config(5)``, values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sowctl.config.elements.element import Element
from sowctl.config.kinds import read_value
from sowctl.values.units import format_interval, format_size

_LIST_SEPARATORS = {"level": ",", "exclude": ",", "tls": None}
"""Separator between the words of a list; None for white space."""


def read_canonical(row: Element, text: str) -> tuple[Any, str]:
    """The value of a text by its row, and its canonical spelling. An unreadable text is its own value."""
    spell = _SPELLINGS.get(row.kind)
    # Lists are kept as texts: without blanks and empty words they have one spelling.
    if row.kind in _LIST_SEPARATORS:
        words = [word.strip() for word in text.split(_LIST_SEPARATORS[row.kind])]
        joined = (_LIST_SEPARATORS[row.kind] or " ").join(word for word in words if word)
        return (joined.lower() if row.kind == "level" else joined,) * 2
    try:
        value = read_value(row, text)
    # A text that breaks its rule is shown unchanged; validate reports the fault.
    except ValueError:
        return text, text
    if spell is not None:
        return spell(value, row, text)
    return (value, value) if row.kind == "enum" else (text, text)


def _spell_interval(value: int, row: Element, text: str) -> tuple[Any, str]:
    return value, format_interval(value)


def _spell_size(value: int, row: Element, text: str) -> tuple[Any, str]:
    return value, format_size(value)


def _spell_count(value: int, row: Element, text: str) -> tuple[Any, str]:
    return value, str(value)


def _spell_switch(value: bool, row: Element, text: str) -> tuple[Any, str]:
    # The dialect spells some switches true and false, others enabled and disabled; the default shows which.
    words = ("disabled", "enabled") if row.default in ("disabled", "enabled") or row.tag == "Enabled" else None
    return value, (words or ("false", "true"))[value]


def _spell_expiration(value: tuple[str, int], row: Element, text: str) -> tuple[Any, str]:
    kind, nanoseconds = value
    return (nanoseconds, format_interval(nanoseconds)) if kind == "interval" else (kind, kind)


def _spell_percent(value: float, row: Element, text: str) -> tuple[Any, str]:
    return value, f"{value:g}%"


def _spell_field(value: Any, row: Element, text: str) -> tuple[Any, str]:
    return (str(value),) * 2


def _spell_recovery(value: str, row: Element, text: str) -> tuple[Any, str]:
    return value, value


def _spell_octal(value: int, row: Element, text: str) -> tuple[Any, str]:
    return (f"{value:04o}",) * 2


_SPELLINGS: Mapping[str, Callable[[Any, Element, str], tuple[Any, str]]] = {
    "interval": _spell_interval,
    "expiration:queue": _spell_interval,
    "bytes": _spell_size,
    "count": _spell_count,
    "byte": _spell_count,
    "switch": _spell_switch,
    "expiration": _spell_expiration,
    "percent": _spell_percent,
    "field": _spell_field,
    "recovery": _spell_recovery,
    "recovery:queue": _spell_recovery,
    "octal": _spell_octal,
}

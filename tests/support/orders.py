"""Sort keys of whole records, made of the program's sort components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sowctl.values.fields import SlotValue
from sowctl.values.order import SortComponent, build_component, reverse_component


class Key(Protocol):
    """One key of an order."""

    @property
    def descending(self) -> bool: ...

    @property
    def text(self) -> bool: ...


def sort_key(values: Sequence[SlotValue], keys: Sequence[Key], mixed: Sequence[bool]) -> tuple[SortComponent, ...]:
    """Return the sort key of a record: per position a value, an order key and ``is_numeric`` of the set."""
    parts = []
    for value, key, numeric in zip(values, keys, mixed, strict=True):
        part = build_component(value, numeric, key.text)
        parts.append(reverse_component(part) if key.descending else part)
    return tuple(parts)

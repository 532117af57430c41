"""A simple model of conflated topics, for laws: outputs at the ends of intervals, key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tests.support.instances import SECOND

Key = TypeVar("Key")
Value = TypeVar("Value")


def conflate(
    events: Mapping[Key, Sequence[tuple[int, Value | None]]], interval: int, until: int
) -> dict[Key, list[tuple[int, Value | None]]]:
    """Return the outputs of each key up to an instant, interval (in seconds) by interval."""
    found: dict[Key, list[tuple[int, Value | None]]] = {}
    for key, some in events.items():
        shown, place = None, 0
        while place < len(some):
            opened, value = some[place]
            if value is None and shown is None:
                place += 1
                continue
            end = opened + interval * SECOND
            if end > until:
                break
            while place < len(some) and some[place][0] <= end:
                value = some[place][1]
                place += 1
            if (value, shown) != (None, None):
                found.setdefault(key, []).append((end, value))
            shown = value
    return found


def find_state(events: Mapping[Key, Sequence[tuple[int, Value | None]]], until: int) -> dict[Key, Value]:
    """Return the last value of each key up to an instant."""
    last = {key: [value for time, value in some if time <= until][-1:] for key, some in events.items()}
    return {key: value[0] for key, value in last.items() if value and value[0] is not None}

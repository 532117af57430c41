"""Extremes and distinct values of sets, compared by their common reading (``sowctl-expressions(7)``, aggregates).

Used by array functions and accumulators. Inputs are scalars (``values/scalars.py``) without NULLs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ne
from typing import Any, TypeAlias

from sowctl.values.fields import Number, Scalar
from sowctl.values.order import SortComponent, build_components, has_numbers
from sowctl.values.scalars import NAN, to_number

FirstFinder: TypeAlias = Callable[[Sequence[int]], int]
"""Returns which of the given places, ascending, holds the earliest value."""


def build_sort_components(values: Sequence[Scalar]) -> list[SortComponent]:
    """A comparable component per value, by the common reading of all values."""
    return build_components(values, has_numbers(values))


def find_extreme(values: Sequence[Scalar], greatest: bool, find_first: FirstFinder = min) -> Scalar:
    """The least or greatest value, the first of equals; NaN if any value is NaN; NULL if there are no values.

    ``find_first`` is called for equals; the default is for values in order.
    """
    if not values:
        return None
    # Values from columns are usually one: the extreme of its group.
    if len(values) == 1 and isinstance(value := values[0], int | float | Number):
        number = to_number(value)
        return value if number == number else NAN
    keys: Sequence[Any] = values
    if {int, float}.issuperset(map(type, values)):
        # Plain numbers compare like their components, in a third of the time; only NaN differs from itself.
        if any(map(ne, values, values)):
            return NAN
    else:
        keys = build_sort_components(values)
        # There are no NULLs here, so a key of one part is that of NaN.
        if any(len(key) == 1 for key in keys):
            return NAN
    best = max(keys) if greatest else min(keys)
    if keys.count(best) == 1:
        return values[keys.index(best)]
    return values[find_first([place for place, key in enumerate(keys) if key == best])]


def select_distinct(values: Sequence[Scalar], stamps: Sequence[Any] | None = None) -> list[Scalar]:
    """One value per group of equals, in the order and spelling of the first occurrence.

    ``stamps``: one per value; the lowest stamp determines the first value; None if the values are in order.
    """
    keys = build_sort_components(values)
    if stamps is None:
        seen: dict[SortComponent, Scalar] = {}
        for key, value in zip(keys, values, strict=True):
            seen.setdefault(key, value)
        return list(seen.values())
    # Sorting is stable: of equal stamps the first in the sequence is the first.
    firsts: dict[SortComponent, int] = {}
    for place in sorted(range(len(values)), key=stamps.__getitem__):
        firsts.setdefault(keys[place], place)
    return [values[place] for place in firsts.values()]

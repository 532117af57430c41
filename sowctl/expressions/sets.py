"""Sums, extremes and distinct values of sets, by their common reading (``sowctl-expressions(7)``, aggregates).

Array functions and aggregates share these. Inputs are scalars (``values/compare.py``), NULLs already left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from sowctl.values.compare import I64_MIN, NAN, U64_MAX, number_of
from sowctl.values.fields import Scalar
from sowctl.values.order import Component, component, holds_numbers

_EXACT = 1 << 53


def total(numbers: Iterable[Scalar]) -> int | float | None:
    """The sum: an Integer if all are (and it is in range), else the correctly rounded Double; None for no input."""
    values, kinds = _numbers(numbers)
    if not values:
        return None
    if kinds == {int}:
        whole = sum(values)
        return whole if I64_MIN <= whole <= U64_MAX else float(whole)
    return _double_sum(values, kinds)


def numbers_of(values: Iterable[Scalar]) -> list[int | float]:
    """The values as numbers, without NULLs; a text without a numeric reading is NaN."""
    return _numbers(values)[0]


def _numbers(values: Iterable[Scalar]) -> tuple[list[int | float], set[type]]:
    """The same, and their types."""
    found: list[Any] = values if type(values) is list else list(values)
    kinds = set(map(type, found))
    if not kinds <= {int, float}:
        found = [number for value in found if (number := number_of(value)) is not None]
        kinds = set(map(type, found))
    return found, kinds


def double_sum(values: Sequence[int | float]) -> float:
    """The correctly rounded sum of numbers; NaN if one is, or for infinities of both signs."""
    return _double_sum(values, set(map(type, values)))


def _double_sum(values: Sequence[int | float], kinds: set[type]) -> float:
    try:
        if kinds == {float} or all(type(one) is float or abs(one) < _EXACT for one in values):
            return math.fsum(values)
    except ValueError:
        return NAN
    except OverflowError:
        pass
    special = [value for value in values if type(value) is float and not math.isfinite(value)]
    return math.fsum(special) if special else _rounded(sum(map(Fraction, values), Fraction(0)))


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def readings(values: Sequence[Scalar]) -> list[Component]:
    """A comparable component per value, by the common reading of all of them."""
    mixed = holds_numbers(values)
    return [component(value, mixed) for value in values]


def extreme(values: Sequence[Scalar], greatest: bool) -> Scalar:
    """The least or greatest value, the first of equals; NaN if one is NaN; NULL for none."""
    if not values:
        return None
    keys = readings(values)
    if any(len(key) == 1 for key in keys):
        return NAN
    best = 0
    for position in range(1, len(keys)):
        if keys[position] > keys[best] if greatest else keys[position] < keys[best]:
            best = position
    return values[best]


def distinct(values: Sequence[Scalar]) -> list[Scalar]:
    """One value per group of equals, in first-seen order and spelling."""
    seen: dict[Component, Scalar] = {}
    for key, value in zip(readings(values), values, strict=True):
        seen.setdefault(key, value)
    return list(seen.values())

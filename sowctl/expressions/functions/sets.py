"""Sums, means, extremes and distinct values of sets, by their common reading (``sowctl-expressions(7)``, aggregates).

Array functions and aggregates share these. Inputs are scalars (``values/compare.py``), NULLs already left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from operator import mul
from typing import Any, TypeAlias

from sowctl.values.compare import I64_MIN, NAN, U64_MAX, number_of
from sowctl.values.fields import Scalar
from sowctl.values.order import Component, components, holds_numbers

_EXACT = 1 << 53
Stamps: TypeAlias = Sequence[tuple[int, ...]]
"""What sorts messages into the order of their updates."""


def total(numbers: Iterable[Scalar]) -> int | float | None:
    """The sum: an Integer if all are (and it is in range), else the correctly rounded Double; None for no input."""
    values, kinds = _numbers(numbers)
    if not values:
        return None
    if kinds == {int}:
        # Python's integers do not overflow: the range is asked of the total alone, not on the way.
        whole = sum(values)
        return whole if I64_MIN <= whole <= U64_MAX else float(whole)
    return _double_sum(values, kinds)


def _numbers(values: Iterable[Scalar]) -> tuple[list[int | float], set[type]]:
    """The values as numbers, without NULLs, and their types; a text without a numeric reading is NaN."""
    found: list[Any] = values if type(values) is list else list(values)
    kinds = set(map(type, found))
    if not kinds <= {int, float}:
        found = [number for value in found if (number := number_of(value)) is not None]
        kinds = set(map(type, found))
    return found, kinds


def _double_sum(values: Sequence[int | float], kinds: set[type]) -> float:
    try:
        # fsum() rounds once, at the end; Integers below 2**53 are exact as its Doubles.
        if kinds == {float} or all(type(one) is float or abs(one) < _EXACT for one in values):
            return math.fsum(values)
    except ValueError:
        return NAN
    except OverflowError:
        pass
    return _rounded(_exact_sum(values))


def _exact_sum(values: Sequence[int | float]) -> Fraction | float:
    """The sum without any rounding; an infinity or NaN where such values are among them."""
    doubles = [value for value in values if type(value) is float]
    whole = Fraction(sum(value for value in values if type(value) is int) if len(doubles) < len(values) else 0)
    taken: list[float] = []
    try:
        # fsum gives the Double next to the sum. Taking it away and summing again leaves the error that it made; when
        # that is zero, what was taken is the exact sum in two or three Doubles.
        while rest := math.fsum(chain(doubles, taken)):
            if not math.isfinite(rest):
                return rest
            taken.append(-rest)
    except ValueError:
        return NAN  # infinities of both signs
    except OverflowError:
        special = [value for value in doubles if not math.isfinite(value)]
        return sum(special) if special else whole + sum(map(Fraction, doubles), Fraction(0))
    return whole - sum(map(Fraction, taken), Fraction(0))


def _rounded(exact: Fraction | float) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def mean(inputs: Sequence[Scalar]) -> float | None:
    """The Double nearest to the mean; NaN for a NaN among them or infinities of both signs; None for no input."""
    values, kinds = _numbers(inputs)
    return _mean(values, kinds) if values else None


def _mean(values: Sequence[int | float], kinds: set[type]) -> float:
    if kinds == {int}:
        return sum(values) / len(values)  # of two ints Python gives the nearest Double
    exact = _exact_sum(values)
    # A sum of zero keeps the sign that Doubles give it.
    return _rounded(exact / len(values)) if exact else _double_sum(values, kinds) / len(values)


def deviation(inputs: Sequence[Scalar], degrees: int) -> float | None:
    """The standard deviation with ``len - degrees`` in the denominator; None for no more inputs than ``degrees``.

    It is computed from the exact sums where Integers are beyond what Doubles hold, so equal inputs always give 0.
    """
    values, kinds = _numbers(inputs)
    size = len(values)
    if size <= degrees:
        return None
    if kinds == {int}:
        # Exact in Integers, so the difference loses nothing; one division and one root round.
        whole, squares = int(sum(values)), int(sum(map(mul, values, values)))
        return math.sqrt((size * squares - whole * whole) / (size * (size - degrees)))
    middle = _mean(values, kinds)
    if not math.isfinite(middle):
        return NAN
    if any(type(value) is int and abs(value) >= _EXACT for value in values):
        exact = list(map(Fraction, values))
        centre = sum(exact, Fraction(0)) / size
        return math.sqrt(_rounded(sum((value - centre) ** 2 for value in exact) / (size - degrees)))
    # Two passes. The Double next to the mean is not the mean: what that adds to the squares is the square of the sum
    # of the differences, which would be 0 around the mean itself.
    differences = [value - middle for value in values]
    squared = _double_sum(list(map(mul, differences, differences)), {float})
    if not math.isfinite(squared):
        return math.inf
    error = _double_sum(differences, {float})
    return math.sqrt(max(squared - error * error / size, 0.0) / (size - degrees))


def readings(values: Sequence[Scalar]) -> list[Component]:
    """A comparable component per value, by the common reading of all of them."""
    return components(values, holds_numbers(values))


def extreme(values: Sequence[Scalar], greatest: bool, stamps: Stamps | None = None) -> Scalar:
    """The least or greatest value, the first of equals; NaN if one is NaN; NULL for none.

    ``stamps``: one per value, the lowest for the first value; None where the values are given in their order.
    """
    if not values:
        return None
    keys = readings(values)
    # NULLs have left already, so a key of one part is that of NaN.
    if any(len(key) == 1 for key in keys):
        return NAN
    best = max(keys) if greatest else min(keys)
    # index() finds the first of equals. With stamps the first is the one that was updated first.
    if stamps is None or keys.count(best) == 1:
        return values[keys.index(best)]
    return values[min((place for place, key in enumerate(keys) if key == best), key=stamps.__getitem__)]


def distinct(values: Sequence[Scalar], stamps: Stamps | None = None) -> list[Scalar]:
    """One value per group of equals, in first-seen order and spelling; ``stamps`` as in :func:`extreme`."""
    keys = readings(values)
    seen: dict[Component, Any] = {}
    if stamps is None:
        for key, value in zip(keys, values, strict=True):
            seen.setdefault(key, value)
        return list(seen.values())
    for place, key in enumerate(keys):
        first = seen.setdefault(key, place)
        if stamps[place] < stamps[first]:
            seen[key] = place
    return [values[place] for place in sorted(seen.values(), key=stamps.__getitem__)]

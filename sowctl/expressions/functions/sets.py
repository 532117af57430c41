"""Sums, means, extremes and distinct values of sets, by their common reading (``sowctl-expressions(7)``, aggregates).

Array functions and aggregates share these. Inputs are scalars (``values/scalars.py``), NULLs already left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from operator import mul
from typing import Any, TypeAlias

from sowctl.values.fields import Number, Scalar
from sowctl.values.order import SortComponent, build_components, has_numbers
from sowctl.values.scalars import I64_MIN, MAX_EXACT_INTEGER, NAN, U64_MAX, to_number

Stamps: TypeAlias = Sequence[tuple[Any, ...]]
"""What sorts messages into the order of their updates."""


def compute_sum(numbers: Iterable[Scalar]) -> int | float | None:
    """The sum: an Integer if all are (and it is in range), else the correctly rounded Double; None for no input."""
    values, kinds = convert_to_numbers(numbers)
    if not values:
        return None
    if kinds == {int}:
        # Python's integers do not overflow: the range is asked of the total alone, not on the way.
        whole = sum(values)
        return whole if I64_MIN <= whole <= U64_MAX else float(whole)
    return _double_sum(values, kinds)


def convert_to_numbers(values: Iterable[Scalar]) -> tuple[list[int | float], set[type]]:
    """The values as numbers, without NULLs, and their types; a text without a numeric reading is NaN."""
    found: list[Any] = values if type(values) is list else list(values)
    kinds = set(map(type, found))
    if not kinds <= {int, float}:
        found = [number for value in found if (number := to_number(value)) is not None]
        kinds = set(map(type, found))
    return found, kinds


def _double_sum(values: Sequence[int | float], kinds: set[type]) -> float:
    try:
        # fsum() rounds once, at the end; Integers below 2**53 are exact as its Doubles.
        if kinds == {float} or all(type(one) is float or abs(one) < MAX_EXACT_INTEGER for one in values):
            return math.fsum(values)
    except ValueError:
        return NAN
    except OverflowError:
        pass
    return _round_exact_sum(_exact_sum(values))


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


def _round_exact_sum(exact: Fraction | float) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def compute_mean(inputs: Sequence[Scalar]) -> float | None:
    """The Double nearest to the mean; NaN for a NaN among them or infinities of both signs; None for no input."""
    values, kinds = convert_to_numbers(inputs)
    return _double_mean(values, kinds) if values else None


def _double_mean(values: Sequence[int | float], kinds: set[type]) -> float:
    if kinds == {int}:
        return sum(values) / len(values)  # of two ints Python gives the nearest Double
    exact = _exact_sum(values)
    # A sum of zero keeps the sign that Doubles give it.
    return _round_exact_sum(exact / len(values)) if exact else _double_sum(values, kinds) / len(values)


def compute_deviation(inputs: Sequence[Scalar], degrees: int) -> float | None:
    """The standard deviation with ``len - degrees`` in the denominator; None for no more inputs than ``degrees``.

    The root of the Double nearest to the exact variance, so equal inputs always give 0; see
    :func:`compute_scaled_deviation`.
    """
    values, kinds = convert_to_numbers(inputs)
    size = len(values)
    if size <= degrees:
        return None
    if kinds == {int}:
        # Exact in Integers already; nothing has to be scaled.
        whole, squares = int(sum(values)), int(sum(map(mul, values, values)))
        return math.sqrt((size * squares - whole * whole) / (size * (size - degrees)))
    doubles = [value for value in values if type(value) is float]
    if not all(map(math.isfinite, doubles)):
        return NAN
    wholes: list[Any] = [value for value in values if type(value) is int]
    added = (sum(wholes) << DOUBLE_SCALE_BITS) + sum_scaled(doubles)
    squared = (sum(map(mul, wholes, wholes)) << 2 * DOUBLE_SCALE_BITS) + sum_scaled_squares(doubles)
    return compute_scaled_deviation(size, degrees, added, squared)


DOUBLE_SCALE_BITS = 1074
"""Every finite Double is a whole number of 2**-1074: sums of such numbers are exact and can be taken back."""


def scale_double(value: float) -> int:
    """A finite Double in units of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    # The denominator is a power of two: its bit length is one more than its exponent.
    return numerator << (DOUBLE_SCALE_BITS + 1 - denominator.bit_length())


def sum_scaled(doubles: Sequence[float]) -> int:
    """The sum of finite Doubles in units of 2**-1074, without any rounding."""
    exact = _exact_sum(doubles) if len(doubles) > 3 else None
    if not isinstance(exact, Fraction):
        return sum(map(scale_double, doubles))
    return exact.numerator << (DOUBLE_SCALE_BITS + 1 - exact.denominator.bit_length())


def sum_scaled_squares(doubles: Iterable[float]) -> int:
    """The sum of the squares of finite Doubles in units of 2**-2148, without any rounding."""
    # Squares of one scale are added before they are shifted: their numbers stay short.
    by_scale: defaultdict[int, int] = defaultdict(int)
    for value in doubles:
        numerator, denominator = value.as_integer_ratio()
        by_scale[denominator] += numerator * numerator
    return sum(found << 2 * (DOUBLE_SCALE_BITS + 1 - one.bit_length()) for one, found in by_scale.items())


def divide_exactly(numerator: int, denominator: int) -> float:
    """The Double nearest to a fraction; an infinity where it is beyond all Doubles."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def compute_scaled_deviation(size: int, degrees: int, added: int, squared: int) -> float:
    """The standard deviation of ``size`` numbers, of which ``added`` is the sum in units of 2**-1074 and ``squared``
    the sum of the squares in units of 2**-2148; the denominator is ``size - degrees``, above 0."""
    above, below = size * squared - added * added, size * (size - degrees) << 2 * DOUBLE_SCALE_BITS
    # A variance may be beyond the range of Doubles where its root is not: the root is taken of a number near 1.
    half = (above.bit_length() - below.bit_length()) // 2
    root = math.sqrt(divide_exactly(above << 2 * max(-half, 0), below << 2 * max(half, 0)))
    try:
        return math.ldexp(root, half)
    except OverflowError:
        return math.inf


def build_sort_components(values: Sequence[Scalar]) -> list[SortComponent]:
    """A comparable component per value, by the common reading of all of them."""
    return build_components(values, has_numbers(values))


def find_extreme(values: Sequence[Scalar], greatest: bool, stamps: Stamps | None = None) -> Scalar:
    """The least or greatest value, the first of equals; NaN if one is NaN; NULL for none.

    ``stamps``: one per value, the lowest for the first value; None where the values are given in their order.
    """
    if not values:
        return None
    # Of columns there is one value mostly, the extreme of its group.
    if len(values) == 1 and isinstance(value := values[0], int | float | Number):
        number = to_number(value)
        return value if number == number else NAN
    keys = build_sort_components(values)
    # NULLs have left already, so a key of one part is that of NaN.
    if any(len(key) == 1 for key in keys):
        return NAN
    best = max(keys) if greatest else min(keys)
    # index() finds the first of equals. With stamps the first is the one that was updated first.
    if stamps is None or keys.count(best) == 1:
        return values[keys.index(best)]
    return values[min((place for place, key in enumerate(keys) if key == best), key=stamps.__getitem__)]


def select_distinct(values: Sequence[Scalar], stamps: Stamps | None = None) -> list[Scalar]:
    """One value per group of equals, in first-seen order and spelling; ``stamps`` as in :func:`find_extreme`."""
    keys = build_sort_components(values)
    seen: dict[SortComponent, Any] = {}
    if stamps is None:
        for key, value in zip(keys, values, strict=True):
            seen.setdefault(key, value)
        return list(seen.values())
    for place, key in enumerate(keys):
        first = seen.setdefault(key, place)
        if stamps[place] < stamps[first]:
            seen[key] = place
    # Of equal stamps the message that came first is the first, wherever it stood in the search.
    return [values[place] for place in sorted(sorted(seen.values()), key=stamps.__getitem__)]

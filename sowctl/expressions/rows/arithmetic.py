"""Arithmetic on scalars, called by generated code (``sowctl-expressions(7)``, arithmetic).

Arguments are slot values; results are an Integer in range, a Double, or None for NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from sowctl.values.fields import SlotValue
from sowctl.values.scalars import I64_MIN, NAN, U64_MAX, to_number

Numeric: TypeAlias = int | float | None


def _make_operator(
    exact: Callable[[int, int], int | None], double: Callable[[float, float], float]
) -> Callable[[SlotValue, SlotValue], Numeric]:
    """Adds both conversions, NULL, NaN and the Integer range to an operation; ``exact`` may return None for NaN."""

    def operate(a: SlotValue, b: SlotValue) -> Numeric:
        left, right = to_number(a), to_number(b)
        # NULL is tested before NaN: NULL + NaN is NULL.
        if left is None or right is None:
            return None
        if left != left or right != right:
            return NAN
        # to_number() has converted Booleans to Integers, so type() distinguishes the two kinds of numbers.
        if type(left) is int and type(right) is int:
            result = exact(left, right)
            if result is None:
                return NAN
            # A result beyond 64 bits is recomputed with Doubles, as the language defines. Rounding the exact result
            # would give another Double in some cases.
            if I64_MIN <= result <= U64_MAX:
                return result
        return double(float(left), float(right))

    return operate


def _integer_quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    # Python's // rounds down and the language toward zero, so the sign is applied separately.
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


def _integer_remainder(a: int, b: int) -> int | None:
    if b == 0:
        return None
    # The sign is that of the dividend; Python's % uses that of the divisor.
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _divide_doubles(a: float, b: float) -> float:
    if b:
        return a / b
    # Python raises for a zero divisor; IEEE 754 defines results: 0/0 is NaN, all else an infinity, whose sign also
    # depends on that of -0.0.
    if not a:
        return NAN
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _remainder_of_doubles(a: float, b: float) -> float:
    try:
        return math.fmod(a, b)
    # math.fmod() raises where C's returns NaN: for a divisor of 0.0 and for an infinite dividend.
    except ValueError:
        return NAN


add_values = _make_operator(lambda a, b: a + b, lambda a, b: a + b)
subtract_values = _make_operator(lambda a, b: a - b, lambda a, b: a - b)
multiply_values = _make_operator(lambda a, b: a * b, lambda a, b: a * b)
divide_values = _make_operator(_integer_quotient, _divide_doubles)
compute_remainder = _make_operator(_integer_remainder, _remainder_of_doubles)

OPERATORS = {"+": add_values, "-": subtract_values, "*": multiply_values, "/": divide_values, "%": compute_remainder}


def negate_value(value: SlotValue) -> Numeric:
    """Unary minus; below the Integer range the result is a Double."""
    number = to_number(value)
    if number is None:
        return None
    # Only an Integer above 2**63 has no negative Integer; that of -2**63 is in range, because Integers go up to
    # 2**64-1.
    if type(number) is int and -number < I64_MIN:
        return -float(number)
    return -number

"""Arithmetic on columns, if the result is exactly that of ``expressions/rows/arithmetic.py``."""

from __future__ import annotations

import operator as py
from collections.abc import Callable
from typing import Any

import numpy as np

from sowctl.expressions.columns.kernels import NULL_COLUMN, Unsuited, map_words, unite_masks
from sowctl.values.column import FLOAT_KINDS, Array, Column, Kind
from sowctl.values.scalars import MAX_EXACT_INTEGER, to_number

_MAX_INT64 = (1 << 63) - 1
_DOUBLE_OPERATIONS: dict[str, Any] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}
_EXACT_OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": py.add, "-": py.sub, "*": py.mul}


def to_numbers(column: Column) -> Column:
    """The column converted to numbers; of arrays the first values. Raises Unsuited if mixed values remain."""
    column = column.scalars
    if column.kind is Kind.STRING:
        # A text is converted once, regardless of the number of rows that have it.
        column = map_words(column, to_number)
    if column.kind is Kind.BOOL:
        # In arithmetic TRUE and FALSE are the Integers 1 and 0.
        return Column(Kind.I64, column.size, column.data.astype(np.int64), column.nulls, constant=column.constant)
    if column.kind is Kind.ROWS:
        raise Unsuited("values of several kinds")
    return column


def apply_operator(operator: str, a: Column, b: Column) -> Column:
    """``a operator b``. Raises Unsuited."""
    a, b = to_numbers(a), to_numbers(b)
    if Kind.NULL in (a.kind, b.kind):
        return NULL_COLUMN
    # Most results would exceed 64 bits or become Doubles: the row evaluator decides for each.
    if Kind.U64 in (a.kind, b.kind):
        raise Unsuited("Integers from 2**63 on")
    if a.kind is b.kind is Kind.I64:
        return _operate_integers(operator, a, b)
    # Infinities and NaN are results here, not errors; so are zero divisors.
    with np.errstate(all="ignore"):
        if Kind.NUMBER in (a.kind, b.kind):
            return _operate_mixed(operator, a, b)
        data = _DOUBLE_OPERATIONS[operator](_to_doubles(a), _to_doubles(b))
    return _finish_result(Kind.DOUBLE, data, a, b)


def _to_doubles(column: Column) -> Array:
    return column.data if column.kind in FLOAT_KINDS else column.data.astype(np.float64)


def _finish_result(kind: Kind, data: Array, a: Column, b: Column, ints: Array | None = None) -> Column:
    nulls = unite_masks(a.nulls, b.nulls)
    if nulls is not None:
        nulls = np.broadcast_to(nulls, data.shape)
        # The invariant of columns: a NULL place holds a value that is harmless to all kernels.
        data[nulls] = 0 if kind is Kind.I64 else np.nan
    return Column(kind, len(data), data, nulls, ints=ints, constant=a.constant and b.constant)


def _operate_integers(operator: str, a: Column, b: Column) -> Column:
    x, y = a.data, b.data
    if operator in _EXACT_OPERATIONS:
        # Numpy overflows silently. If the bounds exclude overflow, results need not be checked individually.
        if not _fits_limit(operator, a.bounds, b.bounds, _MAX_INT64):
            raise Unsuited("a result may leave the Integer range")
        return _finish_result(Kind.I64, _DOUBLE_OPERATIONS[operator](x, y), a, b)
    if b.nulls is not None:
        # NULL places hold 0, and dividing by them must not count as division by zero.
        y = np.where(b.nulls, 1, y)
    if not y.all() or a.bounds[0] < -_MAX_INT64 or b.bounds[0] < -_MAX_INT64:
        raise Unsuited("a divisor is zero, or an operand is -2**63")
    # Division truncates towards zero. Without its remainder, which has the sign of the dividend, x is divisible
    # exactly, and then the rounding of ``//`` does not matter.
    rest = np.fmod(x, y)
    return _finish_result(Kind.I64, rest if operator == "%" else (x - rest) // y, a, b)


def _fits_limit(operator: str, a: tuple[int, int], b: tuple[int, int], limit: int) -> bool:
    # The extremes of sums, differences and products over two ranges are at the ends of the ranges; Python integers
    # cannot overflow.
    corners = [_EXACT_OPERATIONS[operator](x, y) for x in a for y in b]
    return -limit <= min(corners) and max(corners) <= limit


def _operate_mixed(operator: str, a: Column, b: Column) -> Column:
    """At least one column has both Integers and Doubles: results are Integers if both operands are."""
    bounds = _find_integer_bounds(a), _find_integer_bounds(b)
    # Up to 2**53 a Double represents every Integer exactly, operands and results, so one array is used for both.
    if operator not in _EXACT_OPERATIONS or not all(
        -MAX_EXACT_INTEGER <= bound <= MAX_EXACT_INTEGER for both in bounds for bound in both
    ):
        raise Unsuited("Integers and Doubles together")
    if not _fits_limit(operator, *bounds, MAX_EXACT_INTEGER):
        raise Unsuited("Integers and Doubles together, results beyond 2**53")
    data = _DOUBLE_OPERATIONS[operator](_to_doubles(a), _to_doubles(b))
    nulls = unite_masks(a.nulls, b.nulls)
    ints = np.broadcast_to(_find_integers(a) & _find_integers(b), data.shape)
    ints = ints if nulls is None else ints & ~nulls
    data[ints] += 0.0  # no Integer is -0.0
    return _finish_result(Kind.NUMBER, data, a, b, ints)


def _find_integers(column: Column) -> Array:
    if column.kind is Kind.NUMBER:
        assert column.ints is not None
        return column.ints
    return np.full(1, column.kind is Kind.I64)


def _find_integer_bounds(column: Column) -> tuple[int, int]:
    if column.kind is Kind.I64:
        return column.bounds
    if column.kind is Kind.DOUBLE or column.ints is None or not column.ints.any():
        return 0, 0
    whole = column.data[column.ints]
    return int(whole.min()), int(whole.max())


def negate_column(column: Column) -> Column:
    """Unary minus. Raises Unsuited."""
    column = to_numbers(column)
    if column.kind is Kind.NULL:
        return NULL_COLUMN
    if column.kind is Kind.U64 or (column.kind is Kind.I64 and column.bounds[0] < -_MAX_INT64):
        raise Unsuited("a result may leave the Integer range")
    data = -column.data
    if column.ints is not None:
        data[column.ints] += 0.0
    return Column(column.kind, column.size, data, column.nulls, ints=column.ints, constant=column.constant)

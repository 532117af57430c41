"""The functions for which numpy gives exactly the result of the row evaluator; all others are evaluated by rows.

Not included are ``EXP``, ``LN``, trigonometric functions and ``POWER``: numpy's may differ from the C library's in the
last digit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sowctl.expressions.columns.arithmetic import to_numbers
from sowctl.expressions.columns.kernels import Unsuited
from sowctl.values.column import FLOAT_KINDS, Array, Column, Kind
from sowctl.values.scalars import MAX_EXACT_INTEGER


def _absolute_kernel(column: Column) -> Column:
    # The negative of -2**63 does not fit into a signed 64-bit integer; numpy would return it unchanged.
    if column.kind is Kind.I64 and column.bounds[0] < 1 - (1 << 63):
        raise Unsuited("a result may leave the Integer range")
    return _like_kernel(column, np.abs(column.data) if column.kind is not Kind.U64 else column.data)


def _like_kernel(column: Column, data: Array) -> Column:
    return Column(column.kind, column.size, data, column.nulls, ints=column.ints, constant=column.constant)


def _make_rounding_kernel(rounding: Callable[[Array], Array]) -> Callable[[Column], Column]:
    def run(column: Column) -> Column:
        if column.kind in (Kind.I64, Kind.U64):
            return column.strip_source()
        with np.errstate(invalid="ignore"):
            data = rounding(column.data)
            present = data if column.nulls is None else data[~column.nulls]
            # NaN fails this test, too. A column of Integers cannot hold the other values, so rows decide for each
            # value.
            if not (np.abs(present) < MAX_EXACT_INTEGER).all():
                raise Unsuited("NaN, infinities or Doubles beyond 2**53")
        if column.nulls is not None:
            data = np.where(column.nulls, 0.0, data)
        return Column(Kind.I64, column.size, data.astype(np.int64), column.nulls, constant=column.constant)

    return run


def _sign_kernel(column: Column) -> Column:
    if column.kind in FLOAT_KINDS:
        present = column.data if column.nulls is None else column.data[~column.nulls]
        # SIGN of NaN is NaN, which a column of Integers cannot hold.
        if np.isnan(present).any():
            raise Unsuited("NaN")
    # NaN in NULL places is neither above nor below 0 and gives 0, which NULL places of Integers hold.
    data = (column.data > 0).astype(np.int64) - (column.data < 0)
    return Column(Kind.I64, column.size, data, column.nulls, constant=column.constant)


def _square_root_kernel(column: Column) -> Column:
    data = column.data.astype(np.float64)
    if column.nulls is not None:
        data[column.nulls] = np.nan
    with np.errstate(invalid="ignore"):
        data = np.sqrt(data)
    return Column(Kind.DOUBLE, column.size, data, column.nulls, constant=column.constant)


_KERNEL_FUNCTIONS: dict[str, Callable[[Column], Column]] = {
    "ABS": _absolute_kernel,
    "SIGN": _sign_kernel,
    "FLOOR": _make_rounding_kernel(np.floor),
    "CEILING": _make_rounding_kernel(np.ceil),
    "SQRT": _square_root_kernel,
}
KERNEL_NAMES = frozenset(_KERNEL_FUNCTIONS)


def apply_function(name: str, argument: Column) -> Column:
    """``name(argument)`` for a name of ``KERNEL_NAMES``. Raises Unsuited."""
    column = to_numbers(argument)
    return column if column.kind is Kind.NULL else _KERNEL_FUNCTIONS[name](column)

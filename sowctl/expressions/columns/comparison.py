"""Comparisons and membership on columns: the scalar rules of ``values/scalars.py`` for columns of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sowctl.expressions.columns.kernels import Unsuited, build_constant
from sowctl.expressions.rows.comparison import COMPARISONS
from sowctl.expressions.syntax.nodes import SWAPPED_OPERATORS
from sowctl.values.column import FLOAT_KINDS, INTEGER_KINDS, NUMERIC_KINDS, Array, Column, Kind
from sowctl.values.scalars import parse_number

_COMPARISON_UFUNCS: dict[str, Any] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_FALSE_MASK = np.zeros(1, np.bool_)


def compare_columns(operator: str, a: Column, b: Column) -> Array:
    """Return the mask of the places where ``a operator b`` holds. Raises Unsuited."""
    if Kind.ROWS in (a.kind, b.kind):
        raise Unsuited("values of several kinds, or arrays")
    # No comparison with NULL is TRUE.
    if Kind.NULL in (a.kind, b.kind):
        return _FALSE_MASK
    if a.kind is Kind.STRING and b.kind is Kind.STRING:
        return _compare_texts(operator, a, b)
    if a.kind is Kind.STRING:
        # Numbers on the left, so that one function handles both orders.
        a, b, operator = b, a, SWAPPED_OPERATORS[operator]
    if b.kind is Kind.STRING:
        return _compare_with_text(operator, a, b)
    return _compare_numbers(operator, a, b)


def _compare_numbers(operator: str, a: Column, b: Column) -> Array:
    x, y = _to_comparable(a, b)
    mask: Array = _COMPARISON_UFUNCS[operator](x, y)
    for side in (a, b):
        # NULL places of Doubles hold NaN, for which only <> is true.
        if side.nulls is not None and (operator == "<>" or side.kind not in FLOAT_KINDS):
            mask = mask & ~side.nulls
    return mask


def _to_comparable(a: Column, b: Column) -> tuple[Array, Array]:
    """The arrays in a common type that represents both exactly."""
    if a.kind in FLOAT_KINDS or b.kind in FLOAT_KINDS:
        for side in (a, b):
            if side.kind in INTEGER_KINDS and not side.is_exact:
                raise Unsuited("Integers beyond 2**53 against Doubles")
        # Converted here, because numpy converts piecewise during the comparison.
        x, y = (side.data.astype(np.float64) if side.kind in INTEGER_KINDS else side.data for side in (a, b))
        return x, y
    if Kind.U64 in (a.kind, b.kind) and a.kind is not b.kind:
        if a.bounds[0] < 0 or b.bounds[0] < 0:
            raise Unsuited("negative Integers against some from 2**63 on")
        # Without negative Integers all values of both columns fit.
        return a.data.astype(np.uint64), b.data.astype(np.uint64)
    return a.data, b.data


def _compare_texts(operator: str, a: Column, b: Column) -> Array:
    if a.constant and not b.constant:
        return _compare_texts(SWAPPED_OPERATORS[operator], b, a)
    if b.constant and operator in ("=", "<>"):
        # Equality with one text compares codes; the literal is looked up once.
        code = a.words.index(b.words[0]) if b.words[0] in a.words else -1
        if operator == "=":
            return a.data == code if code >= 0 else np.zeros(len(a.data), np.bool_)
        mask = a.data != code if code >= 0 else np.ones(len(a.data), np.bool_)
        return mask if a.nulls is None else mask & ~a.nulls
    if b.constant:
        holds = COMPARISONS[operator]
        # The order is computed once per distinct text; the last place is that of NULL.
        table = np.array([holds(word, b.words[0]) for word in a.words] + [False], np.bool_)
        return table[a.data]
    # The distinct texts of both sides are sorted once; their ranks compare like the texts. NULL uses rank 0 and is
    # masked at the end.
    rank = {word: number for number, word in enumerate(sorted({*a.words, *b.words}))}
    left, right = (np.array([*map(rank.__getitem__, side.words), 0], np.int64)[side.data] for side in (a, b))
    ranked: Array = _COMPARISON_UFUNCS[operator](left, right)
    for side in (a, b):
        if side.nulls is not None:
            ranked = ranked & ~side.nulls
    return ranked


def _compare_with_text(operator: str, numbers: Column, text: Column) -> Array:
    """Numbers against one text: compared with its numeric reading; without one, numbers are less than the text."""
    if not text.constant:
        raise Unsuited("texts against numbers")
    reading = parse_number(text.words[0])
    if reading is not None:
        return _compare_numbers(operator, numbers, build_constant(reading))
    # Every number is less than a text without a numeric reading, and for NaN only <> is true.
    mask = np.full(len(numbers.data), operator in ("<", "<=", "<>"))
    if numbers.nulls is not None:
        mask &= ~numbers.nulls
    return mask & ~np.isnan(numbers.data) if numbers.kind in FLOAT_KINDS and operator != "<>" else mask


def find_members(column: Column, values: Sequence[Any]) -> Array:
    """Return the mask of the places where a numeric column equals one of the literals ``values``. Raises Unsuited."""
    if column.kind not in NUMERIC_KINDS:
        raise Unsuited("values of several kinds, or arrays")
    wanted: set[int | float] = set()
    for value in values:
        # A number equals a text if it equals the text's numeric reading; a text without one equals no number.
        number = parse_number(value) if isinstance(value, bytes) else value
        if number is not None:
            wanted.add(number)
    # The members that the column's type can represent; no value of the column equals any other.
    if column.kind in FLOAT_KINDS:
        found = [float(number) for number in wanted if number == number and _is_double(number)]
        return np.isin(column.data, np.array(found, np.float64)) if found else np.zeros(len(column.data), np.bool_)
    dtype: Any = np.uint64 if column.kind is Kind.U64 else np.int64
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    whole = [int(number) for number in wanted if low <= number <= high and number == int(number)]
    mask = np.isin(column.data, np.array(whole, dtype)) if whole else np.zeros(len(column.data), np.bool_)
    return mask if column.nulls is None else mask & ~column.nulls


def _is_double(number: int | float) -> bool:
    return isinstance(number, float) or int(float(number)) == number

"""Truth, AND, OR, NOT, IS NULL, IS NAN and choices on columns (``sowctl-expressions(7)``, logic)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sowctl.expressions.columns.kernels import build_truth_column, map_words, unite_masks
from sowctl.values.column import FLOAT_KINDS, Array, Column, Kind, build_column
from sowctl.values.scalars import to_truth


def to_truths(column: Column) -> Column:
    """The truth values of a column's first values: BOOL or NULL."""
    column = column.scalars
    if column.kind in (Kind.BOOL, Kind.NULL):
        return column
    if column.kind is Kind.STRING:
        # A text has the truth value of its numeric reading, computed once per distinct text.
        return map_words(column, to_truth)
    if column.kind is Kind.ROWS:
        return build_column([to_truth(value) for value in column.read_values()], constant=column.constant)
    # NaN is neither true nor false: its truth value is NULL.
    mask = column.data != 0
    nulls = column.nulls
    if column.kind in FLOAT_KINDS:
        nulls = np.isnan(column.data)
        mask &= ~nulls
    return build_truth_column(mask, nulls)


def evaluate_and(operands: Sequence[Column]) -> Column:
    """``a AND b AND ...``: NULL on the left stays NULL."""
    return _fold_chain(operands, False)


def evaluate_or(operands: Sequence[Column]) -> Column:
    """``a OR b OR ...``: NULL on the left stays NULL, whatever follows."""
    return _fold_chain(operands, True)


def _fold_chain(operands: Sequence[Column], decided: bool) -> Column:
    """``decided`` is the truth value that ends the chain."""
    # From left to right, as by rows: the effect of NULL differs between the two sides.
    result = to_truths(operands[0])
    for operand in operands[1:]:
        result = _combine_pair(result, to_truths(operand), decided)
    return result


def _combine_pair(a: Column, b: Column, decided: bool) -> Column:
    x, y = _find_trues(a), _find_trues(b)
    mask = x | y if decided else x & y
    if a.nulls is None and b.nulls is None:
        return build_truth_column(mask)
    # The right operand counts only if the left one does not decide the chain: TRUE in AND, FALSE in OR. A NULL on the
    # left stays, so it also decides the chain.
    undecided = ~x if decided else x
    if a.nulls is not None:
        mask = mask & ~a.nulls
        undecided = undecided & ~a.nulls
    nulls = unite_masks(a.nulls, None if b.nulls is None else undecided & b.nulls)
    return build_truth_column(mask, nulls)


def _find_trues(column: Column) -> Array:
    return np.zeros(1, np.bool_) if column.kind is Kind.NULL else column.data


def evaluate_not(column: Column) -> Column:
    """``NOT a``."""
    column = to_truths(column)
    mask = ~_find_trues(column)
    return build_truth_column(mask if column.nulls is None else mask & ~column.nulls, column.nulls)


def find_nulls(column: Column) -> Array:
    """Return the mask of the NULLs; not of ROWS columns."""
    return column.nulls if column.nulls is not None else np.zeros(1, np.bool_)


def find_nans(column: Column) -> Array:
    """Return the mask of the NaN numbers; not of ROWS columns."""
    if column.kind not in FLOAT_KINDS:
        return np.zeros(1, np.bool_)
    found = np.isnan(column.data)
    return found if column.nulls is None else found & ~column.nulls


def choose_values(where: Array, a: Column, b: Column, size: int) -> Column:
    """The scalar of ``a`` where ``where``, else that of ``b``."""
    a, b = a.scalars, b.scalars
    # A constant condition selects a whole column.
    if len(where) == 1:
        return a if where[0] else b
    # Arrays cannot hold original texts of numbers; the choice is then made value by value.
    if a.texts or b.texts or (joined := _choose_same_kind(where, a, b, size)) is None:
        pairs = zip(where.tolist(), a.repeat_values(size), b.repeat_values(size), strict=True)
        return build_column([x if first else y for first, x, y in pairs])
    return joined


def _choose_same_kind(where: Array, a: Column, b: Column, size: int) -> Column | None:
    """The choice between columns of compatible kinds."""
    if a.kind is b.kind and a.kind is not Kind.ROWS:
        kind: Kind = a.kind
    # Integers and Doubles may share an array of Doubles only if every Integer is exact in it.
    elif {a.kind, b.kind} <= FLOAT_KINDS | {Kind.I64} and all(c.is_exact for c in (a, b) if c.kind is Kind.I64):
        kind = Kind.NUMBER
    elif Kind.NULL in (a.kind, b.kind) and Kind.ROWS not in (a.kind, b.kind) and Kind.STRING not in (a.kind, b.kind):
        kind = b.kind if a.kind is Kind.NULL else a.kind
    else:
        return None
    if kind is Kind.STRING:
        return _choose_words(where, a, b)
    if kind is Kind.NULL:
        return Column(Kind.NULL, size)
    # A column of NULLs has no array; a single blank value is used for it and broadcast by numpy.
    blank: Array = np.array(
        [np.nan if kind in FLOAT_KINDS else 0], np.float64 if kind in FLOAT_KINDS else _kind_dtype(kind)
    )
    data = np.where(where, *[blank if c.kind is Kind.NULL else c.data for c in (a, b)])
    nulls = np.where(where, find_nulls(a), find_nulls(b))
    if kind in FLOAT_KINDS:
        data[nulls] = np.nan
    ints = np.where(where, _to_integers(a), _to_integers(b)) if kind is Kind.NUMBER else None
    return Column(kind, size, data, nulls if nulls.any() else None, ints=ints)


def _kind_dtype(kind: Kind) -> type:
    return {Kind.BOOL: np.bool_, Kind.I64: np.int64, Kind.U64: np.uint64}[kind]


def _to_integers(column: Column) -> Array:
    if column.ints is not None:
        return column.ints
    places = np.full(1, column.kind is Kind.I64)
    return places if column.nulls is None else places & ~column.nulls


def _choose_words(where: Array, a: Column, b: Column) -> Column:
    # Both sides are renumbered in one list of words; the code after the last word is NULL's.
    codes = {word: number for number, word in enumerate(dict.fromkeys([*a.words, *b.words]))}
    sides = [np.array([*map(codes.__getitem__, side.words), len(codes)], np.int32)[side.data] for side in (a, b)]
    return Column(Kind.STRING, len(where), np.where(where, *sides), dictionary=list(codes))

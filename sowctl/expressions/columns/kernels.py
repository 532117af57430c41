"""Shared parts of kernels: constants, masks, and results for the distinct texts of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sowctl.values.column import Array, Column, Kind, build_column
from sowctl.values.fields import Scalar, SlotValue


class Unsuited(Exception):
    """These columns do not allow a vectorised result; the text is the reason."""


def build_truth_column(mask: Array, nulls: Array | None = None) -> Column:
    """A column of truth values. ``mask`` must be False where ``nulls`` is; an array of size 1 is a constant."""
    size = len(mask)
    if nulls is not None and not nulls.any():
        nulls = None
    if nulls is not None and len(nulls) != len(mask):
        size = len(mask) * len(nulls)  # one of them is 1; the other may be 0
        mask, nulls = np.broadcast_to(mask, (size,)), np.broadcast_to(nulls, (size,))
    return Column(Kind.BOOL, size, mask, nulls, constant=size == 1)


NULL_COLUMN = Column(Kind.NULL, 1, constant=True)
"""The constant NULL."""


def unite_masks(a: Array | None, b: Array | None) -> Array | None:
    """Return the mask of the places at which one of two masks is True; None means no places."""
    if a is None or b is None:
        return b if a is None else a
    return a | b


def build_constant(value: Scalar) -> Column:
    """A column for a literal."""
    return NULL_COLUMN if value is None else build_column([value], constant=True)


def map_words(column: Column, function: Callable[[bytes | None], SlotValue]) -> Column:
    """Apply ``function`` to every distinct text of a STRING column and to NULL, and distribute the results."""
    return spread_results(column, [function(word) for word in column.words] + [function(None)])


def spread_results(column: Column, results: Sequence[SlotValue]) -> Column:
    """Put results for the distinct texts of a STRING column, the last one for NULL, at the places of the texts."""
    # A small column of the results determines the kind of the large one.
    table = build_column(results)
    if table.kind is Kind.NULL:
        return Column(Kind.NULL, column.size, constant=column.constant)
    # The results are a table that is indexed by the codes of the texts; NULL's code is the last.
    codes = column.data
    # Results without an array, or with original texts, are placed individually.
    if table.kind is Kind.ROWS or table.source is not None:
        return build_column(list(map(results.__getitem__, codes.tolist())), constant=column.constant)
    nulls = table.nulls
    return Column(
        table.kind,
        column.size,
        table.data[codes],
        nulls[codes] if nulls is not None and table.kind is not Kind.STRING else None,
        ints=table.ints[codes] if table.ints is not None else None,
        dictionary=table.dictionary,
        constant=column.constant,
    )

"""Selecting from columns: the values at some places, a column of some places, and concatenated columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from sowctl.expressions.columns.column import FLOAT_KINDS, Array, Column, Kind, build_column, choose_code_type
from sowctl.values.fields import SlotValue
from sowctl.values.lazynumbers import LazyNumbers


def take_values(column: Column, places: Array) -> list[SlotValue]:
    """The slot values of a column at some places."""
    if column.constant:
        return list(repeat(column.read_values()[0], len(places)))
    if isinstance(column.source, LazyNumbers):
        return list(column.source.take(places))
    if column.source is not None:
        return list(map(column.source.__getitem__, places.tolist()))
    if column.kind is Kind.NULL:
        return [None] * len(places)
    nulls = column.nulls[places] if column.nulls is not None and column.kind is not Kind.STRING else None
    ints = None if column.ints is None else column.ints[places]
    some = Column(column.kind, len(places), column.data[places], nulls, ints=ints, words=column.words)
    return list(some.read_values())


def take_rows(column: Column, places: Any) -> Column:
    """A column of some places of one that is no constant, with no more words than it needs.

    ``places``: an array of them in their order, each as often as it stands there, or a slice.
    """
    source: Sequence[SlotValue] | None = None
    if isinstance(column.source, LazyNumbers):
        source = column.source.take(places)
    elif column.source is not None:
        source = column.source[places] if isinstance(places, slice) else take_values(column, places)
    if column.array is None:
        size = len(source) if source is not None else len(np.empty(column.size, np.bool_)[places])
        return Column(column.kind, size, source=source, texts=column.texts, listed=column.listed)
    data, words = column.array[places], column.words
    if column.kind is Kind.STRING and len(data) < len(words):
        # The code behind the last word stands for NULL: the highest one here, and again behind the last word.
        used, codes = np.unique(data, return_inverse=True)
        words = [words[code] for code in used.tolist() if code < len(words)]
        data = codes.astype(choose_code_type(len(words)))
    nulls = column.nulls[places] if column.nulls is not None and column.kind is not Kind.STRING else None
    if nulls is not None and not nulls.any():
        nulls = None
    ints = None if column.ints is None else column.ints[places]
    return Column(
        column.kind,
        len(data),
        data,
        nulls,
        ints=ints,
        words=words,
        source=source,
        texts=column.texts,
        listed=column.listed,
    )


def concatenate_columns(columns: Sequence[Column]) -> Column:
    """Columns of one slot, none of them a constant, one behind the other."""
    if len(columns) == 1:
        return columns[0]
    kinds = {column.kind for column in columns} - {Kind.NULL}
    # NULLs go with every kind. Numbers of two kinds, values without an array and those with texts are put together
    # value by value, by the rules for a column of all of them.
    spelled = [column.source for column in columns if isinstance(column.source, LazyNumbers)]
    plain = len(spelled) == len(columns) or all(column.source is None for column in columns)
    if len(kinds) > 1 or Kind.ROWS in kinds or not plain:
        return build_column([value for column in columns for value in column.read_values()])
    size = sum(column.size for column in columns)
    if not kinds:
        return Column(Kind.NULL, size)
    (kind,) = kinds
    if kind is Kind.STRING:
        return _concatenate_texts(columns, size)
    blank = np.nan if kind in FLOAT_KINDS else 0
    dtype = next(column.array.dtype for column in columns if column.array is not None)
    data = [np.full(column.size, blank, dtype) if column.array is None else column.array for column in columns]
    nulls = [np.zeros(column.size, np.bool_) if column.nulls is None else column.nulls for column in columns]
    ints = [np.zeros(column.size, np.bool_) if column.ints is None else column.ints for column in columns]
    missing = np.concatenate(nulls)
    return Column(
        kind,
        size,
        np.concatenate(data),
        missing if missing.any() else None,
        ints=np.concatenate(ints) if kind is Kind.NUMBER else None,
        source=LazyNumbers.concatenate(spelled) if spelled else None,
        texts=bool(spelled),
    )


def _concatenate_texts(columns: Sequence[Column], size: int) -> Column:
    codes: dict[bytes, int] = {}
    numbers = [[codes.setdefault(word, len(codes)) for word in column.words] for column in columns]
    # The code behind the last word stands for NULL, in each of the columns and in that of all of them.
    nothing, kind = len(codes), choose_code_type(len(codes))
    data = [
        np.full(column.size, nothing, kind) if column.array is None else np.array([*own, nothing], kind)[column.array]
        for column, own in zip(columns, numbers, strict=True)
    ]
    return Column(Kind.STRING, size, np.concatenate(data), words=list(codes))

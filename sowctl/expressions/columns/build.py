"""Columns from Python values: one pass for the types, one into the array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sowctl.expressions.columns.column import EXACT, NULLS, Array, Column, Kind
from sowctl.values.compare import first
from sowctl.values.fields import Number, Scalar, SlotValue, Values

_NONE = type(None)


def column_of(values: Sequence[SlotValue], *, constant: bool = False) -> Column:
    """The column of slot values. One value may be a ``constant``."""
    kinds = set(map(type, values))
    if Values not in kinds:
        return _of_scalars(values, kinds, values, constant)  # type: ignore[arg-type]
    lists = [value for value in values if type(value) is Values]
    if any(value.dropped or len(value.items) > 1 for value in lists):
        return Column(Kind.ROWS, len(values), source=values, constant=constant)
    firsts = [first(value) for value in values]
    column = _of_scalars(firsts, set(map(type, firsts)), values, constant)
    column.source, column.listed = values, True
    return column


def column_of_firsts(values: Sequence[SlotValue], *, constant: bool = False) -> Column:
    """The column of the first values of slot values."""
    firsts = [first(value) for value in values]
    return _of_scalars(firsts, set(map(type, firsts)), firsts, constant)


def constant_of(value: Scalar) -> Column:
    """A literal."""
    return NULLS if value is None else column_of([value], constant=True)


def _of_scalars(values: Sequence[Scalar], kinds: set[type], source: Sequence[SlotValue], constant: bool) -> Column:
    size = len(values)
    kinds = kinds - {_NONE}
    if not kinds:
        return Column(Kind.NULL, size, constant=constant)
    column: Column | None = None
    if kinds <= {str, bytes}:
        column = _of_strings(values, str in kinds)
    elif kinds == {bool}:
        column = _of_plain(Kind.BOOL, values, np.bool_, False)
    elif kinds <= {int, float, Number}:
        column = _of_numbers(values, kinds, source)
    if column is None:
        column = Column(Kind.ROWS, size, source=source)
    column.constant = constant
    return column


def _of_strings(values: Sequence[Any], decoded: bool) -> Column:
    index = dict.fromkeys(values)
    index.pop(None, None)
    if decoded:
        # The same text may have come as str and as bytes; the empty one is NULL.
        codes: dict[bytes, int] = {}
        for value in index:
            word = value.encode() if type(value) is str else value
            index[value] = codes.setdefault(word, len(codes)) if word else None
    else:
        codes = {word: number for number, word in enumerate(word for word in index if word)}
        index = dict(codes)
        index[b""] = None
    words = list(codes)
    kind = np.uint8 if len(words) < 255 else np.uint16 if len(words) < 65_535 else np.int32
    nothing = len(words)
    places = {value: nothing if code is None else code for value, code in index.items()}
    places[None] = nothing
    if not words:
        return Column(Kind.NULL, len(values))
    return Column(
        Kind.STRING, len(values), np.fromiter(map(places.__getitem__, values), kind, len(values)), words=words
    )


def _nulls(values: Sequence[Any]) -> Array | None:
    if None not in values:
        return None
    return np.fromiter((value is None for value in values), np.bool_, len(values))


def _of_plain(kind: Kind, values: Sequence[Any], dtype: Any, blank: Any) -> Column:
    nulls = _nulls(values) if blank is not None else None
    filled = values if nulls is None else [blank if value is None else value for value in values]
    return Column(kind, len(values), np.array(filled, dtype), nulls)


def _of_numbers(values: Sequence[Any], kinds: set[type], source: Sequence[SlotValue]) -> Column | None:
    texts = Number in kinds
    if texts:
        values = [value.value if type(value) is Number else value for value in values]
        kinds = set(map(type, values)) - {_NONE}
    column = _of_kinds(values, kinds)
    if column is not None and texts:
        column.source, column.texts = source, True
    return column


def _of_kinds(values: Sequence[Any], kinds: set[type]) -> Column | None:
    if kinds == {float}:
        return _of_plain(Kind.DOUBLE, values, np.float64, np.nan)
    whole = [value for value in values if type(value) is int]
    low, high = min(whole), max(whole)
    if kinds == {int}:
        if high < 1 << 63:
            return _of_plain(Kind.I64, values, np.int64, 0)
        return _of_plain(Kind.U64, values, np.uint64, 0) if low >= 0 else None
    if low < -EXACT or high > EXACT:
        return None
    column = _of_plain(Kind.NUMBER, values, np.float64, np.nan)
    column.ints = np.fromiter((type(value) is int for value in values), np.bool_, len(values))
    return column


def over_words(column: Column, function: Callable[[bytes | None], SlotValue]) -> Column:
    """What ``function`` makes of every distinct text of a STRING column and of NULL, put in the places of the texts."""
    return spread(column, [function(word) for word in column.words] + [function(None)])


def spread(column: Column, results: Sequence[SlotValue]) -> Column:
    """The results for the distinct texts of a STRING column, the last one for NULL, in the places of the texts."""
    table = column_of(results)
    if table.kind is Kind.NULL:
        return Column(Kind.NULL, column.size, constant=column.constant)
    codes = column.data
    if table.kind is Kind.ROWS or table.source is not None:
        return column_of(list(map(results.__getitem__, codes.tolist())), constant=column.constant)
    nulls = table.nulls
    return Column(
        table.kind,
        column.size,
        table.data[codes],
        nulls[codes] if nulls is not None and table.kind is not Kind.STRING else None,
        ints=table.ints[codes] if table.ints is not None else None,
        words=table.words,
        constant=column.constant,
    )

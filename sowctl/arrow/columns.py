"""Columns of slot values as Arrow arrays, which have the same layout. Imports numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sowctl.arrow.arrays import build_bitmap
from sowctl.values.column import Column, Kind
from sowctl.values.textspans import TextSpans

if TYPE_CHECKING:
    import pyarrow


def to_arrow(column: Column) -> pyarrow.Array:
    """The values of a column that is no constant, as an array of the Arrow type of its kind.

    BOOL is a bool, I64 an int64, U64 an uint64, DOUBLE and NUMBER are doubles, STRING is a dictionary of large strings,
    NULL is null. Numbers, codes and texts in one buffer are not copied. Raises ArrowInvalid for texts of a list that
    are not UTF-8, TypeError for ROWS.
    """
    import pyarrow as pa

    if column.kind is Kind.ROWS:
        raise TypeError("values of several kinds have no type of Arrow")
    if column.kind is Kind.NULL:
        return pa.nulls(column.size)
    data, nulls = column.data, column.nulls
    # The values under a NULL may be anything, so the buffer of all values is used unchanged.
    bitmap = None if nulls is None else build_bitmap(~nulls)
    if column.kind is Kind.BOOL:
        return pa.Array.from_buffers(pa.bool_(), column.size, [bitmap, build_bitmap(data)])
    buffer = pa.py_buffer(np.ascontiguousarray(data))
    made = pa.Array.from_buffers(pa.from_numpy_dtype(data.dtype), column.size, [bitmap, buffer])
    # A code without a text would be read beyond the end of the dictionary: those under a NULL are masked.
    return pa.DictionaryArray.from_arrays(made, _build_words(column)) if column.kind is Kind.STRING else made


def _build_words(column: Column) -> pyarrow.Array:
    import pyarrow as pa

    words = column.dictionary
    if isinstance(words, TextSpans) and len(words) and (words.begins[1:] == words.ends[:-1]).all():
        bounds = np.append(words.begins, words.ends[-1:]).astype("<i8", copy=False)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(words.raw)]
        return pa.Array.from_buffers(pa.large_string(), len(words), buffers)
    return pa.array(column.words, pa.large_string())

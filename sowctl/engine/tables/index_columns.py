"""Columns of a table, taken from the files of memo indexes: no record is read, and no value is created in Python.

If an index cannot represent a column as the records do, the records are read: fields with nested or mixed values, an
array of one value (which filters treat as that value), an empty text (which they treat as NULL), numbers that a double
may have changed, and states with records changed since. The cached column types show whether there are such values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sowctl.arrow import arrays
from sowctl.arrow.columns import to_arrow
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.index_lookup import open_indexes
from sowctl.memo.format import BadMemo
from sowctl.values.column import FLOAT_KINDS, Kind
from sowctl.values.fields import Slot
from sowctl.values.paths import Path, Step
from sowctl.values.scalars import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    import pyarrow

    from sowctl.engine.instance import Instance
    from sowctl.engine.search.index_lookup import OpenIndexes
    from sowctl.engine.sources.source import Source
    from sowctl.engine.tables.types import FieldTypes
    from sowctl.memo.index import MemoIndex
    from sowctl.values.column import Column

INDEXED_METADATA = ("_txid", "_timestamp", "_topic", "_message_type")
"""Metadata that indexes have."""


def read_indexed_table(
    instance: Instance, source: Source, types: FieldTypes, facts: Sequence[str]
) -> pyarrow.Table | None:
    """Return the columns of ``types``, which are those of this state, and ``facts``; None if indexes do not have them.

    Indexes of repeatedly used fields are built, as for a query.
    """
    import pyarrow as pa

    stored = source.stored_source
    if stored is None or stored.path is None or stored.hides or stored.meta.records < QUERY_LIMITS.index_min_records:
        return None
    if not instance.find_message_type(source.message_type).filterable or not set(facts) <= set(INDEXED_METADATA):
        return None
    # A decimal is shown as a double, unless some of its values are too large for one.
    fields = [
        field.with_type(pa.float64()) if pa.types.is_decimal(field.type) and field.name not in types.large else field
        for field in types.fields
    ]
    shown = (pa.string(), pa.int64(), pa.float64())
    # Checked before the indexes are opened, which could build one for an unsuitable field.
    if not all(field.type in shown and field.name in types.single for field in fields):
        return None
    slots = [Slot(Path((Step(field.name),))) for field in fields]
    memos = open_indexes(instance, stored, slots) if fields else None
    if memos is None or memos.changed or memos.records != stored.count_visible():
        return None
    columns: dict[str, Any] = {}
    try:
        for slot, field in zip(slots, fields, strict=True):
            memo = memos.indexes.get(slot)
            column = None if memo is None else _build_array(memo, field.type, blank=field.name in types.blank)
            if column is None:
                return None
            columns[field.name] = column
        for name in facts:
            columns[name] = _fact(memos, source, name)
    except BadMemo:
        return None
    # Not pyarrow.table(): it loads pandas if installed, which takes longer than the rest.
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _build_array(memo: MemoIndex, kind: pyarrow.DataType, *, blank: bool) -> pyarrow.Array | None:
    """Return the column of an index if it has the same values as the records; ``blank``: there are empty texts."""
    import pyarrow as pa

    column = memo.read_column()
    if pa.types.is_string(kind):
        return _build_texts(column) if column.kind is Kind.STRING and not blank else None
    if pa.types.is_int64(kind):
        return to_arrow(column) if column.kind is Kind.I64 else None
    # Up to this limit integers are exact as doubles; a larger one may have been a different number.
    if not pa.types.is_floating(kind) or column.kind not in FLOAT_KINDS or not _holds_integers(column):
        return None
    return to_arrow(column)


def _build_texts(column: Column) -> pyarrow.Array | None:
    import pyarrow as pa

    found = to_arrow(column)
    try:
        found.dictionary.validate(full=True)
    except pa.ArrowInvalid:
        return None  # a text that is not UTF-8
    return found


def _holds_integers(column: Column) -> bool:
    data = column.data if column.nulls is None else column.data[~column.nulls]
    return bool((abs(data) <= MAX_EXACT_INTEGER).all())


def _fact(memos: OpenIndexes, source: Source, name: str) -> pyarrow.Array:
    import numpy as np

    if name in ("_topic", "_message_type"):
        return arrays.build_constant(source.topic if name == "_topic" else source.message_type, memos.records)
    txids, times = memos.read_stamp_columns(np)
    return arrays.build_longs(txids) if name == "_txid" else arrays.build_timestamps(times)

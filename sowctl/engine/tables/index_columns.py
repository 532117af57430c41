"""Columns of a table from memo indexes, as they lie in their files: no record is read, and no value is made in Python.

What an index cannot show as a look at the records would is left to that look: fields of nested or mixed values, an
array of one value (which filters take for that value), an empty text (which they take for NULL), numbers that a double
may have changed, states behind which records have changed. Whether there are such values, the types say that were kept
when all records were read.
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
"""Metadata that indexes know."""


def read_indexed_table(
    instance: Instance, source: Source, types: FieldTypes, facts: Sequence[str]
) -> pyarrow.Table | None:
    """The columns of ``types``, which are those of this state, and ``facts``; None where indexes do not know them.

    Indexes are built where fields are asked for again, as for a query.
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
    # Asked before the indexes, which would be built for a field that they cannot show.
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
    # Not pyarrow.table(): it loads pandas where that is installed, which takes longer than the rest.
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _build_array(memo: MemoIndex, kind: pyarrow.DataType, *, blank: bool) -> pyarrow.Array | None:
    """The column of an index, if it has the values that records of this type have; ``blank``: empty texts as well."""
    import pyarrow as pa

    column = memo.read_column()
    if pa.types.is_string(kind):
        return _build_texts(column) if column.kind is Kind.STRING and not blank else None
    if pa.types.is_int64(kind):
        return to_arrow(column) if column.kind is Kind.I64 else None
    # Whole numbers among them are whole in a double up to here; a larger one may be another number.
    if not pa.types.is_floating(kind) or column.kind not in FLOAT_KINDS or not _holds_integers(column):
        return None
    return to_arrow(column)


def _build_texts(column: Column) -> pyarrow.Array | None:
    import pyarrow as pa

    found = to_arrow(column)
    try:
        found.dictionary.validate(full=True)
    except pa.ArrowInvalid:
        return None  # a text that is no UTF-8
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

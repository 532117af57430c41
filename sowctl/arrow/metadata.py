"""Metadata of records as columns: names and types are those of the data source ``sow``.

A written table has a mark with the columns that are metadata, and the members of messages whose names only look like
metadata. Readers follow it; in tables without a mark they recognise metadata by name only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from sowctl.arrow import arrays

if TYPE_CHECKING:
    import pyarrow

DEFAULT_COLUMNS = (
    "_sow_key",
    "_txid",
    "_timestamp",
    "_expiration",
    "_topic",
    "_message_type",
    "_logical_topic",
    "_user_key",
    "_correlation_id",
)
"""The columns that always exist. Others follow if a record has them: ``_bookmark``, ``_operation``, ..."""
INTEGER_COLUMNS = ("_txid", "_sequence", "_deliveries", "_cancels", "_priority", "_exit_status", "length")
TIME_COLUMNS = ("_timestamp", "_expiration")
CHANGE_TYPE_COLUMN = "_change_type"
"""Metadata that only change feeds have."""
METADATA_COLUMNS = frozenset(
    (*DEFAULT_COLUMNS, "_operation", "_client", "_sequence", "_bookmark", CHANGE_TYPE_COLUMN, "_reason")
)
"""Names of metadata in tables without a mark that have one of :data:`MARKER_COLUMNS`."""
MARKER_COLUMNS = frozenset(("_sow_key", "_user_key"))
"""Every table with metadata has one of these, unless members of messages have both names."""
PAYLOAD_COLUMN = "payload"
"""Name of a column with complete messages."""
MARK_KEY = b"sowctl:columns"
"""Key of the mark in the metadata of an Arrow schema."""

Facts = Mapping[str, Any]
"""Metadata of one record: numbers, texts, truth values; times in microseconds UTC, ``_sow_key`` as a number."""


def find_column_type(name: str) -> pyarrow.DataType:
    """The type of a column; ``data`` and ``length`` are those of a payload's bytes."""
    import pyarrow as pa

    if name == "_sow_key":
        return pa.decimal128(20, 0)
    if name in TIME_COLUMNS:
        return pa.timestamp("us", tz="UTC")
    if name == "data":
        return pa.binary()
    return pa.int64() if name in INTEGER_COLUMNS else pa.bool_() if name == "_lossy" else pa.string()


def build_columns(names: Sequence[str], rows: Sequence[Facts]) -> list[pyarrow.Array]:
    """A column for each name."""
    return [_metadata_column(name, [row.get(name) for row in rows]) for name in names]


def _metadata_column(name: str, values: list[Any]) -> pyarrow.Array:
    import numpy as np
    import pyarrow as pa

    kind = find_column_type(name)
    if name == "_sow_key":
        present = np.array([value is not None for value in values], bool)
        return arrays.build_nullable_decimals(np.array([value or 0 for value in values], "u8"), present)
    if name == "_expiration":
        return arrays.build_expirations(np.array([value or 0 for value in values], "i8"))
    if name == "_timestamp":
        return arrays.build_timestamps(np.array([value or 0 for value in values], "i8"))
    if pa.types.is_string(kind):
        values = [value if value is None or isinstance(value, str) else str(value) for value in values]
        # A text that came as invalid UTF-8 has unpaired surrogates, which no column can represent.
        return pa.array([None if one is None else one.encode("utf-8", "replace").decode() for one in values], kind)
    return pa.array(values, kind)


class ColumnMark(Struct, frozen=True):
    """The ``metadata`` columns of a table; and ``members`` of messages whose names look like metadata.

    A column in neither, which was added later, is judged by its name.
    """

    metadata: frozenset[str]
    members: frozenset[str]


_decode_mark = msgspec.json.Decoder(ColumnMark).decode


def build_mark(members: Collection[str], metadata: Collection[str]) -> bytes:
    """Return the mark of a table as JSON text."""
    # Every name with a meaning for readers begins so.
    odd = [name for name in members if name.startswith("_") or name == PAYLOAD_COLUMN]
    return msgspec.json.encode({"metadata": list(metadata), "members": odd})


def parse_mark(text: bytes | str | None) -> ColumnMark | None:
    """Return the mark of a table; None if it has no readable one."""
    try:
        return None if text is None else _decode_mark(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def find_metadata(names: Collection[str], mark: ColumnMark | None) -> frozenset[str]:
    """Return the columns that are metadata."""
    if mark is None:
        marked, rest = frozenset[str](), frozenset(names)
    else:
        marked = mark.metadata.intersection(names)
        rest = frozenset(names) - mark.metadata - mark.members
    return marked if MARKER_COLUMNS.isdisjoint(rest) else marked | (METADATA_COLUMNS & rest)

"""Metadata of records as columns: names and types are those of the data source ``sow``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
"""The columns that are always there. Others follow where a record has them: ``_bookmark``, ``_operation``, ..."""
INTEGER_COLUMNS = ("_txid", "_sequence", "_deliveries", "_cancels", "_priority", "_exit_status", "length")
TIME_COLUMNS = ("_timestamp", "_expiration")

Facts = Mapping[str, Any]
"""Of one record: numbers, texts, truth values; times in microseconds UTC, ``_sow_key`` as a number."""


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
        # A text that came as bytes that are no UTF-8 has half surrogates, which no column holds.
        return pa.array([None if one is None else one.encode("utf-8", "replace").decode() for one in values], kind)
    return pa.array(values, kind)

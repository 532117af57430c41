"""Convert the rows that a task gets from Spark to payloads and envelopes that the engine publishes.

sowctl-spark(7), WRITING. A column ``payload`` is the message, as bytes, string or struct. Without it, all columns
except metadata are the fields of the message. :mod:`sowctl.arrow.message_encoder` encodes fields as messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.arrow.inputs.rowmessages import MessageMaker, build_struct_array, build_text_reader
from sowctl.arrow.message_encoder import find_wrapping_root
from sowctl.errors import UsageError
from sowctl.messages.framing.envelope import Envelope
from sowctl.spark.schema import CORRUPT_COLUMN, PAYLOAD_COLUMN, check_row_fields, select_field_columns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.messages.base import MessageType

OWN_COLUMNS = ("_sow_key", "_user_key", "_timestamp", "_expiration", "_correlation_id", "_operation")
"""Metadata columns that a writer uses; the others are ignored."""


def decode_variant(value: bytes, metadata: bytes) -> Any:
    """Decode Spark's representation of a VARIANT into Python values."""
    from pyspark.sql.types import VariantVal

    return VariantVal(value, metadata).toPython()


class EncodedRows(Struct, frozen=True):
    """The messages of one batch, as three parallel lists; a row that cannot be converted has an exception as payload.

    ``operations`` is None if the rows have no such column.
    """

    payloads: list[bytes | Exception]
    envelopes: list[Envelope]
    operations: list[str] | None


class RowEncoder:
    """Encodes messages of one type from Arrow batches with one schema.

    ``keep_stamps``: use the columns ``_timestamp`` and ``_expiration``; otherwise messages get new values. ``by_key``:
    rows may have only a ``_sow_key``, which identifies the record. ``own_keys``: the publisher chooses the keys.
    ``root`` is the first step of the topic's keys. Raises UsageError ``SOW-SPK-030``, ``SOW-SPK-113``, or for XML
    ``SOW-SPK-081``, if rows of the schema cannot be converted to messages.
    """

    def __init__(
        self,
        schema: StructType,
        kind: MessageType,
        *,
        keep_stamps: bool,
        by_key: bool,
        own_keys: bool,
        root: str | None = None,
    ) -> None:
        from pyspark.sql.types import BinaryType, StringType, StructType

        self._kind = kind
        self._keep = keep_stamps
        self._own_keys = own_keys
        names = schema.fieldNames()
        self._has = {name for name in OWN_COLUMNS if name in names}
        self._fields = select_field_columns(names)
        self._payload = PAYLOAD_COLUMN if PAYLOAD_COLUMN in names else None
        if self._payload is not None:
            # The column of malformed messages may exist, because it is not written.
            lost = [name for name in self._fields if name not in (PAYLOAD_COLUMN, CORRUPT_COLUMN)]
            if lost:
                raise UsageError(
                    "SOW-SPK-030",
                    f"column {lost[0]} would not be written: the column payload is the whole message",
                    hint="drop it, or make it a field of the struct payload; rename payload to make it a field",
                )
            self._raw = isinstance(schema[PAYLOAD_COLUMN].dataType, BinaryType | StringType)
            if not self._raw and not isinstance(schema[PAYLOAD_COLUMN].dataType, StructType):
                raise UsageError("SOW-SPK-030", "column payload must be bytes, a string or a struct")
        elif not self._fields and not (by_key and "_sow_key" in names):
            raise UsageError(
                "SOW-SPK-030",
                "the rows have no column for a message",
                hint="add a column payload, or columns for its fields",
            )
        # Rejected when the write starts, not by the first row of a task.
        if not (self._payload and self._raw) and self._fields and not kind.constructible:
            raise UsageError(
                "SOW-SPK-030",
                f"messages of type {kind.name} cannot be constructed from fields",
                hint="provide them as bytes in a column payload",
            )
        if not (self._payload and self._raw):
            inner = None if self._payload is None else schema[PAYLOAD_COLUMN].dataType
            check_row_fields(inner.fields if isinstance(inner, StructType) else [schema[name] for name in self._fields])
        self._root = root
        self._maker: MessageMaker | None = None
        if kind.rooted and not (self._payload and self._raw) and self._fields:
            struct = None if self._payload is None else schema[PAYLOAD_COLUMN].dataType
            find_wrapping_root(struct.fieldNames() if isinstance(struct, StructType) else self._fields, root)

    def encode_rows(self, batch: pyarrow.RecordBatch) -> EncodedRows:
        """Encode the rows of a batch, in order. Raises UsageError if the message type does not support the columns."""
        operations = batch.column("_operation").to_pylist() if "_operation" in self._has else None
        payloads = self._payloads(batch)
        return EncodedRows(payloads, self._envelopes(batch, payloads), operations)

    def _payloads(self, batch: pyarrow.RecordBatch) -> list[bytes | Exception]:
        if self._payload is not None and self._raw:
            texts = batch.column(PAYLOAD_COLUMN).to_pylist()
            # A row without a message has only a key; the operation decides later whether the empty payload is valid.
            return [text if isinstance(text, bytes) else b"" if text is None else text.encode() for text in texts]
        if self._payload is not None:
            rows = batch.column(PAYLOAD_COLUMN)
        elif self._fields:
            rows = build_struct_array(batch, self._fields)
        else:
            return [b""] * len(batch)
        if self._maker is None:
            # Created at the first batch, whose Arrow types are the actual types of the columns.
            self._maker = MessageMaker(list(rows.type), self._kind, self._root, decode_variant)
        messages = self._maker.encode_rows(rows)
        for made in messages:
            # A UsageError concerns the columns, not a single row.
            if isinstance(made, UsageError):
                raise made
        return [b"" if made is None else made for made in messages]

    def _envelopes(self, batch: pyarrow.RecordBatch, payloads: list[bytes | Exception]) -> list[Envelope]:
        """Build the envelopes of the rows; an error in one replaces the payload of its row in ``payloads``."""
        # If the publisher chooses keys, the SOW key is computed from its text.
        wanted = {
            "sow_key": "_user_key" if self._own_keys else "_sow_key",
            "timestamp": "_timestamp" if self._keep else "",
            "expiration": "_expiration" if self._keep else "",
            "correlation_id": "_correlation_id",
        }
        columns = {
            name: build_text_reader(batch.schema.field(column))(batch.column(column))
            for name, column in wanted.items()
            if column in self._has
        }
        if not columns:
            return [Envelope()] * len(batch)
        found = []
        for place, row in enumerate(zip(*columns.values(), strict=True)):
            problem = next((one for one in row if isinstance(one, Exception)), None)
            if problem is not None:
                payloads[place] = problem
            texts: dict[str, Any] = {} if problem is not None else dict(zip(columns, row, strict=True))
            found.append(Envelope(**texts))
        return found

"""Rows to messages: what a task gets from Spark, as the payloads and envelopes that the engine publishes.

sowctl-spark(7), WRITING. A column ``payload`` is the message, as bytes, text or struct; without one, all columns that
do not begin with an underscore are its fields. :mod:`sowctl.arrow.build` makes messages of fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.arrow.build import stamp, wrapping
from sowctl.arrow.rowmessages import MessageMaker, struct_array
from sowctl.errors import UsageError
from sowctl.messages.framing.envelope import Envelope
from sowctl.spark.schema import PAYLOAD, check_written

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.messages.base import MessageType

OWN = ("_sow_key", "_user_key", "_timestamp", "_expiration", "_correlation_id", "_operation")
"""Columns of a row besides its message that a writer looks at; others with an underscore are passed over."""


def variant_of(value: bytes, metadata: bytes) -> Any:
    """What Spark hands over for a VARIANT, as Python values."""
    from pyspark.sql.types import VariantVal

    return VariantVal(value, metadata).toPython()


class EncodedRows(Struct, frozen=True):
    """Messages of one batch, or why a row makes none; the three lists run in parallel.

    ``operations`` is None where rows have none.
    """

    payloads: list[bytes | Exception]
    envelopes: list[Envelope]
    operations: list[str] | None


class RowEncoder:
    """Makes messages of one type from Arrow batches of one schema.

    ``keep_stamps``: the columns ``_timestamp`` and ``_expiration`` count; else messages get new ones. ``by_key``:
    rows may do without a message, their ``_sow_key`` says what is meant. ``own_keys``: the publisher chooses the keys.
    ``root`` is the first step of the topic's keys. Raises UsageError ``SOW-SPK-030``, ``SOW-SPK-113``, for XML
    ``SOW-SPK-081``, for a schema of which no message can be made.
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
        self._has = {name for name in OWN if name in names}
        self._fields = [name for name in names if not name.startswith("_")]
        self._payload = PAYLOAD if PAYLOAD in names else None
        if self._payload is not None:
            self._raw = isinstance(schema[PAYLOAD].dataType, BinaryType | StringType)
            if not self._raw and not isinstance(schema[PAYLOAD].dataType, StructType):
                raise UsageError("SOW-SPK-030", "column payload is neither bytes nor text nor a struct")
        elif not self._fields and not (by_key and "_sow_key" in names):
            raise UsageError(
                "SOW-SPK-030", "the rows have no message", hint="a column payload, or columns for its fields"
            )
        # Refused when the write begins, and not by the first row of some task.
        if not (self._payload and self._raw) and self._fields and not kind.constructible:
            raise UsageError(
                "SOW-SPK-030",
                f"messages of type {kind.name} cannot be made of fields",
                hint="give them as bytes in a column payload",
            )
        if not (self._payload and self._raw):
            inner = None if self._payload is None else schema[PAYLOAD].dataType
            check_written(inner.fields if isinstance(inner, StructType) else [schema[name] for name in self._fields])
        self._root = root
        self._maker: MessageMaker | None = None
        if kind.rooted and not (self._payload and self._raw) and self._fields:
            struct = None if self._payload is None else schema[PAYLOAD].dataType
            wrapping(struct.fieldNames() if isinstance(struct, StructType) else self._fields, root)

    def rows(self, batch: pyarrow.RecordBatch) -> EncodedRows:
        """The messages of a batch, in order. Raises UsageError where the message type cannot have the columns."""
        columns = {name: batch.column(name).to_pylist() for name in self._has}
        operations = columns.get("_operation")
        return EncodedRows(self._payloads(batch), list(self._envelopes(columns, len(batch))), operations)

    def _payloads(self, batch: pyarrow.RecordBatch) -> list[bytes | Exception]:
        if self._payload is not None and self._raw:
            texts = batch.column(PAYLOAD).to_pylist()
            # A row without a message stands for its key alone: empty here, judged by the operation later.
            return [text if isinstance(text, bytes) else b"" if text is None else text.encode() for text in texts]
        if self._payload is not None:
            rows = batch.column(PAYLOAD)
        elif self._fields:
            rows = struct_array(batch, self._fields)
        else:
            return [b""] * len(batch)
        if self._maker is None:
            # Made at the first batch, whose Arrow types say what the columns really hold.
            self._maker = MessageMaker(list(rows.type), self._kind, self._root, variant_of)
        messages = self._maker.messages(rows)
        for made in messages:
            # That the type of the messages has no such columns is no matter of one row.
            if isinstance(made, UsageError):
                raise made
        return [b"" if made is None else made for made in messages]

    def _envelopes(self, columns: dict[str, list[Any]], count: int) -> Iterator[Envelope]:
        nothing = [None] * count
        keep = self._keep
        # Where the publisher chooses keys, the SOW key follows from the text that it chose.
        key = "_user_key" if self._own_keys else "_sow_key"
        parts = (
            columns.get(key, nothing),
            columns.get("_timestamp", nothing) if keep else nothing,
            columns.get("_expiration", nothing) if keep else nothing,
            columns.get("_correlation_id", nothing),
        )
        for number, at, expiration, correlation in zip(*parts, strict=True):
            yield Envelope(
                sow_key=None if number is None else str(number),
                timestamp=stamp(at),
                expiration=stamp(expiration),
                correlation_id=correlation,
            )

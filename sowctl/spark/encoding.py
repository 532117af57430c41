"""Rows to messages: what a task gets from Spark, as the payloads and envelopes that the engine publishes.

sowctl-spark(7), WRITING. A column ``payload`` is the message, as bytes, text or struct; without one, all columns that
do not begin with an underscore are its fields. NULL fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sowctl.errors import UsageError
from sowctl.messages.envelope import Envelope
from sowctl.spark.schema import PAYLOAD
from sowctl.tuples import NamedTuple
from sowctl.values.times import EPOCH, format_time

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from sowctl.messages.base import MessageType
    from sowctl.values.fields import Scalar

OWN = ("_sow_key", "_user_key", "_timestamp", "_expiration", "_correlation_id", "_operation")
"""Columns of a row besides its message that a writer looks at; others with an underscore are passed over."""


class Rows(NamedTuple):
    """Messages of one batch; the three lists run in parallel. ``operations`` is None where rows have none."""

    payloads: list[bytes]
    envelopes: list[Envelope]
    operations: list[str] | None


class RowEncoder:
    """Makes messages of one type from Arrow batches of one schema.

    ``keep_stamps``: the columns ``_timestamp`` and ``_expiration`` count; else messages get new ones. ``by_key``:
    rows may do without a message, their ``_sow_key`` says what is meant. ``own_keys``: the publisher chooses the keys.
    Raises UsageError ``SOW-SPK-030`` for a schema of which no message can be made.
    """

    def __init__(
        self, schema: StructType, kind: MessageType, *, keep_stamps: bool, by_key: bool, own_keys: bool
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
        if not (self._payload and self._raw) and self._fields and kind.kind != "json" and not kind.constructible:
            raise UsageError(
                "SOW-SPK-030",
                f"messages of type {kind.name} cannot be made of fields",
                hint="give them as bytes in a column payload",
            )

    def rows(self, batch: pyarrow.RecordBatch) -> Rows:
        """The messages of a batch, in order. Raises what making a message of fields raises."""
        columns = {name: batch.column(name).to_pylist() for name in self._has}
        operations = columns.get("_operation")
        return Rows(self._payloads(batch), list(self._envelopes(columns, len(batch))), operations)

    def _payloads(self, batch: pyarrow.RecordBatch) -> list[bytes]:
        if self._payload is not None and self._raw:
            texts = batch.column(PAYLOAD).to_pylist()
            return [text if isinstance(text, bytes) else b"" if text is None else text.encode() for text in texts]
        if self._payload is not None:
            rows = batch.column(PAYLOAD).to_pylist()
        elif self._fields:
            rows = batch.select(self._fields).to_pylist()
        else:
            return [b""] * len(batch)
        return [b"" if row is None else message_of(row, self._kind) for row in rows]

    def _envelopes(self, columns: dict[str, list[Any]], count: int) -> Iterator[Envelope]:
        nothing = [None] * count
        keep = self._keep
        key = "_user_key" if self._own_keys else "_sow_key"
        parts = (
            columns.get(key, nothing),
            columns.get("_timestamp", nothing) if keep else nothing,
            columns.get("_expiration", nothing) if keep else nothing,
            columns.get("_correlation_id", nothing),
        )
        for number, time, expiration, correlation in zip(*parts, strict=True):
            yield Envelope(
                sow_key=None if number is None else str(number),
                timestamp=_stamp(time),
                expiration=_stamp(expiration),
                correlation_id=correlation,
            )


def _stamp(at: datetime | None) -> str | None:
    return None if at is None else format_time((_aware(at) - EPOCH) // timedelta(microseconds=1))


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def message_of(row: dict[str, Any], kind: MessageType) -> bytes:
    """One message of these fields, without those that are NULL.

    Raises what :meth:`MessageType.build` raises, UsageError ``SOW-SPK-030`` for a field that its type cannot hold.
    """
    if kind.kind == "json":
        import msgspec

        encoded: bytes = msgspec.json.encode(_plain(row))
        return encoded
    return kind.build(list(_members(row, ())))


def _plain(value: Any) -> Any:
    """What JSON can say; pairs of a map are an object."""
    import msgspec

    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return {str(name): _plain(inner) for name, inner in value if inner is not None}
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return _stamp(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Decimal):
        return msgspec.Raw(f"{value:f}".encode())
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value


def _members(row: dict[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Scalar]]:
    for name, value in row.items():
        path = (*above, name)
        if isinstance(value, dict):
            yield from _members(value, path)
        elif isinstance(value, list):
            raise UsageError("SOW-SPK-030", f"field {'/'.join(path)} is a list: give such messages as bytes")
        elif value is not None:
            yield path, _scalar(value)


def _scalar(value: Any) -> Scalar:
    if isinstance(value, datetime):
        return _stamp(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 1 << 63 else float(value)
    if isinstance(value, bool | int | float | str | bytes):
        return value
    return str(value)

"""Rows of a data set into messages of a topic's type, on the executors (for the jobs ``load`` and ``view``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sowctl.engine.instance import Instance
from sowctl.errors import SowError, UsageError
from sowctl.messages.envelope import Envelope
from sowctl.values.fields import Values

if TYPE_CHECKING:
    import pyarrow

    from sowctl.engine.staging import Plan

PAYLOAD = "payload"
OWN = (
    *("_sow_key", "_txid", "_timestamp", "_expiration", "_topic", "_logical_topic", "_user_key", "_correlation_id"),
    *("_operation", "_message_type", "_client", "_sequence"),
)
"""Columns of our own data sets that are no fields of a message."""


class Builder:
    """Makes messages of rows. A column ``payload`` of bytes or text is the message, of a struct its fields, where there
    is no other; else the columns are the fields."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._kind = Instance(plan.config).type_of(plan.topic.message_type)
        self._by_user = plan.topic.key_mode == "user"

    def messages(
        self, batch: pyarrow.RecordBatch
    ) -> tuple[list[bytes | None], list[Envelope] | None, list[tuple[int, str, str]]]:
        """Payloads (None: refused), envelopes where rows bring keys or correlation ids, and refusals."""
        import pyarrow.types as t

        names = batch.schema.names
        refused: list[tuple[int, str, str]] = []
        if PAYLOAD in names and not t.is_nested(batch.schema.field(PAYLOAD).type):
            column = batch.column(PAYLOAD).to_pylist()
            payloads = [text.encode() if isinstance(text, str) else text for text in column]
            refused = [
                (place, "SOW-SPK-043", "its payload is null") for place, one in enumerate(payloads) if one is None
            ]
        else:
            payloads = self._built(batch, refused)
        return payloads, self._envelopes(batch), refused

    def _built(self, batch: pyarrow.RecordBatch, refused: list[tuple[int, str, str]]) -> list[bytes | None]:
        fields = [name for name in batch.schema.names if name not in OWN]
        if not self._kind.constructible:
            raise UsageError(
                "SOW-SPK-044",
                f"messages of type {self._kind.name} cannot be made from columns",
                hint=f"give each row's message in a column named {PAYLOAD}",
            )
        found: list[bytes | None] = []
        as_json = self._kind.kind == "json"
        rows = batch.select(fields).to_pylist()
        if fields == [PAYLOAD]:  # a struct, as export --fields writes it: its members are the fields
            rows = [row[PAYLOAD] or {} for row in rows]
        for place, row in enumerate(rows):
            try:
                found.append(json_message(row) if as_json else self._kind.build(list(members(row))))
            except (SowError, ValueError, TypeError) as error:
                found.append(None)
                code = error.code if isinstance(error, SowError) else "SOW-SPK-045"
                refused.append((place, code, f"its columns make no message: {error}"))
        return found

    def _envelopes(self, batch: pyarrow.RecordBatch) -> list[Envelope] | None:
        names = batch.schema.names
        own = "_user_key" if "_user_key" in names and self._by_user else None
        if own is None and "_sow_key" in names and self._by_user:
            own = "_sow_key"
        if own is None and "_correlation_id" not in names:
            return None
        empty = [None] * batch.num_rows
        keys = batch.column(own).to_pylist() if own is not None else empty
        correlations = batch.column("_correlation_id").to_pylist() if "_correlation_id" in names else empty
        return [
            Envelope(sow_key=None if key is None else str(key), correlation_id=correlation)
            for key, correlation in zip(keys, correlations, strict=True)
        ]


def plain(value: Any) -> Any:
    """A cell as JSON has it: times as texts, decimals as numbers where that loses nothing, bytes as UTF-8 text."""
    if isinstance(value, dict):
        return {str(name): plain(child) for name, child in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(name): plain(child) for name, child in value}  # a map, as Arrow gives it
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode()
    return value


def json_message(row: dict[str, Any]) -> bytes:
    """A row as a JSON object, without the columns that are null."""
    kept = {name: plain(value) for name, value in row.items() if value is not None}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def members(row: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The fields of a row for :meth:`MessageType.build`: nested ones by path, lists of scalars as value lists."""
    for name, raw in row.items():
        value = plain(raw)
        if isinstance(value, dict):
            yield from members(value, (*before, name))
        elif isinstance(value, list):
            yield (*before, name), Values(tuple(item for item in value if not isinstance(item, dict | list)))
        elif value is not None:
            yield (*before, name), value

"""What the renderers print: batches of records, as protocols that the engine's results fit, and plain classes of them.

A renderer touches only what it prints: ``ndjson`` without envelopes never asks a record for its times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from sowctl.values.times import Micros, format_end, format_time

View: TypeAlias = Callable[[bytes], bytes]
"""Payload to one line of JSON text; never fails (``MessageType.view``)."""


class ShownRecord(Protocol):
    """One record or journal entry. Times are microseconds UTC; ``expiration`` 0 is none."""

    @property
    def payload(self) -> bytes: ...
    @property
    def sow_key(self) -> int: ...
    @property
    def timestamp(self) -> Micros: ...
    @property
    def expiration(self) -> Micros: ...
    @property
    def txid(self) -> int: ...
    @property
    def bookmark(self) -> str | None: ...
    @property
    def correlation_id(self) -> str | None: ...
    @property
    def extra(self) -> Mapping[str, Any] | None:
        """More metadata: ``client``, ``sequence``, ``operation``; ``user_key``, the key that its publisher chose;
        ``topic``, where that is another one than the batch's; ``unkeyed`` where there is no key."""
        ...


class Batch(Protocol):
    """Records of one topic. ``view`` makes JSON of a payload.

    A batch may have ``members_view`` too: an object for columns, where paths do not lead through what ``view`` makes;
    and ``payloads``: those of its records, at less cost.
    """

    @property
    def topic(self) -> str: ...
    @property
    def message_type(self) -> str: ...
    @property
    def view(self) -> View: ...
    @property
    def records(self) -> Sequence[ShownRecord]: ...


def payloads_of(batch: Batch) -> Sequence[bytes]:
    """The payloads of a batch's records."""
    known: Sequence[bytes] | None = getattr(batch, "payloads", None)
    return [record.payload for record in batch.records] if known is None else known


class OutputRecord(Struct, frozen=True):
    """A :class:`ShownRecord` as a plain class."""

    payload: bytes
    sow_key: int = 0
    timestamp: Micros = 0
    expiration: Micros = 0
    txid: int = 0
    bookmark: str | None = None
    correlation_id: str | None = None
    extra: Mapping[str, Any] | None = None


class OutputBatch(Struct, frozen=True):
    """A :class:`Batch` as a plain class."""

    topic: str
    message_type: str
    view: View
    records: Sequence[ShownRecord]


METADATA = (
    "topic",
    "message_type",
    "sow_key",
    "timestamp",
    "expiration",
    "txid",
    "bookmark",
    "correlation_id",
)
"""The metadata that every envelope has, in its order."""
_REPLACING = ("user_key", "topic", "unkeyed")
MORE_METADATA = ("client", "sequence", "operation", "until", "lossy")
"""Metadata that an envelope has only where a record has it; the last two are of versions."""


def metadata(batch: Batch, record: ShownRecord) -> dict[str, Any]:
    """The metadata of a record as plain JSON values: keys as decimal text
    or as their publisher chose them, times as ISO-8601 with Z, absent = None.

    A batch may say which of them are ``shown``.
    """
    extra = record.extra or {}
    row: dict[str, Any] = {
        "topic": extra.get("topic") or batch.topic,
        "message_type": batch.message_type,
        "sow_key": None if extra.get("unkeyed") else extra.get("user_key") or str(record.sow_key),
        "timestamp": format_time(record.timestamp),
        "expiration": format_end(record.expiration),
        "txid": record.txid,
        "bookmark": record.bookmark,
        "correlation_id": record.correlation_id,
    }
    row.update((name, value) for name, value in extra.items() if value is not None and name not in _REPLACING)
    shown: Sequence[str] | None = getattr(batch, "shown", None)
    return row if shown is None else {name: row[name] for name in shown if name in row}

"""Batches of records for renderers: protocols that the engine's results implement, and plain classes of them.

A renderer reads only what it prints: ``ndjson`` without envelopes never reads the times of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct

from sowctl.values.times import Micros, format_expiry, format_time

View: TypeAlias = Callable[[bytes], bytes]
"""Payload to one line of JSON text; never fails (``MessageType.view``)."""


class ShownRecord(Protocol):
    """One record or journal entry. Times are microseconds UTC; ``expiration`` 0 is none."""

    @property
    def payload(self) -> bytes: ...
    @property
    def has_data(self) -> bool:
        """True if there is a message to show; a deletion has none."""
        ...

    @property
    def sow_key(self) -> int: ...
    @property
    def timestamp(self) -> Micros: ...
    @property
    def expiration(self) -> Micros: ...
    @property
    def txid(self) -> int | None:
        """None for an event without an entry: an expiration."""
        ...

    @property
    def bookmark(self) -> str | None: ...
    @property
    def correlation_id(self) -> str | None: ...
    @property
    def extra(self) -> Mapping[str, Any] | None:
        """More metadata: ``client``, ``sequence``, ``operation``; ``user_key``, the key that its publisher chose;
        ``topic``, if it differs from the batch's; ``unkeyed`` if there is no key."""
        ...


class Batch(Protocol):
    """Records of one topic.

    ``view`` converts a payload to JSON, ``members_view`` to an object for columns, if paths cannot lead through the
    result of ``view``. ``payloads`` are those of its records, at lower cost; ``shown`` the metadata of envelopes, None
    for all.
    """

    @property
    def topic(self) -> str: ...
    @property
    def message_type(self) -> str: ...
    @property
    def view(self) -> View: ...
    @property
    def members_view(self) -> View: ...
    @property
    def records(self) -> Sequence[ShownRecord]: ...
    @property
    def payloads(self) -> Sequence[bytes]: ...
    @property
    def shown(self) -> Sequence[str] | None: ...


def find_repeat(batches: Iterable[Batch]) -> Callable[[], Iterable[Batch]] | None:
    """The function that reads a result again from its beginning; None if it cannot be repeated.

    Optional, and checked only here: most results are streamed.
    """
    return getattr(batches, "iterate_again", None)


def find_exact_view(batch: Batch) -> View | None:
    """Return the view for formats that have NaN and infinities, which are words in it; None if there is none.

    Optional, and checked only here.
    """
    return cast("View | None", getattr(batch, "exact_view", None))


def is_repeatable(batch: Batch) -> bool:
    """Return True if a field with one value may be a list of one in the messages of this batch.

    Optional, and checked only here.
    """
    return bool(getattr(batch, "repeatable", False))


def is_own_view(batch: Batch) -> bool:
    """Return True if payloads are certainly their own JSON views, so that no view has to be built.

    Optional, and checked only here.
    """
    return getattr(batch, "is_own_view", False)


def replaces_bytes(batch: Batch) -> bool:
    """Return True if views of payloads may have U+FFFD instead of bytes that are not UTF-8.

    Optional, and checked only here.
    """
    return getattr(batch, "replaces_bytes", False)


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
    has_data: bool = True


class OutputBatch(Struct, frozen=True):
    """A :class:`Batch` as a plain class."""

    topic: str
    message_type: str
    view: View
    records: Sequence[ShownRecord]
    shown: Sequence[str] | None = None
    exact_view: View | None = None

    @property
    def members_view(self) -> View:
        """The function ``view``."""
        return self.view

    @property
    def payloads(self) -> Sequence[bytes]:
        """Those of its records, in their order."""
        return [record.payload for record in self.records]


class StoredBatch(Batch, Protocol):
    """A batch of stored records: each of them has data."""

    def read_metadata_columns(self) -> tuple[Sequence[int], ...] | None:
        """SOW keys, times, expirations and txids, by column; None if a record has more metadata."""
        ...


def as_stored_batch(batch: Batch) -> StoredBatch | None:
    """The batch as one of stored records; None for others, which are processed by rows.

    Optional, and checked only here.
    """
    return cast("StoredBatch", batch) if hasattr(batch, "read_metadata_columns") else None


METADATA_NAMES = (
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
_REPLACING_NAMES = ("user_key", "topic", "unkeyed")
MORE_METADATA_NAMES = (
    *("change_type", "client", "sequence", "operation", "until", "lossy"),
    *("state", "token", "lease_until", "holder", "deliveries", "cancels", "priority", "barrier", "reason"),
    *("exit_status", "stderr"),
)
"""Metadata that an envelope has only if a record has it; ``lossy`` is for versions, the following names for queues, and
``reason`` also for deletions in a change feed."""
CHANGE_NAMES = ("change_type", "reason", *METADATA_NAMES)
"""The leading metadata of the rows of a change feed."""


def build_metadata_columns(batch: StoredBatch) -> dict[str, Sequence[Any]] | None:
    """Return :func:`build_metadata` of the records by columns; None if each must be read by itself."""
    stamps = batch.read_metadata_columns() if batch.shown is None else None
    if stamps is None:
        return None
    keys, times, ends, txids = stamps
    count = len(keys)
    return {
        "topic": [batch.topic] * count,
        "message_type": [batch.message_type] * count,
        "sow_key": list(map(str, keys)),
        "timestamp": list(map(format_time, times)),
        "expiration": list(map(format_expiry, ends)),
        "txid": txids,
        "bookmark": [None] * count,
        "correlation_id": [None] * count,
    }


def build_metadata(batch: Batch, record: ShownRecord) -> dict[str, Any]:
    """The metadata of a record as plain JSON values: keys as decimal text
    or as their publisher chose them, times as ISO-8601 with Z, absent = None.

    A batch may restrict it to the names in ``shown``.
    """
    extra = record.extra or {}
    row: dict[str, Any] = {
        "topic": extra.get("topic") or batch.topic,
        "message_type": batch.message_type,
        # As text: a key has up to 20 digits, and many readers of JSON convert numbers to doubles, which keep 15.
        "sow_key": None if extra.get("unkeyed") else extra.get("user_key") or str(record.sow_key),
        "timestamp": format_time(record.timestamp),
        "expiration": format_expiry(record.expiration),
        "txid": record.txid,
        "bookmark": record.bookmark,
        "correlation_id": record.correlation_id,
    }
    # Values that replace a member are already in the row, under its name.
    row.update((name, value) for name, value in extra.items() if value is not None and name not in _REPLACING_NAMES)
    return row if batch.shown is None else {name: row[name] for name in batch.shown if name in row}

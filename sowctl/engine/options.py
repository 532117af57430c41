"""Options of the verbs, as plain values; the command line and programs fill in the same classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

OnError = Literal["stop", "skip", "abort"]
DeltaNull = Literal["ignore", "set"]
INDEX_MIN_RECORDS = 20_000
"""Records from which on a memo index is built: fewer are read faster than one is opened."""


def needs_reindex(loaded: Iterable[tuple[str, str, int]]) -> bool:
    """Return whether a load (topic, type, count) calls for ``reindex_loaded``: smaller stores have no indexes."""
    return max((count for _, _, count in loaded), default=0) >= INDEX_MIN_RECORDS


class PublishOptions(Struct, frozen=True):
    """Options of publishing.

    ``batch`` messages, ``batch_bytes`` or ``linger`` seconds close a batch, whichever is first; without ``batch`` there
    are 1,000 messages in it, or 8,192 where that is faster, and batches up to ``batch_bytes`` are synced together while
    the input has more ready. ``on_error``: stop at the first bad message, skip it, or write nothing at all if there is
    one. ``max_errors``: more refused messages than this end a run that skips. ``expiration`` in seconds (0: never).
    ``client`` names the publisher; ``sequence`` numbers its first message and switches the detection of duplicates on.
    ``timestamp`` is the time of all messages, ``timestamp_field`` the path that holds each one's own, behind which a
    colon and s, ms, us or ns are the unit of numbers since 1970. ``delta``:
    messages are deltas unless their envelopes say otherwise; NULL fields in one change nothing unless ``delta_null`` is
    set; ``update_only`` refuses a delta to a record that is not there.
    """

    batch: int | None = None
    batch_bytes: int = 1 << 20
    linger: float | None = None
    on_error: OnError = "stop"
    max_errors: int | None = None
    dry_run: bool = False
    expiration: float | None = None
    sow_key: str | None = None
    client: str | None = None
    sequence: int | None = None
    timestamp: str | None = None
    timestamp_field: str | None = None
    allow_null_key: bool = False
    allow_volatile: bool = False
    delta: bool = False
    delta_null: DeltaNull = "ignore"
    update_only: bool = False


class QueryOptions(Struct, frozen=True):
    """Options of a query: the records to read, their order and number. ``at`` is an instant in microseconds UTC.

    ``skip_n`` needs ``top_n``. ``sow_keys`` are texts as clients see them. ``sort_memory`` bytes are held while
    ordering, and while a view is computed; what is more goes to temporary files. ``by_time``: in the order of updates
    where there is no other. ``projection`` and ``grouping``, both or neither, ask for one message per group.
    ``after_key``: only records whose SOW keys come after it, in key order. ``jobs`` processes may read a large store;
    None: as many as pay. ``index_from``: records of a store from which on memo indexes are used and built; None: never.
    ``counted``: read on where all of ``top_n`` have been found, so that statistics say how many match (behaviour C59),
    and count the records that keys and indexes spared. ``fresh``: compute a view or conflated topic from its topics,
    and make its cache anew. ``unknown``: a field that no record has, of those that are asked for or ``shown``, is
    remarked behind the result (of a large store where its first records lack it), or refused before any is read.
    """

    filter: str | None = None
    order_by: str | None = None
    top_n: int | None = None
    skip_n: int | None = None
    sow_keys: tuple[str, ...] | None = None
    at: int | None = None
    select: str | None = None
    batch_size: int = 1000
    sort_memory: int = 64 << 20
    by_time: bool = False
    index_from: int | None = INDEX_MIN_RECORDS
    projection: str | None = None
    grouping: str | None = None
    after_key: str | None = None
    jobs: int | None = None
    counted: bool = True
    fresh: bool = False
    shown: tuple[str, ...] = ()
    unknown: Literal["ignore", "note", "error"] = "ignore"


class SubscribeOptions(Struct, frozen=True):
    """Options of a subscription: the messages to follow, and until when.

    ``filter``, ``sow_keys``, ``order_by``, ``top_n``, ``skip_n`` and ``select`` are those of a query; they shape the
    records that come first, filter, SOW keys and select also every message behind them. ``sow``: those records are
    wanted. ``query_id`` and ``batch_size`` are delivered with them. ``until_now``: end where the log ends at the start;
    ``lasting``: after so many seconds; ``most``: after so many messages behind the records. ``progress_every``: seconds
    after which a position is told though nothing matched. ``oof``: tell what leaves the result. ``delta``: of a record
    that was told before, only the fields that differ; ``no_empties``: nothing where none does; ``send_keys``: the key
    fields, too, which is so without ``no_empties``. ``conflation``: at most one message per key in each interval (a
    time such as 2s, auto, or none), keys being the fields ``conflation_key``, by default SOW keys. ``projection`` and
    ``grouping``, both or neither: one message per group. ``bookmark``: begin there, with the states of that place or,
    without ``sow``, with every message behind it; ``bookmark_not_found``: fail, epoch or now; ``rate``: how fast what
    is replayed goes, ``rate_max_gap`` seconds apart at most. ``events``: rely on the system's word for changes, not on
    looking alone.
    """

    filter: str | None = None
    order_by: str | None = None
    top_n: int | None = None
    skip_n: int | None = None
    sow_keys: tuple[str, ...] | None = None
    select: str | None = None
    sow: bool = True
    batch_size: int = 1
    query_id: str | None = None
    until_now: bool = False
    lasting: float | None = None
    most: int | None = None
    progress_every: float | None = None
    oof: bool = False
    delta: bool = False
    no_empties: bool = False
    send_keys: bool = False
    conflation: str | None = None
    conflation_key: str | None = None
    projection: str | None = None
    grouping: str | None = None
    bookmark: str | None = None
    bookmark_not_found: str | None = None
    rate: str | None = None
    rate_max_gap: float | None = None
    events: bool = True


class DeleteOptions(Struct, frozen=True):
    """Options of a delete: exactly one of a filter, SOW keys, or messages whose keys are meant."""

    filter: str | None = None
    sow_keys: tuple[str, ...] | None = None
    data: tuple[bytes, ...] | None = None
    dry_run: bool = False
    client: str | None = None


class ReplayOptions(Struct, frozen=True):
    """Options of a rebuild. ``until_txid`` or ``until_time`` (microseconds UTC) ends it; ``into`` is a directory for
    new stores; ``journal`` another directory to read journals from; ``rebuild`` starts over even where catching up
    would do; ``rekey`` gives records the keys that their topic makes now."""

    until_txid: int | None = None
    until_time: int | None = None
    into: str | None = None
    journal: str | None = None
    verify: bool = False
    rebuild: bool = False
    force: bool = False
    dry_run: bool = False
    rekey: bool = False


class DiffOptions(Struct, frozen=True):
    """Options of a comparison.

    ``filter``: only records for which it is true on either side. ``keys``: only those of these keys. ``fields`` and
    ``ignored``: only differences at, above or below these paths, and none at or below those. ``on``: records belong
    together where these fields are equal, instead of their SOW keys. ``loose``: records are the same where their fields
    are, and numbers where their values are. ``stamps``: compare metadata, too. ``records``: say only which records
    differ, not in which fields, unless that decides it.
    """

    filter: str | None = None
    keys: tuple[str, ...] | None = None
    fields: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    loose: bool = False
    stamps: bool = False
    records: bool = False

"""Results of the verbs, as values; :mod:`sowctl.output` formats them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from sowctl.arrow.inputs.input_formats import InputFacts
from sowctl.values.times import to_datetime

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sowctl.config.model import TopicConfig


class _MessageCounts(Struct):
    """Fields that count messages by outcome."""

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add the counts of a batch; ``counts`` are by the names of these fields."""
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)


class TopicCounts(_MessageCounts):
    """Messages of one topic by outcome."""

    topic: str
    message_type: str
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    missing: int = 0
    duplicates: int = 0
    journalled: int = 0
    already_expired: int = 0


class KeyChange(Struct, frozen=True):
    """A change of a record by a replacement: ``inserted``, ``updated`` or ``deleted``, and its key in display form."""

    change: str
    key: str


class Rejected(Struct):
    """One rejected message: position in the input, reason, and its bytes if available.

    ``column``: for a message of one line of text whose error has a position, the character in the line, from 1.
    """

    source: str
    line: int
    offset: int
    code: str
    message: str
    payload: bytes | None
    column: int | None = None

    @property
    def place(self) -> str:
        """``source:line``, or ``source:line:column``."""
        return f"{self.source}:{self.line}" + (f":{self.column}" if self.column is not None else "")


class TornTail(Struct):
    """The torn end of a journal: ``bytes`` from ``offset`` on, copied to ``copy`` and truncated before any write."""

    path: str
    offset: int
    bytes: int
    copy: str


class PublishReport(_MessageCounts):
    """A run of publish. ``messages`` were read, ``published`` written: to new keys (``inserted``), over others
    (``updated``), with the same bytes (``unchanged``, logged nevertheless, unless such messages are skipped: then they
    are counted here and not in ``published``), or to topics without a SOW (``journalled``), or as deletions
    (``deleted``); ``missing`` are deletions of keys without a record, which are not written; ``duplicates`` had a known
    sequence number and were not written. ``durable``: everything counted is on disk, always false for a dry run;
    ``end`` is the input offset after the last acknowledged message; txids are of this run, 0 for none.
    ``already_expired``: number of published messages that had expired by the clock, so that no query shows them;
    ``ahead``: the topics' latest time if it is far ahead of the clock
    (:func:`~sowctl.engine.writing.outcome.is_ahead_of_clock`); ``torn_tails`` were truncated from the journal;
    ``lifetimes_ignored``: number of messages with a lifetime that has no effect, because their topic has no Expiration;
    ``inputs``: the formats and types as which inputs of rows were read; ``first_changes``: the first changes of a dry
    run that would replace all records."""

    topics: list[TopicCounts] = field(default_factory=list)
    messages: int = 0
    published: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    missing: int = 0
    duplicates: int = 0
    rejected: int = 0
    blank: int = 0
    bytes: int = 0
    first_txid: int = 0
    last_txid: int = 0
    durable: bool = True
    dry_run: bool = False
    end: int = 0
    last_line: int = 0
    seconds: float = 0.0
    journalled: int = 0
    already_expired: int = 0
    ahead: int | None = None
    torn_tails: list[TornTail] = field(default_factory=list)
    lifetimes_ignored: int = 0
    first_changes: list[KeyChange] = field(default_factory=list)
    inputs: list[InputFacts] = field(default_factory=list)


class InputRest(Struct, frozen=True):
    """The unfinished part of an input: its number from 0, line and byte offset, and the number of messages before
    it."""

    input: int
    line: int
    offset: int
    messages: int


class QueryStatistics(Struct):
    """One topic of a query: records examined, matching the filter, returned after top_n and skip_n."""

    topic: str
    message_type: str
    examined: int = 0
    matched: int = 0
    returned: int = 0


class DeleteReport(Struct):
    """One topic of a delete: records compared, matching, deleted."""

    topic: str
    message_type: str
    examined: int = 0
    matched: int = 0
    deleted: int = 0
    dry_run: bool = False


class ExpireReport(Struct):
    """One topic of an expire: the number of records that had expired at ``now`` (microseconds), and whether they were
    removed; ``versions`` counts those outside the window of the topic's history."""

    topic: str
    message_type: str
    expired: int
    now: int
    dry_run: bool = False
    versions: int = 0


class ReplayReport(Struct):
    """One topic of a replay. ``action``: rebuilt, caught up, current, verified, not verified, differs, skipped; digests
    as 32 hex digits if they were compared; ``moved`` is the new path of a damaged or replaced file. ``incomplete``: the
    journals do not reach back to the topic's first entry, so a rebuilt store lacks earlier records."""

    topic: str
    message_type: str
    action: str
    entries: int = 0
    records: int = 0
    versions: int = 0
    applied: int = 0
    path: str | None = None
    moved: str | None = None
    digest: str | None = None
    other_digest: str | None = None
    note: str | None = None
    seconds: float = 0.0
    dry_run: bool = False
    incomplete: bool = False

    @classmethod
    def for_topic(cls, topic: TopicConfig, action: str, **facts: Any) -> ReplayReport:
        """Return the report for a topic; ``facts`` are further fields."""
        path = str(topic.file) if topic.file is not None else None
        return cls(topic.name, topic.message_type, action, path=path, **facts)


class TopicInfo(Struct):
    """The row of ``info`` for a topic. Sizes in bytes, times in microseconds UTC, ``lag`` in keys not applied.

    For the store's file: ``pages``, and the number of free ones; the ``map`` size of its last writer; the number of
    other processes that read it, and for the one with the oldest state its process id, its running time, the number of
    transactions it is behind, and the number of free pages retained for it. ``leftovers``: number of files of killed
    processes next to the store. ``runs``, ``run_records`` and ``run_bytes``: the number of sorted runs next to the
    store, of changes in them, and the bytes of their files. ``flush``: how the next writing command applies the changes
    that the store does not have, with the figures and the reason; None without such changes. For a queue, ``records``
    are the pending messages and ``leased`` those leased; ``age_seconds`` is the age of the oldest."""

    topic: str
    message_type: str
    kind: str
    state: str
    path: str | None = None
    keys: tuple[str, ...] = ()
    key_mode: str = "fields"
    records: int = 0
    expired: int = 0
    versions: int = 0
    payload_bytes: int = 0
    file_bytes: int = 0
    applied: int = 0
    last_txid: int = 0
    lag: int = 0
    last_update: int | None = None
    journalled: bool = False
    expiration: str = "disabled"
    history: str | None = None
    digest: str | None = None
    index_bytes: int = 0
    runs: int = 0
    run_records: int = 0
    run_bytes: int = 0
    flush: str | None = None
    pages: int = 0
    free_pages: int = 0
    map_bytes: int = 0
    readers: int = 0
    reader_pid: int | None = None
    reader_seconds: float | None = None
    reader_behind: int = 0
    retained_pages: int = 0
    leftovers: int = 0
    leased: int | None = None
    age_seconds: float | None = None
    note: str | None = None

    @property
    def updated_at(self) -> datetime | None:
        """``last_update`` as a datetime in UTC."""
        return None if self.last_update is None else to_datetime(self.last_update)


class CheckReport(Struct):
    """Counts of a check of stores, runs and the journal, and a description of what it could not verify.

    For a partial check: ``pages`` of structure, and as means over stores the share of data that was read, the share
    that such checks have never read, and the time since when all of the rest was read (microseconds)."""

    stores: int = 0
    records: int = 0
    versions: int = 0
    bytes: int = 0
    journal_files: int = 0
    journal_entries: int = 0
    journal_bytes: int = 0
    runs: int = 0
    pages: int = 0
    data_read: float | None = None
    never_read: float | None = None
    oldest_read: int | None = None
    not_verified: tuple[str, ...] = ()


class JournalCheckReport(Struct):
    """Counts of a check of a journal, and a description of what it could not verify.

    ``stored`` bytes on disk are ``bytes`` to read; ``compressed`` and ``archived`` count those of the ``files`` that
    are compressed and in the archive. ``groups`` are complete; ``gaps`` were cut out by repairs.
    """

    files: int
    compressed: int
    archived: int
    stored: int
    bytes: int
    blocks: int
    groups: int
    entries: int
    gaps: int = 0
    not_verified: tuple[str, ...] = ()


class SearchReport(Struct):
    """Counts of a search: ``blocks`` with ``examined`` entries, the number of blocks that each test skipped,
    ``matched``. ``unreadable``: messages that the filter met and that are invalid in their type.
    """

    matched: int = 0
    examined: int = 0
    blocks: int = 0
    by_header: int = 0
    by_map: int = 0
    by_columns: int = 0
    payloads_read: int = 0
    unreadable: int = 0


class ExportReport(Struct):
    """A file that an export wrote: number of records, its size, and notes on values that the format represents
    differently.

    ``warnings`` are about bytes that are not UTF-8, which no column can have. For changes, ``next_txid`` and
    ``next_bookmark`` are the position after them, at which the next export continues.
    """

    path: str
    records: int
    file_bytes: int
    notes: tuple[str, ...] = ()
    next_txid: int | None = None
    next_bookmark: str | None = None
    warnings: tuple[str, ...] = ()


class ReindexReport(Struct):
    """Counts of ``reindex`` for one topic: ``paths``, ``records``, total ``bytes``, or bytes ``removed``."""

    topic: str
    message_type: str
    records: int = 0
    paths: tuple[str, ...] = ()
    bytes: int = 0
    removed: int = 0


class CompactReport(Struct):
    """The result of compacting one store. ``action``: compacted, or left. File sizes before and after, and the share of
    pages that were free before, 0 to 1; ``changes``: number of concurrent changes by writers that were copied;
    ``leftovers``: number of removed files of killed processes. For a dry run, the size afterwards is a maximum."""

    topic: str
    message_type: str
    action: str
    records: int = 0
    versions: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    free_before: float = 0.0
    changes: int = 0
    leftovers: int = 0
    path: str | None = None
    digest: str | None = None
    note: str | None = None
    seconds: float = 0.0
    dry_run: bool = False


class CleanReport(Struct):
    """A file, or a temporary directory, that a killed process left, and its size in bytes; ``pid`` is 0 if unknown.

    ``dry_run``: it was not removed.
    """

    path: str
    pid: int
    bytes: int
    dry_run: bool = False


class RepairReport(Struct):
    """The result of repairing one store. ``action``: repaired, or sound if there was nothing to repair.

    Of ``records`` and ``versions`` in the new file, ``restored`` and ``restored_versions`` came from the journal.
    ``removed``: number of records of the damaged file that are deleted or replaced according to the journal. ``lost``
    and ``lost_versions``: number of lost ones, or of known losses if the meta record was unreadable. ``complete``:
    nothing is lost. ``moved``: the new name of the damaged file."""

    topic: str
    message_type: str
    action: str
    records: int = 0
    versions: int = 0
    restored: int = 0
    restored_versions: int = 0
    removed: int = 0
    lost: int = 0
    lost_versions: int = 0
    complete: bool = True
    path: str | None = None
    moved: str | None = None
    digest: str | None = None
    note: str | None = None
    seconds: float = 0.0
    dry_run: bool = False


class RepairItem(Struct, frozen=True):
    """A missing record or version of a damaged store: ``state`` is restored, lost, or removed.

    ``txid``: the entry of the journal that restores it. ``sow_key`` of a loss is the key in the file, which may be
    damaged itself: ``first_key`` and ``last_key`` bound the real one."""

    topic: str
    what: str
    state: str
    sow_key: int | None = None
    txid: int | None = None
    first_key: int | None = None
    last_key: int | None = None
    reason: str | None = None


class CommitReport(Struct):
    """The result of one staged run, written as one group. ``messages`` were read; ``published`` entries were written:
    to new keys (``inserted``), over others (``updated``), with the same bytes (``unchanged``), or as deletions
    (``deleted``); ``missing`` are deletions of keys without a record, which are not written. ``duplicates``: the whole
    run had been committed before. ``samples`` are the first rejected messages; the rest as in PublishReport.
    """

    topic: str
    message_type: str
    messages: int = 0
    published: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    missing: int = 0
    duplicates: int = 0
    rejected: int = 0
    blank: int = 0
    bytes: int = 0
    first_txid: int = 0
    last_txid: int = 0
    segments: int = 0
    seconds: float = 0.0
    already_expired: int = 0
    ahead: int | None = None
    samples: list[Rejected] = field(default_factory=list)

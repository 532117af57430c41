"""Limits of a memtable in memory, and the figures that decide flushes, folds and removals.

:class:`Limits` has the figures of memtables and flushes, each with its measurement, :class:`FoldLimits` those of
folding a journal and of removing records; tests set smaller ones. Used by the plan of flushes
(:mod:`sowctl.engine.fold.flush_plan`) and by writers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

STORE_PAGE_BYTES = 4096


class Limits(Struct):
    """Limits and measured figures of memtables, runs and merges."""

    changes: int = 320_000
    """Maximum number of keys in memory: with it, a publish of 6,000,000 stays below 400 MiB."""
    bytes: int = 72 << 20
    """Maximum bytes of values in memory; ``first_bytes`` for a store whose file has at most ``empty_bytes``."""
    first_bytes: int = 80 << 20
    empty_bytes: int = 16 << 20
    dirty_bytes: int = 120 << 20
    """Approximate bytes of pages that one transaction in place may change. LMDB keeps them in memory until it commits,
    and publishers wait for the journal's lock meanwhile: 36,700 random keys of 2,000,000 take 0.48 s of processor time,
    plus the time to write 27,600 pages. With half the limit, there are twice as many transactions of 0.29 s each, and
    the session takes 15 % more in total; with a quarter, 0.18 s each and 40 % more."""
    changed_bytes: int = 168 << 20
    """Bytes of pages that one transaction may change or add; new records fill their pages to about two thirds."""
    runs_share: int = 4
    """A session flushes to runs after ``records / runs_share`` changed records. By then, its changes in place have cost
    about as much as a merge: with 1,000,000 records, updates of 31,250 to 250,000 took 7 us each in addition to the
    general cost of a message, inserts into 3,000,000 took 12 us, and a merge takes 1.9 us for each record it writes."""
    history_share: int = 16
    """The same for a topic with History, counting records and versions. There, changes in place took 40 us each in
    addition to the general cost of a message, and a merge 3 us per record or version and 4 us per change."""
    merge_share: float = 3.0
    """Runs are merged when they have this many changes per record of the store. For 6,000,000 distinct keys, merges
    take 15 s of processor time; with 2.0 they take 22 s, with 1.0 31 s."""
    fan: int = 8
    """Number of runs of similar size that are compacted into one. A change is rewritten, in 1.2 us, for each eightfold
    growth of the runs. There are at most seven runs of each size, and every batch searches all of them: a search for
    20,000 keys in a run of 400,000 takes 2.6 ms."""
    small_records: int = 1_000_000
    """Records, including those of runs, up to which a store is merged at the end of every session: it takes 2 s."""
    columned_changes: int = 384_000
    columned_bytes: int = 88 << 20
    """The same limits for changes kept as columns that will be written to a run: they change no page of a store, and
    columns need less memory than keys, values and a dictionary."""
    first_changes: int = 640_000
    first_columns: int = 144 << 20
    """The same for columns that will be written to a new store, which has neither runs nor a key filter: 1,000,000
    orders over 500,000 keys, which fit, need 313 MiB of memory, and 1,000,000 distinct keys need 345 MiB."""
    columned_after: int = 20_000
    """Changed keys of a session after which its batches are processed by columns. Importing numpy takes 0.1 s, which is
    what some ten thousand messages save."""
    columned: int = 512
    """Minimum number of messages of a batch that is processed and kept as columns. Times per message from input to
    store, with lists and with columns: in batches of 256, 5.7 and 6.3 us; of 512, 5.3 and 5.2 us; of 1,000, 5.6 and
    4.6 us; of 4,800, 5.6 and 4.1 us."""


MEMTABLE_LIMITS = Limits()


class FoldLimits(Struct):
    """Limits of folding a journal, and of removals in one transaction."""

    write_buffer_bytes: int = 1 << 20
    max_bucket_file_bytes: int = 48 << 20
    """Approximate maximum size of a bucket in a file. It is smaller than the limit for sorting in memory, because
    memory may have several buckets while one replaces another, and each has a buffer of unwritten values."""
    max_bucket_files: int = 64
    """Maximum number of files for buckets; adjacent buckets share one."""
    spool_memory_bytes: int = 8 << 20
    """Bytes of a :class:`~sowctl.engine.fold.spill.Spool` that stay in memory."""
    bucket_bytes: int = 144 << 20
    """Bytes of values sorted in memory; larger amounts go through temporary files in the directory of the new store, in
    parts of ``max_bucket_file_bytes``."""
    block_cache_bytes: int = 96 << 20
    """Blocks up to this total size, as stored and as columns, are kept between the passes instead of read again."""
    fold_part_records: int = 1000
    transaction_parts: int = 64
    """Records appended in one call, so that their bytes stay in the processor's cache; and number of these parts per
    transaction."""
    transaction_bytes: int = 32 << 20
    """Bytes of values that end a transaction with fewer parts. Both the parts and the changed pages of LMDB are in
    memory: a load of 30,000 messages of 30 kB took 1,830 MiB without this limit."""
    compared_key_entries: int = 64
    """Entries per block of a topic with History whose keys are compared if they are the last entries of their keys."""
    compact_entries: int = 4_000_000
    """Number of entries at which the first pass drops superseded ones."""
    table_entries: int = 250_000
    """Maximum entries of a key table in memory, 17 bytes each, and three times as much while they are sorted."""
    table_piece_entries: int = 4096
    table_read_pieces: int = 16
    """Entries of a piece of a run, the unit that is read for one key; and maximum number of pieces per read."""
    delete_part_records: int = 2000
    """Records passed to the store in one call."""
    version_batch_entries: int = 1000
    """Versions read or dropped in one call."""
    max_piggyback_expired_records: int = 20_000
    """Expired records that a transaction removes in addition to its own changes. They are scattered over the store, on
    almost as many pages, and LMDB keeps these in memory until it commits."""
    max_expired_records: int = 400_000
    """Maximum number of expired records per transaction of ``expire``, further limited by ``max_dirty_pages``."""
    max_dirty_pages: int = 50_000
    """Approximate number of pages of 4 KiB that it may change."""
    max_removed_versions: int = 30_000
    """Versions removed by one transaction of ``expire``; each may be on a separate page."""
    change_part_bytes: int = 16 << 20
    """Stored bytes of a part of a change feed: its records, and those that it replaces, are in memory."""
    max_tail_txids: int = 1_000_000
    """If more txids than this follow the last run, a reader renews its snapshot: the store may have been replaced."""


FOLD_LIMITS = FoldLimits()


def compute_in_place_limits(file_bytes: int) -> tuple[int, int]:
    """Return how many random keys, and bytes of values, one transaction may change in a store of this size.

    n keys of a store of P pages change about P (1 - exp(-n / P)) of them.
    """
    known = MEMTABLE_LIMITS
    pages, dirty = file_bytes / STORE_PAGE_BYTES, known.dirty_bytes / STORE_PAGE_BYTES
    if file_bytes <= known.empty_bytes:
        return known.changes, known.first_bytes
    # The more of the store a transaction may change, the less remains for additions.
    held = min(known.bytes, (known.changed_bytes - min(file_bytes, known.dirty_bytes)) * 2 // 3)
    # A store whose pages all fit into one transaction does not limit the keys.
    if pages <= dirty:
        return known.changes, held
    # The formula above, solved for n with the maximum number of changed pages of a transaction.
    return min(known.changes, int(-pages * math.log1p(-dirty / pages))), held


def compute_run_limits() -> tuple[int, int]:
    """As :func:`compute_in_place_limits`, for a memtable that is written to a run, which changes no page of the
    store."""
    return MEMTABLE_LIMITS.changes, MEMTABLE_LIMITS.bytes


def compute_column_limits(*, first: bool) -> tuple[int, int]:
    """As :func:`compute_run_limits`, for changes kept only as columns; ``first``: they will fill an empty store."""
    known = MEMTABLE_LIMITS
    return (known.first_changes, known.first_columns) if first else (known.columned_changes, known.columned_bytes)


def uses_columns(count: int, changed: int) -> bool:
    """Return whether a batch of ``count`` messages is processed by columns after ``changed`` changes of its session."""
    return count >= MEMTABLE_LIMITS.columned and changed >= MEMTABLE_LIMITS.columned_after


def needs_runs(changed: int, records: int, *, history: bool = False) -> bool:
    """Return whether a session that changed ``changed`` keys of a store continues with runs.

    ``records``, here and below: with ``history``, including the versions.
    """
    return changed * (MEMTABLE_LIMITS.history_share if history else MEMTABLE_LIMITS.runs_share) >= records


def needs_merge(changes: int, records: int) -> bool:
    """Return whether runs and memory have enough ``changes`` to be merged with a store of ``records`` records."""
    return changes >= records * MEMTABLE_LIMITS.merge_share


def count_runs_to_compact(sizes: Sequence[int]) -> int:
    """Return how many of the newest runs to compact into one, 0 for none; ``sizes`` are their changes, oldest first."""
    count = largest = 0
    for size in reversed(sizes):
        # A much larger run results from an earlier compaction: it is rewritten when there are enough runs of its size.
        if count and size > 2 * largest:
            break
        count, largest = count + 1, max(largest, size)
    return count if count >= MEMTABLE_LIMITS.fan else 0


def are_runs_small(changes: int, records: int) -> bool:
    """Return whether the runs of a store are so small that merging them would cost more than keeping them."""
    return changes * MEMTABLE_LIMITS.runs_share < records and changes + records > MEMTABLE_LIMITS.small_records

"""Limits of a memtable in memory, and the figures that flushes, folds and removals are decided by.

The figures, each with what was measured, stand together in :class:`Limits`, and those of folding a journal and of
removing records in :class:`FoldLimits`; tests set smaller ones. Asked by the plan of flushes
(:mod:`sowctl.engine.fold.flush_plan`) and by writers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

STORE_PAGE_BYTES = 4096


class Limits(Struct):
    """The figures."""

    changes: int = 320_000
    """Keys that a memtable holds in memory at most: a bulk load of 6,000,000 stays below 400 MiB with them."""
    bytes: int = 72 << 20
    """Bytes of values that it holds; more where the store is as good as empty:"""
    first_bytes: int = 80 << 20
    empty_bytes: int = 16 << 20
    dirty_bytes: int = 120 << 20
    """Bytes of pages that one transaction in place may change, about. LMDB holds them in memory until it commits, and
    publishers wait for the journal's lock meanwhile: 36,700 random keys of 2,000,000 take 0.48 s of processor time and
    as long as the disk takes for 27,600 pages. With half of it, each of twice as many transactions takes 0.29 s, and
    the session 15 % more in all; with a quarter, 0.18 s and 40 % more."""
    changed_bytes: int = 168 << 20
    """Bytes of pages that it may change or add; new records fill the pages that they add to about two thirds."""
    bulk_share: int = 4
    """A session is a bulk load from ``records / bulk_share`` changed records on. Until then it has spent in place
    about what a merge costs: of 1,000,000 records, updates of 31,250 to 250,000 took 7 us each beyond what every
    message takes, inserts into 3,000,000 took 12 us, and a merge takes 1.9 us for each record that it writes."""
    history_share: int = 16
    """The same for a topic with History, of its records and versions. There, changes in place took 40 us each
    beyond what every message takes, and a merge 3 us for each record or version and 4 us for each change."""
    merge_share: float = 3.0
    """Runs are merged when they have this many changes per record of the store. Of 6,000,000 distinct keys merges
    take 15 s of processor time then; with 2.0 they take 22 s, with 1.0 31 s."""
    fan: int = 8
    """Number of runs of about one size that are merged into one. A change is written once more, in 1.2 us, for each
    eightfold that the runs grow by, and there are seven runs of each size at most, in each of which every batch is
    looked up: 20,000 keys in one of 400,000 in 2.6 ms."""
    small_records: int = 1_000_000
    """Records, those of runs included, up to which a store is merged at the end of every session: it takes 2 s."""
    columned_changes: int = 384_000
    columned_bytes: int = 88 << 20
    """The same of what waits as columns, where it goes into a run: no page of a store is changed then, and columns take
    less than keys, values and a dictionary."""
    first_changes: int = 640_000
    first_columns: int = 144 << 20
    """The same where it goes into a new store, beside which there are neither runs nor a filter of keys: 1,000,000
    orders over 500,000 keys, which fit, take 313 MiB of memory, and 1,000,000 distinct ones 345."""
    columned_after: int = 20_000
    """Keys that a session has changed before its batches are decided by columns. To import numpy takes 0.1 s, as much
    as some ten thousand messages save."""
    columned: int = 512
    """Messages from which on a batch is decided by columns, and waits as columns. From input to store, a message of
    batches of 256 took 5.7 us with lists and 6.3 with columns, of 512 5.3 and 5.2, of 1,000 5.6 and 4.6, of 4,800 5.6
    and 4.1.
    """


MEMTABLE_LIMITS = Limits()


class FoldLimits(Struct):
    """What folding a journal holds, and what one transaction removes."""

    write_buffer_bytes: int = 1 << 20
    max_bucket_file_bytes: int = 48 << 20
    """Approximate maximum size of a bucket in a file: less than the limit of what needs no file, because more
    than one of them is held while one follows the other, and each holds back what it has not written yet."""
    max_bucket_files: int = 64
    """Files that buckets lie in, at most; neighbours share one."""
    spool_memory_bytes: int = 8 << 20
    """Bytes of a :class:`~sowctl.engine.fold.spill.Spool` that stay in memory."""
    bucket_bytes: int = 144 << 20
    """Bytes of values sorted at once; what does not fit goes through temporary files beside the new store, in parts of
    ``max_bucket_file_bytes``."""
    block_cache_bytes: int = 96 << 20
    """Blocks of up to this many bytes, as stored and as columns, are kept between the passes instead of read again."""
    fold_part_records: int = 1000
    transaction_parts: int = 64
    """Records appended at once, so that their bytes stay in the processor's cache; such parts in one transaction."""
    compared_key_entries: int = 64
    """Entries of a block of a topic with History whose keys are compared where they are the last ones of their keys."""
    compact_entries: int = 4_000_000
    """Entries at which the first pass drops superseded ones."""
    table_entries: int = 250_000
    """Entries of a table of keys in memory, 17 bytes each, and three times as much while they are sorted."""
    table_piece_entries: int = 4096
    table_read_pieces: int = 16
    """Entries of a run of such a table that are read for one key, and pieces that are read at once for many keys."""
    delete_part_records: int = 2000
    """Records handed to the store at once."""
    version_batch_entries: int = 1000
    """Versions read or dropped at once."""
    max_piggyback_expired_records: int = 20_000
    """Expired records that a transaction removes besides what it was begun for. They lie anywhere in the store, on
    almost as many pages, and LMDB holds these in memory until it commits."""
    max_expired_records: int = 400_000
    """Expired records that a transaction of their own removes at most, or fewer:"""
    max_dirty_pages: int = 50_000
    """Pages of 4 KiB that it may change, about."""
    max_removed_versions: int = 30_000
    """Versions that a transaction of their own removes; each may lie on a page by itself."""
    change_part_bytes: int = 16 << 20
    """Stored bytes of a part of a change feed: its records, and those that it replaces, are in memory."""
    max_tail_txids: int = 1_000_000
    """More txids than this behind the last run, and the store may have been replaced since it was looked at."""


FOLD_LIMITS = FoldLimits()


def compute_in_place_limits(file_bytes: int) -> tuple[int, int]:
    """Compute how many random keys, and bytes of values, may change at once in a store of this size.

    n keys of a store of P pages change about P (1 - exp(-n / P)) of them.
    """
    known = MEMTABLE_LIMITS
    pages, dirty = file_bytes / STORE_PAGE_BYTES, known.dirty_bytes / STORE_PAGE_BYTES
    if file_bytes <= known.empty_bytes:
        return known.changes, known.first_bytes
    # The more of the store is changed, the less room is left for what is added.
    held = min(known.bytes, (known.changed_bytes - min(file_bytes, known.dirty_bytes)) * 2 // 3)
    # A store that fits into one transaction as a whole sets no limit to the keys.
    if pages <= dirty:
        return known.changes, held
    # The formula above, solved for n where the changed pages are as many as one transaction may hold.
    return min(known.changes, int(-pages * math.log1p(-dirty / pages))), held


def compute_run_limits() -> tuple[int, int]:
    """The same where a memtable goes into a run, and no page of the store is changed."""
    return MEMTABLE_LIMITS.changes, MEMTABLE_LIMITS.bytes


def compute_column_limits(*, first: bool) -> tuple[int, int]:
    """The same where all that is in memory waits as columns, and goes into a run, or as the ``first`` into a store."""
    known = MEMTABLE_LIMITS
    return (known.first_changes, known.first_columns) if first else (known.columned_changes, known.columned_bytes)


def uses_columns(count: int, changed: int) -> bool:
    """Return whether a batch of ``count`` messages is decided by columns after ``changed`` changes of its session."""
    return count >= MEMTABLE_LIMITS.columned and changed >= MEMTABLE_LIMITS.columned_after


def needs_runs(changed: int, records: int, *, history: bool = False) -> bool:
    """Return whether a session that changed ``changed`` keys of a store continues with runs.

    ``records``, here and below: with ``history``, together with the versions.
    """
    return changed * (MEMTABLE_LIMITS.history_share if history else MEMTABLE_LIMITS.bulk_share) >= records


def needs_merge(changes: int, records: int) -> bool:
    """Return whether runs and memory hold enough ``changes`` to be merged with a store of ``records`` records."""
    return changes >= records * MEMTABLE_LIMITS.merge_share


def count_runs_to_compact(sizes: Sequence[int]) -> int:
    """Count the newest runs to compact into one, by the changes of each from the oldest on; 0 for none."""
    count = largest = 0
    for size in reversed(sizes):
        # One that is much larger was made of several before: it is written again when there are as many of its size.
        if count and size > 2 * largest:
            break
        count, largest = count + 1, max(largest, size)
    return count if count >= MEMTABLE_LIMITS.fan else 0


def are_runs_small(changes: int, records: int) -> bool:
    """Return whether the runs beside a store are so small that merging them would cost more than they do."""
    return changes * MEMTABLE_LIMITS.bulk_share < records and changes + records > MEMTABLE_LIMITS.small_records

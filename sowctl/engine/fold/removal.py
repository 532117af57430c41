"""Removes expired records, and versions outside their topic's window, from a store, as of a time of the clock.

Removals are not journalled, and reads ignore these records in any case, so removals may use several transactions, and a
crash between two of them does no harm. Called by :mod:`sowctl.engine.fold.apply` in addition to a writer's own changes,
and by ``expire`` for complete removals. Specified in ``behaviour`` 1.5 and 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.spill import Spool
from sowctl.engine.topics.retention import Retention, Version, decode_version, prune_versions
from sowctl.identity.keyspace import read_words
from sowctl.store.codec import HISTORY_KEY_SIZE, build_history_key, extract_sow_key

if TYPE_CHECKING:
    from sowctl.store.env import Store
    from sowctl.store.read import Reader
    from sowctl.store.snapshot import Snapshot
    from sowctl.store.write import WriteTxn


def remove_expired_batch(txn: WriteTxn, now: int) -> int:
    """Remove records whose stamp is not after ``now``, at most the oldest ``max_piggyback_expired_records``; return
    their number."""
    # In key order: neighbours are on one page.
    return _remove_expired_keys(
        sorted(islice(txn.iter_expired_keys(now), FOLD_LIMITS.max_piggyback_expired_records)), now, txn
    )


def remove_all_expired(store: Store, now: int) -> int:
    """Remove all records whose stamp is not after ``now``; return their number. The caller holds the store's lock."""
    with store.open_snapshot() as snapshot:
        gone = snapshot.iter_expired_keys(now)
        few = sorted(islice(gone, FOLD_LIMITS.max_piggyback_expired_records))
        # Usually there are few, which need no import of numpy.
        if len(few) == FOLD_LIMITS.max_piggyback_expired_records:
            keys = _sort_key_numbers(chain(few, gone))
            step = _count_per_transaction(snapshot, len(keys))
    if len(few) < FOLD_LIMITS.max_piggyback_expired_records:
        return store.write(partial(_remove_expired_keys, few, now))
    for start in range(0, len(keys), step):
        part = read_words(keys[start : start + step].astype(">u8"))
        store.write(partial(_remove_expired_keys, part, now))
    return len(keys)


def _sort_key_numbers(keys: Iterator[bytes]) -> Any:
    """Return SOW keys as a sorted array of numbers, with 8 bytes of memory per key."""
    import numpy as np

    chunks = []
    while chunk := b"".join(islice(keys, 1 << 16)):
        chunks.append(np.frombuffer(chunk, dtype=">u8").astype(np.uint64))
    numbers = np.concatenate(chunks)
    numbers.sort()
    return numbers


def _count_per_transaction(snapshot: Snapshot, count: int) -> int:
    """Return how many of ``count`` expired records to remove per transaction, by the pages changed in key order."""
    records, index = snapshot.count_leaf_pages()
    # A page that becomes empty is free within the transaction, and is reused for the next page that changes. Measured
    # with pages of 15 records: after removing 90 % of the records, 42 % of the pages are left; after 97 %, 16 %.
    left = records * min(1.0, 4 * (1 - count / snapshot.record_count))

    def pages(several: int) -> float:
        # In key order the records are neighbours; their entries in the expiry index are scattered.
        return left * several / count + index * -math.expm1(-several / index)

    several = FOLD_LIMITS.delete_part_records
    while several < FOLD_LIMITS.max_expired_records and pages(2 * several) <= FOLD_LIMITS.max_dirty_pages:
        several *= 2
    return min(several, FOLD_LIMITS.max_expired_records)


def _remove_expired_keys(gone: Sequence[bytes], now: int, txn: WriteTxn) -> int:
    """Remove records that have expired at ``now``, by their ordered keys; return their number."""
    for start in range(0, len(gone), FOLD_LIMITS.delete_part_records):
        txn.delete_records(gone[start : start + FOLD_LIMITS.delete_part_records])
    if gone:
        # The store no longer has its complete state before this time: reads of past states check this mark.
        txn.set_removal_mark(now)
    return len(gone)


def remove_unreachable(store: Store, rule: Retention, now: int) -> int:
    """Remove the versions that are outside the window at ``now`` (microseconds); return their number.

    The caller holds the store's lock.
    """
    count = 0
    with Spool(Path(store.path).parent) as gone:
        # All are collected first: a store is not written while it is read.
        with store.open_snapshot() as snapshot:
            keys = _find_unreachable_versions(snapshot, rule, now)
            while raw := b"".join(islice(keys, FOLD_LIMITS.max_removed_versions)):
                gone.add((raw,))
                count += len(raw) // HISTORY_KEY_SIZE
        for (raw,) in gone:
            store.write(partial(_drop_versions, raw, now))
    return count


def _drop_versions(raw: bytes, now: int, txn: WriteTxn) -> None:
    keys = [raw[at : at + HISTORY_KEY_SIZE] for at in range(0, len(raw), HISTORY_KEY_SIZE)]
    for start in range(0, len(keys), FOLD_LIMITS.version_batch_entries):
        txn.delete_versions(keys[start : start + FOLD_LIMITS.version_batch_entries])
    txn.set_removal_mark(now)


def count_unreachable(timelines: Iterable[tuple[bytes, Sequence[Version]]], rule: Retention, now: int) -> int:
    """Count the versions of ``timelines`` that are outside the window at ``now``."""
    return sum(len(versions) - len(prune_versions(versions, now, rule.window)) for _, versions in timelines)


def _find_unreachable_versions(reader: Reader, rule: Retention, now: int) -> Iterator[bytes]:
    """Yield the history keys of versions outside the window, in order."""
    rows = (
        (key, value)
        for batch in reader.scan_history(batch=FOLD_LIMITS.version_batch_entries)
        for key, value in zip(*batch, strict=True)
    )
    for key, group in groupby(rows, key=lambda row: extract_sow_key(row[0])):
        stored = [decode_version(value) for _, value in group]
        current = [decode_version(value) for value in reader.read_values([key]).values()]
        kept = prune_versions([*stored, *current], now, rule.window)
        # The rule keeps the latest versions, so the removed ones are the oldest.
        for version in stored[: len(stored) + len(current) - len(kept)]:
            yield build_history_key(key, version.value)

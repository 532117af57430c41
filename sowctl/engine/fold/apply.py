"""Apply journalled changes to a store: one transaction changes records, versions and position together (principle 2).

Called by all writers: publish, delete, expire and catch-up. This module never decodes payloads; the journal already has
the results of preprocessing, enrichment and merging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.removal import remove_expired_batch
from sowctl.engine.topics.retention import Retention, decode_version, encode_version, extend_versions
from sowctl.store.changes import MIN_LISTED_KEYS
from sowctl.store.codec import TOMBSTONE_FLAG, build_history_key, read_stamps
from sowctl.store.meta import NO_LINEAGE

if TYPE_CHECKING:
    from sowctl.engine.fold.last_per_key import Timeline
    from sowctl.engine.fold.spill import Pairs
    from sowctl.store.env import Store
    from sowctl.store.meta import AppliedPosition
    from sowctl.store.write import WriteTxn


OnChange = Callable[[int, int], None]


class AppliedChanges(Struct, frozen=True):
    """Counts of one transaction: applied changes (newest per key), and removed expired records."""

    changes: int
    expired: int


def apply_memtable(
    store: Store,
    memtable: Memtable,
    position: AppliedPosition,
    *,
    rule: Retention | None,
    remove_expired_at: int | None = None,
    sequences: dict[int, int] | None = None,
    on_change: OnChange | None = None,
) -> AppliedChanges:
    """Apply ``memtable`` to ``store`` and set its ``position``; then empty the memtable.

    ``remove_expired_at``: also remove the records that have expired at that clock (microseconds). ``sequences``: the
    highest numbers of publishers, for a topic without a journal. Entries that the store has already applied are
    skipped, so two processes may apply the same entries. ``on_change`` receives the number of changed keys and their
    total.
    """

    lineage, upto, block = position

    def run(txn: WriteTxn) -> AppliedChanges:
        # A position is valid only within its lineage: in another log the same txids are other entries.
        applied = txn.meta.applied if txn.meta.lineage == lineage else 0
        if NO_LINEAGE != lineage == txn.meta.lineage and applied < memtable.base:
            # Since the memtable was created, a replay has installed an older store, which lacks the entries before
            # ``base``. Nothing is applied, and the position stays: the journal has all entries, and before the next
            # batch, ``StoreWriter.refresh`` folds those after the position of this store.
            return AppliedChanges(0, 0)
        if upto > applied or txn.meta.lineage != lineage:
            changes = apply_to_transaction(txn, memtable, applied, rule, on_change)
            # Records and position change in one transaction: after a crash the store has all of the changes or none.
            txn.set_applied_position(lineage, max(upto, applied), block)
            txn.raise_last_time(memtable.last_time)
            for publisher, sequence in (sequences or {}).items():
                txn.set_sequence(publisher, sequence)
        else:
            changes = 0
        expired = 0 if remove_expired_at is None else remove_expired_batch(txn, remove_expired_at)
        return AppliedChanges(changes, expired)

    done = store.write(run, pending=memtable.held_bytes)
    # The memtable is emptied only after a commit; after an error its entries are applied the next time.
    memtable.clear(upto)
    return done


def apply_to_transaction(
    txn: WriteTxn, memtable: Memtable, applied: int, rule: Retention | None, on_change: OnChange | None = None
) -> int:
    """Apply the memtable's changes above ``applied`` in a store's transaction; return the number of changed keys.

    ``on_change`` as in :func:`apply_memtable`.
    """
    if rule is None:
        return _apply_latest(txn, memtable, applied, on_change)
    return _apply_versions(txn, memtable, applied, rule, on_change)


def _apply_latest(txn: WriteTxn, memtable: Memtable, applied: int, on_change: OnChange | None) -> int:
    """Apply the newest change of each key, in parts: the store iterates over its arguments several times, and a part
    stays in the processor's cache."""
    # In key order, so that neighbours on a page of the store are changed together.
    changes = 0
    count, parts = memtable.sort_memory_changes(FOLD_LIMITS.delete_part_records)
    appending = _can_append(txn, count)
    for keys, values in parts:
        if applied > memtable.base:
            # Another process has applied some of these entries; one of their values may be older than the store's.
            fresh = [place for place, value in enumerate(values) if value is None or read_stamps(value)[0] > applied]
            keys, values = [keys[place] for place in fresh], [values[place] for place in fresh]
        changes += len(keys)
        _apply_part(txn, keys, values, appending=appending, deletes=memtable.deletes)
        if on_change is not None:
            on_change(changes, count)
    return changes


def _can_append(txn: WriteTxn, count: int) -> bool:
    # In an empty store keys are appended: pages become full, and no search is needed. A small number of keys is put
    # instead, so that the change list continues; for more keys the list would be incomplete in any case.
    return not txn.meta.records and count > MIN_LISTED_KEYS


def _apply_part(
    txn: WriteTxn, keys: Sequence[bytes], values: Sequence[bytes | None], *, appending: bool, deletes: bool
) -> None:
    if deletes:
        # Each key occurs once, deleted or not, so the order of deletions and puts does not matter.
        txn.delete_records([key for key, value in zip(keys, values, strict=True) if value is None])
        keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
        values = [value for value in values if value is not None]
    if keys:
        (txn.append_records if appending else txn.put_records)(keys, cast("list[bytes]", values))


def apply_last_values(txn: WriteTxn, parts: Iterable[Pairs], count: int) -> None:
    """Apply the last stored values of keys, in key order and newer than the store, in its transaction.

    A tombstone deletes a record. ``count``: approximate number of keys.
    """
    appending = _can_append(txn, count)
    for keys, values in parts:
        changes = [None if value[0] & TOMBSTONE_FLAG else value for value in values]
        _apply_part(txn, keys, changes, appending=appending, deletes=None in changes)


def apply_timelines(txn: WriteTxn, parts: Iterable[Iterable[Timeline]], rule: Retention) -> None:
    """As :func:`apply_last_values`, for a topic with History: all values of keys."""
    for timelines in parts:
        updates = dict(timelines)
        _extend_versions(txn, list(updates), updates, rule)


def _apply_versions(
    txn: WriteTxn, memtable: Memtable, applied: int, rule: Retention, on_change: OnChange | None
) -> int:
    updates: dict[bytes, list[bytes]] = {}
    for key, value in memtable.changes or ():
        if read_stamps(value)[0] > applied:
            updates.setdefault(key, []).append(value)
    keys = sorted(updates)
    # In parts, as above: besides the memtable, memory has only the records and versions of one part.
    for start in range(0, len(keys), FOLD_LIMITS.delete_part_records):
        _extend_versions(txn, keys[start : start + FOLD_LIMITS.delete_part_records], updates, rule)
        if on_change is not None:
            on_change(min(start + FOLD_LIMITS.delete_part_records, len(keys)), len(keys))
    return len(keys)


def _extend_versions(
    txn: WriteTxn, keys: Sequence[bytes], updates: Mapping[bytes, list[bytes]], rule: Retention
) -> None:
    currents = txn.read_values(keys)
    puts: list[tuple[bytes, bytes]] = []
    gone: list[bytes] = []
    stored: list[tuple[bytes, bytes]] = []
    dropped: list[bytes] = []
    for key in keys:
        # The rule is applied to stored versions and the current record together; then the difference is written.
        before = {value: decode_version(value) for _, _, value in txn.read_versions(key)}
        old = list(before.values())
        if key in currents:
            old.append(decode_version(currents[key]))
        versions = extend_versions(old, updates[key], rule)
        current = versions[-1] if not versions[-1].tombstone else None
        if current is not None:
            puts.append((key, current.value))
        elif key in currents:
            gone.append(key)
        after = {encode_version(key, version) for version in (versions if current is None else versions[:-1])}
        stored.extend((key, value) for value in after if value not in before)
        dropped.extend(build_history_key(key, value) for value in before if value not in after)
    # Dropped first: a version whose flags changed is dropped and stored again under the same key.
    txn.delete_versions(dropped)
    txn.put_versions(stored)
    if puts:
        txn.put_records([key for key, _ in puts], [value for _, value in puts])
    if gone:
        txn.delete_records(gone)

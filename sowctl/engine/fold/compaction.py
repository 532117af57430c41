"""Merge store and memtable in key order into a new file, which replaces the store (``sow-run(5)``, Merging).

In place, each random key changes a page. A merge writes the complete file sequentially instead, and its pages are full.
No process has to wait while it is filled, because its inputs do not change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, cast

from sowctl.engine.fold.apply import AppliedChanges
from sowctl.engine.fold.journal_fold import append_sorted, report_progress
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.merge_layers import merge_changes, pair_with_changes
from sowctl.engine.topics.expiration import find_unexpired
from sowctl.engine.topics.retention import Retention, decode_version, encode_version, extend_versions
from sowctl.store.builder import build_store
from sowctl.store.codec import HISTORY_KEY_SIZE, KEY_SIZE, extract_sow_key

if TYPE_CHECKING:
    from sowctl.engine.fold.keyfilter import KeyFilter
    from sowctl.engine.fold.memtable import Memtable
    from sowctl.engine.fold.spill import Pairs
    from sowctl.engine.instance import Instance
    from sowctl.store.env import Store
    from sowctl.store.meta import AppliedPosition
    from sowctl.store.ordered_entries import Batch
    from sowctl.store.write import WriteTxn

_LAST_HISTORY_SUFFIX = bytes((255,)) * (HISTORY_KEY_SIZE - KEY_SIZE)
"""After a SOW key, this sorts after all history keys of the key."""


class StoreMerge:
    """A new store built from ``store`` and ``memtable``, at ``position``. A context manager; call :meth:`fill_store`,
    then :meth:`install_store`.

    ``rule`` is the retention rule of a topic with History. Records that have expired at ``remove_expired_at`` are
    omitted. The keys of the new store are added to ``known``. Created under the journal's lock; the memtable must not
    change until the store is filled. Raises StorageError, DamageError.
    """

    def __init__(
        self,
        instance: Instance,
        store: Store,
        memtable: Memtable,
        position: AppliedPosition,
        *,
        rule: Retention | None = None,
        remove_expired_at: int | None = None,
        known: KeyFilter | None = None,
    ) -> None:
        assert memtable.base <= position.txid, (memtable.base, position.txid)
        self._instance, self._store, self._memtable = instance, store, memtable
        self.position, self._rule = position, rule
        self._expired_at, self.known = remove_expired_at, known
        self._changes, self._gone = len(memtable), 0
        with ExitStack() as held:
            self._snapshot = held.enter_context(store.open_snapshot())
            self._meta = meta = self._snapshot.meta
            # supports_runs has excluded such stores: a merge copies only records, and would lose the sequence numbers
            # of publishers.
            assert not meta.sequences and (rule is not None or not meta.versions)
            self._builder = held.enter_context(
                build_store(
                    store.path,
                    meta.definition,
                    seam=instance.seam,
                    # A merge keeps the creation time of the store.
                    now=meta.created,
                    lineage=position.lineage,
                    applied=position.txid,
                    command=instance.holder,
                    is_copy=True,
                )
            )
            self._held = held.pop_all()

    def __enter__(self) -> StoreMerge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    @property
    def is_current(self) -> bool:
        """Return whether the position of the store is the start of the memtable: a replay may have replaced the
        store."""
        base, meta = self._memtable.base, self._meta
        return meta.applied == base or (meta.applied < base and meta.lineage != self.position.lineage)

    def fill_store(self) -> None:
        """Write the new store completely and sync it; no lock is needed. Raises StorageError, DamageError."""
        snapshot, builder = self._snapshot, self._builder
        if self._rule is None:
            # An upper bound: a changed or deleted record of the store counts twice.
            most = self._meta.records + len(self._memtable)
            append_sorted(
                builder, report_progress(self._drop_expired(self._merge_records()), most, self._instance.watch)
            )
        else:
            self._fill_with_versions(self._rule)

        def position(txn: WriteTxn) -> None:
            txn.set_applied_position(*self.position)
            txn.raise_last_time(max(self._meta.last_time, self._memtable.last_time))
            txn.set_removal_mark(self._meta.removal_mark)
            if self._gone and self._expired_at is not None:
                # As for a removal in place: reads of past states check this mark.
                txn.set_removal_mark(self._expired_at)

        builder.flush()
        builder.run_transaction(position)
        builder.finish()
        # The old file is closed before the new one is installed: a process must not open a store twice.
        snapshot.close()

    def install_store(self) -> AppliedChanges | None:
        """Install the new store; the journal's lock is held. Return None if another process has changed the store.

        Raises StorageError, LockedError, with the store unchanged.
        """
        store, wait = self._store, self._instance.lock_wait
        with store.hold_writer_lock(wait):
            # Records removed since the store was read would return, and applied changes would be lost.
            if store.read_meta() != self._meta:
                return None
            self._builder.install(lock=store.lock, wait=wait)
        return AppliedChanges(self._changes, self._gone)

    def _merge_records(self) -> Iterator[Pairs]:
        """Yield the records of the store with the changes of the memtable, in key order."""
        if self._snapshot.record_count or self._memtable.runs:
            yield from merge_changes(
                self._snapshot.scan_records(batch=FOLD_LIMITS.fold_part_records),
                self._memtable.select_newest(FOLD_LIMITS.fold_part_records),
            )
            return
        # A first load: all records are in memory, so there is nothing to merge.
        for keys, values in self._memtable.sort_memory_changes(FOLD_LIMITS.fold_part_records)[1]:
            if None in values:
                there = [place for place, value in enumerate(values) if value is not None]
                keys, values = [keys[place] for place in there], [values[place] for place in there]
            if keys:
                yield keys, cast("list[bytes]", values)

    def _drop_expired(self, parts: Iterator[Pairs]) -> Iterator[Pairs]:
        """Yield the records that have not expired, and count the expired ones."""
        for keys, values in parts:
            if self.known is not None:
                self.known.add_keys(keys)
            if self._expired_at is None:
                yield keys, values
                continue
            places = find_unexpired(values, self._expired_at)
            self._gone += len(values) - len(places)
            if places:
                yield [keys[place] for place in places], [values[place] for place in places]

    def _fill_with_versions(self, rule: Retention) -> None:
        """Write records and versions; the result for each key is the same as for changes in place."""
        builder, known = self._builder, self.known
        rows = _VersionReader(self._snapshot.scan_history(batch=FOLD_LIMITS.fold_part_records))
        changes = self._memtable.select_all(FOLD_LIMITS.fold_part_records)
        for bound, keys, values, fresh in pair_with_changes(
            self._snapshot.scan_records(batch=FOLD_LIMITS.fold_part_records), changes
        ):
            older = rows.read_upto(bound)
            if fresh:
                records, versions = dict(zip(keys, values, strict=True)), dict[bytes, list[bytes]]()
                for key, value in older:
                    versions.setdefault(key, []).append(value)
                for key, updates in fresh.items():
                    before = versions.pop(key, [])
                    # The current record is the newest version before these updates.
                    if key in records:
                        before.append(records.pop(key))
                    grown = extend_versions([decode_version(value) for value in before], updates, rule)
                    # A key whose last entry is a deletion has no record; its tombstone is kept among the versions.
                    if not grown[-1].tombstone:
                        records[key] = grown.pop().value
                    if grown:
                        versions[key] = [encode_version(key, version) for version in grown]
                keys = sorted(records)
                values = [records[key] for key in keys]
                older = [(key, value) for key in sorted(versions) for value in versions[key]]
            if known is not None:
                known.add_keys(keys)
            builder.append_records(keys, values)
            builder.append_versions(older)


class _VersionReader:
    """Reads the versions of a store in key order, on demand."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def read_upto(self, last: bytes | None) -> list[tuple[bytes, bytes]]:
        """Return SOW keys and values of the next versions, up to the SOW key ``last`` (inclusive; None: to the end)."""
        found: list[tuple[bytes, bytes]] = []
        while True:
            stop = len(self._keys) if last is None else bisect_right(self._keys, last + _LAST_HISTORY_SUFFIX)
            keys = list(map(extract_sow_key, self._keys[:stop]))
            found += zip(keys, self._values[:stop], strict=True)
            self._keys, self._values = self._keys[stop:], self._values[stop:]
            batch = None if self._keys else next(self._batches, None)
            if batch is None:
                return found
            self._keys, self._values = list(batch[0]), list(batch[1])


def merge_store(
    instance: Instance,
    store: Store,
    memtable: Memtable,
    position: AppliedPosition,
    *,
    rule: Retention | None = None,
    remove_expired_at: int | None = None,
) -> AppliedChanges | None:
    """Replace ``store`` by a new file: its records with the changes of ``memtable``, which is emptied afterwards.

    The counterpart of :func:`~sowctl.engine.fold.apply.apply_memtable`, with the same arguments; see
    :class:`StoreMerge`. The journal's lock is held. Returns None if the position of the store is no longer the start of
    the memtable. Raises StorageError, LockedError, DamageError, with the store unchanged.
    """
    done = None
    with (
        store.hold_writer_lock(instance.lock_wait),
        StoreMerge(instance, store, memtable, position, rule=rule, remove_expired_at=remove_expired_at) as merging,
    ):
        # If a replay has replaced the store since the memtable was created, nothing is merged, and the position stays:
        # the journal has all entries, and the next batch begins with the entries after the position of that store.
        if merging.is_current:
            merging.fill_store()
            done = merging.install_store()
    memtable.clear(position.txid)
    return done

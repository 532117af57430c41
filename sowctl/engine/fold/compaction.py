"""Store and memtable merged in key order into a new file, which takes the store's place (``sow-run(5)``, Merging).

What random keys cost in place, a page each, is spread so over all records of the file, one after the other. A new file
has its pages full, too. Nobody has to wait while it is filled: what it is made of does not change.
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
"""Behind a SOW key, this is not before any history key of it."""


class StoreMerge:
    """A new store from ``store``, which ``memtable`` brings to ``position``. Use as a context manager;
    :meth:`fill_store` it, then :meth:`install_store`.

    ``rule`` is that of a topic with History. Records that have
    expired at ``remove_expired_at`` are left out. ``known`` is given the keys of the new store. It is made under the
    journal's lock, and the memtable does not change until it is filled. Raises StorageError, DamageError.
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
            # supports_runs has refused such stores: a merge copies records only, and would lose the sequence numbers of
            # publishers.
            assert not meta.sequences and (rule is not None or not meta.versions)
            self._builder = held.enter_context(
                build_store(
                    store.path,
                    meta.definition,
                    seam=instance.seam,
                    # It is the same store, so it was made when it was made.
                    now=meta.created,
                    lineage=position.lineage,
                    applied=position.txid,
                    command=instance.holder,
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
        """Return whether the store stands where the memtable begins: a replay may have put another in place since."""
        base, meta = self._memtable.base, self._meta
        return meta.applied == base or (meta.applied < base and meta.lineage != self.position.lineage)

    def fill_store(self) -> None:
        """Write all of the new store and sync it; no lock is needed. Raises StorageError, DamageError."""
        snapshot, builder = self._snapshot, self._builder
        if self._rule is None:
            # At most: a changed record of the store, or one that is deleted, counts twice.
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
                # As for a removal in place: past states look at this mark.
                txn.set_removal_mark(self._expired_at)

        builder.flush()
        builder.run_transaction(position)
        builder.finish()
        # The old file's last user goes before the new one comes: a store is not open twice in a process.
        snapshot.close()

    def install_store(self) -> AppliedChanges | None:
        """Make it the store; the journal's lock is held. None where another process has changed the store meanwhile.

        Raises StorageError, LockedError; the store is as it was then.
        """
        store, wait = self._store, self._instance.lock_wait
        with store.hold_writer_lock(wait):
            # What was removed from it, or applied to it, since it was read would come back, or be missing.
            if store.read_meta() != self._meta:
                return None
            self._builder.install(lock=store.lock, wait=wait)
        return AppliedChanges(self._changes, self._gone)

    def _merge_records(self) -> Iterator[Pairs]:
        """The records of the store with the changes of the memtable, in key order."""
        if self._snapshot.record_count or self._memtable.runs:
            yield from merge_changes(
                self._snapshot.scan_records(batch=FOLD_LIMITS.fold_part_records),
                self._memtable.select_newest(FOLD_LIMITS.fold_part_records),
            )
            return
        # A first load: what is in memory is all that there is, and need not be put among anything.
        for keys, values in self._memtable.sort_memory_changes(FOLD_LIMITS.fold_part_records)[1]:
            if None in values:
                there = [place for place, value in enumerate(values) if value is not None]
                keys, values = [keys[place] for place in there], [values[place] for place in there]
            if keys:
                yield keys, cast("list[bytes]", values)

    def _drop_expired(self, parts: Iterator[Pairs]) -> Iterator[Pairs]:
        """Yield the records that have not expired, and count the others."""
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
        """Records and versions; what the changes make of a key's is what they make of it in place."""
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
                    # A key that was deleted last has no record; its tombstone is kept among the versions.
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
    """The versions of a store, in key order, as far as they are asked for."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def read_upto(self, last: bytes | None) -> list[tuple[bytes, bytes]]:
        """SOW keys and values of the next versions, to the SOW key ``last`` (inclusive; None: to the end)."""
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
    """Put a new file in the place of ``store``: its records with the changes of ``memtable``, which is emptied then.

    As :func:`~sowctl.engine.fold.apply.apply_memtable` does in place, and with the same arguments; see
    :class:`StoreMerge`. The journal's lock is held. None where the store does not stand any more where the memtable
    begins. Raises StorageError, LockedError, DamageError; the store is as it was then.
    """
    done = None
    with (
        store.hold_writer_lock(instance.lock_wait),
        StoreMerge(instance, store, memtable, position, rule=rule, remove_expired_at=remove_expired_at) as merging,
    ):
        # Where a replay has put another store in place since the memtable was made, nothing is merged, and no position
        # claimed: the journal has all entries, and the next batch begins with what it holds behind that store.
        if merging.is_current:
            merging.fill_store()
            done = merging.install_store()
    memtable.clear(position.txid)
    return done

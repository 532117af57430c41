"""A copy of a store in key order, which replaces it while other processes use it (``sow-store(5)``, "Compacting").

Every value is verified while it is copied, and at the end counts and digest are compared: a completed copy is a passed
check. The copy is made without a lock. Changes made by writers meanwhile are read from the change list, without a lock
as long as there are many; writers wait only for the last ones and for the replacement itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.errors import DamageError, StorageError
from sowctl.seam import Seam
from sowctl.store.builder import FLUSH_BYTES, StoreBuilder, build_store
from sowctl.store.codec import build_history_key, extract_sow_key
from sowctl.store.meta import StoreMeta
from sowctl.store.tables import Table

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.store.env import Store
    from sowctl.store.ordered_entries import Batch
    from sowctl.store.snapshot import Snapshot
    from sowctl.store.write import WriteTxn

COPY_BATCH_RECORDS = 1000
"""Records read and appended at once, so that their bytes stay in the processor's cache; fewer if they are large."""
MAX_CATCH_UP_ROUNDS = 8
"""Number of rounds without the lock that copy the changes made during the previous round."""
MAX_LOCKED_CHANGES = 200
"""Maximum number of changes left for the time under the lock."""
MAX_COPY_ATTEMPTS = 2
"""Copies begun without the lock. A third one blocks writers: they change more than the change list can record."""


class CopyResult(Struct, frozen=True):
    """The result of a copy; ``changes``: number of changes copied from writers, ``copies``: number of attempts.

    Sizes of the files in bytes. ``in_place`` is false if the copy would not have been smaller: then it was removed, and
    the store is unchanged.
    """

    in_place: bool
    records: int
    versions: int
    before: int
    after: int
    changes: int
    copies: int
    digest: int


def compact_file(
    store: Store,
    *,
    seam: Seam,
    wait: float,
    command: str,
    always: bool = False,
    on_read: Callable[[int, int], None] | None = None,
) -> CopyResult:
    """Replace a store, which is open for reading, by a copy without free pages; ``always``: even if it is not smaller.

    ``wait``: seconds for locks; ``on_read`` receives the number of records and versions copied and their total. Raises
    DamageError if a part is damaged, StorageError, LockedError, with the store unchanged.
    """
    before = store.read_file_size()
    for number in range(1, MAX_COPY_ATTEMPTS + 2):
        with ExitStack() as held:
            if number > MAX_COPY_ATTEMPTS:
                # Nothing changes under the lock, so the last attempt succeeds whatever writers did before.
                held.enter_context(store.hold_writer_lock(wait))
            copy = held.enter_context(StoreCopy(store, seam, command, always=always))
            copy.on_read = on_read
            if copy.copy_and_install(wait):
                meta = copy.builder.meta
                after = store.files.path.stat().st_size if copy.in_place else before
                counts = meta.records, meta.versions, before, after, copy.changes, number, meta.digest
                return CopyResult(copy.in_place, *counts)
    raise StorageError(
        "SOW-STO-042", "the store changed despite its writer lock: another program writes to it", place=store.path
    )


def measure_copy(store: Store, place: Path, *, seam: Seam, command: str) -> int:
    """Return the current size of a copy without free pages in bytes; it is written at ``place`` and removed.

    Raises DamageError if a part is damaged, StorageError, LockedError.
    """
    with StoreCopy(store, seam, command, always=False, place=place) as copy:
        return copy.measure_size()


class StoreCopy:
    """A copy under construction, beside the store. Use as a context manager: it is removed unless it was installed."""

    def __init__(self, store: Store, seam: Seam, command: str, *, always: bool, place: Path | None = None) -> None:
        self._always = always
        self._store = store
        self._seen = store.read_meta()
        self.changes = 0
        self.in_place = False
        self._tables: list[str] = []
        self.on_read: Callable[[int, int], None] | None = None
        # It is the same store, so it keeps its creation time.
        self._held = ExitStack()
        self.builder: StoreBuilder = self._held.enter_context(
            build_store(
                place or store.path,
                self._seen.definition,
                seam=seam,
                now=self._seen.created,
                command=command,
                is_copy=True,
            )
        )

    def __enter__(self) -> StoreCopy:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def copy_and_install(self, wait: float) -> bool:
        """Copy everything and install the copy, if it is worthwhile; return False if the changes of writers are
        unknown.

        Raises StorageError, DamageError, LockedError.
        """
        # The bulk without a lock; then the changes made meanwhile, round by round, usually fewer each time.
        self.copy_state()
        for _ in range(MAX_CATCH_UP_ROUNDS):
            brought = self.copy_changes()
            if brought is None:
                return False
            if brought <= MAX_LOCKED_CHANGES:
                break
        # Most of it is synced now, not while writers wait.
        self.builder.sync()
        with self._store.hold_writer_lock(wait):
            # Under the lock: these are the last changes, after which both stores are equal.
            if self.copy_changes() is None:
                return False
            self._take_changes()
            # Each transaction leaves free pages that it has replaced, so a copy of a small and dense store may be
            # larger.
            if self._always or self.builder.path.stat().st_size < self._store.read_file_size():
                self.builder.install(lock=self._store.lock, wait=wait)
                self.in_place = True
        return True

    def _take_changes(self) -> None:
        with self._store.open_snapshot() as snapshot:
            entries = snapshot.read_changes()
        # The digests are equal, so the change list applies to both: indexes can be updated as before.
        self.builder.run_transaction(
            lambda txn: txn.copy_changes(entries), pending=sum(len(value) for _, value in entries)
        )

    def measure_size(self) -> int:
        """Copy everything without installing it; return the size of the file. Raises as :meth:`copy_and_install`."""
        self.copy_state()
        self._take_changes()
        return self.builder.path.stat().st_size

    def copy_state(self) -> None:
        """Copy one whole state. Raises DamageError if a part of it is damaged."""
        with self._store.open_snapshot() as snapshot:
            self._seen = meta = snapshot.meta
            size = _choose_batch_size(meta.payload_bytes, meta.records)
            for part in _group_batches(snapshot.scan_records(batch=size)):
                self.builder.run_transaction(partial(_append_part, part), pending=_count_pending_bytes(part))
                self._note_copied(meta)
            size = _choose_batch_size(meta.version_bytes, meta.versions)
            for part in _group_batches(snapshot.scan_history(batch=size)):
                self.builder.run_transaction(partial(_append_versions, part), pending=_count_pending_bytes(part))
                self._note_copied(meta)
            self._tables = snapshot.list_tables()
            if self._tables:
                self.builder.open_tables(self._tables)
                self.builder.run_transaction(partial(self._copy_tables, snapshot), pending=self._store.read_file_size())
            sequences = snapshot.read_sequences()
            self.builder.run_transaction(partial(_copy_meta, meta, sequences))
        if not _have_same_content(self.builder.meta, meta) or len(sequences) != meta.sequences:
            raise DamageError(
                "SOW-STO-051",
                "the digest or the counts of the records do not match those in the file",
                place=self._store.path,
                hint="sowctl store check shows the damage, sowctl store repair saves the other records",
            )

    def _note_copied(self, meta: StoreMeta) -> None:
        if self.on_read is not None:
            done = self.builder.meta
            self.on_read(done.records + done.versions, meta.records + meta.versions)

    def _copy_tables(self, snapshot: Snapshot, txn: WriteTxn) -> None:
        for name in self._tables:
            source = snapshot.open_table(name)
            if source is not None:
                target: Table = txn.open_table(name)
                target.put(source.walk(), append=True)

    def copy_changes(self) -> int | None:
        """Copy later changes; return the number of keys, None if the changes are unknown. Raises as
        :meth:`copy_state`."""
        with self._store.open_snapshot() as snapshot:
            meta, builder = snapshot.meta, self.builder
            if meta == self._seen:
                return 0
            # The change list has only records: it does not cover tables, or another definition.
            if self._tables or meta.definition != self._seen.definition:
                return None
            # If the list no longer has the copied state, the copy starts again.
            known = snapshot.find_changed_keys(self._seen.state_number)
            if known is None:
                return None
            keys = sorted(known)
            for start in range(0, len(keys), COPY_BATCH_RECORDS):
                part = keys[start : start + COPY_BATCH_RECORDS]
                builder.run_transaction(partial(_copy_changed, snapshot, part), pending=FLUSH_BYTES)
            builder.run_transaction(partial(_copy_meta, meta, snapshot.read_sequences()))
            # The list has records; it does not show versions that were removed without their record.
            if not _have_same_content(builder.meta, meta):
                return None
            self._seen = meta
            self.changes += len(keys)
            return len(keys)


def _have_same_content(one: StoreMeta, other: StoreMeta) -> bool:
    """Return whether two stores have the same records and versions."""
    names = ("records", "versions", "payload_bytes", "version_bytes", "digest", "sequences")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _choose_batch_size(size: int, count: int) -> int:
    """Return how many entries to read at once, of ``count`` entries with a total of ``size`` bytes."""
    return max(1, min(COPY_BATCH_RECORDS, FLUSH_BYTES * count // max(size, 1)))


def _group_batches(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yield the batches to write in one transaction: of about FLUSH_BYTES."""
    part: list[Batch] = []
    size = 0
    for batch in batches:
        part.append(batch)
        size += sum(map(len, batch[1]))
        if size >= FLUSH_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _count_pending_bytes(part: Sequence[Batch]) -> int:
    # 64 bytes per entry: its key, LMDB's node header and its share of a branch page.
    return sum(sum(map(len, values)) + 64 * len(keys) for keys, values in part)


def _append_part(part: Sequence[Batch], txn: WriteTxn) -> None:
    for keys, values in part:
        txn.append_records(keys, values)


def _append_versions(part: Sequence[Batch], txn: WriteTxn) -> None:
    for keys, values in part:
        txn.append_versions(list(zip(map(extract_sow_key, keys), values, strict=True)))


def _copy_meta(meta: StoreMeta, sequences: dict[int, int], txn: WriteTxn) -> None:
    txn.copy_state(meta)
    for publisher, sequence in sequences.items():
        txn.set_sequence(publisher, sequence)


def _copy_changed(snapshot: Snapshot, keys: Sequence[bytes], txn: WriteTxn) -> None:
    """Copy the records of ``keys`` and their versions from ``snapshot``."""
    fresh = snapshot.read_values(keys)
    txn.delete_records(key for key in keys if key not in fresh)
    txn.put_records(list(fresh), list(fresh.values()))
    if not (snapshot.meta.versions or txn.meta.versions):
        return
    gone: list[bytes] = []
    added: list[tuple[bytes, bytes]] = []
    for key in keys:
        now = {build_history_key(key, value): value for _, _, value in snapshot.read_versions(key)}
        then = {build_history_key(key, value): value for _, _, value in txn.read_versions(key)}
        gone += then.keys() - now.keys()
        added += [(key, value) for name, value in now.items() if then.get(name) != value]
    txn.delete_versions(gone)
    txn.put_versions(added)


__all__ = ["CopyResult", "StoreCopy", "compact_file"]

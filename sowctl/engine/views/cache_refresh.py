"""A view's cache at a moment: as it is, caught up with what changed, or made anew (``sow-view(5)``).

Whoever reads a view brings its cache up to date first. One process does so at a time, under the store's writer lock;
readers of the state before are not disturbed. Where no cache can be written, the caller does without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.directories import make_directories
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.views.cache import (
    CACHE_VERSION,
    STATE_TABLE,
    CacheState,
    SourcePosition,
    definition_digest,
    find_cache_mode,
    notify_rebuild,
    read_positions,
    read_state,
    write_state,
)
from sowctl.engine.views.cache_build import build_all_tables, build_messages
from sowctl.engine.views.cache_tables import JOIN_TABLES, ROW_TABLES
from sowctl.engine.views.costs import catches_up, compute_spent_seconds, explain_compute, keeps_rows
from sowctl.engine.views.definition import Program
from sowctl.engine.views.gc_pause import pause_collection
from sowctl.engine.views.incremental import Changes, IncrementalUpdate
from sowctl.engine.views.instant import Moved, read_last_txid
from sowctl.engine.views.records import RecordReader
from sowctl.errors import DamageError, MissingError, SowError, VersionError
from sowctl.store.builder import build_store
from sowctl.store.codec import read_expiration
from sowctl.store.env import Store
from sowctl.store.meta import StoreMeta
from sowctl.store.opening.locks import StoreFiles, WriterLock

if TYPE_CHECKING:
    from sowctl.config.model import OtherEntry
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.definition import Query, ViewRecord
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.store.write import WriteTxn

LOOKUP_BATCH_KEYS = 1000


class RefreshPlan(Struct, frozen=True):
    """Plan of a reader for a cache: use it, catch up, or compute everything, and why.

    ``changed``: records of the sources that may differ from what it holds, None where that is not known. ``state`` is
    None where there is no cache of use; ``meta`` is the meta record of its store, ``size`` of its file, which is at
    ``path``, in bytes.
    """

    way: str
    why: str
    changed: int | None = None
    state: CacheState | None = None
    meta: StoreMeta | None = None
    size: int = 0
    path: Path | None = None

    @property
    def messages(self) -> int:
        """Messages in the cache."""
        return 0 if self.meta is None else self.meta.records


def build_plan(instance: Instance, path: Path, way: str, why: str) -> RefreshPlan:
    """Build the plan of a refresh from the stored state of a cache, if there is one."""
    try:
        with Store.open(path, write=False, seam=instance.seam) as store, store.open_snapshot() as snapshot:
            state, meta = read_state(snapshot), snapshot.meta
    except SowError:
        return RefreshPlan("compute", why)
    return RefreshPlan(way, why, None, state, meta, path.stat().st_size, path)


class Refresh:
    """The refreshing of one view as of a moment. ``timer`` tells seconds, for the costs that a cache notes."""

    def __init__(
        self,
        moment: ViewInstant,
        entry: OtherEntry,
        query: Query,
        path: Path,
        *,
        timer: Callable[[], float] = process_time,
    ) -> None:
        self._moment, self._query, self._path = moment, query, path
        self._fresh = moment.fresh
        self._timer = timer
        self._definition_digest = definition_digest(moment.instance, query)
        # Opened before any lock of a cache is taken: a source may be a view with a cache of its own.
        self._positions = read_positions(moment, query)
        instance = moment.instance
        assert instance.config is not None
        self._entry = entry
        self._store_definition = build_definition(instance.config.name, build_derived_topic(instance.config, entry))
        self.way = "used"
        """What was done: used, caught up, computed."""
        self.changed = 0
        """How many changed records were caught up with."""

    def run(self) -> None:
        """Bring the cache to the moment. Raises StorageError, LockedError, RefusedError where none can be written."""
        instance = self._moment.instance
        make_directories(self._path.parent, instance.seam)
        store = self._open_cache(write=True)
        looked = False
        while store is None:
            lock = WriterLock(StoreFiles.from_path(self._path), instance.seam, instance.holder, instance.notify)
            with lock.hold(instance.lock_wait):
                # Another process may have made it while this one waited; it is opened for writing without this lock.
                made = self._open_cache(write=False) if not looked else None
                if made is None:
                    self._build(lock, None)
                    return
                made.close()
                looked = True
            store = self._open_cache(write=True)
        with store, store.hold_writer_lock():
            # Read again under the lock: another process may have refreshed the cache since it was opened.
            with store.open_snapshot() as snapshot:
                state = read_state(snapshot)
            if self.is_current(state) and not self._fresh:
                return
            changes = None if self._fresh else self._changes(state)
            if changes is None or state is None or not catches_up(state, _count(changes), self._records):
                self._build(store.lock, state, None if changes is None else _count(changes))
                return
            try:
                self._catch_up(store, state, changes)
            except DamageError as problem:
                # What is kept does not fit the sources, or was damaged: it is derived, and made anew.
                notify_rebuild(self._moment.instance, self._entry, problem)
                self._build(store.lock, None)

    def plan(self) -> RefreshPlan:
        """Return what :meth:`run` would do, found out without a lock."""
        if (store := self._open_cache(write=False)) is None:
            return RefreshPlan(
                "compute", "the cache does not exist" if not self._path.exists() else "the cache is unusable"
            )
        with store, store.open_snapshot() as snapshot:
            state, meta = read_state(snapshot), snapshot.meta
        if state is None or state.definition != self._definition_digest:
            return RefreshPlan("compute", "the cache has another definition or version")
        found = RefreshPlan("use", "nothing has changed", 0, state, meta, self._path.stat().st_size, self._path)
        if self.is_current(state):
            return found
        changes = self._changes(state)
        if changes is None:
            return replace(found, way="compute", why="the changes of the sources are unknown", changed=None)
        count, records = _count(changes), self._records
        found = replace(found, changed=count)
        if catches_up(state, count, records):
            return replace(found, way="catch up", why="rows and groups are cached")
        return replace(found, way="compute", why=explain_compute(state, count, records))

    def is_current(self, state: CacheState | None) -> bool:
        """Return whether a cache shows the view as of the moment."""
        if state is None or state.definition != self._definition_digest:
            return False
        there = [one.state for one in state.positions] == [one.state for one in self._positions]
        # Lifetimes end without an entry in any log, and clocks are set back.
        now = self._moment.now
        return there and not (self._has_expiring and (now < state.clock or 0 < state.expires <= now))

    @cached_property
    def _program(self) -> Program:
        """Compiled where there is something to compute: a cache that is used as it is needs none of it."""
        return Program(self._moment.instance, self._query)

    @property
    def _sources(self) -> list[Source]:
        return [self._moment.find_source(ref) for ref in self._query.sources]

    @property
    def _has_expiring(self) -> bool:
        """True where records of a source may expire."""
        return any(source.stored_source is not None and source.stored_source.hides for source in self._sources)

    def _open_cache(self, *, write: bool) -> Store | None:
        """The cache, open; None where there is none that can be used."""
        instance = self._moment.instance
        if not self._path.exists():
            return None
        try:
            store = Store.open(
                self._path,
                write=write,
                seam=instance.seam,
                lock_wait=instance.lock_wait,
                # Caches are derived: what a crash loses is computed again, so commits are not synced.
                durable=False,
                command=instance.holder,
            )
            if store.definition == self._store_definition:
                return store
            # A name or a key was changed.
            store.close()
            return None
        except (DamageError, VersionError, MissingError):
            return None

    # what changed ------------------------------------------------------------------------------------------------

    def _changes(self, state: CacheState | None) -> list[set[bytes]] | None:
        """The keys of each source whose records may differ from what the cache holds; None where that is not known."""
        if state is None or state.definition != self._definition_digest:
            return None
        found = []
        for source, old, new in zip(self._sources, state.positions, self._positions, strict=True):
            keys = self._find_changed(source, old, new, state)
            if keys is None:
                return None
            found.append(keys)
        return found

    def _find_changed(
        self, source: Source, old: SourcePosition, new: SourcePosition, state: CacheState
    ) -> set[bytes] | None:
        stored = source.stored_source
        until = self._moment.until
        if new.last_txid < old.last_txid and until is not None and until < (read_last_txid(self._moment.instance) or 0):
            # Another process was here later: what it saw is not taken back.
            raise Moved
        # A log that ends before what the cache has seen lost its end, or is another one.
        if stored is None or new.last_txid < old.last_txid or (old.lineage != new.lineage and old.digest):
            return set() if old == new else None
        changed = stored.snapshot.find_changed_keys(int(old.digest or "0", 16))
        if changed is None:
            return None
        keys = set(changed)
        if stored.memtable is not None:
            for part in stored.memtable.iterate_parts(LOOKUP_BATCH_KEYS):
                keys.update(part)
        now = self._moment.now
        if stored.hides and (now < state.clock or 0 < state.expires <= now):
            # Over since, or, where the clock was set back, over then and not now.
            keys.update(stored.snapshot.iter_expired_keys(max(now, state.clock)))
        return keys

    @property
    def _records(self) -> int:
        """Number of records of the sources, about."""
        return sum(source.stored_source.meta.records for source in self._sources if source.stored_source is not None)

    # what is done ------------------------------------------------------------------------------------------------

    def _catch_up(self, store: Store, state: CacheState, changes: list[set[bytes]]) -> None:
        begin = self._timer()
        count = _count(changes)
        self.way, self.changed = "caught up", count
        records = [self._read(number, keys) for number, keys in enumerate(changes)]
        store.open_tables((STATE_TABLE, *ROW_TABLES, *JOIN_TABLES))

        def change(txn: WriteTxn) -> None:
            more = IncrementalUpdate(self._program, txn).apply(records)
            taken = self._timer() - begin
            fresh = replace(
                self._state(kept=True, full=state.full, made=state.made, rows=state.rows + more),
                change=taken if count else state.change,
                changed=count or state.changed,
            )
            write_state(txn, fresh)

        store.write(change, pending=1000 * count)

    def _read(self, number: int, keys: set[bytes]) -> Changes:
        """The records of ``keys`` as the view reads them now; None for those that are gone, or left its filter."""
        found: dict[bytes, ViewRecord | None] = dict.fromkeys(keys)
        reader = RecordReader(self._program, number)
        wanted = sorted(keys)
        for start in range(0, len(wanted), LOOKUP_BATCH_KEYS):
            there, values = self._sources[number].find_records(wanted[start : start + LOOKUP_BATCH_KEYS])
            found.update((record.key, record) for record in reader.read(list(there), list(values)))
        return found

    def _build(self, lock: WriterLock, state: CacheState | None, changed: int | None = None) -> None:
        """Make the cache anew. ``changed``: how many records differ from the cache before, where that is known."""
        begin = self._timer()
        instance, moment = self._moment.instance, self._moment
        records = self._records
        if state is not None and state.definition != self._definition_digest:
            # Another view had this name.
            state = None
        kept = keeps_rows(state, changed, records)
        self.way, self.changed = "computed", 0
        with build_store(self._path, self._store_definition, seam=instance.seam, now=moment.now) as builder:
            rows = 0
            with pause_collection():
                if kept:
                    rows = build_all_tables(moment, self._program, builder, self._path.parent)
                else:
                    build_messages(moment, self._program, builder)
            builder.open_tables((STATE_TABLE,))
            full = self._timer() - begin
            made = self._state(kept=kept, full=full, made=moment.now, rows=rows)
            if not kept:
                made = replace(made, spent=compute_spent_seconds(state, changed, records, full))
            builder.run_transaction(lambda txn: write_state(txn, made))
            # Who may not read a source may not read what is made of it.
            builder.path.chmod(find_cache_mode(instance, self._entry))
            builder.install(lock=lock, wait=instance.lock_wait)

    def _state(self, *, kept: bool, full: float, made: int, rows: int) -> CacheState:
        now = self._moment.now
        return CacheState(
            CACHE_VERSION,
            self._definition_digest,
            self._positions,
            now,
            self._next_expiry(),
            kept,
            rows,
            full,
            made=made,
            refreshed=now,
        )

    def _next_expiry(self) -> int:
        """When the next record of a source expires, 0 for never."""
        now, found = self._moment.now, []
        for source in self._sources:
            stored = source.stored_source
            if stored is None or not stored.hides:
                continue
            found.append(stored.snapshot.find_next_expiry(now) or 0)
            if stored.memtable is not None:
                for part in stored.memtable.iterate_parts(LOOKUP_BATCH_KEYS):
                    found += [read_expiration(value) for value in part.values() if value is not None]
        return min((one for one in found if one > now), default=0)


def _count(changes: list[set[bytes]]) -> int:
    """Count the changed records of all sources."""
    return sum(map(len, changes))

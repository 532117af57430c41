"""Bringing a view's cache to a moment: reusing it, refreshing it incrementally, or rebuilding it (``sow-view(5)``).

Every read of a view refreshes its cache first. One process refreshes at a time, under the store's writer lock; readers
of the previous state are not affected. If no cache can be written, the caller computes the view without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from sowctl.directories import make_directories
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.views.cache import (
    CACHE_VERSION,
    CHANGES_TABLE,
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
from sowctl.engine.views.cache_build import (
    append_messages,
    find_column_path,
    name_columns,
    record_columns,
    remove_columns,
    remove_columns_on_error,
)
from sowctl.engine.views.computation import compute_column_messages, compute_messages, groups_columns
from sowctl.engine.views.definition import Program
from sowctl.engine.views.gc_pause import pause_collection
from sowctl.engine.views.instant import Moved, read_last_txid
from sowctl.engine.views.limits import VIEW_LIMITS
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
    from sowctl.engine.views.definition import Query
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.engine.views.stored_columns import SourceColumns, ViewColumns
    from sowctl.store.snapshot import Snapshot
    from sowctl.store.write import WriteTxn

LOOKUP_BATCH_KEYS = 1000


class RefreshPlan(Struct, frozen=True):
    """A reader's plan for a cache: use it, catch up, or compute everything, and the reason.

    ``changed``: number of records of the sources that may differ from the cached state, None if unknown. ``state``:
    None without a usable cache; ``meta``: meta record of its store; ``size``: of the file at ``path`` in bytes.
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
        """Number of messages in the cache."""
        return 0 if self.meta is None else self.meta.records


def build_plan(instance: Instance, path: Path, way: str, why: str) -> RefreshPlan:
    """Return a plan with the given way and reason and the stored state of a cache; without a cache, to compute."""
    try:
        with Store.open(path, write=False, seam=instance.seam) as store, store.open_snapshot() as snapshot:
            state, meta = read_state(snapshot), snapshot.meta
    except SowError:
        return RefreshPlan("compute", why)
    return RefreshPlan(way, why, None, state, meta, path.stat().st_size, path)


class Refresh:
    """Refreshes the cache of one view to a moment. ``timer`` returns seconds, for the costs recorded in the cache."""

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
        # Open the sources before locking the cache: a source may be a view with its own cache.
        self._positions = read_positions(moment, query)
        instance = moment.instance
        assert instance.config is not None
        self._entry = entry
        self._store_definition = build_definition(instance.config.name, build_derived_topic(instance.config, entry))
        self.way = "used"
        """The action of :meth:`run`: used, caught up, computed."""
        self.changed = 0
        """Number of changed records applied by the refresh."""

    def run(self) -> None:
        """Bring the cache to the moment. Raises StorageError, LockedError, RefusedError if it cannot be written."""
        instance = self._moment.instance
        make_directories(self._path.parent, instance.seam)
        store = self._open_cache(write=True)
        looked = False
        while store is None:
            lock = WriterLock(StoreFiles.from_path(self._path), instance.seam, instance.holder, instance.notify)
            with lock.hold(instance.lock_wait):
                # Another process may have built it while this one waited. It is opened for writing without this lock.
                made = self._open_cache(write=False) if not looked else None
                if made is None:
                    self._build(lock, None, None)
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
            if changes is None or state is None or self._explain_build(state, _count(changes)):
                self._build(store.lock, state, None)
                return
            try:
                if state.columns:
                    self._catch_up(store, state, changes)
                else:
                    self._replace(store, state, _count(changes))
            except DamageError as problem:
                # The cache does not match its sources, or is damaged: rebuild it, since it is derived.
                notify_rebuild(self._moment.instance, self._entry, problem)
                self._build(store.lock, state, None)
            except FileNotFoundError:
                # Column files may be removed at any time.
                self._build(store.lock, state, None)

    def plan(self) -> RefreshPlan:
        """Return what :meth:`run` would do, without taking a lock."""
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
        count = _count(changes)
        why = self._explain_build(state, count)
        if why:
            return replace(found, changed=count, way="compute", why=why)
        why = "the affected groups are computed from the columns" if state.columns else "all groups are computed"
        return replace(found, changed=count, way="catch up", why=why)

    def _explain_build(self, state: CacheState, changed: int) -> str:
        """Return the reason to rebuild the cache although the changed records are known; empty if there is none."""
        records = self._records
        if not state.columns:
            if groups_columns(self._moment, self._program):
                return "the cache has no columns yet"
            if records < VIEW_LIMITS.min_column_records:
                return ""
            return "its fields depend on metadata of records, so the cache has no columns"
        if not all(find_column_path(self._path, *one).is_file() for one in enumerate(state.columns)):
            return "its columns are missing"
        if changed > VIEW_LIMITS.max_refresh_changes or changed * VIEW_LIMITS.max_changed_divisor > records:
            return "applying this many changes costs more than computing everything"
        return ""

    def is_current(self, state: CacheState | None) -> bool:
        """Return whether a cached state is that of the view at the moment."""
        if state is None or state.definition != self._definition_digest:
            return False
        there = [one.state for one in state.positions] == [one.state for one in self._positions]
        # Records expire without an entry in any log, and clocks may be set back.
        now = self._moment.now
        return there and not (self._has_expiring and (now < state.clock or 0 < state.expires <= now))

    @cached_property
    def _program(self) -> Program:
        """The compiled view; compiled on first use, because a current cache does not need it."""
        return Program(self._moment.instance, self._query)

    @property
    def _sources(self) -> list[Source]:
        return [self._moment.find_source(ref) for ref in self._query.sources]

    @property
    def _has_expiring(self) -> bool:
        """True if records of a source may expire."""
        return any(source.stored_source is not None and source.stored_source.hides for source in self._sources)

    def _open_cache(self, *, write: bool) -> Store | None:
        """Open the cache; None if it does not exist or is unusable."""
        instance = self._moment.instance
        if not self._path.exists():
            return None
        try:
            store = Store.open(
                self._path,
                write=write,
                seam=instance.seam,
                lock_wait=instance.lock_wait,
                # Caches are derived: data lost by a crash is computed again, so commits are not synced.
                durable=False,
                command=instance.holder,
            )
            if store.definition == self._store_definition:
                return store
            # The view's name or keys have changed.
            store.close()
            return None
        except (DamageError, VersionError, MissingError):
            return None

    # changes of the sources --------------------------------------------------------------------------------------

    def _changes(self, state: CacheState | None) -> list[set[bytes]] | None:
        """Return the keys of each source whose records may differ from the cached state; None if unknown."""
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
            # Another process refreshed the cache to a later state, which must not be reverted.
            raise Moved
        # A log that ends before the position of the cache was truncated, or is another log.
        if stored is None or not old.store or new.last_txid < old.last_txid or old.lineage != new.lineage:
            return set() if old == new else None
        changed = stored.snapshot.find_changed_keys(int(old.store, 16))
        if changed is None:
            return None
        keys = set(changed)
        if stored.memtable is not None:
            for part in stored.memtable.iterate_parts(LOOKUP_BATCH_KEYS):
                keys.update(part)
        now = self._moment.now
        if stored.hides and (now < state.clock or 0 < state.expires <= now):
            # Records that have expired since or, if the clock was set back, were expired then but are not now.
            keys.update(stored.snapshot.iter_expired_keys(max(now, state.clock)))
        return keys

    @property
    def _records(self) -> int:
        """Approximate number of records of the sources."""
        return sum(source.stored_source.meta.records for source in self._sources if source.stored_source is not None)

    # actions -----------------------------------------------------------------------------------------------------

    def _catch_up(self, store: Store, state: CacheState, changes: list[set[bytes]]) -> None:
        """Compute the affected groups from the columns, and write them; rebuild the cache if that is cheaper."""
        from sowctl.engine.views.column_file import ColumnWriter, OutputFile
        from sowctl.engine.views.column_refresh import ColumnRefresh, refresh_columns
        from sowctl.engine.views.stored_columns import ViewColumns

        begin = self._timer()
        instance, moment, program = self._moment.instance, self._moment, self._program
        with store.open_snapshot() as snapshot, pause_collection():
            columns = self._open_columns(snapshot, state)
            found = refresh_columns(
                program, columns, self._sources, changes, self._path.parent, moment.memory, snapshot.meta.records
            )
        if not isinstance(found, ColumnRefresh):
            self._build(store.lock, state, ViewColumns(program, found))
            return
        self.way, self.changed = "caught up", _count(changes)
        identities = list(state.columns)
        with ExitStack() as stack:
            for number, source in enumerate(found.columns):
                # For an unchanged source, the table of changes is not updated, so its file must stay.
                if source is columns[number] or not source.exceeds_changes:
                    continue
                identities[number] = self._identify_columns()
                path = find_column_path(self._path, number, identities[number])
                file = stack.enter_context(OutputFile(path, find_cache_mode(instance, self._entry), instance.seam))
                writer = ColumnWriter(file.write, name_columns(number, identities[number]))
                source.write(writer)
                writer.finish()
                file.install()
        pairs = [
            (bytes((number,)), None if identity != old else source.changes.encode())
            for number, (source, identity, old) in enumerate(zip(found.columns, identities, state.columns, strict=True))
            if source is not columns[number]
        ]

        def change(txn: WriteTxn) -> None:
            replace_messages(txn, found.messages, found.affected)
            table = txn.open_table(CHANGES_TABLE)
            table.put([(key, data) for key, data in pairs if data is not None])
            table.delete([key for key, data in pairs if data is None])
            groups = len(found.messages if found.affected is None else found.affected)
            write_state(txn, self._refreshed_state(state, tuple(identities), groups, begin))

        store.open_tables((STATE_TABLE, CHANGES_TABLE))
        store.write(change, pending=sum(map(len, found.messages.values())) + sum(len(data or b"") for _, data in pairs))
        # This also removes files of refreshes that were killed before their transaction.
        remove_columns(self._path, identities)

    def _replace(self, store: Store, state: CacheState, changed: int) -> None:
        """Compute all messages of a view without columns, and write those that changed."""
        begin = self._timer()
        self.way, self.changed = "caught up", changed
        messages: dict[bytes, bytes] = {}
        for keys, values in compute_messages(self._moment, self._program, self._path.parent):
            messages.update(zip(keys, values, strict=True))

        def change(txn: WriteTxn) -> None:
            replace_messages(txn, messages, None)
            write_state(txn, self._refreshed_state(state, (), len(messages), begin))

        store.open_tables((STATE_TABLE, CHANGES_TABLE))
        store.write(change, pending=sum(map(len, messages.values())))

    def _refreshed_state(self, state: CacheState, columns: tuple[str, ...], groups: int, begin: float) -> CacheState:
        """Return the state after a refresh. A refresh without changes keeps the costs of the previous one."""
        fresh = self._state(columns=columns, full=state.full, made=state.made)
        if not self.changed:
            return replace(fresh, change=state.change, changed=state.changed, groups=state.groups)
        return replace(fresh, change=self._timer() - begin, changed=self.changed, groups=groups)

    def _open_columns(self, snapshot: Snapshot, state: CacheState) -> list[SourceColumns]:
        """Open the columns of all sources. Raises FileNotFoundError, DamageError."""
        from sowctl.engine.views.column_file import ColumnFile
        from sowctl.engine.views.stored_columns import Changes, SourceColumns

        table = snapshot.open_table(CHANGES_TABLE)
        found = []
        for number, identity in enumerate(state.columns):
            base = ColumnFile.open(find_column_path(self._path, number, identity), name_columns(number, identity))
            data = None if table is None else table.get(bytes((number,)))
            found.append(SourceColumns(base, None if data is None else Changes.decode(data, self._path)))
        return found

    def _identify_columns(self) -> str:
        """Return the identity of column files written for this moment."""
        return xxh3_64_hexdigest(repr((self._definition_digest, self._positions, self._moment.now)).encode())

    def _build(self, lock: WriterLock, state: CacheState | None, columns: ViewColumns | None) -> None:
        """Rebuild the cache: from up-to-date ``columns``, or from the records of the sources.

        ``state``: state of the existing cache, which remains if the build fails.
        """
        begin = self._timer()
        instance, moment, program = self._moment.instance, self._moment, self._program
        self.way, self.changed = "computed", 0
        mode, directory = find_cache_mode(instance, self._entry), self._path.parent
        identities: tuple[str, ...] = ()
        with (
            # If the build fails, for example on a full disk, only the columns of the existing cache remain.
            remove_columns_on_error(self._path, () if state is None else state.columns),
            build_store(self._path, self._store_definition, seam=instance.seam, now=moment.now) as builder,
            pause_collection(),
        ):
            if columns is None and not groups_columns(moment, program):
                append_messages(builder, compute_messages(moment, program, directory))
            else:
                identities = (self._identify_columns(),) * len(program.query.sources)
                with record_columns(program, self._path, identities[0], mode, instance.seam) as recorder:
                    found = (
                        compute_messages(moment, program, directory, recorder)
                        if columns is None
                        else compute_column_messages(
                            program,
                            lambda number: recorder.record_parts(number, columns.sources[number].iterate_parts()),
                            columns.sources[0].records,
                            directory,
                            moment.memory,
                            recorder,
                        )
                    )
                    append_messages(builder, found)
            builder.open_tables((STATE_TABLE, CHANGES_TABLE))
            made = self._state(columns=identities, full=self._timer() - begin, made=moment.now)
            builder.run_transaction(lambda txn: write_state(txn, made))
            # Users without read permission for a source must not read the view through its cache.
            builder.path.chmod(mode)
            builder.install(lock=lock, wait=instance.lock_wait)
        remove_columns(self._path, identities)

    def _state(self, *, columns: tuple[str, ...], full: float, made: int) -> CacheState:
        now = self._moment.now
        return CacheState(
            CACHE_VERSION,
            self._definition_digest,
            self._positions,
            now,
            self._next_expiry(),
            columns,
            full,
            made=made,
            refreshed=now,
        )

    def _next_expiry(self) -> int:
        """Return when the next record of a source expires, 0 for never."""
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


def replace_messages(txn: WriteTxn, messages: Mapping[bytes, bytes], affected: Sequence[bytes] | None) -> None:
    """Replace the messages of the ``affected`` keys (ascending), or all, by ``messages``. Equal ones stay unchanged."""
    if affected is None:
        olds = {key: value for keys, values in txn.scan_records() for key, value in zip(keys, values, strict=True)}
    else:
        olds = txn.read_values(affected)
    keys = sorted(key for key, value in messages.items() if olds.get(key) != value)
    txn.put_records(keys, [messages[key] for key in keys], olds)
    txn.delete_records(olds.keys() - messages.keys())


def _count(changes: list[set[bytes]]) -> int:
    """Count the changed records of all sources."""
    return sum(map(len, changes))

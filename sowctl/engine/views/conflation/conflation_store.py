"""The stored state of a conflated topic: its messages at an instant, and the pending ones (``sow-view(5)``).

With a journal of the source, the state is a cache: it advances from its position, or is rebuilt if that is not
possible. Without a journal, the state is the only copy: it advances by comparing the source with digests, and the time
of a deletion is the time of its detection. In both cases it is a store of the output messages, with further tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.config.model import TopicConfig
from sowctl.directories import make_directories
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import build_definition, has_log, open_log
from sowctl.engine.views.cache import find_cache_path
from sowctl.engine.views.conflation.conflation_rule import LateError, PendingKey, TopicConflation
from sowctl.engine.views.conflation.outputs import TopicOutputs
from sowctl.engine.views.conflation.source_changes import filter_changes, iterate_source_changes
from sowctl.engine.views.conflation.source_digests import SourceDigests
from sowctl.engine.views.conflation.state_tables import (
    PENDING_TABLE,
    STATE_TABLES,
    STATE_VERSION,
    ConflationState,
    definition_digest,
    is_recorded,
    read_ended,
    read_pending,
    read_state,
    write_ended,
    write_pending,
    write_state,
)
from sowctl.engine.views.conflation.timeline import KeyChange, LogStretch, iterate_topic_changes
from sowctl.engine.views.definition import build_query
from sowctl.engine.views.instant import find_entry, list_topic_refs
from sowctl.errors import DamageError, MissingError, VersionError
from sowctl.store.builder import build_store
from sowctl.store.codec import read_expiration
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.meta import StoreMeta
from sowctl.store.opening.locks import StoreFiles, WriterLock

if TYPE_CHECKING:
    from sowctl.config.model import SowEntry
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.store.read import Reader
    from sowctl.store.write import WriteTxn


class AdvanceReport(Struct, frozen=True):
    """Result of an advance: numbers of messages output, removed and pending; ``way``: the action, as a word."""

    shown: int
    gone: int
    pending: int
    way: str


class ConflationStore:
    """The stored state of one conflated topic, at a moment."""

    def __init__(self, moment: ViewInstant, entry: ConflatedTopic, path: Path) -> None:
        self._moment, self._entry, self._path = moment, entry, path
        self._instance = moment.instance
        assert self._instance.config is not None
        self._topic = build_derived_topic(self._instance.config, entry)
        self._store_definition = build_definition(self._instance.config.name, self._topic)
        self._digest = definition_digest(self._instance, entry)
        self.recorded = is_recorded(self._instance, entry)
        # An instant in the future means the present.
        self._at = moment.now if moment.at is None else min(moment.at, moment.now)

    # queries ---------------------------------------------------------------------------------------------------------

    def is_current(self, kept: ConflationState | None) -> bool:
        """Return whether a stored state is that of the moment: no publish and no due output since."""
        if kept is None or not self._fits(kept) or kept.clock > self._at or 0 < kept.due <= self._at:
            return False
        lineage, last, _ = self._log()
        return kept.lineage == lineage and last <= kept.applied

    def count_txids_behind(self, kept: ConflationState) -> int:
        """Return the number of txids by which a stored state lags the last entry of the underlying topics."""
        return max(0, self._log()[1] - kept.applied)

    def _fits(self, kept: ConflationState) -> bool:
        if kept.definition != self._digest or bool(kept.lineage) != (self.recorded and bool(self._log()[0])):
            return False
        return self._is_of_this_log(kept)

    def _is_of_this_log(self, kept: ConflationState) -> bool:
        """Return whether the journal is the one that was read, and not another copy with the same lineage."""
        if kept.block is None or not self.recorded or not has_log(self._instance):
            return True
        with open_log(self._instance) as log:
            return kept.lineage != log.lineage.hex() or log.has_block(kept.block[:3], kept.block[3])

    def _log(self) -> tuple[str, int, int]:
        """Return the journal's lineage, and the last txid (up to the moment) and time of the underlying topics."""
        if not self.recorded or not has_log(self._instance):
            return "", 0, 0
        with open_log(self._instance) as log:
            states = [log.find_topic_state(ref) for ref in list_topic_refs(self._instance, self._entry)]
            last = max((state.last_txid for state in states), default=0)
            until = self._moment.until
            return (
                log.lineage.hex(),
                last if until is None else min(last, until),
                max((state.last_time for state in states), default=0),
            )

    # advancing -------------------------------------------------------------------------------------------------------

    def advance(self) -> AdvanceReport:
        """Advance the stored state to the moment. Raises StorageError, LockedError, RefusedError if it cannot be
        written.

        A later state, stored by another process, is left unchanged.
        """
        instance = self._instance
        make_directories(self._path.parent, instance.seam)
        store = self._open_store()
        if store is None:
            lock = WriterLock(StoreFiles.from_path(self._path), instance.seam, instance.holder, instance.notify)
            with lock.hold(instance.lock_wait):
                return self._build(lock)
        with store, store.hold_writer_lock():
            try:
                report = self._advance_if_usable(store)
            except DamageError:
                # With a journal, a damaged state can be rebuilt.
                if not self.recorded:
                    raise
                report = None
            return self._build(store.lock) if report is None else report

    def _advance_if_usable(self, store: Store) -> AdvanceReport | None:
        """Advance the state in an open store to the moment; None if it must be rebuilt. Raises DamageError."""
        with store.open_snapshot() as snapshot:
            kept = read_state(snapshot)
        if kept is None or kept.definition != self._digest:
            return None
        if self._moment.fresh and self.recorded:
            return None
        if self.is_current(kept) and self.recorded:
            return AdvanceReport(0, 0, self._count(store), "current")
        if kept.clock > self._moment.now:
            return AdvanceReport(0, 0, self._count(store), "ahead")
        try:
            return self._advance(store, kept)
        except LateError:
            return None

    def _open_store(self) -> Store | None:
        """Open the store for writing; None if it does not exist or must be rebuilt."""
        if not self._path.exists():
            return None
        try:
            store = Store.open(
                self._path,
                write=True,
                seam=self._instance.seam,
                lock_wait=self._instance.lock_wait,
                # Without a journal, the state cannot be recomputed, so it must survive a crash.
                durable=not self.recorded,
                command=self._instance.holder,
            )
            if store.definition == self._store_definition:
                return store
            store.close()
        except (DamageError, VersionError, MissingError):
            if not self.recorded:
                raise
        return None

    def _count(self, store: Store) -> int:
        with store.open_snapshot() as snapshot:
            table = snapshot.open_table(PENDING_TABLE)
            return 0 if table is None else len(table)

    def _advance(self, store: Store, kept: ConflationState) -> AdvanceReport:
        with store.open_snapshot() as snapshot:
            before, ended = read_pending(snapshot), read_ended(snapshot)
            seen = SourceDigests(snapshot) if not self.recorded else None
            conflation = TopicConflation(
                self._entry.interval_us, lambda key: bool(snapshot.read_values([key])), dict(before), dict(ended)
            )
            stretch = LogStretch(kept.applied, self._moment.until, self._moment.now)
            source = find_entry(self._instance, self._entry.source)
            if seen is not None:
                found = seen.find_changes(self._moment, self._entry, kept)
            elif isinstance(source, TopicConfig) and kept.lineage == self._log()[0] and self._is_of_this_log(kept):
                living = self._read_expirations(snapshot, before) if can_expire(source.expiration) else {}
                found = iterate_topic_changes(self._instance, source, stretch, living)
                if can_expire(source.expiration):
                    # A late message may have prevented an expiry that was already output.
                    found = _require_on_time(found, kept.clock)
            else:
                raise LateError
            taken = filter_changes(self._instance, self._entry, found)
            shown: dict[bytes, KeyChange] = {}
            for change in conflation.conflate_changes(taken, self._moment.now):
                shown[change.key] = change
            due = self._find_due(conflation.pending, snapshot, shown)
        outputs = TopicOutputs(self._instance, self._entry)
        puts = sorted((key, outputs.build_value(change)) for key, change in shown.items() if change.value is not None)
        gone = [key for key, change in shown.items() if change.value is None]
        fresh = self._build_state(due, seen.source if seen is not None else "")
        # In a separate transaction (WriteTxn.open_tables): handles opened by an aborted transaction must not be used.
        store.open_tables(STATE_TABLES)

        def write(txn: WriteTxn) -> None:
            # One transaction for messages, pending messages and position, because they must match.
            txn.put_records([key for key, _ in puts], [value for _, value in puts])
            txn.delete_records(gone)
            write_pending(txn, before, conflation.pending)
            write_ended(txn, ended, self._select_ended(conflation))
            if seen is not None:
                seen.write(txn)
            write_state(txn, fresh)

        store.write(write, pending=sum(len(value) for _, value in puts))
        return AdvanceReport(len(puts), len(gone), len(conflation.pending), "advanced")

    def _read_expirations(self, snapshot: Reader, pending: Mapping[bytes, PendingKey]) -> dict[bytes, int]:
        """Return the expirations up to the moment of the latest messages of keys."""
        found = {key: read_expiration(one.value) for key, one in pending.items() if one.value is not None}
        keys = [key for key in snapshot.iter_expired_keys(self._moment.now) if key not in pending]
        found |= {key: read_expiration(value) for key, value in snapshot.read_values(keys).items()}
        return found

    def _build(self, lock: WriterLock) -> AdvanceReport:
        """Rebuild the state: from the beginning of the journal, or from the current records of the source."""
        moment, instance = self._moment, self._instance
        conflation = TopicConflation(self._entry.interval_us)
        seen = SourceDigests(None) if not self.recorded else None
        if seen is not None:
            found: Iterable[KeyChange] = seen.find_changes(moment, self._entry, None)
        else:
            source = find_entry(instance, self._entry.source)
            stretch = LogStretch(0, moment.until, moment.now)
            found = iterate_source_changes(instance, source, stretch, self._entry)
        shown: dict[bytes, KeyChange] = {}
        for change in conflation.conflate_changes(filter_changes(instance, self._entry, found), moment.now):
            if change.value is None:
                shown.pop(change.key, None)
            else:
                shown[change.key] = change
        outputs = TopicOutputs(instance, self._entry)
        fresh = self._build_state(
            self._find_due(conflation.pending, None, shown), seen.source if seen is not None else ""
        )
        with build_store(self._path, self._store_definition, seam=instance.seam, now=moment.now) as builder:
            keys = sorted(shown)
            for start in range(0, len(keys), STORE_LIMITS.read_batch_records):
                some = keys[start : start + STORE_LIMITS.read_batch_records]
                builder.append_records(some, [outputs.build_value(shown[key]) for key in some])
            builder.flush()
            builder.open_tables(STATE_TABLES)

            def write(txn: WriteTxn) -> None:
                write_pending(txn, {}, conflation.pending)
                write_ended(txn, {}, self._select_ended(conflation))
                if seen is not None:
                    seen.write(txn)
                write_state(txn, fresh)

            builder.run_transaction(write)
            builder.install(lock=lock, wait=instance.lock_wait)
        return AdvanceReport(len(shown), 0, len(conflation.pending), "computed")

    def _select_ended(self, conflation: TopicConflation) -> dict[bytes, int]:
        """Return the ends of intervals to which a later entry may belong: times never decrease within a topic."""
        source = find_entry(self._instance, self._entry.source)
        if not self.recorded or not isinstance(source, TopicConfig):
            return {}
        latest = self._log()[2]
        return {key: end for key, end in conflation.ended.items() if end >= latest}

    def _build_state(self, due: int, source: str) -> ConflationState:
        lineage, last, latest = self._log()
        now = self._moment.now
        if latest > now:
            # An entry with a time in the future is applied when its time is reached: check again on each read.
            due = now + 1
            last = 0
        return ConflationState(STATE_VERSION, self._digest, lineage, last, now, due, source, self._last_block())

    def _last_block(self) -> tuple[int, int, int, int] | None:
        """Return the last block of the journal, with the current last txid of its file; None if there is none."""
        if not self.recorded or not has_log(self._instance):
            return None
        with open_log(self._instance) as log:
            state = log.refresh_state()
            return None if state.block_identity is None else (*state.block_identity, state.end.txid)

    def _find_due(
        self, pending: Mapping[bytes, PendingKey], snapshot: Reader | None, shown: Mapping[bytes, KeyChange]
    ) -> int:
        """Return the next time at which the state may change without a publish."""
        ends = [one.opened + self._entry.interval_us for one in pending.values()]
        values = [one.value for one in pending.values()] + [one.value for one in shown.values()]
        expirations = (read_expiration(value) for value in values if value is not None)
        ends += [at for at in expirations if at > self._moment.now]
        if snapshot is not None:
            ends.append(snapshot.find_next_expiry(self._moment.now) or 0)
        source = find_entry(self._instance, self._entry.source)
        # For a topic, the times above are complete.
        if self.recorded and not isinstance(source, TopicConfig):
            ends.append(self._find_due_below(source))
        return min((end for end in ends if end), default=0)

    def _find_due_below(self, source: SowEntry) -> int:
        """Return the next time at which a source may change without a publish."""
        if isinstance(source, TopicConfig):
            # Records that are in no message may expire, too: check again on each read.
            return self._moment.now + 1 if can_expire(source.expiration) else 0
        if isinstance(source, View):
            refs = build_query(self._instance, source).sources
            ends = [self._find_due_below(find_entry(self._instance, ref)) for ref in refs]
            return min((end for end in ends if end), default=0)
        path = find_cache_path(self._instance, source)
        if isinstance(source, ConflatedTopic) and path is not None:
            keeper = ConflationStore(self._moment, source, path)
            keeper.advance()
            kept = keeper.read()
            if keeper.is_current(kept) and kept is not None:
                return kept.due
        return self._moment.now + 1

    def read(self) -> ConflationState | None:
        """Read the stored state; None if it is missing or unusable."""
        try:
            with (
                Store.open(self._path, write=False, seam=self._instance.seam) as store,
                store.open_snapshot() as snapshot,
            ):
                return read_state(snapshot)
        except (DamageError, VersionError, MissingError):
            return None


class ConflationStatus(Struct, frozen=True):
    """Status of a stored state: path, state (None: missing), meta record of its store, number of pending messages, size
    in bytes, whether it is current, and lag in txids."""

    path: Path | None
    kept: ConflationState | None = None
    meta: StoreMeta | None = None
    pending: int = 0
    size: int = 0
    is_current: bool = False
    behind: int = 0

    @property
    def messages(self) -> int:
        """Number of output messages."""
        return 0 if self.meta is None else self.meta.records


def read_status(moment: ViewInstant, entry: ConflatedTopic) -> ConflationStatus:
    """Read the status of a conflated topic's stored state at a moment, without advancing it."""
    path = find_cache_path(moment.instance, entry)
    if path is None or not path.exists():
        return ConflationStatus(path)
    keeper = ConflationStore(moment, entry, path)
    try:
        with Store.open(path, write=False, seam=moment.instance.seam) as store, store.open_snapshot() as snapshot:
            kept, table = read_state(snapshot), snapshot.open_table(PENDING_TABLE)
            pending = 0 if table is None else len(table)
            meta, size = snapshot.meta, store.read_file_size()
    except (DamageError, VersionError, MissingError):
        return ConflationStatus(path)
    behind = keeper.count_txids_behind(kept) if kept is not None else 0
    return ConflationStatus(path, kept, meta, pending, size, keeper.is_current(kept), behind)


def _require_on_time(changes: Iterable[KeyChange], clock: int) -> Iterator[KeyChange]:
    for change in changes:
        if change.time <= clock:
            raise LateError
        yield change

"""The kept state of a conflated topic: what it showed at an instant, and what was pending then (``sow-view(5)``).

Where a journal records the source, the state is a cache: it goes on from where it stands, and is made anew where that
is not possible. Where none does, it is the only thing that knows; then it advances by looking at the source, and
deletions count from when they were seen. Either way it is a store of the messages that are shown, with further tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.derived import ConflatedTopic, View
from sowctl.config.model import TopicConfig
from sowctl.directories import make_directories
from sowctl.engine.topics.derived import as_topic
from sowctl.engine.topics.expiration import expires
from sowctl.engine.topics.positions import definition_of, has_log, open_log
from sowctl.engine.views.cache import place_of
from sowctl.engine.views.conflation.conflating import LateError, PendingKey, TopicConflation
from sowctl.engine.views.conflation.histories import changes_of, matching
from sowctl.engine.views.conflation.kept import (
    PENDING,
    TABLES,
    VERSION,
    Kept,
    definition_digest,
    ended_of,
    is_recorded,
    pending_of,
    put_ended,
    put_pending,
    read_kept,
    write_kept,
)
from sowctl.engine.views.conflation.outputs import Outputs
from sowctl.engine.views.conflation.seen import Seen
from sowctl.engine.views.conflation.timeline import KeyChange, LogStretch, topic_changes
from sowctl.engine.views.definition import query_of
from sowctl.engine.views.moment import entry_of, refs_of
from sowctl.errors import DamageError, MissingError, VersionError
from sowctl.store.builder import build
from sowctl.store.codec import expiration_of
from sowctl.store.env import Store
from sowctl.store.meta import StoreMeta
from sowctl.store.opening.locks import StoreFiles, WriterLock

if TYPE_CHECKING:
    from sowctl.config.model import SowEntry
    from sowctl.engine.views.moment import ViewInstant
    from sowctl.store.read import Reader
    from sowctl.store.write import WriteTxn

READ = 1000


class AdvanceReport(Struct, frozen=True):
    """What an advance did: messages that were shown, that went, and that are pending; ``way`` in words."""

    shown: int
    gone: int
    pending: int
    way: str


class Keeper:
    """The kept state of one conflated topic, at a moment."""

    def __init__(self, moment: ViewInstant, entry: ConflatedTopic, path: Path) -> None:
        self._moment, self._entry, self._path = moment, entry, path
        self._instance = moment.instance
        assert self._instance.config is not None
        self._topic = as_topic(self._instance.config, entry)
        self._store_definition = definition_of(self._instance.config.name, self._topic)
        self._digest = definition_digest(self._instance, entry)
        self.recorded = is_recorded(self._instance, entry)
        # An instant in the future is the present.
        self._at = moment.now if moment.at is None else min(moment.at, moment.now)

    # questions -------------------------------------------------------------------------------------------------------

    def is_current(self, kept: Kept | None) -> bool:
        """Whether a kept state is that of the moment: nothing was published since, and nothing was due."""
        if kept is None or not self._fits(kept) or kept.clock > self._at or 0 < kept.due <= self._at:
            return False
        lineage, last, _ = self._log()
        return kept.lineage == lineage and last <= kept.applied

    def behind(self, kept: Kept) -> int:
        """How many txids of the log the last entry of the topics below is behind a kept state."""
        return max(0, self._log()[1] - kept.applied)

    def _fits(self, kept: Kept) -> bool:
        if kept.definition != self._digest or bool(kept.lineage) != (self.recorded and bool(self._log()[0])):
            return False
        return self._is_of_this_log(kept)

    def _is_of_this_log(self, kept: Kept) -> bool:
        """Whether the journal is the one that was read, and not another copy of it, which has the same lineage."""
        if kept.block is None or not self.recorded or not has_log(self._instance):
            return True
        with open_log(self._instance) as log:
            return kept.lineage != log.lineage.hex() or log.has_block(kept.block[:3], kept.block[3])

    def _log(self) -> tuple[str, int, int]:
        """The journal's lineage; last txid and time of the topics below, as far as the moment goes."""
        if not self.recorded or not has_log(self._instance):
            return "", 0, 0
        with open_log(self._instance) as log:
            states = [log.topic_state((name, kind)) for kind, name in refs_of(self._instance, self._entry)]
            last = max((state.last_txid for state in states), default=0)
            until = self._moment.until
            return (
                log.lineage.hex(),
                last if until is None else min(last, until),
                max((state.last_time for state in states), default=0),
            )

    # advancing -------------------------------------------------------------------------------------------------------

    def advance(self) -> AdvanceReport:
        """Bring the kept state to the moment. Raises StorageError, LockedError, RefusedError where none can be written.

        A state that another process has brought further is left as it is.
        """
        instance = self._instance
        make_directories(self._path.parent, instance.seam)
        store = self._opened()
        if store is None:
            lock = WriterLock(StoreFiles.of(self._path), instance.seam, instance.holder, instance.notify)
            with lock.held(instance.lock_wait):
                return self._build(lock)
        with store, store.writer_lock():
            try:
                report = self._advance_if_usable(store)
            except DamageError:
                # What is recorded follows from the journal, whatever has become of the file.
                if not self.recorded:
                    raise
                report = None
            return self._build(store.lock) if report is None else report

    def _advance_if_usable(self, store: Store) -> AdvanceReport | None:
        """Bring the state in an open store to the moment; None where it has to be made anew. Raises DamageError."""
        with store.snapshot() as snapshot:
            kept = read_kept(snapshot)
        if kept is None or kept.definition != self._digest:
            return None
        if self._moment.fresh and self.recorded:
            return None
        if self.is_current(kept) and self.recorded:
            return AdvanceReport(0, 0, self._count(store), "as it was")
        if kept.clock > self._moment.now:
            return AdvanceReport(0, 0, self._count(store), "further on already")
        try:
            return self._advance(store, kept)
        except LateError:
            return None

    def _opened(self) -> Store | None:
        """The kept store, open to be written; None where there is none that can be used."""
        if not self._path.exists():
            return None
        try:
            store = Store.open(
                self._path,
                write=True,
                seam=self._instance.seam,
                lock_wait=self._instance.lock_wait,
                # Where nothing else knows, what was shown has to stay.
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
        with store.snapshot() as snapshot:
            table = snapshot.table(PENDING)
            return 0 if table is None else len(table)

    def _advance(self, store: Store, kept: Kept) -> AdvanceReport:
        with store.snapshot() as snapshot:
            before, ended = pending_of(snapshot), ended_of(snapshot)
            seen = Seen(snapshot) if not self.recorded else None
            conflation = TopicConflation(
                self._entry.interval_us, lambda key: bool(snapshot.get_many([key])), dict(before), dict(ended)
            )
            stretch = LogStretch(kept.applied, self._moment.until, self._moment.now)
            source = entry_of(self._instance, (self._entry.message_type, self._entry.underlying))
            if seen is not None:
                found = seen.changes(self._moment, self._entry, kept)
            elif isinstance(source, TopicConfig) and kept.lineage == self._log()[0] and self._is_of_this_log(kept):
                living = self._living(snapshot, before) if expires(source.expiration) else {}
                found = topic_changes(self._instance, source, stretch, living)
                if expires(source.expiration):
                    # A message that came late may have kept another one from expiring.
                    found = _on_time(found, kept.clock)
            else:
                raise LateError
            taken = matching(self._instance, self._entry, found)
            shown: dict[bytes, KeyChange] = {}
            for change in conflation.over(taken, self._moment.now):
                shown[change.key] = change
            due = self._due(conflation.pending, snapshot, shown)
        outputs = Outputs(self._instance, self._entry)
        puts = sorted((key, outputs.of(change)) for key, change in shown.items() if change.value is not None)
        gone = [key for key, change in shown.items() if change.value is None]
        fresh = self._kept(due, seen.source if seen is not None else "")
        store.open_tables(TABLES)

        def write(txn: WriteTxn) -> None:
            txn.put([key for key, _ in puts], [value for _, value in puts])
            txn.delete(gone)
            put_pending(txn, before, conflation.pending)
            put_ended(txn, ended, self._ended(conflation))
            if seen is not None:
                seen.write(txn)
            write_kept(txn, fresh)

        store.write(write, pending=sum(len(value) for _, value in puts))
        return AdvanceReport(len(puts), len(gone), len(conflation.pending), "advanced")

    def _living(self, snapshot: Reader, pending: Mapping[bytes, PendingKey]) -> dict[bytes, int]:
        """The expirations up to the moment of messages that are the latest of their keys."""
        found = {key: expiration_of(one.value) for key, one in pending.items() if one.value is not None}
        keys = [key for key in snapshot.expired(self._moment.now) if key not in pending]
        found |= {key: expiration_of(value) for key, value in snapshot.get_many(keys).items()}
        return found

    def _build(self, lock: WriterLock) -> AdvanceReport:
        """The state anew: from the journal's beginning, or from what the source holds now."""
        moment, instance = self._moment, self._instance
        conflation = TopicConflation(self._entry.interval_us)
        seen = Seen(None) if not self.recorded else None
        if seen is not None:
            found: Iterable[KeyChange] = seen.changes(moment, self._entry, None)
        else:
            found = changes_of(instance, entry_of(instance, (self._entry.message_type, self._entry.underlying)),
                               LogStretch(0, moment.until, moment.now), self._entry)  # fmt: skip
        shown: dict[bytes, KeyChange] = {}
        for change in conflation.over(matching(instance, self._entry, found), moment.now):
            if change.value is None:
                shown.pop(change.key, None)
            else:
                shown[change.key] = change
        outputs = Outputs(instance, self._entry)
        fresh = self._kept(self._due(conflation.pending, None, shown), seen.source if seen is not None else "")
        with build(self._path, self._store_definition, seam=instance.seam, now=moment.now) as builder:
            keys = sorted(shown)
            for start in range(0, len(keys), READ):
                some = keys[start : start + READ]
                builder.append(some, [outputs.of(shown[key]) for key in some])
            builder.flush()
            builder.open_tables(TABLES)

            def write(txn: WriteTxn) -> None:
                put_pending(txn, {}, conflation.pending)
                put_ended(txn, {}, self._ended(conflation))
                if seen is not None:
                    seen.write(txn)
                write_kept(txn, fresh)

            builder.change(write)
            builder.put_in_place(lock=lock, wait=instance.lock_wait)
        return AdvanceReport(len(shown), 0, len(conflation.pending), "computed")

    def _ended(self, conflation: TopicConflation) -> dict[bytes, int]:
        """The ends of intervals that a change to come may belong to: times never decrease within a topic."""
        source = entry_of(self._instance, (self._entry.message_type, self._entry.underlying))
        if not self.recorded or not isinstance(source, TopicConfig):
            return {}
        latest = self._log()[2]
        return {key: end for key, end in conflation.ended.items() if end >= latest}

    def _kept(self, due: int, source: str) -> Kept:
        lineage, last, latest = self._log()
        now = self._moment.now
        if latest > now:
            # An entry of a later time is taken when its time comes: look again each time.
            due = now + 1
            last = 0
        return Kept(VERSION, self._digest, lineage, last, now, due, source, self._last_block())

    def _last_block(self) -> tuple[int, int, int, int] | None:
        """The last block of the journal, with the last txid of its file then; None where there is none."""
        if not self.recorded or not has_log(self._instance):
            return None
        with open_log(self._instance) as log:
            state = log.state()
            return None if state.block is None else (*state.block, state.end.txid)

    def _due(
        self, pending: Mapping[bytes, PendingKey], snapshot: Reader | None, shown: Mapping[bytes, KeyChange]
    ) -> int:
        """When something happens next though nothing is published."""
        ends = [one.opened + self._entry.interval_us for one in pending.values()]
        values = [one.value for one in pending.values()] + [one.value for one in shown.values()]
        expirations = (expiration_of(value) for value in values if value is not None)
        ends += [at for at in expirations if at > self._moment.now]
        if snapshot is not None:
            ends.append(snapshot.next_expiry(self._moment.now) or 0)
        source = entry_of(self._instance, (self._entry.message_type, self._entry.underlying))
        # Of a topic all is known above.
        if self.recorded and not isinstance(source, TopicConfig):
            ends.append(self._due_below(source))
        return min((end for end in ends if end), default=0)

    def _due_below(self, source: SowEntry) -> int:
        """When something may happen to a source though nothing is published."""
        if isinstance(source, TopicConfig):
            # Records that are in no message may expire, too: looked at each time.
            return self._moment.now + 1 if expires(source.expiration) else 0
        if isinstance(source, View):
            refs = query_of(self._instance, source).sources
            ends = [self._due_below(entry_of(self._instance, ref)) for ref in refs]
            return min((end for end in ends if end), default=0)
        path = place_of(self._instance, source)
        if isinstance(source, ConflatedTopic) and path is not None:
            keeper = Keeper(self._moment, source, path)
            keeper.advance()
            kept = keeper.read()
            if keeper.is_current(kept) and kept is not None:
                return kept.due
        return self._moment.now + 1

    def read(self) -> Kept | None:
        """What the kept state says of itself now."""
        try:
            with Store.open(self._path, write=False, seam=self._instance.seam) as store, store.snapshot() as snapshot:
                return read_kept(snapshot)
        except (DamageError, VersionError, MissingError):
            return None


class KeptOutlook(Struct, frozen=True):
    """How a kept state stands to its source: the file, what it says of itself (None where there is none), the meta
    record of its store, messages that are pending, bytes; whether it is that of the present; entries of the log that
    are not taken."""

    path: Path | None
    kept: Kept | None = None
    meta: StoreMeta | None = None
    pending: int = 0
    size: int = 0
    is_current: bool = False
    behind: int = 0

    @property
    def messages(self) -> int:
        """Messages that are shown."""
        return 0 if self.meta is None else self.meta.records


def outlook(moment: ViewInstant, entry: ConflatedTopic) -> KeptOutlook:
    """How the kept state of a conflated topic stands at a moment; nothing is brought further for that."""
    path = place_of(moment.instance, entry)
    if path is None or not path.exists():
        return KeptOutlook(path)
    keeper = Keeper(moment, entry, path)
    try:
        with Store.open(path, write=False, seam=moment.instance.seam) as store, store.snapshot() as snapshot:
            kept, table = read_kept(snapshot), snapshot.table(PENDING)
            pending = 0 if table is None else len(table)
            meta, size = snapshot.meta, store.file_size()
    except (DamageError, VersionError, MissingError):
        return KeptOutlook(path)
    behind = keeper.behind(kept) if kept is not None else 0
    return KeptOutlook(path, kept, meta, pending, size, keeper.is_current(kept), behind)


def _on_time(changes: Iterable[KeyChange], clock: int) -> Iterator[KeyChange]:
    for change in changes:
        if change.time <= clock:
            raise LateError
        yield change

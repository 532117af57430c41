"""The current state of a topic as a source: store plus memtable at one instant (principles 2, 5).

Current state: store plus memtable. Past state: history versions, or a fold of the journal. A bare ``.sow`` file: its
records unchanged. All sources yield stored values in key order, without expired records; a source holds one consistent
snapshot while it is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.sources.source import MatchedPairs, Pairs, StoredSource, build_bare_runs
from sowctl.engine.topics.expiration import can_expire, find_unexpired
from sowctl.engine.topics.positions import (
    STORE_AHEAD_OF_JOURNAL,
    add_replay_hint,
    check_position,
    has_log,
    notify_other_definition,
    open_log,
    open_store,
    refuse_lost_log,
    refuse_other_history,
    refuse_other_topic,
)
from sowctl.errors import DamageError, MissingError
from sowctl.journal.fileset import REMOVED_FILE_CODE
from sowctl.journal.reader import MAX_REREADS
from sowctl.store.codec import KEY_SIZE, compute_next_key
from sowctl.store.integrity import require_full_length
from sowctl.store.meta import Definition, StoreMeta
from sowctl.store.ordered_entries import Found, inconsistent_store_error
from sowctl.store.read import LineBatch, Run
from sowctl.store.snapshot import Snapshot
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.fold.memtable import Memtable
    from sowctl.engine.instance import Instance
    from sowctl.store.codec import Offsets
    from sowctl.store.integrity import Marks
    from sowctl.store.meta import AppliedPosition


MEMTABLE_PART_CHANGES = 1000
"""Memtable changes per batch."""
DENSE_CHANGE_RATIO = 8
"""If a memtable changes one record in N or more, all records are read instead of searching for those: a search that
proves that a key is new takes 5 us, and passing a record 0.6."""

T = TypeVar("T")
Rebuild = Callable[[DamageError], "CurrentSource | None"]
"""Rebuilds a damaged derived store and opens it; returns None if its records differ from those of the damaged one."""


class CurrentSource(StoredSource):
    """Store plus memtable, at one instant; ``memtable`` is None if the journal has no changes after the store's
    position.

    ``path`` is that of the store, None for a temporary store of this source. ``scanned`` counts the store's records
    that :meth:`read_part` has passed, and is reported to ``watch``; ``processes``: the number of processes that each
    read a part of the keys.
    """

    def __init__(
        self,
        held: ExitStack,
        snapshot: Snapshot,
        memtable: Memtable | None,
        config: TopicConfig | None,
        now: int,
        path: Path | None = None,
        watch: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self.config = config
        self.path = path
        self.topic = snapshot.meta.definition.topic
        self.message_type = snapshot.meta.definition.message_type
        self.meta: StoreMeta = snapshot.meta
        self.memtable = memtable
        self.scanned = 0
        self.processes = 1
        self._watch = watch
        self._held = held
        self._snapshot = snapshot
        self._now = now
        self.hides = config is not None and can_expire(config.expiration)
        self.rebuild: Rebuild | None = None
        """Rebuilds a derived store; None for other stores, and after the store was rebuilt once."""

    @property
    def definition(self) -> Definition:
        """Message type and keys of the records, as the store defines them."""
        return self.meta.definition

    @property
    def stored_source(self) -> CurrentSource:
        """This source: the current state of a whole store."""
        return self

    @property
    def snapshot(self) -> Snapshot:
        """The store's snapshot, for callers that need more than records."""
        return self._snapshot

    def set_clock(self, now: int) -> None:
        """Evaluate expiration at another instant from now on, microseconds UTC."""
        self._now = now

    @property
    def last_txid(self) -> int:
        """The highest txid that this state includes."""
        return max(self.meta.applied, self.memtable.last_txid if self.memtable is not None else 0)

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield the visible records from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        for keys, values, _ in self.read_runs(size, start, stop):
            require_full_length(keys, values)
            yield keys, values

    def read_runs(
        self, size: int, start: bytes | None = None, stop: bytes | None = None, marks: Marks | None = None
    ) -> Iterator[Run]:
        """Yield the visible records, with the marked bytes of a batch's values if available.

        The caller checks the values that it decodes with :func:`~sowctl.store.integrity.require_full_length`.
        """
        # Counted before the memtable and expiration change anything: the sum is compared with the store's own record
        # count.
        runs = self._read_stored_runs(size, start, stop, marks)
        # Without a memtable the store's runs pass unchanged, and no batch is split.
        if self.memtable is not None and len(self.memtable):
            from sowctl.engine.fold.merge_layers import merge_changes

            runs = build_bare_runs(
                merge_changes(
                    ((keys, values) for keys, values, _ in runs), self.memtable.select_newest(size, start, stop)
                )
            )
        with add_replay_hint(self.config):
            for keys, values, run in runs:
                seen, shown = self._filter_visible(keys, values)
                # The run has all values of the batch; if some are omitted, it no longer consists of the values' bytes.
                yield seen, shown, run if len(seen) == len(keys) else None

    def _read_stored_runs(
        self, size: int, start: bytes | None, stop: bytes | None, marks: Marks | None, passed: int = 0
    ) -> Iterator[Run]:
        """Yield the runs of the store from ``start`` on, after ``passed`` records before it were read.

        If a derived store is damaged, reading continues in the rebuilt one.
        """
        whole, last = stop is None and (start is None or passed > 0), start
        while True:
            try:
                for keys, values, run in self._snapshot.scan_runs(last, stop, size, marks):
                    self._count_records(len(keys))
                    passed, last = passed + len(keys), compute_next_key(keys[-1])
                    yield keys, values, run
                break
            except DamageError as problem:
                if not self._switch_to_rebuilt(problem):
                    raise
            # No key follows the highest possible one.
            if passed and last is None:
                break
        # The store's record count is verified if all of it is read in one pass.
        if whole and passed != self.meta.records:
            raise inconsistent_store_error(
                f"{format_count(passed, 'record')} found, but the counter is {self.meta.records:,}", self._snapshot.path
            )

    def _switch_to_rebuilt(self, problem: DamageError) -> bool:
        """Rebuild a damaged derived store and switch to it; return False if that fails, or if it has other records."""
        rebuild, self.rebuild = self.rebuild, None
        if rebuild is None:
            return False
        # A process can have a store open only once to write to it.
        self._held.close()
        other = rebuild(problem)
        if other is None:
            return False
        self._held, self._snapshot, self.meta, self.path = other._held, other._snapshot, other.meta, other.path
        return True

    def _read_or_rebuild(self, read: Callable[[Snapshot], T]) -> T:
        """Return the result of ``read`` on the store, or on the rebuilt one if the store is damaged."""
        try:
            return read(self._snapshot)
        except DamageError as problem:
            if not self._switch_to_rebuilt(problem):
                raise
        return read(self._snapshot)

    def _count_records(self, records: int) -> None:
        self.scanned += records
        # Each of several processes reads a part of the keys; all parts end at about the same time.
        if self._watch is not None:
            self._watch("records", self.scanned, self.meta.records // self.processes)

    def read_lines(self, size: int) -> Iterator[LineBatch] | None:
        """Yield all visible records, as lines of text where the store's file has them in this form.

        None if records may be hidden or replaced, or the file has no such lines.
        """
        if self.hides or (self.memtable is not None and len(self.memtable)):
            return None
        parts = self._read_or_rebuild(lambda snapshot: snapshot.scan_lines(size))
        return None if parts is None else self._iterate_line_batches(parts, size)

    def _iterate_line_batches(self, parts: Iterator[LineBatch], size: int) -> Iterator[LineBatch]:
        passed, last = 0, None
        with add_replay_hint(self.config):
            try:
                for part in parts:
                    lines, batch = part
                    read = len(batch[0]) if lines is None else len(lines.messages)
                    self._count_records(read)
                    passed, last = passed + read, lines.keys[-KEY_SIZE:] if lines is not None else batch[0][-1]
                    yield part
                return
            except DamageError as problem:
                if not self._switch_to_rebuilt(problem):
                    raise
            start = None if last is None else compute_next_key(last)
            if last is None or start is not None:
                for keys, values, _ in self._read_stored_runs(size, start, None, None, passed):
                    require_full_length(keys, values)
                    yield None, (keys, values)

    def count_visible(self) -> int:
        """Return the number of visible records."""
        return self.count_by_lifetime()[0]

    def count_by_lifetime(self) -> tuple[int, int]:
        """Return the numbers of visible and of expired records; no payload is read."""
        count, expired = self.meta.records, 0
        for replaced, changes in self.iterate_changes():
            fresh = [value for value in changes.values() if value is not None]
            # Memtable keys that the store has are counted already; each of its deletions subtracts one.
            count += len(fresh) - len(replaced)
            if self.hides:
                expired += len(fresh) - len(find_unexpired(fresh, self._now))
                # A record of the memtable replaces that of the store with its key, whose stamp no longer counts.
                olds = list(replaced.values())
                expired -= len(olds) - len(find_unexpired(olds, self._now))
        if self.hides:
            expired += sum(1 for _ in self._snapshot.iter_expired_keys(self._now))
        return count - expired, expired

    def iterate_changes(self) -> Iterator[tuple[Mapping[bytes, bytes], Mapping[bytes, bytes | None]]]:
        """Yield the memtable's changes in parts: the store's records of its keys, and their replacements."""
        if self.memtable is None:
            return
        if len(self.memtable) * DENSE_CHANGE_RATIO < self.meta.records:
            for part in self.memtable.iterate_parts(MEMTABLE_PART_CHANGES):
                yield self._snapshot.read_values(list(part)), part
            return
        from sowctl.engine.fold.merge_layers import pair_with_changes

        for _, keys, values, fresh in pair_with_changes(
            self._snapshot.scan_records(batch=MEMTABLE_PART_CHANGES), self.memtable.select_newest(MEMTABLE_PART_CHANGES)
        ):
            yield {key: value for key, value in zip(keys, values, strict=True) if key in fresh}, fresh

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return the visible records of ``keys``, in key order."""
        present, values = self._find_visible(sorted(set(keys)), _read_pairs)
        return present, list(values)

    def find_many_records(self, keys: Sequence[bytes]) -> MatchedPairs:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        return self._find_visible(keys, lambda snapshot, some: snapshot.read_many_values(some))

    def _find_visible(
        self, wanted: Sequence[bytes], read: Callable[[Snapshot, Sequence[bytes]], Found]
    ) -> MatchedPairs:
        """Return the visible records of keys, in order; ``read`` reads those of the store."""
        with add_replay_hint(self.config):
            if self.memtable is None or not len(self.memtable):
                return self._filter_found(*self._read_or_rebuild(lambda snapshot: read(snapshot, wanted)))
            # A key that the memtable has deleted must not be found in the store.
            changed = self.memtable.find_values(wanted)
            rest = [key for key in wanted if key not in changed]
            found = dict(zip(*self._read_or_rebuild(lambda snapshot: read(snapshot, rest)), strict=True))
        found.update((key, value) for key, value in changed.items() if value is not None)
        chosen = [key for key in wanted if key in found]
        return self._filter_found(chosen, [found[key] for key in chosen])

    def read_at_offsets(self, keys: Sequence[bytes], locations: Offsets) -> MatchedPairs:
        """As :meth:`find_records`, for ordered keys that no memtable has and whose values were at ``locations``."""
        with add_replay_hint(self.config):
            return self._filter_found(*self._read_or_rebuild(lambda snapshot: snapshot.read_values_at(keys, locations)))

    def _filter_found(self, keys: list[bytes], values: Sequence[bytes]) -> MatchedPairs:
        # Without expiration, values stay in their encoded form: a caller that needs only payloads decodes nothing else.
        return self._filter_visible(keys, list(values)) if self.hides else (keys, values)

    def _filter_visible(self, keys: list[bytes], values: list[bytes]) -> Pairs:
        if not self.hides:
            return keys, values
        # One clock while the source is open: a record does not vanish between two batches.
        places = find_unexpired(values, self._now)
        if len(places) == len(values):
            return keys, values
        return [keys[place] for place in places], [values[place] for place in places]

    def close(self) -> None:
        """Close the snapshot."""
        self._held.close()

    def __enter__(self) -> CurrentSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


MetaCheck = Callable[[StoreMeta], None]
"""Checks the meta record of a snapshot before anything else is read, and raises if it must not be read."""


def _read_pairs(snapshot: Snapshot, keys: Sequence[bytes]) -> Found:
    found = snapshot.read_values(keys)
    return list(found), list(found.values())


def open_current_source(
    instance: Instance,
    topic: TopicConfig,
    *,
    now: int | None = None,
    until: int | None = None,
    admit: MetaCheck | None = None,
) -> CurrentSource:
    """Open the current state of a configured topic, without locks; expiration is evaluated at ``now`` (default: the
    clock).

    ``until``: read only the entries up to this txid from the journal after the store's position; then ``admit`` must
    reject a store that has applied later entries of the topic. A missing store is rebuilt in a temporary place if the
    journals cover it. Raises MissingError ``SOW-ENG-010`` (nothing was ever published), ``SOW-ENG-011`` (the journals
    do not reach back), UsageError ``SOW-ENG-031`` (a view, which has its own open function), DamageError with the
    replay command as its hint, and what ``admit`` raises.
    """
    if topic.derived is not None and topic.file is None:
        from sowctl.engine.topics.derived_topics import make_not_topic_error

        raise make_not_topic_error(topic.derived)
    at = instance.now if now is None else now
    with ExitStack() as stack:
        path = topic.file
        if path is None or not path.exists():
            # A reader takes no lock and writes nothing in the instance: a missing store is built in a temporary place.
            from sowctl.engine.sources.recovery import rebuild_aside

            path = rebuild_aside(instance, topic, stack)
        with add_replay_hint(topic):
            snapshot = _open_snapshot(instance, path, stack)
        # First the snapshot, then the journal: changes applied in between are in both, and the memtable starts after
        # the snapshot's position.
        attempts = MAX_REREADS
        while True:
            refuse_other_topic(topic, snapshot.meta)
            if admit is not None:
                admit(snapshot.meta)
            notify_other_definition(instance, topic, snapshot.meta)
            try:
                memtable = read_overlay(
                    instance, topic, snapshot.meta, path, until, most=FOLD_LIMITS.max_tail_txids if attempts else None
                )
                break
            except _TailTooLong:
                # A writer may have merged its runs into a new store after the snapshot was taken: that one has a later
                # position. If not, the journal has to be read, however long it is.
                before, attempts = snapshot.meta.applied, attempts - 1
                snapshot.renew()
                attempts = attempts if snapshot.meta.applied != before else 0
            except (DamageError, MissingError) as error:
                # Files that this state of the store needs were removed after the snapshot was taken, when the store had
                # advanced and was synced: its current state does not need them. A file without entries of the topic may
                # be removed without an advance of its store; whether the remaining files cover the position is checked
                # again, so another attempt is always correct.
                before = snapshot.meta.applied
                if error.code not in (STORE_AHEAD_OF_JOURNAL, REMOVED_FILE_CODE) or not attempts:
                    raise
                attempts -= 1
                snapshot.renew()
                if snapshot.meta.applied == before and error.code != REMOVED_FILE_CODE:
                    raise
        own = path if path == topic.file else None
        watch = instance.watch if instance.is_watched else None
        return CurrentSource(stack.pop_all(), snapshot, memtable, topic, at, own, watch)


def open_file_source(instance: Instance, path: Path, *, admit: MetaCheck | None = None) -> CurrentSource:
    """Open a bare store file: its records unchanged, independent of any journal; no record is hidden as expired."""
    with ExitStack() as stack:
        snapshot = _open_snapshot(instance, path, stack)
        if admit is not None:
            admit(snapshot.meta)
        return CurrentSource(stack.pop_all(), snapshot, None, None, 0, path)


def _open_snapshot(instance: Instance, path: Path, stack: ExitStack) -> Snapshot:
    store = stack.enter_context(open_store(instance, path))
    return stack.enter_context(store.open_snapshot())


class _TailTooLong(Exception):
    """The journal after the position of store and runs is longer than the limit."""


def read_overlay(
    instance: Instance,
    topic: TopicConfig,
    meta: StoreMeta,
    path: Path,
    until: int | None = None,
    most: int | None = None,
) -> Memtable | None:
    """Read the changes of runs and journal after a store's position, up to the txid ``until``; None without any.

    Raises _TailTooLong if the journal has more than ``most`` txids after the runs.
    """
    if not topic.journalled:
        return None
    ref = topic.ref
    if not has_log(instance):
        refuse_lost_log(instance, ref, meta)
        return None
    from sowctl.journal.state import EMPTY_TOPIC_STATE

    with open_log(instance, acknowledged=meta.applied if meta.has_journal else 0) as log:
        state = log.refresh_state()
        last = state.topic_states.get(ref, EMPTY_TOPIC_STATE).last_txid
        # The common case: the topic's last entry is applied, and the store is not ahead of the journal. No block is
        # read.
        if meta.lineage == log.lineage and last <= meta.applied <= state.end.txid:
            refuse_other_history(meta, log, path)
            return None
        # Validated first: only a position that this journal covers shows which entries are still missing.
        after = check_position(meta, log, ref, path)
        if last <= after:
            return None
        # Validated for the current files: if one is pruned before it is read, its entries would be missing.
        log.require_proven_after(after)
        from sowctl.engine.fold.memtable import Memtable
        from sowctl.engine.fold.runs import build_refold, extend_memtable, find_runs, flush_unnamed_run

        history = topic.history is not None
        runs = find_runs(instance, path, meta, log, after, until, every=history)
        memtable = Memtable(history=history, base=after, runs=runs, again=build_refold(instance, topic, path, meta))
        if most is not None and last - memtable.memory_start_txid > most:
            raise _TailTooLong

        def let_go(position: AppliedPosition) -> None:
            flush_unnamed_run(instance, topic, path, meta, memtable, position)

        extend_memtable(memtable, log, ref, let_go, until)
        return memtable

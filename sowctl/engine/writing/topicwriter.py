"""One topic opened for writing: its store, its memtable, and the rules of its configuration for records.

Stores are opened by :mod:`sowctl.engine.writing.writer_opening`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from sowctl.engine.fold import limits
from sowctl.engine.fold.apply import apply_memtable
from sowctl.engine.fold.flush_plan import (
    FlushFigures,
    FlushPlan,
    FlushStep,
    build_figures,
    describe_flush,
    plan_final_flush,
    plan_forced_flush,
    plan_full_flush,
    plan_merge_ahead,
    supports_runs,
)
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.merge_layers import merge_changes
from sowctl.engine.fold.runs import build_refold, compact_runs, flush_to_run, remove_runs, replace_runs
from sowctl.engine.sources.current import CurrentSource
from sowctl.engine.topics.expiration import can_expire, find_unexpired, is_expired
from sowctl.engine.topics.positions import add_replay_hint
from sowctl.engine.topics.retention import build_retention
from sowctl.engine.writing.unapplied_entries import build_memtable
from sowctl.errors import RefusedError
from sowctl.store.builder import is_being_built
from sowctl.store.codec import read_expiration
from sowctl.store.env import Store
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.meta import AppliedPosition

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.fold.compaction import StoreMerge
    from sowctl.engine.fold.keyfilter import KeyFilter
    from sowctl.engine.instance import Instance
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.sortedrun import SortedRun
    from sowctl.values.topicref import TopicRef


class TopicWriter(Protocol):
    """One topic of a writing session, as publishing sees it.

    There are three kinds: :class:`StoreWriter`, ``session.LogWriter`` for a topic without records, and
    ``dryrun.DryRunWriter`` in a dry run. ``last_txid`` and ``last_time`` are those of the topic's last entry;
    ``memtable`` has the written changes that are not in the store yet.
    """

    config: TopicConfig
    ref: TopicRef
    journalled: bool
    expires: bool
    memtable: Memtable
    last_txid: int
    last_time: int

    @property
    def is_volatile(self) -> bool:
        """Return whether written messages are lost when the session ends."""

    def read_live_values(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """Return the live stored values of ``keys``; records that have expired at ``now`` are absent."""

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield all live records in key order, up to ``size`` at a time."""

    @property
    def is_columnar(self) -> bool:
        """Return whether large batches may be decided by columns."""

    def get_column_writer(self, count: int) -> StoreWriter | None:
        """Return the writer if a batch of ``count`` messages is decided by columns, and kept so in the memtable."""

    def refresh(self, instance: Instance, journal: JournalWriter) -> None:
        """Update the writer after the journal's lock was acquired: other processes may have written."""

    def close(self) -> None:
        """Close open files."""


def is_volatile(config: TopicConfig) -> bool:
    """Return whether written messages are lost when the session ends: the topic is transient and not journalled."""
    return config.durability == "transient" and not config.journalled


class StoreWriter:
    """A topic's store with its memtable. ``last_time`` is the highest time of the topic.

    ``flushes_to_runs``: a full memtable is flushed to a sorted run, not to the store. ``is_merge_due``: the session
    must merge runs, or the memtable of a first load, with the store, while it holds no lock.
    """

    def __init__(self, instance: Instance, config: TopicConfig, store: Store, memtable: Memtable) -> None:
        self._instance = instance
        self.config = config
        self.store = store
        self.definition = store.definition
        self.memtable = memtable
        self.ref = config.ref
        self.journalled = config.journalled
        self.rule = build_retention(config.history)
        self.expires = can_expire(config.expiration)
        self.last_txid = 0
        self.last_time = 0
        self.remove_expired_at: int | None = None
        self.flushes_to_runs = False
        self.is_merge_due = False
        self._applied = 0
        # The keys that store and runs may have, if this writer has merged them; None if they are not known.
        self._known: KeyFilter | None = None
        self.held = ExitStack()
        self.reload()
        self._set_limits()

    @property
    def is_volatile(self) -> bool:
        """Return whether written messages are lost when the session ends: transient and not journalled."""
        return is_volatile(self.config)

    def close(self) -> None:
        """Close the store; changes that are only in the memtable are in the journal."""
        self.held.close()

    def reload(self) -> None:
        """Read position and time from the store, which other processes may have changed or replaced.

        Raises RefusedError ``SOW-ENG-086`` if it has another definition now: keys computed with the former one would be
        those of other records.
        """
        meta = self.store.read_meta()
        if meta.definition != self.definition:
            raise RefusedError(
                "SOW-ENG-086",
                f"the store of topic {self.config.name!r} was rebuilt with another definition during "
                f"this run: {meta.definition}",
                place=self.store.path,
                hint="nothing of this batch was written; run the command again with the current configuration",
                topic=self.config.name,
            )
        # The store may be ahead of the memtable (another process has applied changes) or lag it (none are applied yet).
        self.last_txid = max(meta.applied, self.memtable.last_txid)
        self.last_time = max(meta.last_time, self.memtable.last_time)

    def refresh(self, instance: Instance, journal: JournalWriter) -> None:
        """After the journal's lock was acquired: rebuild the memtable if others moved the store, forward or back."""
        # The memtable has only entries after ``base``; a store at an earlier position lacks those between. And runs
        # continue a store at ``base``: they do not fit a store that others have advanced.
        if self.store.read_meta().applied != self.memtable.base:
            self.memtable = build_memtable(instance, self.config, self.store, journal)
            self._known = None
            self._set_limits()
        self.reload()

    def read_live_values(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """Return the live stored values of ``keys``, memtable first; expired records count as absent (``behaviour``
        11.40)."""
        # In key order, neighbours are often on the same page of the store or a run.
        found = self._read_current_values(sorted(set(keys)), self.memtable.current_changes)
        if self.expires:
            rule = self.config.expiration
            # An expired record counts as absent: the next message of its key inserts (behaviour 11.40).
            return {k: v for k, v in found.items() if not is_expired(rule, read_expiration(v), now)}
        return found

    @property
    def is_columnar(self) -> bool:
        """See :class:`TopicWriter`. Versions are kept as values, and expiration reads the stamps of values."""
        return self.rule is None and not self.expires

    def get_column_writer(self, count: int) -> StoreWriter | None:
        """See :class:`TopicWriter`."""
        if not count or not self.is_columnar:
            return None
        # A small batch is appended to existing columns, which avoids packing them.
        if self.memtable.unpacked is not None or limits.uses_columns(count, len(self.memtable) + self._applied):
            return self
        return None

    def read_packed_values(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """Return the stored values of ``keys``, which ascend and are not among the columns of the memtable."""
        return self._read_current_values(keys, self.memtable.packed_changes)

    def _read_current_values(self, asked: list[bytes], current: Mapping[bytes, bytes | None]) -> dict[bytes, bytes]:
        """Return the stored values of ascending keys, from changes in memory, runs and the store."""
        # The memtable is read first: it is newer than the store for every key that it has. A key that it deletes is
        # among its changes as None, and must not be looked up in the store.
        changed = {key: current[key] for key in asked if key in current} if current else {}
        wanted = [key for key in asked if key not in changed] if changed else asked
        if self._known is not None:
            # Most keys of a load may be new: keys that the filter excludes need no search in runs and store.
            wanted = self._known.select_possible(wanted)
        if self.memtable.runs:
            changed |= self.memtable.find_in_runs(wanted)
            wanted = [key for key in wanted if key not in changed]
        found = {key: value for key, value in changed.items() if value is not None}
        if wanted:
            with add_replay_hint(self.config), self.store.open_snapshot() as snapshot:
                # An empty store, as in a first load, needs no search.
                if snapshot.record_count:
                    # As in a write transaction, the neighbours of new keys are not searched a second time, which would
                    # cost half of the lookup.
                    found.update(snapshot.read_values(wanted))
        return found

    def is_memtable_full(self) -> bool:
        """Return whether the memtable has reached the limit of keys or bytes at which it is flushed."""
        waiting = self.memtable.unpacked
        if (
            waiting is not None
            and not self.memtable.packed_changes
            and (self.flushes_to_runs or self._is_empty)
            and self._is_mergeable
        ):
            keys, size = limits.compute_column_limits(first=self._is_empty and not self.memtable.runs)
            return len(waiting) >= keys or waiting.exceeds_bytes(size)
        keys, size = self.limits
        return self.memtable.memory_change_count >= keys or self.memtable.held_bytes >= size

    @property
    def has_unapplied(self) -> bool:
        """Return whether the memtable or its runs have changes that are not in the store."""
        return bool(self.memtable.added_bytes or self.memtable.runs)

    @contextmanager
    def open_source(self, now: int) -> Iterator[CurrentSource]:
        """Open a source of all live records, including the memtable, as readers see them. The store must not be
        written meanwhile."""
        with ExitStack() as held, add_replay_hint(self.config):
            snapshot = held.enter_context(self.store.open_snapshot())
            path = self.config.file if self.config.durability == "persistent" else None
            watch = self._instance.watch if self._instance.is_watched else None
            with closing(
                CurrentSource(held.pop_all(), snapshot, self.memtable, self.config, now, path, watch)
            ) as source:
                yield source

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield all live records, including the memtable, in key order. The store must not be written meanwhile."""
        with add_replay_hint(self.config), self.store.open_snapshot() as snapshot:
            pairs = snapshot.scan_records(batch=size)
            if len(self.memtable):
                pairs = merge_changes(pairs, self.memtable.select_newest(size))
            for keys, values in pairs:
                places = find_unexpired(values, now) if self.expires else range(len(values))
                yield [keys[place] for place in places], [values[place] for place in places]

    def flush_full(self, position: AppliedPosition, *, keeps_lock: bool = False) -> None:
        """Flush a full memtable according to :func:`plan_full_flush`; a merge may be due then.

        As for the other flushes, the journal's lock is held, and the entries of the memtable are synced. Arguments and
        errors as of :meth:`flush_forced`.
        """
        figures = self._measure_figures(position)
        self._carry_out(figures, plan_full_flush(figures, keeps_lock=keeps_lock), position)

    def flush_final(self, position: AppliedPosition) -> None:
        """Flush at the end of a session according to :func:`plan_final_flush`; a merge may be due then."""
        figures = self._measure_figures(position)
        self._carry_out(figures, plan_final_flush(figures, is_memtable_full=self.is_memtable_full()), position)

    def request_merge_ahead(self, position: AppliedPosition) -> None:
        """Prepare a forced flush: if it needs a new store, a merge is due first (:func:`plan_merge_ahead`)."""
        figures = self._measure_figures(position)
        plan = plan_merge_ahead(figures)
        if plan.is_merge_due:
            self._carry_out(figures, plan, position)

    def flush_forced(self, position: AppliedPosition) -> None:
        """Write all changes to the store immediately, according to :func:`plan_forced_flush`.

        ``position`` is the position of the store afterwards; without a journal block, changes are applied in place.
        """
        figures = self._measure_figures(position)
        self._carry_out(figures, plan_forced_flush(figures), position)

    def _measure_figures(self, position: AppliedPosition) -> FlushFigures:
        memtable = self.memtable
        with add_replay_hint(self.config):
            figures = build_figures(
                memtable,
                self.store.read_meta(),
                self.store.read_file_size(),
                has_history=self.rule is not None,
                is_journalled=self.journalled and position.block is not None,
                is_building=self._is_merge_running(),
            )
            return replace(figures, applied_changes=self._applied, flushes_to_runs=self.flushes_to_runs)

    def _carry_out(self, figures: FlushFigures, plan: FlushPlan, position: AppliedPosition) -> None:
        self._instance.tell_more(f"topic {self.config.name}: {describe_flush(figures, plan)}")
        self.flushes_to_runs, self.is_merge_due = plan.flushes_to_runs, plan.is_merge_due
        with add_replay_hint(self.config):
            if plan.step is FlushStep.IN_PLACE:
                self.apply_in_place(position)
            elif plan.step is FlushStep.MERGE_NOW:
                self._merge_now(position)
            elif plan.step in (FlushStep.RUN, FlushStep.RUN_THEN_MERGE):
                assert position.block is not None  # otherwise, plans have no runs
                self._flush_to_run(position)
            self._set_limits()

    def runs_to_compact(self) -> list[SortedRun]:
        """Return the newest runs if enough of them have a similar size to be compacted into one; else an empty list."""
        count = limits.count_runs_to_compact([len(run) for run in self.memtable.runs]) if self.flushes_to_runs else 0
        return self.memtable.runs[-count:] if count else []

    def compact(self, runs: Sequence[SortedRun]) -> SortedRun:
        """Write ``runs`` as one run; no lock is needed."""
        with add_replay_hint(self.config):
            return compact_runs(self._instance, self.config, self.store, runs)

    def install_run(self, runs: Sequence[SortedRun], joined: SortedRun) -> None:
        """Replace ``runs`` by ``joined``, under the journal's lock."""
        replace_runs(self.memtable, runs, joined)

    def _count_stored_records(self) -> int:
        """Return the number of records and versions in the store, which a merge writes in addition to the changes."""
        meta = self.store.read_meta()
        return meta.records + meta.versions

    def _is_merge_running(self) -> bool:
        """Return whether another process is merging runs or a first load into the store, or is rebuilding it."""
        return (bool(self.memtable.runs) or self._is_empty) and is_being_built(self.store.path)

    def _flush_to_run(self, position: AppliedPosition) -> None:
        if self._known is not None:
            self._known.add_keys(self.memtable.list_memory_keys())
        flush_to_run(self._instance, self.config, self.store, self.memtable, position)

    def apply_in_place(self, position: AppliedPosition, sequences: dict[int, int] | None = None) -> None:
        with add_replay_hint(self.config):
            # The runs are small enough for memory, and for one transaction.
            if self.memtable.runs:
                self.memtable.load_runs()
            count = len(self.memtable)
            done = apply_memtable(
                self.store,
                self.memtable,
                position,
                rule=self.rule,
                remove_expired_at=self.remove_expired_at,
                sequences=sequences,
                on_change=self._instance.build_watch("changes of the store") if self._instance.is_watched else None,
            )
        self._applied += count
        # If all expired records were removed, that is enough for a session: records that expire later are hidden from
        # readers, and the next writer removes them.
        if done.expired < FOLD_LIMITS.max_piggyback_expired_records:
            self.remove_expired_at = None
        self._refresh_after_apply(position.lineage)

    @property
    def _is_mergeable(self) -> bool:
        return self.journalled and supports_runs(self.store.read_meta(), history=self.rule is not None)

    def _merge_now(self, position: AppliedPosition) -> None:
        """Merge immediately, under the locks that are held."""
        from sowctl.engine.fold.compaction import merge_store

        self._applied += len(self.memtable)
        done = merge_store(
            self._instance,
            self.store,
            self.memtable,
            position,
            rule=self.rule,
            remove_expired_at=self.remove_expired_at,
        )
        if done is not None:
            self.remove_expired_at = None
        self._refresh_after_apply(position.lineage)

    def begin_merge(self, position: AppliedPosition, *, ending: bool, beside_others: bool = False) -> StoreMerge | None:
        """Begin the merge that is due, under the journal's lock; return None if another process is merging.

        Store and runs are merged; changes in memory, which are newer, stay there. In a first load, the changes in
        memory are merged, and the new store has ``position``. ``ending``: no lookups follow. ``beside_others``: merge
        even if another process does; the first one to install its file wins, the other discards its own.
        """
        from sowctl.engine.fold.compaction import StoreMerge
        from sowctl.engine.fold.keyfilter import KeyFilter

        self.is_merge_due = False
        if self._is_merge_running() and not beside_others:
            return None
        with add_replay_hint(self.config):
            memtable = self.memtable
            if memtable.runs:
                path, last = Path(self.store.path), memtable.runs[-1]
                again = build_refold(self._instance, self.config, path, self.store.read_meta())
                memtable = Memtable(history=self.rule is not None, base=memtable.base, runs=memtable.runs, again=again)
                position = AppliedPosition(last.state.lineage, last.last_txid, last.state.block)
            elif not ((figures := self._measure_figures(position)).is_first_load and figures.needs_new_store):
                return None
            # The former filter is released first: two of them use much memory.
            self._known = None
            return StoreMerge(
                self._instance,
                self.store,
                memtable,
                position,
                rule=self.rule,
                remove_expired_at=self.remove_expired_at,
                known=None if ending else KeyFilter(),
            )

    def end_merge(self, merging: StoreMerge) -> None:
        """Replace the store by the filled one, under the journal's lock."""
        with add_replay_hint(self.config):
            if merging.install_store() is None:
                # Another process has changed the store: the changes remain in runs, memory and journal, for the next
                # flush.
                return
            self.reach("merge.installed")
            self.remove_expired_at = None
            count = len(self.memtable)
            if self.memtable.runs:
                self.memtable.drop_runs(merging.position.txid)
            elif self.memtable.last_txid <= merging.position.txid:
                self.memtable.clear(merging.position.txid)
            # Otherwise, others have published while a first load was merged, and the memtable has their entries, too.
            # It is still valid, but its base differs from the store's position: :meth:`refresh` builds it again from
            # the journal before the next batch.
            self._applied += count - len(self.memtable)
            self._refresh_after_apply(merging.position.lineage)
            self._known = merging.known

    def reach(self, point: str) -> None:
        """Mark a point of a merge for fault injection; see :mod:`sowctl.seam`."""
        with translate_errors(Path(self.store.path), "merge sorted runs"):
            self._instance.seam.reach(point)

    def _refresh_after_apply(self, lineage: bytes) -> None:
        self._known = None
        if self.journalled:
            remove_runs(Path(self.store.path), self.store.read_meta(), lineage)
        self._set_limits()

    def _set_limits(self) -> None:
        self._is_empty = not self._count_stored_records()
        self.limits = (
            limits.compute_run_limits()
            if self.flushes_to_runs
            else limits.compute_in_place_limits(self.store.read_file_size())
        )

"""The decision when and how a memtable is flushed: in place, to a sorted run, or to a new store (``sow-run(5)``).

A plan is a value, computed only from figures; :class:`sowctl.engine.writing.topicwriter.StoreWriter` measures them and
executes the plan, and ``info`` shows the next one. The store is an LSM tree of two levels: sorted runs are compacted
(:func:`~sowctl.engine.fold.limits.count_runs_to_compact`) and finally merged with the store.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.fold import limits
from sowctl.values.display import format_bytes, format_count

if TYPE_CHECKING:
    from sowctl.engine.fold.memtable import Memtable
    from sowctl.store.meta import StoreMeta


class FlushStep(Enum):
    """The action for the changes that a memtable has in memory."""

    KEEP = "keep in memory"
    IN_PLACE = "apply in place"
    RUN = "write a sorted run"
    RUN_THEN_MERGE = "write a sorted run, then merge into a new store"
    MERGE = "merge into a new store"
    """Merges the existing runs, or the memory of a first load. This merge and that after a run are due when the locks
    are released: the new store is filled without them."""
    MERGE_NOW = "write a new store"
    """Merges runs and memory under the locks that are held."""


class FlushFigures(Struct, frozen=True):
    """The figures that decide a flush.

    ``changes``: changes in runs and memory; ``memory_changes``: those in memory, with ``held_bytes`` bytes of values;
    ``runs``: number of sorted runs of the store, files of ``run_bytes``; ``records``: records and versions in the
    store, a file of ``file_bytes``; ``applied_changes``: changes that the session has already applied. ``allows_runs``:
    the topic has a journal, and runs support all parts of its store. ``flushes_to_runs``: an earlier plan of the
    session chose runs. ``is_merge_running``: another process is filling a new store.
    """

    changes: int
    memory_changes: int
    held_bytes: int
    runs: int
    records: int
    file_bytes: int
    run_bytes: int = 0
    applied_changes: int = 0
    has_history: bool = False
    allows_runs: bool = True
    flushes_to_runs: bool = False
    is_merge_running: bool = False

    @property
    def is_first_load(self) -> bool:
        """Return whether a new store would be written from memory alone: this needs no run."""
        return not self.records and not self.has_history and not self.runs and not self.is_merge_running

    @property
    def is_memtable_full(self) -> bool:
        """Return whether memory alone has reached the amount to flush in a session that does not flush to runs."""
        changes, size = limits.compute_in_place_limits(self.file_bytes)
        return self.memory_changes >= changes or self.held_bytes >= size

    @property
    def exceeds_transaction(self) -> bool:
        """Return whether runs and memory exceed the changes that one transaction of the store may make."""
        changes, size = limits.compute_in_place_limits(self.file_bytes)
        # In place, the runs are read into memory as a whole.
        return self.changes >= changes or self.held_bytes + self.run_bytes >= size

    @property
    def needs_new_store(self) -> bool:
        """Return whether all changes are applied by writing a new store instead of in place."""
        is_first = not self.records and not self.has_history
        if not self.allows_runs or not (self.runs or self.flushes_to_runs or is_first):
            return False
        return self.exceeds_transaction or bool(self.flushes_to_runs and self.runs)


def supports_runs(meta: StoreMeta, *, history: bool) -> bool:
    """Return whether runs and a merge support all parts of a store: no publishers' numbers, no versions without a
    rule."""
    return not meta.sequences and (history or not meta.versions)


def build_figures(
    memtable: Memtable, meta: StoreMeta, file_bytes: int, *, has_history: bool, is_journalled: bool, is_building: bool
) -> FlushFigures:
    """Build the figures of a store with ``meta``, in a file of ``file_bytes``, and of its unapplied changes.

    They describe a session that has not written yet. ``is_building``: another process is building a store at this path,
    which is a merge of this store's changes if there are runs, or no records.
    """
    records = meta.records + meta.versions
    return FlushFigures(
        changes=len(memtable),
        memory_changes=memtable.memory_change_count,
        held_bytes=memtable.held_bytes,
        runs=len(memtable.runs),
        records=records,
        file_bytes=file_bytes,
        run_bytes=sum(run.bytes for run in memtable.runs),
        has_history=has_history,
        allows_runs=is_journalled and supports_runs(meta, history=has_history),
        is_merge_running=is_building and bool(memtable.runs or not records),
    )


class FlushPlan(Struct, frozen=True):
    """The next action and its reason. ``flushes_to_runs``: the session flushes to sorted runs from now on."""

    step: FlushStep
    reason: str
    flushes_to_runs: bool = False

    @property
    def is_merge_due(self) -> bool:
        """Return whether a merge is to follow when the locks are released."""
        return self.step in (FlushStep.MERGE, FlushStep.RUN_THEN_MERGE)


_FIRST_LOAD_REASON = "a first load goes from memory into a new store"


def plan_full_flush(figures: FlushFigures, *, keeps_lock: bool = False) -> FlushPlan:
    """Plan the flush of a full memtable during a session, which may publish more.

    ``keeps_lock``: more changes follow before the lock is released and a merge can begin, so memory is freed now.
    """
    to_runs = figures.flushes_to_runs
    if not figures.allows_runs:
        return FlushPlan(FlushStep.IN_PLACE, "the topic has no journal, or its store more than runs hold")
    # In an empty store, keys are appended in order; more changes than one transaction allows go to a new file.
    if not figures.records and not figures.needs_new_store:
        return FlushPlan(FlushStep.IN_PLACE, "the store is empty, and one transaction is enough", to_runs)
    to_runs = to_runs or limits.needs_runs(
        figures.applied_changes + figures.changes, figures.records, history=figures.has_history
    )
    if not to_runs and not figures.is_merge_running:
        if figures.needs_new_store:
            # Other processes have left runs: with one more, all are merged as in a session that flushes to runs.
            return FlushPlan(FlushStep.RUN_THEN_MERGE, "runs and memory exceed one transaction")
        return FlushPlan(FlushStep.IN_PLACE, "the session has changed a small part of the store")
    merge = limits.needs_merge(figures.changes, figures.records)
    if merge and figures.is_first_load and not keeps_lock:
        return FlushPlan(FlushStep.MERGE, _FIRST_LOAD_REASON, to_runs)
    if merge:
        return FlushPlan(FlushStep.RUN_THEN_MERGE, "runs and memory are large beside the store", to_runs)
    if to_runs:
        return FlushPlan(FlushStep.RUN, "the session changes a large part of the store", to_runs)
    return FlushPlan(FlushStep.RUN, "another process is filling a new store")


def plan_final_flush(figures: FlushFigures, *, is_memtable_full: bool) -> FlushPlan:
    """Plan the flush at the end of a session.

    Small runs of other processes next to a large store remain, and later entries stay in the journal, until both are
    large enough to be merged.
    """
    to_runs = figures.flushes_to_runs
    if (figures.runs or not figures.records) and not to_runs and not is_memtable_full:
        if figures.is_merge_running:
            return FlushPlan(FlushStep.KEEP, "another process is filling a new store")
        if limits.are_runs_small(figures.changes, figures.records):
            return FlushPlan(FlushStep.KEEP, "the runs are small beside the store")
    if not figures.needs_new_store:
        return FlushPlan(FlushStep.IN_PLACE, "one transaction is enough", to_runs)
    if to_runs and figures.runs:
        return _plan_last_merge(figures, "the end of a session that has written runs")
    return _plan_last_merge(figures, "runs and memory exceed one transaction")


def _plan_last_merge(figures: FlushFigures, reason: str) -> FlushPlan:
    """Plan a merge of all changes: those in memory become the last run, except in a first load."""
    to_runs = figures.flushes_to_runs
    if figures.memory_changes and not figures.is_first_load:
        return FlushPlan(FlushStep.RUN_THEN_MERGE, reason, to_runs)
    if figures.is_first_load:
        return FlushPlan(FlushStep.MERGE, _FIRST_LOAD_REASON, to_runs)
    return FlushPlan(FlushStep.MERGE, f"{reason}; all changes are in runs", to_runs)


def plan_merge_ahead(figures: FlushFigures) -> FlushPlan:
    """Plan the flush before a command acquires the locks under which :func:`plan_forced_flush` is executed.

    Changes that would need a new store are merged before, without the locks; few changes are added meanwhile.
    """
    if not figures.needs_new_store:
        return FlushPlan(FlushStep.KEEP, "one transaction will be enough", figures.flushes_to_runs)
    return _plan_last_merge(figures, "a command needs all changes in the store")


def plan_forced_flush(figures: FlushFigures) -> FlushPlan:
    """Plan how all changes, in runs and memory, are applied to the store immediately, under the locks."""
    to_runs = figures.flushes_to_runs
    if figures.needs_new_store:
        return FlushPlan(FlushStep.MERGE_NOW, "runs and memory exceed one transaction", to_runs)
    return FlushPlan(FlushStep.IN_PLACE, "one transaction is enough", to_runs)


def describe_flush(figures: FlushFigures, plan: FlushPlan) -> str:
    """Describe a plan in one line: action, figures, reason."""
    held = f", {format_bytes(figures.held_bytes)} in memory" if figures.held_bytes else ""
    beside = (
        f", {format_count(figures.runs, 'sorted run')} of {format_bytes(figures.run_bytes)}" if figures.runs else ""
    )
    changes, records = format_count(figures.changes, "change"), format_count(figures.records, "record")
    counts = f"{changes}{held}{beside}, {records} in the store"
    return f"{plan.step.value} ({counts}): {plan.reason}"

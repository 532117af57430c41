"""The decision when and how a memtable is flushed: in place, into a sorted run, or into a new store (``sow-run(5)``).

A plan is a value, made from figures alone; :class:`sowctl.engine.writing.topicwriter.StoreWriter` measures these and
carries the plan out, and ``info`` shows the next one. The store is an LSM tree of two levels: sorted runs are merged
with each other (:func:`~sowctl.engine.fold.limits.count_runs_to_compact`) and, in the end, with the store.
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
    """What is done with the changes that a memtable holds in memory."""

    KEEP = "keep in memory"
    IN_PLACE = "apply in place"
    RUN = "write a sorted run"
    NEW_STORE = "write a new store"


class FlushFigures(Struct, frozen=True):
    """What a flush is decided from.

    ``changes``: of runs and memory together, ``memory_changes`` of these in memory, ``held_bytes`` bytes of their
    values; ``runs``: sorted runs beside the store; ``records``: records and versions of the store, a file of
    ``file_bytes``; ``applied_changes``: changes that the session has applied before. ``allows_runs``: the topic has a
    journal, and its store nothing that runs cannot hold. ``is_bulk_load``: an earlier plan of the session said so.
    ``is_merge_running``: another process fills a new store.
    """

    changes: int
    memory_changes: int
    held_bytes: int
    runs: int
    records: int
    file_bytes: int
    applied_changes: int = 0
    has_history: bool = False
    allows_runs: bool = True
    is_bulk_load: bool = False
    is_merge_running: bool = False

    @property
    def is_first_load(self) -> bool:
        """Return whether a new store would be made of memory alone: no run of it is needed for that."""
        return not self.records and not self.has_history and not self.runs and not self.is_merge_running

    @property
    def is_full(self) -> bool:
        """Return whether memory alone holds what is flushed at once in a session that is no bulk load."""
        changes, size = limits.compute_in_place_limits(self.file_bytes)
        return self.memory_changes >= changes or self.held_bytes >= size

    @property
    def exceeds_transaction(self) -> bool:
        """Return whether runs and memory hold more than one transaction of the store may change."""
        changes, size = limits.compute_in_place_limits(self.file_bytes)
        return self.changes >= changes or self.held_bytes >= size

    @property
    def needs_new_store(self) -> bool:
        """Return whether everything is applied by a new store, and not in place."""
        is_first = not self.records and not self.has_history
        if not self.allows_runs or not (self.runs or self.is_bulk_load or is_first):
            return False
        return self.exceeds_transaction or bool(self.is_bulk_load and self.runs)


def supports_runs(meta: StoreMeta, *, history: bool) -> bool:
    """Return whether runs and a merge carry all of a store: not publishers' numbers, nor versions without a rule."""
    return not meta.sequences and (history or not meta.versions)


def build_figures(
    memtable: Memtable, meta: StoreMeta, file_bytes: int, *, has_history: bool, is_journalled: bool, is_building: bool
) -> FlushFigures:
    """Build the figures of a store with ``meta``, in a file of ``file_bytes``, and of the changes that it has not.

    Those of a session that has not written yet. ``is_building``: another process builds a store for this place, which
    is a merge of this one's changes if there are runs, or no records.
    """
    records = meta.records + meta.versions
    return FlushFigures(
        changes=len(memtable),
        memory_changes=memtable.memory_change_count,
        held_bytes=memtable.held_bytes,
        runs=len(memtable.runs),
        records=records,
        file_bytes=file_bytes,
        has_history=has_history,
        allows_runs=is_journalled and supports_runs(meta, history=has_history),
        is_merge_running=is_building and bool(memtable.runs or not records),
    )


class FlushPlan(Struct, frozen=True):
    """What is done at once, under the journal's lock, and why.

    ``merge``: runs, or the memory of a first load, are then merged into a new store, which is filled without the lock.
    ``is_bulk_load``: the session flushes to sorted runs from now on.
    """

    step: FlushStep
    reason: str
    merge: bool = False
    is_bulk_load: bool = False


def plan_flush(figures: FlushFigures, *, keeps_lock: bool = False) -> FlushPlan:
    """Plan what is done with a full memtable during a session, which may publish more.

    ``keeps_lock``: more changes follow before the lock is released and a merge can begin, so memory is freed now.
    """
    bulk = figures.is_bulk_load
    if not figures.allows_runs:
        return FlushPlan(FlushStep.IN_PLACE, "the topic has no journal, or its store more than runs hold")
    # Into an empty store, keys are appended in order; what is too much for one transaction, into a new file.
    if not figures.records and not figures.needs_new_store:
        return FlushPlan(FlushStep.IN_PLACE, "the store is empty, and one transaction is enough", is_bulk_load=bulk)
    bulk = bulk or limits.needs_runs(
        figures.applied_changes + figures.changes, figures.records, history=figures.has_history
    )
    if not bulk and not figures.is_merge_running:
        if figures.needs_new_store:
            # Others have left runs: with one more, all is merged as that of a bulk load is.
            return FlushPlan(FlushStep.RUN, "runs and memory exceed one transaction", merge=True)
        return FlushPlan(FlushStep.IN_PLACE, "the session has changed a small part of the store")
    merge = limits.needs_merge(figures.changes, figures.records)
    if merge and figures.is_first_load and not keeps_lock:
        return FlushPlan(FlushStep.KEEP, "a first load goes from memory into a new store", True, bulk)
    if merge:
        return FlushPlan(FlushStep.RUN, "runs and memory are large beside the store", True, bulk)
    if bulk:
        return FlushPlan(FlushStep.RUN, "the session is a bulk load", is_bulk_load=True)
    return FlushPlan(FlushStep.RUN, "another process is filling a new store")


def plan_final_flush(figures: FlushFigures, *, is_full: bool) -> FlushPlan:
    """Plan what is done at the end of a session. ``is_full``: the memtable has reached its limits.

    Small runs that others have left beside a large store stay there, and what is behind them stays in the journal,
    until there is enough of both to be merged.
    """
    bulk = figures.is_bulk_load
    if (figures.runs or not figures.records) and not bulk and not is_full:
        if figures.is_merge_running:
            return FlushPlan(FlushStep.KEEP, "another process is filling a new store")
        if limits.are_runs_small(figures.changes, figures.records):
            return FlushPlan(FlushStep.KEEP, "the runs are small beside the store")
    if not figures.needs_new_store:
        return FlushPlan(FlushStep.IN_PLACE, "one transaction is enough", is_bulk_load=bulk)
    return _plan_last_merge(figures, "the end of a session that has written runs")


def _plan_last_merge(figures: FlushFigures, reason: str) -> FlushPlan:
    """Plan a merge of everything: what is in memory becomes the last run, unless it is a first load."""
    bulk = figures.is_bulk_load
    if figures.memory_changes and not figures.is_first_load:
        return FlushPlan(FlushStep.RUN, reason, True, bulk)
    return FlushPlan(FlushStep.KEEP, "all changes are in runs, or a first load in memory", True, bulk)


def plan_merge_ahead(figures: FlushFigures) -> FlushPlan:
    """Plan what is done before a command takes the locks under which :func:`plan_forced_flush` is carried out.

    What would need a new store then is merged before, while others publish; what they add meanwhile is little.
    """
    if not figures.needs_new_store:
        return FlushPlan(FlushStep.KEEP, "one transaction will be enough", is_bulk_load=figures.is_bulk_load)
    return _plan_last_merge(figures, "a command needs all changes in the store")


def plan_forced_flush(figures: FlushFigures) -> FlushPlan:
    """Plan how everything, runs and memory, gets into the store at once, under the locks."""
    bulk = figures.is_bulk_load
    if figures.needs_new_store:
        return FlushPlan(FlushStep.NEW_STORE, "runs and memory exceed one transaction", is_bulk_load=bulk)
    return FlushPlan(FlushStep.IN_PLACE, "one transaction is enough", is_bulk_load=bulk)


def describe_flush(figures: FlushFigures, plan: FlushPlan) -> str:
    """Describe a plan in a line: what is done, from which figures, and why."""
    held = f", {format_bytes(figures.held_bytes)} in memory" if figures.held_bytes else ""
    beside = f", {format_count(figures.runs, 'sorted run')}" if figures.runs else ""
    changes, records = format_count(figures.changes, "change"), format_count(figures.records, "record")
    counts = f"{changes}{held}{beside}, {records} in the store"
    then = ", then merge into a new store" if plan.merge else ""
    return f"{plan.step.value}{then} ({counts}): {plan.reason}"

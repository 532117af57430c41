"""Flush plans as a table of figures, without a store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.engine.fold.flush_plan import (
    FlushFigures,
    FlushPlan,
    FlushStep,
    describe_flush,
    plan_final_flush,
    plan_forced_flush,
    plan_full_flush,
    plan_merge_ahead,
)
from sowctl.engine.fold.limits import MEMTABLE_LIMITS

KEEP, IN_PLACE, RUN, RUN_THEN_MERGE, MERGE, MERGE_NOW = FlushStep
MUCH = MEMTABLE_LIMITS.changes
MUCH_BYTES = MEMTABLE_LIMITS.bytes
LARGE = 10 * MUCH
"""Record count of a store that is large compared with the changes that fit into memory."""


def _figures(**known: Any) -> FlushFigures:
    usual = {"changes": 1000, "memory_changes": 1000, "held_bytes": 200_000, "runs": 0, "records": LARGE}
    return FlushFigures(**(usual | {"file_bytes": known.get("records", LARGE) * 250} | known))


@pytest.mark.parametrize(
    ("known", "step", "to_runs"),
    [
        ({"allows_runs": False, "records": 10, "changes": MUCH}, IN_PLACE, False),
        ({"records": 0}, IN_PLACE, False),
        # the first load of a topic stays in memory until the new store is filled
        ({"records": 0, "changes": MUCH}, MERGE, True),
        ({"records": 0, "changes": MUCH, "is_merge_running": True}, RUN_THEN_MERGE, True),
        ({"records": 0, "changes": MUCH, "has_history": True}, IN_PLACE, False),
        ({"changes": LARGE // 5}, IN_PLACE, False),
        ({"changes": LARGE // 4}, RUN, True),
        ({"changes": 1, "applied_changes": LARGE // 4}, RUN, True),
        ({"changes": LARGE // 16, "has_history": True}, RUN, True),
        ({"changes": 1, "flushes_to_runs": True}, RUN, True),
        ({"changes": 3 * LARGE, "flushes_to_runs": True, "runs": 7}, RUN_THEN_MERGE, True),
        # runs of other processes, too many changes for a transaction, and another process that merges
        ({"changes": LARGE // 5, "runs": 2}, RUN_THEN_MERGE, False),
        ({"runs": 2, "run_bytes": MUCH_BYTES}, RUN_THEN_MERGE, False),
        ({"runs": 2}, IN_PLACE, False),
        ({"runs": 2, "is_merge_running": True}, RUN, False),
    ],
)
def test_a_full_memtable(known: dict[str, Any], step: FlushStep, to_runs: bool) -> None:
    plan = plan_full_flush(_figures(**known))
    assert (plan.step, plan.flushes_to_runs) == (step, to_runs), plan.reason
    # If more changes follow before a merge can begin, memory is freed at once.
    locked = plan_full_flush(_figures(**known), keeps_lock=True)
    step = RUN_THEN_MERGE if step is MERGE else step
    assert (locked.step, locked.flushes_to_runs) == (step, to_runs), locked.reason


@pytest.mark.parametrize(
    ("known", "is_full", "step"),
    [
        ({}, False, IN_PLACE),
        ({"records": 0}, False, IN_PLACE),
        ({"records": 0, "is_merge_running": True}, False, KEEP),
        ({"records": 0, "changes": MUCH}, True, MERGE),
        # small runs of other processes stay, unless the changes after them are many
        ({"runs": 1}, False, KEEP),
        ({"runs": 1}, True, IN_PLACE),
        ({"runs": 1, "records": 1000}, False, IN_PLACE),
        # a few large values in runs are too much for memory and for one transaction
        ({"runs": 1, "records": 1000, "run_bytes": 2 * MUCH_BYTES}, False, RUN_THEN_MERGE),
        ({"runs": 1, "records": 1000, "run_bytes": 2 * MUCH_BYTES, "memory_changes": 0}, False, MERGE),
        # the end of a session that has flushed to runs
        ({"flushes_to_runs": True}, False, IN_PLACE),
        ({"flushes_to_runs": True, "runs": 3}, False, RUN_THEN_MERGE),
        ({"flushes_to_runs": True, "runs": 3, "memory_changes": 0}, False, MERGE),
    ],
)
def test_the_end_of_a_session(known: dict[str, Any], is_full: bool, step: FlushStep) -> None:
    plan = plan_final_flush(_figures(**known), is_memtable_full=is_full)
    assert plan.step is step, plan.reason


@pytest.mark.parametrize(
    ("known", "step"),
    [
        ({}, IN_PLACE),
        ({"changes": MUCH}, IN_PLACE),
        ({"changes": MUCH, "runs": 1}, MERGE_NOW),
        ({"runs": 1, "run_bytes": MUCH_BYTES}, MERGE_NOW),
        ({"changes": MUCH, "records": 0}, MERGE_NOW),
        ({"changes": 9, "runs": 1, "flushes_to_runs": True}, MERGE_NOW),
        ({"changes": MUCH, "runs": 1, "allows_runs": False}, IN_PLACE),
    ],
)
def test_everything_at_once(known: dict[str, Any], step: FlushStep) -> None:
    plan = plan_forced_flush(_figures(**known))
    assert plan.step is step


@pytest.mark.parametrize(
    ("known", "step"),
    [
        ({}, KEEP),
        ({"changes": MUCH}, KEEP),
        ({"changes": MUCH, "runs": 1}, RUN_THEN_MERGE),
        ({"runs": 1, "run_bytes": MUCH_BYTES}, RUN_THEN_MERGE),
        ({"changes": MUCH, "runs": 1, "memory_changes": 0}, MERGE),
        ({"changes": MUCH, "records": 0}, MERGE),
        ({"changes": MUCH, "records": 0, "is_merge_running": True}, RUN_THEN_MERGE),
        ({"changes": MUCH, "runs": 1, "allows_runs": False}, KEEP),
    ],
)
def test_before_everything_at_once(known: dict[str, Any], step: FlushStep) -> None:
    plan = plan_merge_ahead(_figures(**known))
    assert plan.step is step, plan.reason


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"flushes_to_runs": True, "runs": 3}, "the end of a session that has written runs"),
        (
            {"flushes_to_runs": True, "runs": 3, "memory_changes": 0},
            "the end of a session that has written runs; all changes are in runs",
        ),
        # what another process has left, and the rest of a first load
        ({"runs": 1, "records": 1000, "changes": MUCH}, "runs and memory exceed one transaction"),
        ({"flushes_to_runs": True, "records": 0, "changes": MUCH}, "a first load goes from memory into a new store"),
    ],
)
def test_the_reason_of_the_last_merge(known: dict[str, Any], reason: str) -> None:
    assert plan_final_flush(_figures(**known), is_memtable_full=False).reason == reason


FIGURES = st.builds(
    FlushFigures,
    changes=st.integers(0, 10_000_000),
    memory_changes=st.integers(0, 1_000_000),
    held_bytes=st.integers(0, 1 << 30),
    runs=st.integers(0, 9),
    records=st.integers(0, 10_000_000),
    file_bytes=st.integers(0, 1 << 34),
    run_bytes=st.integers(0, 1 << 30),
    applied_changes=st.integers(0, 10_000_000),
    has_history=st.booleans(),
    allows_runs=st.booleans(),
    flushes_to_runs=st.booleans(),
    is_merge_running=st.booleans(),
).map(lambda found: found if found.runs else replace(found, memory_changes=found.changes, run_bytes=0))


@given(FIGURES, st.booleans())
def test_laws(figures: FlushFigures, is_full: bool) -> None:
    plans: list[FlushPlan] = [
        plan_full_flush(figures),
        plan_full_flush(figures, keeps_lock=True),
        plan_final_flush(figures, is_memtable_full=is_full),
        plan_forced_flush(figures),
        plan_merge_ahead(figures),
    ]
    for plan in plans:
        # A topic without a journal, or with more than runs can hold, is only changed in place.
        assert figures.allows_runs or plan.step in (IN_PLACE, KEEP)
        assert figures.allows_runs or not plan.is_merge_due
        # A merge without the lock reads runs, or the memory of a first load.
        assert not plan.is_merge_due or plan.step is RUN_THEN_MERGE or figures.runs or figures.is_first_load
        assert plan.step.value in describe_flush(figures, plan)
    # A forced flush into a new store is preceded by a merge, and no other forced flush is.
    assert plans[4].is_merge_due == (plans[3].step is MERGE_NOW)
    # No other step of a session fills a new store under the lock.
    assert MERGE_NOW not in (plans[0].step, plans[1].step, plans[2].step, plans[4].step)
    # During a session memory is freed, at once or by the merge that is due.
    assert plans[0].step is not KEEP
    assert plans[1].step not in (KEEP, MERGE)
    # A forced flush ends at once.
    assert plans[3].step in (IN_PLACE, MERGE_NOW)

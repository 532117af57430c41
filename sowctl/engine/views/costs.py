"""Costs of a view's cache: when to catch up, to compute everything, and to begin to keep rows.

A cache that keeps rows and groups catches up at the cost of the changes, but writing them costs several times what the
messages alone cost. How often a view will change is unknown, so this is the choice between renting and buying skis:
everything is computed anew until that has cost, since the cache came into being, as much more than catching up would
have as rows and groups cost. So a view never costs much more than twice what it would have cost had its changes been
known, and no reader of a view that changes once waits for what only later changes use. Costs are seconds of processor
time that were measured, scaled by the figures below where none was. Ruled by ``sow-view(5)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.values.display import format_duration

if TYPE_CHECKING:
    from sowctl.engine.views.cache import CacheState

KEEP_ROWS_MAX_RECORDS = 20_000
"""Records of the sources up to which rows are kept at once: writing them takes less than a second."""
KEEP_ROWS_COST_FACTOR = 20
"""Computing everything and keeping rows costs so many times what computing the messages alone costs.

500,000 orders by region: 5.0 against 0.26 s; joined with 5,000 customers: 11.2 against 0.52; 50,000 with 500: 0.93
against 0.05.
"""
CATCH_UP_COST_FACTOR = 150
"""Catching up with one changed record costs so many times what computing one record costs.

Of the same joins, 1,000 changed: 245 against 1.0 microseconds, 112 against 1.0; by region 39 against 0.5.
"""
ALWAYS_CATCH_UP_CHANGES = 1_000
"""So many changes are always caught up with where rows are kept: it takes about a quarter of a second."""
MIN_MEASURED_CHANGES = 100
"""Changes from which on what catching up with them has cost tells the cost of one: that of fewer is mostly that of the
transaction. One took 4.6 ms, 100 took 31."""
MAX_CATCH_UP_CHANGES = 500_000
"""Changed records that are held in memory at once, and no more."""


def catches_up(state: CacheState, changed: int, records: int) -> bool:
    """Return whether a cache is brought up to date by its changes alone; ``records``: of the sources."""
    if not state.kept:
        return False
    if changed <= ALWAYS_CATCH_UP_CHANGES:
        return True
    if changed > MAX_CATCH_UP_CHANGES:
        return False
    # What is computed anew is without rows at first, unless there are few records.
    dearer = 1 if records > KEEP_ROWS_MAX_RECORDS else KEEP_ROWS_COST_FACTOR
    if state.changed < MIN_MEASURED_CHANGES or not state.full:
        return changed * CATCH_UP_COST_FACTOR < records * dearer
    return changed * state.change / state.changed < state.full * dearer / KEEP_ROWS_COST_FACTOR


def keeps_rows(state: CacheState | None, changed: int | None, records: int) -> bool:
    """Return whether a cache that is made anew keeps rows and groups.

    ``state`` is that of the cache before, None where none is of use; ``changed``: how many records differ from what it
    holds, None where that is not known.
    """
    if records <= KEEP_ROWS_MAX_RECORDS:
        return True
    if state is None or state.kept or not _estimate_waste(state.full, changed, records):
        return False
    return state.spent >= estimate_row_cost(state)


def estimate_row_cost(state: CacheState) -> float:
    """Estimate what rows and groups cost, from what the messages alone have cost last."""
    return KEEP_ROWS_COST_FACTOR * state.full


def compute_spent_seconds(state: CacheState | None, changed: int | None, records: int, cost: float) -> float:
    """Return what was spent without rows, when computing the messages alone has just cost ``cost``.

    Where the cache before kept rows, it begins again: the changes were too many for them.
    """
    if state is None or state.kept:
        return 0.0
    return state.spent + _estimate_waste(cost, changed, records)


def _estimate_waste(cost: float, changed: int | None, records: int) -> float:
    """Return how much more computing everything costs than catching up; 0 where that is no way, or none cheaper."""
    if changed is None or changed > MAX_CATCH_UP_CHANGES:
        return 0.0
    return max(0.0, cost * (1 - changed * CATCH_UP_COST_FACTOR / records))


def explain_compute(state: CacheState, changed: int, records: int) -> str:
    """Why everything is computed anew though what changed is known."""
    if state.kept or not _estimate_waste(state.full, changed, records):
        return "that is cheaper than an incremental update"
    if keeps_rows(state, changed, records):
        return f"to cache rows from now on, after {format_duration(state.spent)} without them"
    if not state.spent:
        return "no rows and groups are cached yet"
    cost, spent = format_duration(estimate_row_cost(state)), format_duration(state.spent)
    return f"rows are cached after computing without them has cost {cost}; so far {spent}"

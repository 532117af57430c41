"""Costs of a view's cache: when to catch up, to compute everything, and to begin to keep rows.

A cache that keeps rows and groups catches up at the cost of the changes, but writing them costs several times what the
messages alone cost. How often a view will change is unknown, so this is the choice between renting and buying skis:
everything is computed anew until that has cost, since the cache came into being, as much more than catching up would
have as rows and groups cost. So a view never costs much more than twice what it would have cost had its changes been
known, and no reader of a view that changes once waits for what only later changes use. Costs are seconds of processor
time that were measured, scaled by the figures of :mod:`sowctl.engine.views.limits` where none was. Ruled by
``sow-view(5)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.values.display import format_duration

if TYPE_CHECKING:
    from sowctl.engine.views.cache import CacheState


def catches_up(state: CacheState, changed: int, records: int) -> bool:
    """Return whether a cache is brought up to date by its changes alone; ``records``: of the sources."""
    if not state.kept:
        return False
    if changed <= VIEW_LIMITS.always_catch_up_changes:
        return True
    if changed > VIEW_LIMITS.max_catch_up_changes:
        return False
    # What is computed anew is without rows at first, unless there are few records.
    dearer = 1 if records > VIEW_LIMITS.keep_rows_max_records else VIEW_LIMITS.keep_rows_cost_factor
    if state.changed < VIEW_LIMITS.min_measured_changes or not state.full:
        return changed * VIEW_LIMITS.catch_up_cost_factor < records * dearer
    return changed * state.change / state.changed < state.full * dearer / VIEW_LIMITS.keep_rows_cost_factor


def keeps_rows(state: CacheState | None, changed: int | None, records: int) -> bool:
    """Return whether a cache that is made anew keeps rows and groups.

    ``state`` is that of the cache before, None where none is of use; ``changed``: how many records differ from what it
    holds, None where that is not known.
    """
    if records <= VIEW_LIMITS.keep_rows_max_records:
        return True
    if state is None or state.kept or not _estimate_waste(state.full, changed, records):
        return False
    return state.spent >= estimate_row_cost(state)


def estimate_row_cost(state: CacheState) -> float:
    """Estimate what rows and groups cost, from what the messages alone have cost last."""
    return VIEW_LIMITS.keep_rows_cost_factor * state.full


def compute_spent_seconds(state: CacheState | None, changed: int | None, records: int, cost: float) -> float:
    """Return what was spent without rows, when computing the messages alone has just cost ``cost``.

    Where the cache before kept rows, it begins again: the changes were too many for them.
    """
    if state is None or state.kept:
        return 0.0
    return state.spent + _estimate_waste(cost, changed, records)


def _estimate_waste(cost: float, changed: int | None, records: int) -> float:
    """Return how much more computing everything costs than catching up; 0 where that is no way, or none cheaper."""
    if changed is None or changed > VIEW_LIMITS.max_catch_up_changes:
        return 0.0
    return max(0.0, cost * (1 - changed * VIEW_LIMITS.catch_up_cost_factor / records))


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

"""What the cache of a view costs: when to catch up, when to compute everything, and when to begin to keep rows.

A cache that keeps rows and groups catches up at the cost of the changes, but writing them costs several times what the
messages alone cost. How often a view will change is unknown, so this is the choice between renting and buying skis:
everything is computed anew until that has cost, since the cache came into being, as much more than catching up would
have as rows and groups cost. So a view never costs much more than twice what it would have cost had its changes been
known, and no reader of a view that changes once waits for what only later changes use. Costs are seconds of processor
time that were measured, scaled by the figures below where none was. Ruled by ``sow-view(5)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sowctl.engine.views.cache import CacheState

SMALL = 20_000
"""Records of the sources up to which rows are kept at once: writing them takes less than a second."""
KEEPING = 4
"""Computing everything and keeping rows costs so many times what computing the messages alone costs.

500,000 orders joined with 5,000 customers: 17.8 against 3.7 s; 50,000 with 500: 1.25 against 0.33 s.
"""
CHANGING = 30
"""Catching up with one changed record costs so many times what computing one record costs.

Of the same views: 260 against 7.4 microseconds, 210 against 6.6.
"""
SHARE = 4
"""Above one changed record in so many, everything is computed anew; below it, costs decide."""
FEW = 5_000
"""So many changes are always caught up with where rows are kept: it takes about a second."""
MOST = 500_000
"""Changed records that are held in memory at once, and no more."""


def catches_up(state: CacheState, changed: int, records: int) -> bool:
    """Whether a cache is brought up to date by its changes alone; ``records``: of the sources."""
    if not state.kept:
        return False
    if changed <= FEW:
        return True
    if changed > MOST or changed * SHARE > records:
        return False
    if not state.changed or not state.full:
        return True
    return changed * state.change / state.changed < state.full


def keeps_rows(state: CacheState | None, changed: int | None, records: int) -> bool:
    """Whether a cache that is made anew keeps rows and groups.

    ``state`` is that of the cache before, None where none is of use; ``changed``: how many records differ from what it
    holds, None where that is not known.
    """
    if records <= SMALL:
        return True
    if state is None or state.kept or not _wasted(state.full, changed, records):
        return False
    return state.spent >= keeping_cost(state)


def keeping_cost(state: CacheState) -> float:
    """What rows and groups are expected to cost, from what the messages alone cost last."""
    return KEEPING * state.full


def spent(state: CacheState | None, changed: int | None, records: int, cost: float) -> float:
    """What was spent without rows, when computing the messages alone has just cost ``cost``.

    Where the cache before kept rows, it begins again: the changes were too many for them.
    """
    if state is None or state.kept:
        return 0.0
    return state.spent + _wasted(cost, changed, records)


def _wasted(cost: float, changed: int | None, records: int) -> float:
    """How much more computing everything costs than catching up would; 0 where that is no way, or no cheaper one."""
    if changed is None or changed > MOST or changed * SHARE > records:
        return 0.0
    return max(0.0, cost * (1 - changed * CHANGING / records))


def why_computed(state: CacheState, changed: int, records: int) -> str:
    """Why everything is computed anew though what changed is known."""
    if state.kept or not _wasted(state.full, changed, records):
        return "that is cheaper than catching up"
    if keeps_rows(state, changed, records):
        return f"to keep rows from now on, after {state.spent:.1f} s without them"
    if not state.spent:
        return "no rows and groups are kept yet"
    return f"rows are kept once doing without has cost {keeping_cost(state):.1f} s; so far {state.spent:.1f} s"

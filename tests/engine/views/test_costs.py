"""When a view computes everything, when it begins to keep rows, and what that costs it at most (sow-view(5))."""

from __future__ import annotations

import itertools
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.engine.views.cache import CacheState, find_cache_path, read_state
from sowctl.engine.views.cache_refresh import Refresh
from sowctl.engine.views.costs import catches_up, compute_spent_seconds, explain_compute, keeps_rows
from sowctl.engine.views.definition import build_query
from sowctl.engine.views.instant import run_at_instant
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.openers import open_derived_entry
from sowctl.engine.views.view import plan_refresh
from sowctl.store.env import Store
from tests.engine.views.test_cache import MakeLab, config_xml, lab, message, topic_xml
from tests.support.instances import Lab

__all__ = ["MakeLab", "config_xml", "lab", "topic_xml"]
RECORDS, FULL = 600_000, 7.0


def state(**more: Any) -> CacheState:
    return replace(CacheState(1, "", (), 0, full=FULL), **more)


def spending(changes: list[int]) -> tuple[float, list[str]]:
    """What a view costs whose ``changes`` come one after another, each read, and what was done each time."""
    now, total, done = state(), 0.0, []
    for changed in changes:
        if catches_up(now, changed, RECORDS):
            done.append("caught up")
            total += catching_up(changed)
            continue
        kept = keeps_rows(now, changed, RECORDS)
        done.append("kept" if kept else "computed")
        cost = FULL * (VIEW_LIMITS.keep_rows_cost_factor if kept else 1)
        total += cost
        now = state(kept=kept, full=cost, spent=0.0 if kept else compute_spent_seconds(now, changed, RECORDS, cost))
    return total, done


def catching_up(changed: int) -> float:
    return changed * VIEW_LIMITS.catch_up_cost_factor * FULL / RECORDS


def test_rows_are_kept_when_doing_without_has_cost_as_much() -> None:
    assert spending([1] * 24)[1] == ["computed"] * 21 + ["kept", "caught up", "caught up"]
    # 2,000 changes cost half of computing everything, so twice as many of them pay for the rows.
    assert spending([2_000] * 42)[1] == ["computed"] * 40 + ["kept", "caught up"]


def test_catching_up_is_given_up_where_messages_alone_cost_less() -> None:
    # 150 times what a record costs: of 600,000 records 4,000 changes cost as much as all of them.
    kept = state(kept=True, full=FULL * VIEW_LIMITS.keep_rows_cost_factor)
    assert [catches_up(kept, changed, RECORDS) for changed in (1, 3_999, 4_000, 600_000)] == [True, True, False, False]
    # What it has cost tells more, where it was more than the cost of a transaction.
    dear, cheap = replace(kept, change=1.0, changed=100), replace(kept, change=0.01, changed=100)
    assert [catches_up(dear, changed, RECORDS) for changed in (1_000, 1_001)] == [True, False]
    assert [catches_up(cheap, changed, RECORDS) for changed in (69_999, 70_000)] == [True, False]
    assert catches_up(replace(kept, change=1.0, changed=1), 3_999, RECORDS)
    # Of few records, computing them anew keeps rows again, which costs more.
    few = VIEW_LIMITS.keep_rows_max_records
    assert catches_up(kept, few // 10, few)
    assert not catches_up(kept, few // 7, few)


@pytest.mark.parametrize("changed", [20_000, 200_000, 550_000])
def test_changes_that_rows_would_not_help_are_no_reason_to_keep_them(changed: int) -> None:
    assert set(spending([changed] * 50)[1]) == {"computed"}


@given(st.lists(st.integers(1, VIEW_LIMITS.always_catch_up_changes), max_size=60))
def test_a_view_costs_little_more_than_twice_what_foresight_would_have(changes: list[int]) -> None:
    never = FULL * len(changes)
    at_once = FULL * VIEW_LIMITS.keep_rows_cost_factor + sum(map(catching_up, changes))
    assert spending(changes)[0] <= 2 * min(never, at_once) + FULL + 1e-6


def test_what_was_spent_is_forgotten_with_the_rows_and_the_definition() -> None:
    assert compute_spent_seconds(state(spent=20.0), 1, RECORDS, FULL) == pytest.approx(27.0, rel=1e-4)
    assert compute_spent_seconds(state(spent=20.0), None, RECORDS, FULL) == 20
    assert compute_spent_seconds(state(spent=20.0, kept=True), 300_000, RECORDS, FULL) == 0
    assert compute_spent_seconds(None, None, RECORDS, FULL) == 0
    assert keeps_rows(None, None, VIEW_LIMITS.keep_rows_max_records)
    assert not keeps_rows(None, None, VIEW_LIMITS.keep_rows_max_records + 1)


@pytest.mark.parametrize(
    ("given", "changed", "facts"),
    [
        ({}, 1, ["rows"]),
        ({"spent": 7.04}, 1, ["rows", " 2 min 20 s", " 7.0 s"]),
        ({"spent": 140.1}, 1, ["rows", " 2 min 20 s"]),
        ({"spent": 140.1}, 300_000, ["cheaper"]),
        ({"kept": True}, 300_000, ["cheaper"]),
    ],
)
def test_why_everything_is_computed_is_said(given: dict[str, Any], changed: int, facts: list[str]) -> None:
    why = explain_compute(state(**given), changed, RECORDS)
    told = [fact for fact in ("rows", "cheaper", " 2 min 20 s", " 7.0 s") if fact in why]
    assert told == facts


def test_a_cache_counts_what_it_spends_and_then_keeps_rows(lab: Lab) -> None:
    instance = lab.open()
    assert instance.config is not None
    (entry,) = instance.config.find_entries("totals")
    path = find_cache_path(instance, entry)
    assert path is not None

    def refreshed() -> tuple[str, bool, float]:
        ticks = itertools.count()

        def work(moment: Any) -> str:
            # Whatever is done takes one second.
            refresh = Refresh(moment, entry, build_query(instance, entry), path, timer=lambda: float(next(ticks)))
            refresh.run()
            return refresh.way

        way = run_at_instant(instance, entry, None, open_derived_entry, work)
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            found = read_state(snapshot)
        assert found is not None
        return way, found.kept, round(found.spent, 2)

    with patch.multiple(VIEW_LIMITS, keep_rows_max_records=10, catch_up_cost_factor=3, keep_rows_cost_factor=2):
        assert refreshed() == ("computed", False, 0)
        found = []
        for number in range(5):
            lab.publish("orders", message(id=0, client="c0", qty=number + 1))
            if number == 3:
                assert " 2.7 s " in str(plan_refresh(instance, entry).why)
            found.append(refreshed())
        # One of 30 records changed each time, which costs a tenth of computing everything.
        assert found == [
            ("computed", False, 0.9),
            ("computed", False, 1.8),
            ("computed", False, 2.7),
            ("computed", True, 0),
            ("caught up", True, 0),
        ]

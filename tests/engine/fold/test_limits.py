"""Flush limits of a memtable: bounds on held values and on pages changed by one transaction; in place, or by runs."""

from __future__ import annotations

import math
from math import exp

from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.limits import (
    MEMTABLE_LIMITS,
    STORE_PAGE_BYTES,
    are_runs_small,
    compute_column_limits,
    compute_in_place_limits,
    compute_run_limits,
    count_runs_to_compact,
    needs_merge,
    needs_runs,
)


@given(st.integers(0, 1 << 40))
def test_a_transaction_changes_no_more_pages_than_allowed(file_bytes: int) -> None:
    limit, held = compute_in_place_limits(file_bytes)
    pages = file_bytes / STORE_PAGE_BYTES
    assert 0 < limit <= MEMTABLE_LIMITS.changes
    assert (
        0
        < held
        <= (MEMTABLE_LIMITS.first_bytes if file_bytes <= MEMTABLE_LIMITS.empty_bytes else MEMTABLE_LIMITS.bytes)
    )
    # including the pages of new records, which are filled to two thirds
    assert min(file_bytes, MEMTABLE_LIMITS.dirty_bytes) + held * 1.5 <= MEMTABLE_LIMITS.changed_bytes
    changed = pages * (1 - exp(-limit / pages)) * STORE_PAGE_BYTES if pages else 0
    assert changed <= MEMTABLE_LIMITS.dirty_bytes * 1.01 if pages else limit == MEMTABLE_LIMITS.changes


def test_a_large_store_is_changed_in_smaller_steps() -> None:
    assert compute_in_place_limits(0) == (MEMTABLE_LIMITS.changes, MEMTABLE_LIMITS.first_bytes)
    assert compute_in_place_limits(MEMTABLE_LIMITS.empty_bytes + 1) == (MEMTABLE_LIMITS.changes, MEMTABLE_LIMITS.bytes)
    assert compute_in_place_limits(MEMTABLE_LIMITS.dirty_bytes) == (MEMTABLE_LIMITS.changes, 32 << 20)
    assert 25_000 < compute_in_place_limits(1 << 30)[0] < 60_000
    # runs change no page of the store, so its size sets no limit
    assert compute_run_limits() == (MEMTABLE_LIMITS.changes, MEMTABLE_LIMITS.bytes)
    assert compute_column_limits(first=False) == (MEMTABLE_LIMITS.columned_changes, MEMTABLE_LIMITS.columned_bytes)
    assert compute_column_limits(first=True) == (MEMTABLE_LIMITS.first_changes, MEMTABLE_LIMITS.first_columns)


@given(st.integers(0, 10_000_000), st.integers(1, 10_000_000))
def test_what_a_merge_rewrites_is_in_proportion_to_what_was_changed(changed: int, records: int) -> None:
    # a session switches to runs if a merge rewrites few records for each changed one
    assert needs_runs(changed, records) is (records <= MEMTABLE_LIMITS.runs_share * changed)
    assert needs_runs(changed, records, history=True) is (records <= MEMTABLE_LIMITS.history_share * changed)
    assert needs_merge(changed, records) is (changed >= MEMTABLE_LIMITS.merge_share * records)
    # a merge at the end of any session rewrites few records for each change, or few in total
    if not are_runs_small(changed, records):
        assert records <= MEMTABLE_LIMITS.runs_share * changed or changed + records <= MEMTABLE_LIMITS.small_records


@given(flushed=st.lists(st.integers(200_000, 340_000), max_size=300))
def test_runs_of_one_size_become_one(flushed: list[int]) -> None:
    sizes: list[int] = []
    written = 0
    for size in flushed:
        sizes.append(size)
        while count := count_runs_to_compact(sizes):
            assert count >= MEMTABLE_LIMITS.fan
            written += sum(sizes[-count:])
            sizes[-count:] = [sum(sizes[-count:])]
        # There are few runs after any number of flushes: fewer than eight of each size.
        assert len(sizes) <= (MEMTABLE_LIMITS.fan - 1) * (1 + math.log(max(sum(sizes) / 200_000, 1), 4))
    assert sum(sizes) == sum(flushed)
    # Each change is written once for each run size.
    assert written <= sum(flushed) * (1 + math.log(max(len(flushed), 1), MEMTABLE_LIMITS.fan))


def test_few_runs_or_runs_of_other_sizes_stay() -> None:
    assert count_runs_to_compact([]) == count_runs_to_compact([5] * 7) == count_runs_to_compact([99, *[5] * 7]) == 0
    assert count_runs_to_compact([99, *[5] * 8]) == 8
    # A small run among them does not end the sequence.
    assert count_runs_to_compact([5, 5, 5, 5, 1, 5, 5, 5]) == 8

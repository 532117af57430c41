"""When an overlay is applied: bounds on values held and on pages that one transaction changes."""

from __future__ import annotations

from math import exp

from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.writing.topicwriter import (
    APPLY_BYTES,
    APPLY_CHANGES,
    CHANGED_BYTES,
    DIRTY_BYTES,
    EMPTY_BYTES,
    FIRST_BYTES,
    PAGE,
    apply_limits,
)


@given(st.integers(0, 1 << 40))
def test_a_transaction_changes_no_more_pages_than_allowed(file_bytes: int) -> None:
    limit, held = apply_limits(file_bytes)
    pages = file_bytes / PAGE
    assert 0 < limit <= APPLY_CHANGES
    assert 0 < held <= (FIRST_BYTES if file_bytes <= EMPTY_BYTES else APPLY_BYTES)
    # with what new records add, on pages that are filled to two thirds
    assert min(file_bytes, DIRTY_BYTES) + held * 1.5 <= CHANGED_BYTES
    assert pages * (1 - exp(-limit / pages)) * PAGE <= DIRTY_BYTES * 1.01 if pages else limit == APPLY_CHANGES


def test_a_large_store_is_changed_in_smaller_steps() -> None:
    assert apply_limits(0) == (APPLY_CHANGES, FIRST_BYTES)
    assert apply_limits(EMPTY_BYTES + 1) == (APPLY_CHANGES, APPLY_BYTES)
    assert apply_limits(DIRTY_BYTES) == (APPLY_CHANGES, 32 << 20)
    assert 25_000 < apply_limits(1 << 30)[0] < 60_000

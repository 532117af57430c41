"""When an overlay is applied: bounds on values held and on pages that one transaction changes."""

from __future__ import annotations

from math import exp

from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.writer import APPLY_CHANGES, DIRTY_BYTES, PAGE, apply_limit


@given(st.integers(0, 1 << 40))
def test_a_transaction_changes_no_more_pages_than_allowed(file_bytes: int) -> None:
    limit = apply_limit(file_bytes)
    pages = file_bytes / PAGE
    assert 0 < limit <= APPLY_CHANGES
    assert pages * (1 - exp(-limit / pages)) * PAGE <= DIRTY_BYTES * 1.01 if pages else limit == APPLY_CHANGES


def test_a_large_store_is_changed_in_smaller_steps() -> None:
    assert apply_limit(DIRTY_BYTES) == APPLY_CHANGES
    assert 25_000 < apply_limit(1 << 30) < 60_000

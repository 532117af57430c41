"""Sums of columns by group are exact, whatever the numbers and however many."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.expressions.aggregates.accumulator import GroupSums
from sowctl.expressions.aggregates.sums import DOUBLE_SCALE_BITS, Average, Sum
from sowctl.expressions.columns.limits import COLUMN_LIMITS
from sowctl.expressions.columns.sums import compute_exact_sums, compute_sums
from sowctl.values.column import build_column

BELOW = st.floats(-(2.0**900), 2.0**900) | st.sampled_from([5e-324, -5e-324, 2.0**-1022, 0.1, -0.1, 2.0**900])


@given(st.lists(st.tuples(st.integers(0, 2), BELOW), max_size=30), st.sampled_from([1, 7, 1 << 15]))
def test_doubles_are_added_without_rounding(pairs: list[tuple[int, float]], block: int) -> None:
    data, codes = np.array([one for _, one in pairs]), np.array([code for code, _ in pairs], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COLUMN_LIMITS, "sum_block_messages", block)
        found = compute_exact_sums(data, codes, 3)
    expected = [sum((Fraction(one) for code, one in pairs if code == group), Fraction(0)) for group in range(3)]
    assert [Fraction(one, 1 << DOUBLE_SCALE_BITS) for one in found] == expected


def _state(state: Sum, sums: GroupSums) -> Sum:
    state.add_sums(*sums)
    return state


def test_many_doubles_are_added_as_fsum_adds_them() -> None:
    source = random.Random(3)
    data = [source.choice([1, -1]) * source.random() * 10.0 ** source.randint(-12, 12) for _ in range(100_000)]
    codes = np.array([source.randrange(5) for _ in data], np.uint8)
    found = [_state(Sum(), one) for one in compute_sums(build_column(data), codes, 5, squares=False) or []]
    assert [one.compute_result() for one in found] == [
        math.fsum(value for value, code in zip(data, codes.tolist(), strict=True) if code == group)
        for group in range(5)
    ]
    assert found[0].size == np.count_nonzero(codes == 0)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**64 - 1, 2**53 + 1, -1])
def test_integers_are_added_beyond_64_bits(value: int) -> None:
    data = [value, value, value] * 1000 + [1]
    (sums,) = compute_sums(build_column(data), np.zeros(len(data), np.uint8), 1, squares=False) or []
    found = _state(Average(), sums)
    assert found.compute_result() == sum(data) / len(data)
    assert found.size == len(data)


@pytest.mark.parametrize("data", [[1.7e308, 1.7e308], [2**63, -1], ["a", 1]])
def test_what_cannot_be_cut_is_left_to_lists(data: list[float]) -> None:
    assert compute_sums(build_column(data), np.zeros(len(data), np.uint8), 1, squares=False) is None


@pytest.mark.parametrize("data", [[1e-200, 1.0], [1e200], [2**32]])
def test_squares_that_do_not_fit_are_left_to_lists(data: list[float]) -> None:
    column, codes = build_column(data), np.zeros(len(data), np.uint8)
    assert compute_sums(column, codes, 1, squares=True) is None
    assert compute_sums(column, codes, 1, squares=False) is not None

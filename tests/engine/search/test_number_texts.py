"""Numbers between two bounds are recognised by the beginning of their text."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowctl.engine.search.prefilter import build_bounds_regex
from sowctl.expressions.rewrites.intervals import NumberBounds

BOUND = st.none() | st.integers(-2000, 2000) | st.floats(-2000, 2000) | st.sampled_from([1e14, 1e16, math.inf])
TEXT = st.one_of(
    st.integers(-3000, 3000).map(str),
    st.floats(-3000, 3000).map(repr),
    st.tuples(st.integers(-3000, 3000), st.integers(0, 10**25)).map("{0[0]}.{0[1]}".format),
    st.tuples(st.integers(-3000, 3000), st.integers(10**20 - 3, 10**20 - 1)).map("{0[0]}.{0[1]}".format),
    st.tuples(st.integers(-30, 30), st.integers(-9, 9)).map("{0[0]}e{0[1]}".format),
    st.integers(-(10**30), 10**30).map(str),
)


def lies(number: float, bounds: NumberBounds) -> bool:
    low, high, open_low, open_high = bounds
    if low is not None and (number < low or (open_low and number == low)):
        return False
    return high is None or not (number > high or (open_high and number == high))


BOUNDS = st.builds(NumberBounds, BOUND, BOUND, st.booleans(), st.booleans()) | BOUND.map(
    lambda one: NumberBounds(one, one)
)


@given(TEXT, BOUNDS)
@example("999999999999998.9375", NumberBounds(10**15 - 1, 10**15 - 1))
@example("999999999999998.93750000000000000000001", NumberBounds(10**15 - 1, 10**15 - 1))
@example("0.99999999999999999999", NumberBounds(1, 1))
@example("12.500000000000000000001", NumberBounds(12.5, 12.5))
@example("0.99999999999999999999", NumberBounds(low=1))
@example("-0", NumberBounds(0, 0))
def test_no_number_between_the_bounds_is_missed(text: str, bounds: NumberBounds) -> None:
    pattern = build_bounds_regex(bounds)
    if pattern is not None and lies(json.loads(text), bounds):
        assert re.match(b"(?:%b)" % pattern, text.encode())


@pytest.mark.parametrize(
    ("bounds", "kept", "passed"),
    [
        (NumberBounds(low=90, open_low=True), "90 90.5 99 100 1e9 9e-9 1.5E3 4711", "-95 -1e9 0 9 89.9 10 89"),
        (NumberBounds(low=12500), "12499.9 12500 99999 100000", "11999 2499 9 -20000"),
        (NumberBounds(high=5, open_high=True), "-7 0 4.9 0.1", "5 5.0 10 45"),
        (NumberBounds(high=1234), "-7 0 4.9 999 1234 1234.5 1299", "1300 2000 12340"),
        (NumberBounds(high=0, open_high=True), "-7 -0.1", "0 0.5 17"),
        (NumberBounds(10, 20), "10 9.9 15.5 20", "8 21 100 1 -15"),
        (NumberBounds(42, 42), "42 42.0 41.99 4.2e1", "39 43 420 4 -42 41 41.89 -41.9"),
        (NumberBounds(1, 1), "1 1.0 0.9999", "0 0.89 10 -1 2"),
        (NumberBounds(12.5, 12.5), "12.5 12.50", "11.9 13 125 1 -12.5"),
    ],
)
def test_most_others_are_told_apart(bounds: NumberBounds, kept: str, passed: str) -> None:
    pattern = build_bounds_regex(bounds)
    assert pattern is not None
    for texts, wanted in ((kept, True), (passed, False)):
        assert {text: bool(re.match(b"(?:%b)" % pattern, text.encode())) for text in texts.split()} == dict.fromkeys(
            texts.split(), wanted
        )


@pytest.mark.parametrize(
    "bounds",
    [NumberBounds(), NumberBounds(low=0), NumberBounds(low=-5), NumberBounds(low=1e300), NumberBounds(high=math.inf)],
)
def test_nothing_is_told(bounds: NumberBounds) -> None:
    assert build_bounds_regex(bounds) is None

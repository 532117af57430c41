"""What a sorted index may answer, and that it answers as the condition itself does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.expressions.compiler import compile_filter
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment
from sowctl.expressions.rewrites.intervals import NumberBounds, find_number_bounds, find_sole_field, list_equal_strings
from sowctl.expressions.syntax.nodes import Node
from sowctl.expressions.syntax.parser import parse_filter
from sowctl.values.scalars import MAX_EXACT_INTEGER

ENV = Environment(lambda: 0)


def parsed(text: str) -> Node:
    node = parse_filter(text)
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a = 1", "/a"),
        ("/a > 1 AND NOT /a LIKE 'x'", "/a"),
        ("LENGTH(/a/b) + /a/b > 3", "/a/b"),
        ("/a = /b", None),
        ("/a[0] = /a", None),
        ("1 = 1", None),
        ("[t]./a = 1", None),
        ("/a OF PREVIOUS = 1", None),
        ("/a OF CURRENT = /a", None),
    ],
)
def test_conditions_on_one_field(text: str, path: str | None) -> None:
    field = find_sole_field(parsed(text))
    assert (None if field is None else str(field.path)) == path


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("/a = 5", NumberBounds(5, 5)),
        ("/a = '5'", NumberBounds(5, 5)),
        ("/a > -1.5", NumberBounds(low=-1.5, open_low=True)),
        ("/a >= 5", NumberBounds(low=5)),
        ("/a < 5", NumberBounds(high=5, open_high=True)),
        ("/a <= '5.5'", NumberBounds(high=5.5)),
        ("/a BETWEEN 1 AND '2'", NumberBounds(1, 2)),
        ("/a BETWEEN 2 AND 1", NumberBounds(2, 1)),
        ("/a <> 5", None),
        ("/a NOT BETWEEN 1 AND 2", None),
        ("/a BETWEEN 1 AND /b", None),
        ("/a BETWEEN 'x' AND 2", None),
        ("1 BETWEEN /a AND 2", None),
        ("/a = 'x'", None),
        ("/a = NAN", None),
        ("/a = NULL", None),
        ("/a = TRUE", None),
        ("/a = /b", None),
        ("/a + 1 = 5", None),
        ("/a IS NULL", None),
        (f"/a = {MAX_EXACT_INTEGER}", NumberBounds(MAX_EXACT_INTEGER, MAX_EXACT_INTEGER)),
        (f"/a = {MAX_EXACT_INTEGER + 1}", None),
        (f"/a < -{MAX_EXACT_INTEGER + 1}", None),
    ],
)
def test_bounds(text: str, bounds: NumberBounds | None) -> None:
    assert find_number_bounds(parsed(text)) == bounds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/a = 'x'", (b"x",)),
        ("/a IN ('x', r'y', 'x')", (b"x", b"y")),
        ("/a IN ('x', '5')", None),
        ("/a IN ('x', ' 5 ')", None),
        ("/a IN ('x', '')", None),
        ("/a IN ('x', 5)", None),
        ("/a IN ('x', /b)", None),
        ("/a NOT IN ('x')", None),
        ("/a <> 'x'", None),
        ("/a > 'x'", None),
        ("'x' IN (/a)", None),
        ("/a LIKE 'x'", None),
    ],
)
def test_strings(text: str, words: tuple[bytes, ...] | None) -> None:
    assert list_equal_strings(parsed(text)) == words


NUMBERS = st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from([2**53 + 1, 2**64 - 1, -(2**63), 1e300])


def matches(text: str, values: list[Any]) -> list[bool]:
    program = compile_filter(text, Context.QUERY_FILTER)
    found = program.find_matches([(value,) for value in values], ENV)
    return [place in found for place in range(len(values))]


@given(
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.integers(-5, 5) | st.sampled_from([MAX_EXACT_INTEGER, 0.5, -1.5]),
    st.lists(NUMBERS | st.none()),
)
def test_numbers_within_bounds_are_those_that_match(operator: str, number: int | float, values: list[Any]) -> None:
    text = f"/a {operator} {number}"
    bounds = find_number_bounds(parsed(text))
    assert bounds is not None
    assert matches(text, values) == [value is not None and within(value, bounds) for value in values]


def within(value: int | float, bounds: NumberBounds) -> bool:
    low, high, open_low, open_high = bounds
    return (low is None or value > low or (value == low and not open_low)) and (
        high is None or value < high or (value == high and not open_high)
    )


@given(st.lists(st.sampled_from(["x", "yy", "é", "X"]), min_size=1, max_size=3), st.lists(st.text(max_size=3)))
def test_listed_strings_are_those_that_match(words: list[str], values: list[str]) -> None:
    text = "/a IN (" + ", ".join(f"'{word}'" for word in words) + ")"
    listed = list_equal_strings(parsed(text))
    assert listed is not None
    values = [*values, *words]
    assert matches(text, values) == [value.encode() in listed for value in values]

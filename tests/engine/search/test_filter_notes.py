"""Filters that may have remarks are told from the others without parsing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.search.filter_notes import may_have_remarks
from sowctl.expressions.remarks import list_remarks
from tests.support.examples import examples

WORDS = "/a 'x' \"x\" = <> NULL null ( ) AND or not LIKE '%x%' '__' 2026-01-02 '2026-01-02' IN IS BETWEEN 1 - , 'a b'"


@pytest.mark.parametrize(
    "text",
    ["/symbol = 'IBM' AND /qty > 500", "/a IN ('x', 'y')", "/day > '2026-01-01'", "/a IS NULL OR /b IS NOT NULL", ""],
)
def test_usual_filters_are_not_looked_at(text: str) -> None:
    assert not may_have_remarks(text)


@given(st.lists(st.sampled_from(WORDS.split(" ")), max_size=9).map(" ".join))
@settings(max_examples=examples(500))
def test_no_remark_is_missed(text: str) -> None:
    assert may_have_remarks(text) or not list_remarks(text)

"""Filters that may have remarks are recognised without parsing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.engine.search.filter_notes import may_have_remarks
from sowctl.expressions.remarks import list_remarks
from tests.support.examples import examples

WORDS = "/a 'x' \"x\" = <> NULL null ( ) AND or not LIKE '%x%' '__' 2026-01-02 '2026-01-02' IN IS BETWEEN 1 - , 'a b'"
WORDS += " < >= 'today' '-1d'"


@pytest.mark.parametrize(
    "text",
    ["/symbol = 'IBM' AND /qty > 500", "/a IN ('x', 'y')", "/day > '2026-01-01'", "/a IS NULL OR /b IS NOT NULL", ""],
)
def test_usual_filters_are_not_looked_at(text: str) -> None:
    assert not may_have_remarks(text)


@pytest.mark.parametrize("text", ["/time >= '-1d'", "'yesterday' < /time AND /a = 1", "/time < 'NOW'"])
def test_a_relative_time_is_remarked(text: str) -> None:
    assert may_have_remarks(text)
    (remark,) = list_remarks(text)
    assert "2026-01-05T10:00:00Z" in remark.suggestion


@pytest.mark.parametrize("text", ["/day = 'today'", "/a >= '-1x'", "/state IN ('now', 'later')"])
def test_other_texts_are_no_times(text: str) -> None:
    assert list_remarks(text) == []


@given(st.lists(st.sampled_from(WORDS.split(" ")), max_size=9).map(" ".join))
@settings(max_examples=examples(500))
def test_no_remark_is_missed(text: str) -> None:
    assert may_have_remarks(text) or not list_remarks(text)

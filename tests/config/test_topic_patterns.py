"""Topic names as patterns, and the nearest word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.config.suggestions import compute_distance, find_nearest
from sowctl.config.topic_patterns import is_pattern, topic_matches
from sowctl.errors import ConfigError


@given(st.text(alphabet="ab.-/", max_size=6), st.text(alphabet="ab^$.*-/", max_size=8))
def test_easy_patterns_mean_what_pcre_means(name: str, pattern: str) -> None:
    import pcre2

    try:
        expected = pattern == name or (is_pattern(pattern) and pcre2.compile(pattern).search(name) is not None)
    except pcre2.PatternError:
        with pytest.raises(ConfigError):
            topic_matches(pattern, name)
        return
    assert topic_matches(pattern, name) == expected


@given(st.text(max_size=10))
def test_a_name_matches_itself_and_a_plain_name_nothing_else(name: str) -> None:
    assert topic_matches(name, name)
    if not is_pattern(name):
        assert not topic_matches(name, name + "x")


def test_an_unusable_pattern() -> None:
    with pytest.raises(ConfigError) as caught:
        topic_matches("a[", "a")
    assert caught.value.code == "SOW-CFG-163"


@given(st.text(alphabet="abc", max_size=6), st.text(alphabet="abc", max_size=6))
def test_distance_is_symmetric_and_zero_for_equals_only(left: str, right: str) -> None:
    assert compute_distance(left, right) == compute_distance(right, left)
    assert (compute_distance(left, right) == 0) == (left == right)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("Filename", "FileName"), ("FlieName", "FileName"), ("Granularty", "Granularity"), ("Bogus", None), ("x", None)],
)
def test_nearest(word: str, expected: str | None) -> None:
    assert find_nearest(word, ["FileName", "Granularity", "Key"]) == expected

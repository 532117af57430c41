"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import pickle
import re

import pytest

from sowctl.patterns import pattern


def test_it_is_compiled_when_it_is_first_used() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        wrong.match("(")


def test_it_has_the_methods_of_a_compiled_one() -> None:
    ours, theirs = pattern("(a)|B", re.IGNORECASE), re.compile("(a)|B", re.IGNORECASE)
    for _ in range(2):
        assert ours.findall("xAb") == theirs.findall("xAb") == ["A", ""]
    assert ours.fullmatch("A") is not None
    assert ours.sub("-", "ab") == "--"
    assert (ours.pattern, ours.flags, ours.groups) == (theirs.pattern, theirs.flags, theirs.groups)
    assert pattern(rb"\d").search(b"a1") is not None
    with pytest.raises(AttributeError):
        ours.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_it_travels() -> None:
    ours = pattern("a+")
    assert ours.match("aa") is not None
    assert pickle.loads(pickle.dumps(ours)).findall("aab") == ["aa"]

"""The proof that no member stands twice: never given where one does, and given for what messages mostly are."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.values.jsontree import parse_plain
from sowctl.values.unique_members import (
    CountedNames,
    count_marks,
    count_members,
    count_occurrences,
    has_all_members,
    has_unique_members,
    is_countable,
)
from tests.support.examples import examples
from tests.support.jsontexts import TEXTS


def count_pairs(text: bytes) -> tuple[int, bool]:
    """How many members a text has, and whether some object has one twice; by the standard library."""
    sizes: list[tuple[int, int]] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        sizes.append((len(pairs), len(dict(pairs))))

    json.loads(text, object_pairs_hook=note, parse_int=str, parse_float=str)
    return sum(size for size, _ in sizes), any(size != distinct for size, distinct in sizes)


@given(st.lists(TEXTS, min_size=1, max_size=4))
@settings(max_examples=examples(400), deadline=None)
def test_no_member_that_stands_twice_is_missed(texts: list[bytes]) -> None:
    for text in texts:
        members, twice = count_pairs(text)
        assert count_marks(text) >= members
        assert not (twice and has_unique_members(text))
    try:
        trees = list(map(msgspec.json.decode, texts))
    except ValueError:
        return
    counts = [count_pairs(text) for text in texts]
    for joined in (b"".join(texts), b"\n".join(texts)):
        assert not (any(twice for _, twice in counts) and has_all_members(joined, trees))
    assert count_members(trees) <= sum(members for members, _ in counts)


@pytest.mark.parametrize(
    ("text", "unique"),
    [
        (b'{"a":1,"b":{"a":1}}', True),
        (b'{"a" : 1,\t"b"\n: [{"a" :1},{"a":2}]}', True),
        (b'{"a":"x :y","b":"{\\"a\\": 1}"}', True),
        (b"[1,2]", True),
        (b'{"a":1,"a":1}', False),
        (b'{"a":1,"a" :1}', False),
        (b'{"a":1,"\\u0061":1}', False),
        (b'{"a":{"b":[{"c":1,"c":2}]}}', False),
        (b'{"\\\\":1,"\\\\":2}', False),
        (b'{"a\\"":1,"a\\"" :2}', False),
        (b"nonsense", False),
    ],
)
def test_what_is_proved(text: bytes, unique: bool) -> None:
    assert has_unique_members(text) is unique


def test_names_are_counted_where_their_bytes_tell() -> None:
    counted = CountedNames(["a", "é"])
    assert all(map(counted.may_be_escaped, (b'"\\u0061"', b'"\\u00E9"')))
    assert not any(map(counted.may_be_escaped, (b'"\\u0062"', b"a")))
    assert count_occurrences(b'{"a":1,"b":"a"}', counted.needles[0]) == 2
    assert [is_countable(name) for name in ("a", "x y", "", 'q"', "\\", "a/b", ":a", " a")] == [True] * 3 + [False] * 5


@given(TEXTS)
@settings(max_examples=examples(200), deadline=None)
def test_plain_values_are_those_of_the_standard_library_but_for_the_first_member(text: bytes) -> None:
    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    try:
        expected = json.loads(text, object_pairs_hook=first)
    except ValueError:
        # A number of thousands of digits.
        with pytest.raises(ValueError, match="digits"):
            parse_plain(text)
        return
    assert parse_plain(text) == expected

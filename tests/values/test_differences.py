"""Messages compared field by field: laws over random values, and what single cases look like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.values.differences import (
    MISSING,
    FieldChange,
    apply_changes,
    compare_trees,
    compare_views,
    format_path,
    is_same,
    iterate_leaves,
    parse_view,
)
from sowctl.values.jsontree import NumberText, convert_numbers
from sowctl.values.paths import parse_path
from tests.support.messagetypes import SAMPLES, Sample

_NAMES = st.sampled_from(["a", "b", "c", "odd name", "a/b", "", "\ud800", "]"])
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(["", "1", "x", "true"]),
    st.sampled_from(["1", "1.0", "2"]).map(NumberText),
)
TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(_NAMES, inner, max_size=3),
        # Arrays of objects, which are compared item by item.
        st.lists(st.dictionaries(_NAMES, inner, min_size=1, max_size=2), min_size=1, max_size=3),
    ),
    max_leaves=12,
)


def as_json(value: Any) -> bytes:
    """JSON text with the numbers' own texts."""
    if isinstance(value, NumberText):
        return str(value).encode()
    if isinstance(value, dict):
        return b"{" + b",".join(json.dumps(n).encode() + b":" + as_json(v) for n, v in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(as_json, value)) + b"]"
    return json.dumps(value).encode()


@given(TREES, TREES)
def test_what_differs_makes_one_message_into_the_other(before: Any, after: Any) -> None:
    found = compare_trees(before, after)
    assert is_same(apply_changes(found, before), after)
    assert bool(found) != is_same(before, after)
    # Backwards, too: nothing of what was there before is forgotten.
    back = [FieldChange(change.path, change.after, change.before) for change in found]
    assert is_same(apply_changes(back, after), before)


@given(TREES)
def test_a_message_does_not_differ_from_itself(tree: Any) -> None:
    assert compare_trees(tree, tree) == []
    assert compare_views(as_json(tree), as_json(tree)) == []
    # Written in another order, with white space, it has the same fields.
    turned = dict(reversed(tree.items())) if isinstance(tree, dict) else tree
    assert compare_views(as_json(tree), as_json(turned).replace(b"{", b"{ ")) == []


@given(TREES, TREES)
def test_reading_only_members_that_differ_finds_the_same(before: Any, after: Any) -> None:
    assert compare_views(as_json(before), as_json(after)) == compare_trees(before, after)


@given(TREES, TREES)
def test_each_difference_is_below_no_other_one(before: Any, after: Any) -> None:
    paths = [change.path for change in compare_trees(before, after)]
    assert len(set(paths)) == len(paths)
    assert not any(one != other and other[: len(one)] == one for one in paths for other in paths)


@given(TREES)
def test_leaves_are_all_of_a_message(tree: Any) -> None:
    found = list(iterate_leaves(tree))
    assert len({path for path, _ in found}) == len(found)
    for path, value in found:
        at = tree
        for part in path:
            at = at[part]
        assert at is value
        assert not (isinstance(value, dict) and value)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('{"a":1}', '{"a":2}', [("/a", "1", "2")]),
        ('{"a":1}', '{"a":1.0}', [("/a", "1", "1.0")]),
        ('{"a":1}', '{"a":"1"}', [("/a", "1", "1")]),
        ('{"a":true}', '{"a":1}', [("/a", True, "1")]),
        ('{"a":null}', "{}", [("/a", None, MISSING)]),
        (
            '{"a":{"b":1,"c":2}}',
            '{"a":{"c":3,"d":4}}',
            [("/a/b", "1", MISSING), ("/a/c", "2", "3"), ("/a/d", MISSING, "4")],
        ),
        ('{"a":[1,2]}', '{"a":[1,3]}', [("/a", ["1", "2"], ["1", "3"])]),
        (
            '{"l":[{"q":1},{"q":2}]}',
            '{"l":[{"q":1},{"q":3},{"q":4}]}',
            [("/l[1]/q", "2", "3"), ("/l[2]", MISSING, {"q": "4"})],
        ),
        ('{"l":[{"q":1},{"q":2}]}', '{"l":[{"q":1}]}', [("/l[1]", {"q": "2"}, MISSING)]),
        ('{"l":[{"q":1}]}', '{"l":[]}', [("/l", [{"q": "1"}], [])]),
        ('{"a":1,"a":2}', '{"a":1}', []),
        ('"x"', '"y"', [("/", "x", "y")]),
        ("no JSON", '{"a":1}', [("/", "no JSON", {"a": "1"})]),
    ],
)
def test_cases(before: str, after: str, expected: list[tuple[str, Any, Any]]) -> None:
    found = compare_views(before.encode(), after.encode())
    assert [(format_path(change.path), change.before, change.after) for change in found] == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("1", "1.0", True), ("1e2", "100", True), ("1", "2", False), ("-0", "0", True), ('"1"', '"1.0"', False)],
)
def test_loose_takes_numbers_of_one_value_for_the_same(one: str, other: str, same: bool) -> None:
    before, after = f'{{"a":[{one}]}}'.encode(), f'{{"a":[{other}]}}'.encode()
    assert compare_views(before, after)
    assert (compare_views(before, after, loose=True) == []) is same


def test_paths_are_those_of_the_language_where_it_can_write_them() -> None:
    assert format_path(("a", "b")) == "/a/b"
    assert format_path(("legs", 1, "qty")) == "/legs[1]/qty"
    assert format_path(("odd name", 2)) == "[/odd name][2]"
    for path in (("a", "b"), ("legs", 1, "qty"), ("odd name", 2)):
        steps = parse_path(format_path(path)).steps
        assert tuple(part for step in steps for part in (step.name, step.index) if part is not None) == path
    # Names with slashes have no identifier; two such paths still have two texts.
    assert len({format_path(path) for path in [("a/b",), ("a", "b"), ("",), ("a", "")]}) == 4
    assert format_path(("legs", 0, "odd name", 1, "x")) == '/"legs"[0]/"odd name"[1]/"x"'


def test_a_view_that_is_no_json_is_its_own_text() -> None:
    assert parse_view(b"\xff{") == "\udcff{"


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one.type().mergeable], ids=str)
def test_messages_of_each_type_differ_at_the_paths_that_expressions_use(sample: Sample) -> None:
    kind = sample.type()
    before, after = kind.members_view(sample.message), kind.members_view(kind.merge_delta(sample.message, sample.delta))
    found = compare_views(before, after)
    assert is_same(apply_changes(found, parse_view(before)), parse_view(after))
    # The delta changes n and brings z.
    assert [format_path(change.path) for change in found] == [str(sample.at("n")), str(sample.at("z"))]


def test_plain_values_are_those_of_json() -> None:
    text = '{"a":[1,-2,1.5,1e3,"7",null,true],"b":{"c":12345678901234567890}}'
    assert convert_numbers(parse_view(text.encode())) == json.loads(text)

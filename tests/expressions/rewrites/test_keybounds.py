"""Key bounds: what is found, and that no matching record is ever outside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.expressions.compiler import compile_filter
from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.rewrites.keybounds import KeyBound, find_key_bound
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.parser import parse_filter
from sowctl.values.fields import ValueList
from sowctl.values.paths import parse_path
from sowctl.values.scalars import to_text
from tests.expressions.columns.test_columns import own_rows
from tests.expressions.valid import ANY, EXPRESSIONS, LISTS, PATHS
from tests.support.examples import examples

ENV = Environment(lambda: 0)
MOST = 10_000
A, B = parse_path("/a"), parse_path("/b")


def bound(text: str, *paths: str, single: bool = True, generated: bool = True) -> KeyBound:
    keys = [parse_path(path) for path in paths or ("/a",)]
    return find_key_bound(parse_filter(text), keys, most=MOST, single_valued=single, generated_keys=generated)


POINTS = [
    ("/a = 'x'", {b"x"}),
    ("'x' = /a", {b"x"}),
    ("/a IN ('x', 'y')", {b"x", b"y"}),
    ("/a = 'x' OR /a = 'y'", {b"x", b"y"}),
    ("/a = 'x' AND /b > 5", {b"x"}),
    ("(/a = 'x' OR /a IN ('y', 'z')) AND /a IN ('y', 'x')", {b"x", b"y"}),
    ("/a = 'x' AND (/b = 1 OR /c = 2)", {b"x"}),
    ("/a = '0x5'", {b"0x5"}),
    ("/a = 'x' OR (/a = 'y' AND 1 = 2)", {b"x"}),
    ("/a IN ('x', NULL, NAN)", {b"x"}),
    ("NOT (/a <> 'x' OR /b) AND /a = 'q'", {b"q"}),
    ("/a = CONCAT('x', 'y')", {b"xy"}),
]
OPEN = [
    "",
    "/a = 5",
    "/a = '5'",
    "/a = ' 5.0 '",
    "/a IN ('x', 5)",
    "/a = TRUE",
    "/a <> 'x'",
    "NOT /a = 'x'",
    "/a > 'x'",
    "/a LIKE '^x$'",
    "/a NOT IN ('x')",
    "/a = /b",
    "/a = 'x' OR /b = 'y'",
    "/a = 'x' OR TRUE",
    "/b = 'x'",
    "/a[0] = 'x'",
    "UPPER(/a) = 'X'",
    "/a BEGINS WITH 'x'",
    "/a",
]
NOTHING = ["/a = NULL", "/a IN ('', NAN)", "/a = 'x' AND /a = 'y'", "1 = 2", "/b = 1 AND NULL", "NAN", "/a = '' OR 0"]


@pytest.mark.parametrize(("text", "texts"), POINTS)
def test_points_and_sets(text: str, texts: set[bytes]) -> None:
    assert bound(text) == KeyBound(keys=tuple((one,) for one in sorted(texts)))


@pytest.mark.parametrize("text", OPEN)
def test_nothing_known(text: str) -> None:
    assert bound(text).is_open


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_can_match(text: str) -> None:
    assert bound(text) == KeyBound(nothing=True)


def test_several_values_at_a_path_leave_it_open() -> None:
    assert bound("/a = 'x'", single=False).is_open
    assert bound("/a[0] = 'x'", "/a[0]", single=False).keys == ((b"x",),)


def test_composite_keys_need_all_their_fields() -> None:
    assert bound("/a = 'x'", "/a", "/b").is_open
    found = bound("/b IN ('1a', '2b') AND /a = 'x'", "/a", "/b")
    assert found.keys == ((b"x", b"1a"), (b"x", b"2b"))
    many = ", ".join(f"'v{number}'" for number in range(200))
    assert bound(f"/a IN ({many}) AND /b IN ({many})", "/a", "/b").is_open
    assert MOST < 200 * 200


def test_sow_keys() -> None:
    assert bound("SOW_KEY() = '17'").sow_keys == frozenset({"17"})
    assert bound("SOW_KEY() IN ('17', '18') AND /b = 1").sow_keys == frozenset({"17", "18"})
    assert bound("SOW_KEY() = 17").sow_keys == frozenset({"17"})
    assert bound("SOW_KEY() = 17.0").sow_keys == frozenset({"17"})
    assert bound("SOW_KEY() IN (17.5, -1, 1e300)").nothing
    assert bound("SOW_KEY() = 17", generated=False).is_open
    assert bound("SOW_KEY() = '17'", generated=False).sow_keys == frozenset({"17"})
    assert bound("SOW_KEY() = '\\xff'").nothing
    both = bound("SOW_KEY() = '17' AND /a = 'x'")
    assert (both.sow_keys, both.keys) == (frozenset({"17"}), ((b"x",),))
    assert bound("SOW_KEY() = '17' OR /a = 'x'").is_open


LITERALS = st.sampled_from(
    [b"x", b"y", b"5", b" 5", b"5.0", b"\xff", 5, 5.0, 0, True, None, 2**53, b"9007199254740993"]
)
CONDITIONS = st.one_of(
    st.builds(
        n.Compare,
        st.sampled_from(["=", "=", "<>"]),
        st.sampled_from([n.Field(A, (), None, 0), n.Field(B, (), None, 0), n.Call("SOW_KEY", ())]),
        LITERALS.map(n.Literal),
    ),
    st.builds(
        n.In,
        st.sampled_from([n.Field(A, (), None, 0), n.Field(B, (), None, 0), n.Call("SOW_KEY", ())]),
        st.lists(LITERALS.map(n.Literal), min_size=1, max_size=3).map(tuple),
        st.booleans(),
    ),
    EXPRESSIONS,
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda below: (
        st.builds(n.Logic, st.sampled_from(["AND", "OR"]), st.lists(below, min_size=2, max_size=3).map(tuple))
        | st.builds(n.Not, below)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(["x", "y", b"x", 5, 5.0, "5", " 5", b"\xff", None, True, 2**53, "9007199254740993", 0])
SOW = st.sampled_from(["5", "17", "0", "1", "9007199254740993"])


@given(FILTERS, st.lists(st.tuples(KEYS, KEYS, ANY, ANY, SOW), max_size=8), st.booleans())
@settings(max_examples=examples(400), deadline=None)
def test_every_match_is_a_candidate(node: n.Node, records: list[tuple[Any, ...]], generated: bool) -> None:
    check(node, records, [A, B], single_valued=True, generated=generated)
    check(node, records, [A], single_valued=True, generated=generated)


@given(FILTERS, st.lists(st.tuples(KEYS | LISTS, KEYS | LISTS, ANY, ANY, SOW), max_size=8))
@settings(max_examples=examples(200), deadline=None)
def test_every_match_is_a_candidate_with_lists_too(node: n.Node, records: list[tuple[Any, ...]]) -> None:
    check(node, records, [A], single_valued=False, generated=True)


def check(
    node: n.Node, records: list[tuple[Any, ...]], keys: list[Any], *, single_valued: bool, generated: bool
) -> None:
    wanted = compile_filter(str(node))
    rows = own_rows(wanted, [record[: len(PATHS)] for record in records])
    headers = [Header(sow_key=record[-1]) for record in records]
    found = find_key_bound(wanted.node, keys, most=MOST, single_valued=single_valued, generated_keys=generated)
    matches = wanted.find_matches(rows, ENV, headers)
    assert not (found.nothing and matches)
    for index in matches:
        record = records[index]
        texts = tuple(to_text(first_of(record[PATHS.index(path)])) for path in keys)
        assert found.keys is None or texts in found.keys
        assert found.sow_keys is None or record[-1] in found.sow_keys


def first_of(value: Any) -> Any:
    return (value.items[0] if value.items else None) if isinstance(value, ValueList) else value

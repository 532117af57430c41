"""Sort keys: a total order, reversed exactly by DESC, plain enough to pickle."""

from __future__ import annotations

import math
import pickle

from hypothesis import given
from hypothesis import strategies as st

from sowctl.expressions.syntax.actions import OrderKey
from sowctl.values.fields import Number, SlotValue, ValueList
from sowctl.values.order import (
    build_component,
    find_at_or_before,
    has_numbers,
    is_numeric,
    reverse_component,
    reverse_components,
)
from sowctl.values.paths import parse_path
from tests.support.orders import sort_key

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.sampled_from(
        ["10", "9", " 5", Number(5.0, b"5.0"), ValueList((1, 2)), ValueList((), True), b"\x00", b"\xff", b"\xff\x00"]
    )
)
ASCENDING = OrderKey(parse_path("/a"))
DESCENDING = OrderKey(parse_path("/a"), descending=True)
TEXT = OrderKey(parse_path("/a"), text=True)


@given(st.lists(VALUES, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_descending_is_the_exact_reverse(column: list[object], mixed: bool, text: bool) -> None:
    up = [build_component(value, mixed, text) for value in column]  # type: ignore[arg-type]
    down = [reverse_component(part) for part in up]
    assert reverse_components(up) == down
    for a, x in zip(up, down, strict=True):
        for b, y in zip(up, down, strict=True):
            assert (a < b) == (x > y)
            assert (a == b) == (x == y)


@given(VALUES, VALUES, VALUES, st.booleans())
def test_the_order_is_total_and_transitive(a: object, b: object, c: object, mixed: bool) -> None:
    x, y, z = (build_component(value, mixed) for value in (a, b, c))  # type: ignore[arg-type]
    assert (x < y) + (x == y) + (x > y) == 1
    if x <= y and y <= z:
        assert x <= z


@given(st.lists(VALUES, max_size=5))
def test_keys_survive_pickling(column: list[object]) -> None:
    keys = [sort_key([value], [DESCENDING], [True]) for value in column]  # type: ignore[list-item]
    assert pickle.loads(pickle.dumps(keys)) == keys


def ordered(column: list[object], key: OrderKey) -> list[object]:
    mixed = [has_numbers(column)]  # type: ignore[arg-type]
    return sorted(column, key=lambda value: sort_key([value], [key], mixed))  # type: ignore[list-item]


def test_groups_of_kinds() -> None:
    nan = math.nan
    column: list[object] = ["b", 10, "9", None, nan, True, "", "10.5", b"\xff", -math.inf]
    assert ordered(column, ASCENDING) == [None, "", nan, -math.inf, True, "9", 10, "10.5", "b", b"\xff"]
    assert ordered(column, DESCENDING) == [b"\xff", "b", "10.5", 10, "9", True, -math.inf, nan, None, ""]


def test_strings_alone_are_bytes() -> None:
    assert ordered(["10", "9", "é", "z", "a\x00", "a"], ASCENDING) == ["10", "9", "a", "a\x00", "z", "é"]
    assert ordered(["a", "a\x00", "a\x00\x00", "ab"], DESCENDING) == ["ab", "a\x00\x00", "a\x00", "a"]


def test_text_orders_texts() -> None:
    assert ordered([204, 72, Number(8.0, b"08"), None], TEXT) == [None, Number(8.0, b"08"), 204, 72]


def test_integers_and_doubles_compare_exactly() -> None:
    assert ordered([2**53 + 1, float(2**53), 2**64 - 1, 1.5e19], ASCENDING) == [
        float(2**53),
        2**53 + 1,
        1.5e19,
        2**64 - 1,
    ]


def test_what_counts_as_a_number() -> None:
    assert [is_numeric(v) for v in (1, 1.5, True, Number(1, b"1"), ValueList((1, "x")))] == [True] * 5
    assert [is_numeric(v) for v in (None, "1", b"1", ValueList(("x", 1)), ValueList(()))] == [False] * 5


def test_several_keys() -> None:
    rows = [(1, "b"), (1, "a"), (0, "c")]
    order = sorted(rows, key=lambda row: sort_key(row, [DESCENDING, ASCENDING], [True, False]))
    assert order == [(1, "a"), (1, "b"), (0, "c")]


@given(
    column=st.lists(st.one_of(st.integers(-3, 3), st.floats(), st.just(2**63), st.just(float(2**63)))),
    other=st.one_of(st.none(), st.just("1")),
    limit=st.one_of(st.integers(-3, 3), st.floats(), st.none(), st.text(max_size=1), st.just(2**63)),
    descending=st.booleans(),
)
def test_only_what_is_behind_the_limit_is_left_out(
    column: list[SlotValue], other: SlotValue, limit: SlotValue, descending: bool
) -> None:
    for values in (column, [*column, other]):
        keys = [build_component(value, True) for value in values]
        last = build_component(limit, True)
        if descending:
            keys, last = reverse_components(keys), reverse_component(last)
        places = find_at_or_before(values, last, False)
        assert set(range(len(values))) - set(places) <= {at for at, key in enumerate(keys) if key > last}
    if column and isinstance(limit, int):
        # Of plain numbers nothing stays but what belongs there, and NaN.
        kept = {at for at, key in enumerate(keys[: len(column)]) if key <= last or abs(key[0]) == 1}
        assert set(find_at_or_before(column, last, False)) == kept
    assert list(find_at_or_before(column, last, True)) == list(range(len(column)))

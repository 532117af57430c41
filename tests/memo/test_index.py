"""Columns: what was put in comes out, and conditions find what asking each value finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowctl.memo import rownumbers as p
from sowctl.memo.builder import MAX_DISTINCT_VALUES, IndexBuilder
from sowctl.memo.condition import Condition, Interval
from sowctl.memo.format import BadMemo, MemoFile
from sowctl.memo.index import MemoIndex, open_index
from sowctl.memo.valuecodec import decode_values, encode_values
from sowctl.values.column import Column, Kind, build_column
from sowctl.values.fields import Number, SlotValue, ValueList
from sowctl.values.scalars import to_scalar
from tests.support.examples import examples

_INTEGERS = st.one_of(st.none(), st.integers(-(2**53), 2**53), st.sampled_from([0, 2**53, -(2**53)]))
_NUMBERS = st.one_of(_INTEGERS, st.floats(allow_nan=False), st.sampled_from([0.0, -0.0, float("inf")]))
_TEXTS = st.one_of(st.none(), st.text(max_size=3))
_ITEMS = st.lists(st.one_of(st.integers(-3, 3), st.booleans(), st.text(max_size=2)))
_MIXED = st.one_of(
    _NUMBERS,
    _TEXTS,
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([2**53 + 1, 2**63, 2**64 - 1]),
    st.binary(max_size=2),
    st.builds(Number, st.integers(-9, 9), st.just(b"7")),
    st.builds(
        lambda items: ValueList(tuple(items)),
        st.lists(st.one_of(st.integers(-3, 3), st.booleans(), st.text(max_size=2))),
    ),
)


def _column(path: Path, values: Sequence[SlotValue], step: int = 3) -> MemoIndex | None:
    builder = IndexBuilder("name")
    for start in range(0, len(values), step):
        builder.add_values(values[start : start + step])
    path.write_bytes(b"".join(builder.build_parts(77)))
    return open_index(MemoFile(path))


def _same(a: SlotValue, b: SlotValue) -> bool:
    """The same value, where a String is the same as text and as bytes, and the empty one is NULL."""
    if isinstance(a, ValueList) or isinstance(b, ValueList):
        return a == b and list(map(type, a.items)) == list(map(type, b.items))  # type: ignore[union-attr]
    a, b = (x.encode() if isinstance(x, str) else x for x in (to_scalar(a), to_scalar(b)))
    # By their texts: 0.0 equals -0.0.
    return type(a) is type(b) and repr(a) == repr(b)


@pytest.mark.parametrize("kind", [_INTEGERS, _NUMBERS, _TEXTS, _MIXED], ids=["integers", "numbers", "texts", "mixed"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_values_come_out_as_they_were(
    kind: st.SearchStrategy[SlotValue], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    values = data.draw(st.lists(kind, max_size=20))
    column = _column(tmp_path_factory.mktemp("m") / "x.memo", values)
    assert column is not None
    assert (column.records, column.state) == (len(values), 77)
    for found in (column.read_values(), column.read_column().read_values()):
        assert len(found) == len(values)
        assert all(map(_same, found, values)), (found, values)
    places = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=6)) if values else []
    some = column.read_column(numpy.array(places, numpy.int64))
    assert some.size == len(places)
    assert all(map(_same, some.read_values(), [values[place] for place in places]))


@pytest.mark.parametrize("kind", [_INTEGERS, _NUMBERS, _TEXTS, _MIXED], ids=["integers", "numbers", "texts", "mixed"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_column_of_two_parts_is_that_of_one(kind: st.SearchStrategy[SlotValue], data: st.DataObject) -> None:
    # Empty Strings are NULL: of these alone either form may be made.
    some = st.one_of(st.none(), kind, _TEXTS).map(lambda value: None if value in ("", b"") else value)
    first, second = data.draw(st.lists(some, max_size=12)), data.draw(st.lists(some, max_size=12))
    whole, part, behind = (IndexBuilder("name") for _ in range(3))
    for builder, values in ((whole, first + second), (part, first), (behind, second)):
        for start in range(0, len(values), 5):
            builder.add_values(values[start : start + 5])
    part.extend(behind)
    assert b"".join(part.build_parts(77)) == b"".join(whole.build_parts(77))


def _build_coded(values: Sequence[SlotValue], order: int) -> Column:
    """A column of texts whose dictionary stands in any order, and has a text that no record has."""
    texts = {value for value in values if isinstance(value, str) and value}
    words = sorted(texts | {"unused"}, reverse=bool(order))
    codes = [words.index(value) if value else len(words) for value in values]  # type: ignore[arg-type]
    return Column(
        Kind.STRING, len(codes), numpy.array(codes, numpy.uint8), dictionary=[word.encode() for word in words]
    )


def _add(builder: IndexBuilder, values: Sequence[SlotValue], order: int) -> None:
    """Add values as a column, unless there are bytes, which are another value than their text."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {str}:
        builder.add_column(_build_coded(values, order))
    elif bytes not in kinds:
        builder.add_column(build_column(values))
    else:
        builder.add_values(values)


@pytest.mark.parametrize("kind", [_INTEGERS, _NUMBERS, _TEXTS, _MIXED], ids=["integers", "numbers", "texts", "mixed"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_columns_make_the_file_that_values_make(kind: st.SearchStrategy[SlotValue], data: st.DataObject) -> None:
    # Empty Strings are NULL, as in a column of two parts.
    some = st.one_of(st.none(), kind, kind, _TEXTS).map(lambda value: None if value in ("", b"") else value)
    parts = data.draw(st.lists(st.lists(some, min_size=1, max_size=6), max_size=5))
    by_values, by_arrays = IndexBuilder("name"), IndexBuilder("name")
    for values in parts:
        by_values.add_values(values)
        _add(by_arrays, values, data.draw(st.integers(0, 1)))
    assert b"".join(by_arrays.build_parts(77)) == b"".join(by_values.build_parts(77))


@pytest.mark.parametrize("spoiled", [0, 1])
def test_a_part_that_cannot_be_indexed_spoils_the_column(spoiled: int) -> None:
    parts = [IndexBuilder("name"), IndexBuilder("name")]
    for number, builder in enumerate(parts):
        if number == spoiled:
            builder.add_values([True, *range(MAX_DISTINCT_VALUES + 1)])
        builder.add_values(["a", True] if number == spoiled else ["a"])
    parts[0].extend(parts[1])
    unsuited = IndexBuilder("name")
    unsuited.mark_unreadable()
    unsuited.add_values([None] * (MAX_DISTINCT_VALUES + 5))
    assert b"".join(parts[0].build_parts(77)) == b"".join(unsuited.build_parts(77))


@example(values=[None, 0, -1, 2, 7, 2.5, 0.5], low=-1, high=7, opens=(True, True), nulls=False, others={0, 1})
@example(values=[None, 0, -1, 2, 7, 2.5, 0.5], low=None, high=0, opens=(False, True), nulls=False, others={0, 1})
@example(values=[None, 0, -1, 2, 7, 2.5, 0.5], low=-1, high=2.5, opens=(False, False), nulls=True, others={0, 1})
@settings(max_examples=examples(60), deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-4, 8), st.sampled_from([0.5, 2.5, float("inf")])), max_size=25),
    low=st.one_of(st.none(), st.integers(-4, 8)),
    high=st.one_of(st.none(), st.sampled_from([0, 2.5, 7])),
    opens=st.tuples(st.booleans(), st.booleans()),
    nulls=st.booleans(),
    others=st.sets(st.integers(0, 24)),
)
def test_intervals(
    values: list[SlotValue],
    low: int | None,
    high: float | None,
    opens: tuple[bool, bool],
    nulls: bool,
    others: set[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def holds(value: object) -> bool:
        if value is None:
            return nulls
        assert isinstance(value, int | float)
        above = low is None or value > low or (value == low and not opens[0])
        return above and (high is None or value < high or (value == high and not opens[1]))

    def matches(asked: Sequence[SlotValue]) -> list[int]:
        return [index for index, value in enumerate(asked) if holds(value)]

    def matches_column(asked: Column) -> Any:
        return numpy.array(matches(asked.read_values()), numpy.int64)

    column = _column(tmp_path_factory.mktemp("m") / "x.memo", values)
    assert column is not None
    expected = matches(values)
    known = [place for place in sorted(others) if place < len(values)]
    for interval, columns in ((Interval(low, high, *opens), False), (None, False), (None, True)):
        hits = column.find_hits(Condition("", matches, matches_column, interval), columns=columns)
        for lists in (True, False):
            assert p.list_ascending(hits.read_row_numbers(arrays=not lists)) == expected
            assert hits.count == len(expected)
            for some in (known, list(range(len(values)))):
                asked = some if lists else numpy.array(some, "u4")
                assert p.list_rows(hits.select_among(asked)) == [place for place in some if place in expected]


@settings(max_examples=examples(60), deadline=None)
@given(
    values=st.lists(st.sampled_from([None, "", "a", "ab", "b", "ß", "z"]), max_size=25),
    wanted=st.sets(st.sampled_from("abßxz")),
)
def test_strings(values: list[SlotValue], wanted: set[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    def matches(asked: Sequence[SlotValue]) -> list[int]:
        return [index for index, value in enumerate(asked) if value and value in wanted]

    column = _column(tmp_path_factory.mktemp("m") / "x.memo", values)
    assert column is not None
    listed = tuple(one.encode() for one in wanted)
    for strings in (listed, None):
        hits = column.find_hits(Condition("", matches, lambda _: numpy.empty(0), None, strings), columns=False)
        assert p.list_ascending(hits.read_row_numbers(arrays=False)) == matches(values)
        assert hits.count == len(matches(values))
        assert p.list_rows(hits.select_among(list(range(len(values))))) == matches(values)


@pytest.mark.parametrize("kind", [_NUMBERS, _TEXTS], ids=["numbers", "texts"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_order_is_by_value_and_place(
    kind: st.SearchStrategy[SlotValue], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def rank(value: object) -> object:
        if isinstance(value, str):
            return (1, value.encode()) if value else (0,)
        return (0,) if value is None else (1, value)

    values = data.draw(st.lists(kind, max_size=20))
    column = _column(tmp_path_factory.mktemp("m") / "x.memo", values)
    assert column is not None
    for descending in (False, True):
        groups = list(column.iterate_by_value(descending=descending))
        assert all(groups)
        expected = sorted(range(len(values)), key=lambda place: rank(values[place]), reverse=descending)
        ranks = [rank(values[group[0]]) for group in groups]
        assert ranks == sorted(ranks, reverse=descending)  # type: ignore[type-var]
        assert all(len({str(rank(values[place])) for place in group}) == 1 or kind is _NUMBERS for group in groups)
        assert [sorted(group) for group in groups] == [list(group) for group in groups]
        assert sorted(place for group in groups for place in group) == sorted(expected)


def test_what_is_not_indexed(tmp_path: Path) -> None:
    assert _column(tmp_path / "a", [float("nan"), 1.0]) is None
    many = [Number(number, b"%d" % number) for number in range(MAX_DISTINCT_VALUES + 1)]
    assert _column(tmp_path / "b", many, step=1000) is None
    assert _column(tmp_path / "c", many[:-1], step=1000) is not None
    builder = IndexBuilder("name")
    builder.add_values([1, 2])
    builder.mark_unreadable()
    (tmp_path / "d").write_bytes(b"".join(builder.build_parts(1)))
    assert open_index(MemoFile(tmp_path / "d")) is None


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.memo"
    _column(path, ["a", "b", None, "a"])
    sound = path.read_bytes()

    def read(raw: bytes) -> object:
        path.write_bytes(raw)
        column = open_index(MemoFile(path))
        return (
            None
            if column is None
            else (column.read_values(), list(column.iterate_by_value(descending=False)), column.state)
        )

    expected = read(sound)
    for at in range(len(sound)):
        raw = bytearray(sound)
        raw[at] ^= 1 << at % 8
        try:
            assert read(bytes(raw)) == expected, "only padding may differ"
        except BadMemo:
            continue
    for size in range(len(sound)):
        try:
            assert read(sound[:size]) == expected
        except BadMemo:
            continue


def test_integers_that_a_double_would_round_keep_their_value(tmp_path: Path) -> None:
    for number in (2**53 + 1, -(2**53) - 1, 2**54 + 1):
        column = _column(tmp_path / "x.memo", [1, number, 2.5])
        assert column is not None
        assert list(map(repr, column.read_values())) == ["1", repr(number), "2.5"]


def test_words_keep_kinds() -> None:
    words: list[SlotValue] = [1, 1.0, True, "x", b"\xff", Number(2.5, b"2.50"), ValueList((1, True, "x", None), True)]
    words.append(Number(7, b"007", typed=False))
    found = decode_values(encode_values(words))
    assert found == words
    assert list(map(type, found)) == list(map(type, words))
    assert isinstance(found[6], ValueList)
    assert list(map(type, found[6].items)) == [int, bool, str, type(None)]

"""Some places of columns and columns one behind the other hold the values that lists of them would."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.values.column import Column, Kind, build_column, concatenate_columns, pack_numbers, replace_places
from sowctl.values.fields import Number, SlotValue, ValueList
from sowctl.values.scalars import SHORT_TEXT_BYTES, format_double
from sowctl.values.textspans import LazyNumbers, TextSpans
from tests.support.examples import examples

EXACT = 1 << 53
"""The greatest Integer below which a Double holds each."""
INTEGERS = st.one_of(
    st.none(), st.integers(-5, 5), st.sampled_from([EXACT - 1, EXACT, EXACT + 1, -EXACT - 1, (1 << 63) - 1, -(1 << 63)])
)
LARGE = st.sampled_from([0, 7, EXACT + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
DOUBLES = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, float(EXACT)]))
ZEROS = st.sampled_from([0, -0.0, 0.0, None, 1])
TEXTS = st.one_of(st.none(), st.binary(max_size=2), st.text(max_size=2))
TRUTHS = st.one_of(st.none(), st.booleans())
LISTS = st.lists(st.one_of(TRUTHS, INTEGERS, TEXTS), max_size=2).map(lambda items: ValueList(tuple(items)))
NUMBERS = st.floats(0, 9, allow_nan=False).map(lambda value: Number(value, repr(value).encode() + b"0"))
KINDS = (st.none(), INTEGERS, LARGE, DOUBLES, ZEROS, TEXTS, TRUTHS, LISTS, NUMBERS,
         st.one_of(DOUBLES, st.integers(-9, 9)), st.one_of(DOUBLES, INTEGERS), st.one_of(TEXTS, INTEGERS))  # fmt: skip
LIKE = st.sampled_from(KINDS).flatmap(lambda kind: st.lists(kind, max_size=5))
ANY = st.one_of(LIKE, LIKE, st.lists(st.one_of(*KINDS), max_size=5))


def told(values: Sequence[SlotValue]) -> list[Any]:
    """Values so that only those of one type are equal; texts are bytes, and the empty one is NULL."""
    plain = [value.encode() if isinstance(value, str) else value for value in values]
    return [None if value in (b"", None) else (type(value), repr(value)) for value in plain]


def spelled(texts: Sequence[bytes]) -> Column:
    """A column of Doubles as they are written, as readers by shapes make it."""
    raw = b"front " + b"|".join(texts)
    ends = 6 + np.cumsum([len(text) + 1 for text in texts]) - 1
    begins = ends - np.array([len(text) for text in texts])
    data = np.array([float(text) for text in texts])
    return Column(Kind.DOUBLE, len(texts), data, source=LazyNumbers(data, TextSpans(raw, begins, ends)), texts=True)


@settings(max_examples=examples(150), deadline=None)
@given(several=st.lists(ANY, min_size=1, max_size=4), data=st.data())
def test_columns_are_like_lists(several: list[list[SlotValue]], data: st.DataObject) -> None:
    whole = [value for values in several for value in values]
    column = concatenate_columns(list(map(build_column, several)))
    assert column.size == len(whole)
    assert told(column.read_values()) == told(whole)
    if column.kind is not Kind.ROWS:
        # What kernels read is what a column of all values holds. The empty text is NULL, also in a column of its own.
        other = build_column([None if value in ("", b"") else value for value in whole])
        assert (column.kind, column.listed, column.texts) == (other.kind, other.listed, other.texts)
        assert told(column.strip_source().read_values()) == told(other.strip_source().read_values())
        if column.kind not in (Kind.NULL, Kind.STRING):
            assert np.array_equal(column.data, other.data, equal_nan=column.kind in (Kind.DOUBLE, Kind.NUMBER))
    places = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=6)) if whole else []
    some = [whole[place] for place in places]
    assert told(column.take_values(np.array(places, np.int64))) == told(some)
    assert told(column.take(np.array(places, np.int64)).read_values()) == told(some)
    assert told(column.take(slice(1, 3)).read_values()) == told(whole[1:3])


@settings(max_examples=examples(40), deadline=None)
@given(several=st.lists(st.lists(st.sampled_from([b"1.50", b"2.0", b"1e3"]), min_size=1), min_size=2, max_size=3))
def test_numbers_keep_their_texts(several: list[list[bytes]]) -> None:
    whole = [text for texts in several for text in texts]
    column = concatenate_columns(list(map(spelled, several)))
    wanted = [Number(float(text), text) for text in whole]
    assert isinstance(column.source, LazyNumbers)
    assert column.texts
    assert list(column.read_values()) == wanted
    assert column.data.tolist() == [number.value for number in wanted]
    assert column.take_values(np.array([len(whole) - 1, 0])) == [wanted[-1], wanted[0]]
    assert list(column.take(np.array([len(whole) - 1, 0])).read_values()) == [wanted[-1], wanted[0]]
    assert list(column.take(slice(1, None)).read_values()) == wanted[1:]
    # Beside others they are numbers of their own.
    mixed = concatenate_columns([column, build_column([None, b"x"])])
    assert list(mixed.read_values()) == [*wanted, None, b"x"]


SPELLED = st.lists(st.one_of(st.none(), NUMBERS, DOUBLES, INTEGERS), max_size=5)


@settings(max_examples=examples(100), deadline=None)
@given(several=st.lists(SPELLED, min_size=1, max_size=4), typed=st.booleans())
def test_packed_numbers_are_like_lists(several: list[list[SlotValue]], typed: bool) -> None:
    several = [
        [Number(value.value, value.text, typed) if isinstance(value, Number) else value for value in values]
        for values in several
    ]
    whole = [value for values in several for value in values]
    column = concatenate_columns([pack_numbers(build_column(values)) for values in several])
    assert told(column.read_values()) == told(whole)
    assert told([column.read_values()[place] for place in range(-len(whole), 0)]) == told(whole)
    other = build_column(whole)
    assert (column.kind, column.texts) == (other.kind, other.texts)
    if column.array is not None:
        assert np.array_equal(column.data, other.data, equal_nan=column.ints is not None or column.kind is Kind.DOUBLE)
        assert isinstance(column.source, LazyNumbers) == any(isinstance(value, Number) for value in whole)
        assert told(column.strip_source().read_values()) == told(other.strip_source().read_values())
    assert told(pickle.loads(pickle.dumps(column)).read_values()) == told(whole)
    assert told(column.take(slice(1, None)).read_values()) == told(whole[1:])


def test_a_few_numbers_in_a_file_take_their_own_texts_along_alone() -> None:
    column = spelled([b"1.50", b"2.0", *[b"3.25"] * 5000])
    some = column.take(np.array([1, 0, 1]))
    written = pickle.dumps(some)
    assert len(written) < 1500
    read = pickle.loads(written)
    assert list(read.read_values()) == [Number(2.0, b"2.0"), Number(1.5, b"1.50"), Number(2.0, b"2.0")]
    assert list(pickle.loads(pickle.dumps(column.take(slice(0, 0)))).read_values()) == []


@pytest.mark.parametrize("texts", [0, 1, 16_383, 16_384, 16_385, 40_000])
def test_packed_texts_are_the_same_ones(texts: int) -> None:
    begins = np.sort(np.random.default_rng(texts).integers(0, 90_000, texts))
    ends = np.minimum(begins + np.arange(texts) % 7, 90_000)
    spans = TextSpans(np.random.default_rng(1).bytes(90_000), begins, ends)
    packed = spans.pack()
    assert list(packed) == list(spans)
    assert len(packed.raw) == sum(map(len, spans))


@settings(max_examples=examples(200), deadline=None)
@given(pair=st.one_of(st.sampled_from(KINDS).map(lambda kind: (kind, kind)), st.tuples(*[st.sampled_from(KINDS)] * 2)),
       data=st.data())  # fmt: skip
def test_replaced_places_are_like_those_of_lists(pair: tuple[st.SearchStrategy[Any], ...], data: st.DataObject) -> None:
    values = data.draw(st.lists(pair[0], min_size=1, max_size=6))
    places = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, unique=True).map(sorted))
    fresh = data.draw(st.lists(pair[1], min_size=len(places), max_size=len(places)))
    column = build_column(values)
    before = told(column.read_values())
    found = replace_places(column, np.array(places), build_column(fresh))
    wanted = list(values)
    for place, value in zip(places, fresh, strict=True):
        wanted[place] = value
    assert told(found.read_values()) == told(wanted)
    other = build_column(wanted)
    if found.kind is other.kind and found.kind is not Kind.ROWS:
        assert (found.nulls is None) == (other.nulls is None)
        assert found.nulls is None or np.array_equal(found.nulls, other.nulls)
    assert told(column.read_values()) == before


FRACTIONS = st.one_of(
    st.from_regex(rb"-?(0|[1-9][0-9]{0,3}|[0-9]{0,3})[.]?[0-9]{0,5}([eE]-?[0-9])?", fullmatch=True).filter(
        lambda text: any(b"0"[0] <= byte <= b"9"[0] for byte in text.partition(b"e")[0].partition(b"E")[0])
    ),
    st.floats(0.0001, 1e5).map(lambda value: repr(value).encode()),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: repr(value).encode()),
    st.decimals(-999, 999, places=2, allow_nan=False).map(lambda value: str(value).encode()),
)


@settings(max_examples=examples(300), deadline=None)
@given(texts=st.lists(FRACTIONS, min_size=1, max_size=3))
def test_canonical_texts_of_doubles_are_told_together(texts: list[bytes]) -> None:
    source = spelled(texts).source
    assert isinstance(source, LazyNumbers)
    plain = all(b"e" not in text and len(text) <= SHORT_TEXT_BYTES for text in texts)
    wanted = [format_double(value).encode() for value in source.data.tolist()] == texts
    assert source.has_canonical_texts() == (plain and wanted)


def test_places_without_a_text_have_no_other_one() -> None:
    column = pack_numbers(build_column([None, Number(1.5, b"1.5"), 2.5]))
    assert isinstance(column.source, LazyNumbers)
    assert column.source.has_canonical_texts()
    assert list(column.strip_source().read_values()) == [None, 1.5, 2.5]
    assert not spelled([]).source.has_canonical_texts()  # type: ignore[union-attr]  # LazyNumbers

"""A batch of columns holds the rows that it was made of, some of them, and those of several batches."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.values.batch import ColumnBatch
from sowctl.values.column import build_column
from sowctl.values.fields import Row, SlotValue
from tests.support.examples import examples
from tests.values.test_column import KINDS, told

SLOTS = st.lists(st.sampled_from(KINDS), max_size=3)
SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=3)


def build_batch(rows: list[Row], slots: int, first: int, *, lazy: bool) -> ColumnBatch:
    """Rows as a batch with stamps and keys that count from ``first``; each row is its stored record as well."""
    lists: Any = [[row[slot] for row in rows] for slot in range(slots)]
    count = np.arange(first, first + len(rows))
    given = lists if lazy else list(map(build_column, lists))
    texts = [build_column([b"%d" % number for number in count])]
    return ColumnBatch(given, len(rows), txids=count, times=-count, keys=count + 1, texts=texts, previous=given[:1])


def rows_told(rows: list[Row]) -> list[list[Any]]:
    return [told(row) for row in rows]


@settings(max_examples=examples(100), deadline=None)
@given(kinds=SLOTS, sizes=SIZES, lazy=st.booleans(), data=st.data())
def test_batches_are_like_rows(
    kinds: list[st.SearchStrategy[SlotValue]], sizes: list[int], lazy: bool, data: Any
) -> None:
    parts = [data.draw(st.lists(st.tuples(*kinds), min_size=size, max_size=size)) for size in sizes]
    whole = [row for rows in parts for row in rows]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    several = [build_batch(rows, len(kinds), start, lazy=lazy) for rows, start in zip(parts, starts, strict=True)]
    batch = ColumnBatch.concatenate(several)

    def check(some: ColumnBatch, places: list[int]) -> None:
        assert some.size == len(places)
        assert rows_told(some.read_rows()) == rows_told([whole[place] for place in places])
        if kinds:
            assert rows_told(some.read_previous_rows()) == rows_told([whole[place][:1] for place in places])
        assert some.txids.tolist() == places
        assert some.times.tolist() == [-place for place in places]
        assert some.keys.tolist() == [place + 1 for place in places]
        assert list(some.texts[0].read_values()) == [b"%d" % place for place in places]

    check(batch, list(range(len(whole))))
    check(pickle.loads(pickle.dumps(batch)), list(range(len(whole))))
    check(batch.take(slice(1, 3)), list(range(len(whole)))[1:3])
    places = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=5)) if whole else []
    check(batch.take(np.array(places, np.int64)), places)


@pytest.mark.parametrize("size", [0, 3])
def test_a_batch_without_slots_has_empty_rows(size: int) -> None:
    batch = ColumnBatch([], size)
    assert batch.read_rows() == [()] * size
    assert batch.read_previous_rows() == [None] * size
    assert batch.take(slice(1, None)).read_rows() == [()] * len(range(size)[1:])
    assert ColumnBatch.concatenate([batch, batch]).read_rows() == [()] * 2 * size


def test_constants_have_a_place_per_row_among_others() -> None:
    one = build_column([b"x"], constant=True)
    batch = ColumnBatch([one, build_column([1, 2])], 2)
    assert batch.read_rows() == [(b"x", 1), (b"x", 2)]
    assert batch.take(np.array([1])).read_rows() == [(b"x", 2)]
    other = ColumnBatch([build_column([None]), build_column([3])], 1)
    assert ColumnBatch.concatenate([batch, other]).read_rows() == [(b"x", 1), (b"x", 2), (None, 3)]


def test_what_one_batch_does_not_know_all_of_them_do_not() -> None:
    keyed = build_batch([(1,)], 1, 0, lazy=False)
    bare = ColumnBatch([[2]], 1, txids=np.array([1]), times=np.array([1]))
    both = ColumnBatch.concatenate([keyed, bare])
    assert not both.has_keys
    assert both.texts == []
    assert both.txids.tolist() == [0, 1]

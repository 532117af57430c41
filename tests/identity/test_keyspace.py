"""Parts of the key space: one key, columns of keys and ranges of keys agree; the last occurrence of each key."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.identity.keyspace import (
    KEYSPACE_LIMITS,
    compute_part_bounds,
    compute_stable_order,
    find_last_occurrences,
    find_part,
    find_parts,
    iterate_parts,
    read_words,
    sort_distinct,
)

KEYS = st.integers(0, (1 << 64) - 1) | st.sampled_from((0, 1, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 1))
COLUMNS = st.lists(KEYS, max_size=60).map(lambda keys: np.array(keys, dtype=np.uint64))
FEW = st.lists(st.integers(0, 9), max_size=60).map(lambda keys: np.array(keys, dtype=np.uint64))
COUNTS = st.integers(1, 50) | st.sampled_from((1 << 16, (1 << 32) - 1))


@given(COLUMNS, COUNTS)
def test_a_key_lies_in_one_part_whoever_asks(keys: np.ndarray, count: int) -> None:
    singly = [find_part(int(key).to_bytes(8, "big"), count) for key in keys.tolist()]
    assert find_parts(keys, count).tolist() == singly
    assert all(0 <= number < count for number in singly)


@given(COLUMNS, st.integers(1, 50))
def test_ranges_of_keys_are_the_parts(keys: np.ndarray, count: int) -> None:
    ranges = compute_part_bounds(count)
    assert len(ranges) == count and ranges[0][0] is None and ranges[-1][1] is None
    assert [stop for _, stop in ranges[:-1]] == [start for start, _ in ranges[1:]]
    for key in read_words(keys.astype(">u8")):
        low, high = ranges[find_part(key, count)]
        assert (low is None or low <= key) and (high is None or key < high)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_the_edges_of_ranges(count: int) -> None:
    for number, (low, high) in enumerate(compute_part_bounds(count)):
        first = 0 if low is None else int.from_bytes(low, "big")
        last = (1 << 64) - 1 if high is None else int.from_bytes(high, "big") - 1
        assert find_part(first.to_bytes(8, "big"), count) == find_part(last.to_bytes(8, "big"), count) == number


@given(COLUMNS | FEW, st.integers(1, 20))
def test_shares_hold_every_place_once_in_order(keys: np.ndarray, count: int) -> None:
    found = {number: places.tolist() for number, places in iterate_parts(keys, count)}
    assert sorted(place for places in found.values() for place in places) == list(range(len(keys)))
    owners = find_parts(keys, count).tolist()
    assert all(places == [at for at, owner in enumerate(owners) if owner == number] for number, places in found.items())


@given(COLUMNS | FEW, st.integers(1, 50))
def test_last_occurrences_and_order(keys: np.ndarray, sorted_at_once: int) -> None:
    last = {key: place for place, key in enumerate(keys.tolist())}
    # one part of the key space after the other, as of a long column, gives what one sort gives
    with patch.object(KEYSPACE_LIMITS, "sort_batch_keys", sorted_at_once):
        assert find_last_occurrences(keys).tolist() == [last[key] for key in sorted(last)]
    assert compute_stable_order(keys).tolist() == sorted(range(len(keys)), key=lambda place: keys[place])
    assert sort_distinct([keys, keys[::2]]).tolist() == sorted(last)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 600])
def test_words_are_the_bytes_of_a_column(count: int) -> None:
    column = (np.arange(count, dtype="u8") * 0x010203040506).astype(">u8")
    assert read_words(column) == [(number * 0x010203040506).to_bytes(8, "big") for number in range(count)]

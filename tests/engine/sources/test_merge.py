"""Merging of fresh records with unchanged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.sources.merge import MergedValues, merge_records
from sowctl.store import codec
from tests.support.stores import key_of, value_of

KEYS = sorted(map(key_of, range(60)))


def value(key: bytes, text: bytes) -> bytes:
    return value_of(key, 1, text)


@given(
    st.sets(st.sampled_from(KEYS)),
    st.sets(st.sampled_from(KEYS)),
    st.integers(1, 7),
)
def test_all_in_key_order(old: set[bytes], fresh: set[bytes], size: int) -> None:
    there = sorted(old - fresh)
    batches = [there[start : start + size] for start in range(0, len(there), size)]
    found = list(
        merge_records(
            [(keys, [value(key, b"old") for key in keys]) for keys in batches],
            {key: value(key, b"fresh") for key in fresh},
            size,
        )
    )
    assert all(keys for keys, _ in found)
    wanted = {key: value(key, b"old") for key in there} | {key: value(key, b"fresh") for key in fresh}
    assert [key for keys, _ in found for key in keys] == sorted(wanted)
    for keys, values in found:
        assert codec.extract_payloads(values) == codec.extract_payloads([wanted[key] for key in keys])
        assert list(values) == [wanted[key] for key in keys]
        assert len(values) == len(keys)


def test_woven_values_are_a_sequence() -> None:
    keys = KEYS[:6]
    whole = [value(key, b"%d" % place) for place, key in enumerate(keys)]
    values = MergedValues([whole[0], whole[3], whole[4]], [(1, whole[1]), (1, whole[2]), (3, whole[5])])
    assert codec.extract_payloads(values) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [values[place] for place in range(-6, 6)] == [*whole, *whole]
    assert values[2:5] == whole[2:5]
    assert values.select_values([5, 0, 2]) == [whole[5], whole[0], whole[2]]
    with pytest.raises(IndexError):
        values[6]

"""Fresh records among those that did not change, and a store's records with those of the journal behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.sources.merge import Woven, merged, woven
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
        woven(
            [(keys, [value(key, b"old") for key in keys]) for keys in batches],
            {key: value(key, b"fresh") for key in fresh},
            size,
        )
    )
    assert all(keys for keys, _ in found)
    wanted = {key: value(key, b"old") for key in there} | {key: value(key, b"fresh") for key in fresh}
    assert [key for keys, _ in found for key in keys] == sorted(wanted)
    for keys, values in found:
        assert codec.payloads(values) == codec.payloads([wanted[key] for key in keys])
        assert list(values) == [wanted[key] for key in keys]
        assert len(values) == len(keys)


@given(
    st.sets(st.sampled_from(KEYS)),
    st.dictionaries(st.sampled_from(KEYS), st.booleans()),
    st.sampled_from(["as drawn", "last keys", "behind"]),
    st.integers(1, 7),
)
def test_a_store_and_what_is_behind_it_are_one_dict_updated(
    old: set[bytes], fresh: dict[bytes, bool], where: str, size: int
) -> None:
    """Records and deletions of an overlay, also for the last key of each batch and for keys behind all of them."""
    there = sorted(old)
    batches = [there[start : start + size] for start in range(0, len(there), size)]
    if where == "last keys":
        fresh |= {keys[-1]: bool(number % 2) for number, keys in enumerate(batches)}
    elif where == "behind":
        fresh = {key: kept for key, kept in fresh.items() if not there or key > there[-1]}
    overlay = {key: value(key, b"fresh") if kept else None for key, kept in fresh.items()}
    stored = {key: value(key, b"old") for key in there}
    found = list(merged([(keys, [stored[key] for key in keys]) for keys in batches], overlay, size))
    wanted = {key: text for key, text in (stored | overlay).items() if text is not None}
    assert [pair for keys, values in found for pair in zip(keys, values, strict=True)] == sorted(wanted.items())
    # What stands behind the last batch comes in batches, too; a batch of the store takes in what is due within it.
    assert all(len(keys) <= size for keys, _ in found[len(batches) :])


def test_woven_values_are_a_sequence() -> None:
    keys = KEYS[:6]
    whole = [value(key, b"%d" % place) for place, key in enumerate(keys)]
    values = Woven([whole[0], whole[3], whole[4]], [(1, whole[1]), (1, whole[2]), (3, whole[5])])
    assert codec.payloads(values) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [values[place] for place in range(-6, 6)] == [*whole, *whole]
    assert values[2:5] == whole[2:5]
    assert values.chosen([5, 0, 2]) == [whole[5], whole[0], whole[2]]
    with pytest.raises(IndexError):
        values[6]

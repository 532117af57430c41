"""The key filter: it never rules out an added key; a load with the filter stores the same as one without."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.keyfilter import FILTER_KEY_BITS, KeyFilter

NEIGHBOURS = st.integers(0, 40).map(lambda number: (number << (64 - FILTER_KEY_BITS)).to_bytes(8, "big"))
"""Keys whose bits are in a few bytes."""
KEYS = st.lists(st.binary(min_size=8, max_size=8) | NEIGHBOURS, max_size=30)


@given(st.lists(KEYS, max_size=3), KEYS)
def test_what_was_noted_is_found_and_little_else(noted: list[list[bytes]], asked: list[bytes]) -> None:
    known = KeyFilter()
    for keys in noted:
        known.add_keys(keys)
    every = [key for keys in noted for key in keys]
    bits = {bit for key in every for bit in _hashes(key)}
    assert known.select_possible(every) == every
    assert known.select_possible(asked) == [key for key in asked if bits.issuperset(_hashes(key))]


def _hashes(key: bytes) -> tuple[int, int]:
    """The two parts of a key by which bits are chosen."""
    text = f"{int.from_bytes(key, 'big'):064b}"
    return int(text[:FILTER_KEY_BITS], 2), int(text[FILTER_KEY_BITS : 2 * FILTER_KEY_BITS], 2)

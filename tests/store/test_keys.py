"""Keys of versions: they sort by time, then by txid, and can be taken apart again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sowctl.store import codec
from sowctl.store.keys import history_key, history_key_of, split_history_key

u64 = st.integers(0, (1 << 64) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.binary(min_size=8, max_size=8), i64, u64, i64, u64)
def test_history_keys_sort_by_time_then_txid(key: bytes, time: int, txid: int, time2: int, txid2: int) -> None:
    first, second = history_key(key, time, txid), history_key(key, time2, txid2)
    assert (first < second) == ((time, txid) < (time2, txid2))
    assert split_history_key(first) == (key, time, txid)
    assert history_key_of(key, codec.encode(key, bytes(8), txid, time, 0, 8, b"")) == first

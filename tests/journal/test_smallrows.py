"""Where the small reader answers, it answers what the library does."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.journal.smallrows import MOST, small_rows

PLAIN = st.recursive(
    st.integers(0, (1 << 64) - 1) | st.text(max_size=40) | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20),
    max_leaves=40,
)
OTHER = st.none() | st.booleans() | st.floats() | st.integers(-(1 << 63), -1) | st.dictionaries(st.text(), PLAIN)


@given(st.lists(PLAIN, max_size=40))
def test_plain_arrays_are_read_as_the_library_reads_them(rows: list[Any]) -> None:
    raw = msgpack.packb(rows)
    read = small_rows(memoryview(raw), len(rows))
    assert read == (msgpack.unpackb(raw) if len(raw) <= MOST else None)
    assert small_rows(raw, len(rows) + 1) is None


@given(st.lists(PLAIN, max_size=3), OTHER)
def test_values_of_other_kinds_are_declined(rows: list[Any], other: Any) -> None:
    assert small_rows(msgpack.packb([*rows, other]), len(rows) + 1) is None


@given(st.lists(PLAIN, min_size=1, max_size=5), st.data())
def test_damaged_bytes_are_declined_or_read_alike(rows: list[Any], data: st.DataObject) -> None:
    raw = bytearray(msgpack.packb(rows))
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    else:
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read = small_rows(bytes(raw), len(rows))
    if read is not None:
        assert read == msgpack.unpackb(bytes(raw))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x91",
        b"\x01",
        b"\x91\x01\x02",
        b"\x91\xa2a",
        b"\x91\xa1\xff",
        b"\x91" * MOST,
        b"\x91\xdd\xff\xff\xff\xff",
        b"\x91\xc6\xff\xff\xff\xff",
        msgpack.packb(["x" * MOST]),
    ],
)
def test_faults_and_large_arrays_are_for_the_library(raw: bytes) -> None:
    assert small_rows(raw, 1) is None

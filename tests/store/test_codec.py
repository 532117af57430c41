"""Record bytes: decoding returns what was encoded, no altered record passes, the layout is that of sow-store(5)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.store import codec, integrity
from sowctl.store.codec import (
    Offsets,
    build_history_key,
    encode_expiry_key,
    encode_expiry_value,
    find_damaged_entries,
    split_history_key,
)
from tests.support.stores import history_key

keys = st.binary(min_size=8, max_size=8)
u64 = st.integers(0, (1 << 64) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
part = st.none() | st.binary(max_size=40)


@given(keys)
def test_the_next_key_follows_at_once(key: bytes) -> None:
    after = codec.compute_next_key(key)
    assert (
        after is None if key == b"\xff" * 8 else after is not None and int.from_bytes(after) == int.from_bytes(key) + 1
    )


def test_nothing_follows_the_highest_key() -> None:
    assert codec.compute_next_key(b"\xff" * 8) is None


@given(keys, keys, u64, i64, i64, st.sampled_from([0, 8, 16, 24]), st.binary(max_size=300), part, part, part)
def test_round_trip(
    key: bytes,
    check: bytes,
    txid: int,
    time: int,
    expiration: int,
    flags: int,
    payload: bytes,
    user: bytes | None,
    correlation: bytes | None,
    logical: bytes | None,
) -> None:
    value = codec.encode_record(key, check, txid, time, expiration, flags, payload, (user, correlation, logical))
    record = codec.decode_record(key, value)
    assert (record.key, record.check, record.txid, record.time, record.expiration) == (
        key,
        check,
        txid,
        time,
        expiration,
    )
    assert (record.payload, record.value) == (payload, value)
    assert (record.user_key, record.correlation_id, record.logical_topic) == (user, correlation, logical)
    assert (record.is_tombstone, record.is_lossy) == (bool(flags & 8), bool(flags & 16))
    assert codec.extract_payloads([value]) == [payload]
    assert codec.read_stamps(value) == (txid, time)
    assert codec.read_all_stamps([value] * 2) == [(txid, time)] * 2
    assert codec.extract_raw_stamps([value] * 2) == struct.pack("<Qq", txid, time) * 2
    assert (codec.read_txid(value), codec.read_check(value)) == (txid, check)
    assert codec.read_checks([value] * 2) == [check] * 2
    heads = np.frombuffer(codec.extract_headers([value] * 2), codec.HEADER_DTYPE)
    assert [tuple(map(int, (row["txid"], row["time"], row["expiration"]))) for row in heads] == [
        (txid, time, expiration)
    ] * 2
    assert heads["check"].tobytes() == check * 2 and heads["flags"].tolist() == [value[0]] * 2
    stamps = np.frombuffer(codec.extract_raw_stamps([value]), codec.STAMP_DTYPE)
    assert (int(stamps["txid"][0]), int(stamps["time"][0])) == (txid, time)
    assert codec.read_logical_topic(value) == logical
    assert codec.has_payload(value, payload)
    assert not codec.has_payload(value, payload + b"x") and not (payload and codec.has_payload(value, payload[1:]))
    assert codec.read_expiration(value) == expiration
    assert crc32(value, crc32(key)) == codec.CRC_RESIDUE


@given(st.lists(st.tuples(keys, keys, u64, i64, i64, st.binary(max_size=60)), max_size=20))
def test_plain_batches_are_the_same_bytes_as_single_records(
    rows: list[tuple[bytes, bytes, int, int, int, bytes]],
) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * 6
    values = codec.encode_plain_records(*columns)
    assert values == [
        codec.encode_record(key, check, txid, at, end, 0, body) for key, check, txid, at, end, body in rows
    ]
    assert integrity.find_damaged_values([row[0] for row in rows], values) == []


@given(keys, st.binary(max_size=100), part, st.data())
def test_no_single_bit_passes(key: bytes, payload: bytes, user: bytes | None, data: st.DataObject) -> None:
    value = codec.encode_record(key, b"checkwrd", 7, 8, 9, 0, payload, (user, None, None))
    whole = bytearray(key + value)
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(DamageError) as raised:
        codec.decode_record(bytes(whole[:8]), bytes(whole[8:]))
    assert raised.value.code == "SOW-STO-001"


@given(keys, st.binary(max_size=80), st.integers(0, 200))
def test_cut_values_are_refused(key: bytes, payload: bytes, kept: int) -> None:
    value = codec.encode_record(key, b"checkwrd", 1, 2, 3, 0, payload)
    cut = value[: min(kept, len(value) - 1)]
    assert integrity.find_damaged_values([key], [cut]) == [0]
    with pytest.raises(DamageError):
        codec.decode_record(key, cut)


def test_a_value_of_nothing_but_a_right_checksum_is_refused() -> None:
    key = bytes(8)
    assert integrity.find_damaged_values([key], [crc32(key).to_bytes(4, "little")]) == [0]


@pytest.mark.parametrize(
    ("flags", "extra", "tail"),
    [
        (codec.USER_KEY_FLAG, 0, b""),
        (codec.USER_KEY_FLAG, 1, b"\1"),
        (codec.USER_KEY_FLAG, 4, b"\5\0abcdef"),
        (codec.USER_KEY_FLAG | codec.CORRELATION_FLAG, 2, b"\xff\xff"),
        (0, 2, b"ab"),
        (0, 500, b"ab"),
        (32, 0, b"payload"),
    ],
)
def test_parts_that_do_not_fit_are_refused_though_the_checksum_is_right(flags: int, extra: int, tail: bytes) -> None:
    key = b"12345678"
    body = struct.pack("<HHQqq8s", flags, extra, 1, 2, 3, b"checkwrd") + tail
    with pytest.raises(DamageError) as raised:
        codec.decode_record(key, body + crc32(body, crc32(key)).to_bytes(4, "little"))
    assert raised.value.code == "SOW-STO-002"


def test_layout_byte_by_byte() -> None:
    value = codec.encode_record(b"\0\0\0\0\0\0\0\1", b"CCCCCCCC", 2, 3, 4, 0, b"payload", (b"uk", b"c", b"lt"))
    assert value[:4].hex() == "07000b00"
    assert value[4:36].hex() == "0200000000000000030000000000000004000000000000004343434343434343"
    assert value[36:-4] == b"\2\0uk\1\0c\2\0ltpayload"
    assert len(value) == codec.VALUE_OVERHEAD_BYTES + 11 + 7


def test_too_long_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="longer than 65535"):
        codec.encode_record(bytes(8), bytes(8), 1, 1, 0, 0, b"", (b"x" * 65_536, None, None))
    with pytest.raises(ValueError, match="together"):
        codec.encode_record(bytes(8), bytes(8), 1, 1, 0, 0, b"", (b"x" * 40_000, b"x" * 40_000, None))


@given(keys, st.binary(max_size=30), part, st.sampled_from([0, 8, 16, 24]), st.sampled_from([0, 8, 16, 24]))
def test_flags_can_be_changed(key: bytes, payload: bytes, user: bytes | None, before: int, after: int) -> None:
    value = codec.encode_record(key, bytes(8), 1, 2, 3, before, payload, (user, None, None))
    assert codec.replace_flags(key, value, after) == codec.encode_record(
        key, bytes(8), 1, 2, 3, after, payload, (user, None, None)
    )


def test_payloads_behind_long_parts() -> None:
    keys = [bytes([number]) * 8 for number in range(3)]
    parts = (None, b"u" * 254, b"u" * 300)
    values = [
        codec.encode_record(key, bytes(8), 1, 2, 3, 0, b"text", (user, None, None))
        for key, user in zip(keys, parts, strict=True)
    ]
    assert values[1][2:4] == b"\0\1"
    assert codec.extract_payloads(values) == codec.extract_payloads(values[1:2]) * 3 == [b"text"] * 3


@given(st.binary(min_size=8, max_size=8), i64, u64, i64, u64)
def test_history_keys_sort_by_time_then_txid(key: bytes, time: int, txid: int, time2: int, txid2: int) -> None:
    first, second = history_key(key, time, txid), history_key(key, time2, txid2)
    assert (first < second) == ((time, txid) < (time2, txid2))
    assert split_history_key(first) == (key, time, txid)
    assert build_history_key(key, codec.encode_record(key, bytes(8), txid, time, 0, 8, b"")) == first


class Given(codec.LazyValues):
    """Values that are not copied: only their payloads are available."""

    def __getitem__(self, place: object) -> bytes:  # type: ignore[override]
        raise AssertionError("nobody asked for a whole value")

    def __len__(self) -> int:
        return 2

    def list_payloads(self) -> list[bytes]:
        return [b"one", b"two"]

    def select_values(self, places: Sequence[int]) -> Sequence[bytes]:
        raise AssertionError


def test_payloads_that_are_at_hand_are_taken_without_their_values() -> None:
    assert codec.extract_payloads(Given()) == [b"one", b"two"]


@given(st.lists(st.tuples(st.integers(1, (1 << 63) - 1), keys), min_size=1, max_size=6, unique=True), st.data())
def test_entries_of_the_expiry_index_sort_by_time_and_damage_in_them_is_found(
    entries: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    named = [encode_expiry_key(end, key) for end, key in entries]
    assert [named.index(one) for one in sorted(named)] == [entries.index(one) for one in sorted(entries)]
    values = [encode_expiry_value(one) for one in named]
    assert find_damaged_entries(named, values) == []
    place = data.draw(st.integers(0, len(named) - 1))
    at, bit = data.draw(st.integers(0, 15)), data.draw(st.integers(0, 7))
    changed = bytearray(named[place])
    changed[at] ^= 1 << bit
    assert find_damaged_entries([*named[:place], bytes(changed), *named[place + 1 :]], values) == [place]


small = st.none() | st.binary(max_size=2)
contents = st.tuples(st.binary(max_size=2), st.integers(0, 1), small, small, small)


@given(keys, contents, contents | st.none())
def test_content_is_all_but_key_txid_and_time(
    key: bytes, one: tuple[bytes, int, None, None, None], other: tuple[bytes, int, None, None, None] | None
) -> None:
    other = one if other is None else other
    values = [
        codec.encode_record(key, key, txid, txid, content[1], 0, content[0], content[2:])
        for txid, content in enumerate((one, other), 1)
    ]
    assert codec.has_content(values[0], *one) and codec.has_content(values[1], *other)
    assert codec.has_content(values[0], *other) == codec.has_same_content(*values) == (one == other)


def test_no_entries_are_not_damaged() -> None:
    assert find_damaged_entries([], []) == []


def test_a_part_of_places_has_its_own_checksums() -> None:
    places = Offsets([10, 20, 30], [3, 4, 5], b"aaaabbbbcccc")
    assert places.select_range(1, 3) == Offsets([20, 30], [4, 5], b"bbbbcccc")

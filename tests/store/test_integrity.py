"""Checks of values in bulk: damaged ones are identified, alone and in runs, and digests are sums."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.store import codec, integrity
from sowctl.store.limits import STORE_LIMITS


def test_verify_names_the_damaged_ones() -> None:
    names = [bytes([number]) * 8 for number in range(5)]
    values = codec.encode_plain_records(names, [bytes(8)] * 5, range(5), [1] * 5, [0] * 5, [b"x"] * 5)
    values[1], values[4] = values[2], values[4][:-1] + b"\0"
    assert integrity.find_damaged_values(names, values) == [1, 4]


@given(st.lists(st.tuples(st.binary(min_size=8, max_size=8), st.binary(max_size=20)), max_size=10))
def test_digest_sum_is_the_sum_of_terms(rows: list[tuple[bytes, bytes]]) -> None:
    assert integrity.compute_digest_sum([row[0] for row in rows], [row[1] for row in rows]) == sum(
        integrity.compute_digest_term(key, value) for key, value in rows
    )


@given(st.lists(st.binary(max_size=300), min_size=2, max_size=12), st.data())
def test_a_batch_names_its_damaged_values_alone(payloads: list[bytes], data: st.DataObject) -> None:
    keys = [number.to_bytes(8, "big") for number in range(len(payloads))]
    count = range(len(payloads))
    values = codec.encode_plain_records(keys, [bytes(8)] * len(payloads), count, count, count, payloads)
    assert integrity.find_damaged_values(keys, values) == []
    chosen = sorted(data.draw(st.sets(st.sampled_from(list(count)), min_size=1)))
    for place in chosen:
        bit = data.draw(st.integers(0, 8 * len(values[place]) - 1))
        raw = bytearray(values[place])
        raw[bit // 8] ^= 1 << bit % 8
        values[place] = bytes(raw)
    assert integrity.find_damaged_values(keys, values) == chosen


def test_a_run_is_of_sound_values_that_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [bytes(7) + b"\1", bytes(7) + b"\2"]
    values = codec.encode_plain_records(keys, [bytes(8)] * 2, (1, 2), (1, 2), (0, 0), (b"one", b"two"))
    run = integrity.build_sound_run(keys, values)
    assert run is not None
    assert all(value in run for value in values)
    short = crc32(keys[0]).to_bytes(4, "little")
    for others in (values[::-1], [short, values[1]], []):
        assert integrity.build_sound_run(keys[: len(others)], others) is None
    monkeypatch.setattr(STORE_LIMITS, "max_run_bytes", 60)
    assert integrity.build_sound_run(keys, values) is None
    assert integrity.find_damaged_values(keys, values) == []


def test_a_value_with_a_checksum_may_be_too_short_to_be_one() -> None:
    keys = [bytes(7) + b"\1", bytes(7) + b"\2"]
    whole = codec.encode_record(keys[1], bytes(8), 1, 2, 3, 0, b"")
    values = [crc32(keys[0]).to_bytes(4, "little"), whole]
    assert integrity.build_sound_run(keys, values, small=True) is not None
    assert integrity.find_damaged_values(keys, values) == [0]
    with pytest.raises(DamageError) as raised:
        integrity.require_full_length(keys, values)
    assert raised.value.code == "SOW-STO-001"
    assert raised.value.facts["sow_key"] == 1
    integrity.require_full_length(keys[1:], [whole])
    integrity.require_full_length([], [])


def test_values_that_changed_places_are_damaged() -> None:
    keys = [bytes(7) + b"\1", bytes(7) + b"\2"]
    values = codec.encode_plain_records(keys, [bytes(8)] * 2, (1, 2), (1, 2), (0, 0), (b"one", b"two"))
    assert integrity.find_damaged_values(keys, values[::-1]) == [0, 1]

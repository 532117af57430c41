"""The meta record: round trip, and three different errors for another file, a newer format, damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import DamageError, SowError, VersionError
from sowctl.store.meta import (
    KEY_MODES,
    Definition,
    StoreMeta,
    decode_meta,
    decode_sequence,
    encode_meta,
    encode_sequence,
)

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
count = st.integers(0, (1 << 64) - 1)
time = st.integers(-(1 << 63), (1 << 63) - 1)
definitions = st.builds(
    Definition, text, text, text, st.sampled_from(KEY_MODES), st.lists(text, max_size=4).map(tuple), st.none() | text
)
metas = st.builds(
    StoreMeta,
    definition=definitions,
    lineage=st.binary(min_size=16, max_size=16),
    applied=count,
    records=count,
    versions=count,
    payload_bytes=count,
    version_bytes=count,
    digest=st.integers(0, (1 << 128) - 1),
    last_time=time,
    removal_mark=time,
    created=time,
    sequences=st.integers(0, (1 << 32) - 1),
    block=st.none() | st.tuples(count, count, st.integers(0, (1 << 32) - 1)),
)
META = StoreMeta(Definition("i", "t", "json", "user"), applied=5)


@given(metas)
def test_round_trip(meta: StoreMeta) -> None:
    assert decode_meta(encode_meta(meta), "x.sow") == meta


@given(metas, st.data())
def test_no_single_bit_passes(meta: StoreMeta, data: st.DataObject) -> None:
    raw = bytearray(encode_meta(meta))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(SowError) as raised:
        decode_meta(bytes(raw), "x.sow")
    assert raised.value.exit_status in (5, 9)


@given(st.integers(0, 200))
def test_cut_records_are_refused(kept: int) -> None:
    raw = encode_meta(META)
    with pytest.raises(DamageError):
        decode_meta(raw[: min(kept, len(raw) - 1)], "x.sow")


def test_magic_then_version_then_checksum() -> None:
    raw = encode_meta(META)
    with pytest.raises(DamageError) as other:
        decode_meta(b"ANOTHER!" + b"\2\0" + raw[10:], "x.sow")
    assert other.value.code == "SOW-STO-010"
    with pytest.raises(VersionError) as newer:
        decode_meta(raw[:8] + b"\2\0" + raw[10:], "x.sow")
    assert (newer.value.code, newer.value.exit_status, newer.value.place) == ("SOW-STO-011", 9, "x.sow")
    with pytest.raises(DamageError) as damaged:
        decode_meta(raw[:-1] + bytes([raw[-1] ^ 1]), "x.sow")
    assert damaged.value.code == "SOW-STO-012"


def test_definitions_say_what_they_are() -> None:
    definition = Definition("i", "t", "json", "fields", ("/a", "/b"), "d")
    assert str(definition) == "instance 'i', topic 't' (json), /a, /b, key domain 'd'"
    assert definition.list_differences(Definition("i", "u", "json", "fields", ("/a",), "d")) == ["topic", "key_fields"]
    with pytest.raises(ValueError, match="key mode"):
        Definition("i", "t", "json", "other")


@given(count, count)
def test_sequences_round_trip(publisher: int, sequence: int) -> None:
    data = encode_sequence(publisher, sequence)
    assert decode_sequence(publisher, data, "x.sow") == sequence
    with pytest.raises(DamageError) as raised:
        decode_sequence(publisher ^ 1, data, "x.sow")
    assert raised.value.code == "SOW-STO-013"

"""Blocks: decoding returns what was encoded, and an invalid header or map is reported."""

from __future__ import annotations

import random
import zlib
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.errors import DamageError, LimitError, VersionError
from sowctl.journal import blockcodec
from sowctl.journal import format as fmt
from sowctl.journal.block import Block
from sowctl.journal.columns import decompress_part
from sowctl.journal.entries import EntryBatch
from sowctl.journal.group import encode_blocks
from sowctl.journal.limits import JOURNAL_LIMITS
from tests.support.blocks import SEED, decode, groups
from tests.support.examples import examples
from tests.support.journals import group


def at(column, index: int) -> object:
    """Return entry ``index`` of a column that may be one value for all entries, or absent."""
    return column if column is None or isinstance(column, int) else column[index]


@settings(max_examples=examples(300), deadline=None)
@given(
    groups(), st.sampled_from([blockcodec.CODEC_NONE, blockcodec.CODEC_ZSTD]), st.integers(1, 2**40), st.integers(1, 13)
)
def test_a_group_comes_back_as_it_went_in(one: EntryBatch, codec: int, first: int, size: int) -> None:
    before = JOURNAL_LIMITS.max_block_entries, JOURNAL_LIMITS.min_compressed_bytes
    JOURNAL_LIMITS.max_block_entries, JOURNAL_LIMITS.min_compressed_bytes = size, 0
    try:
        blocks = [decode(encoded) for encoded in encode_blocks(one, codec, first, first, True)]
    finally:
        JOURNAL_LIMITS.max_block_entries, JOURNAL_LIMITS.min_compressed_bytes = before
    entries = [entry for block in blocks for entry in block.iter_entries()]
    assert [entry.txid for entry in entries] == list(range(first, first + len(one)))
    assert [block.header.is_last for block in blocks] == [False] * (len(blocks) - 1) + [True]
    for index, entry in enumerate(entries):
        who = at(one.publisher_indexes, index)
        name = (None, None) if who == fmt.NO_PUBLISHER else one.publishers[who]
        assert (entry.publisher, entry.client) == name
        assert entry.topic == one.topic_refs[at(one.topic_indexes, index)]
        assert (entry.key, entry.check) == (one.keys[8 * index : 8 * index + 8], one.checks[8 * index : 8 * index + 8])
        assert (entry.operation, entry.payload) == (one.operations[index], one.payloads[index])
        assert (entry.time, entry.expiration) == (at(one.times, index), at(one.expirations, index))
        texts = [at(one.user_keys, index), at(one.correlation_ids, index), at(one.logical_topics, index)]
        assert [entry.user_key, entry.correlation_id, entry.logical_topic] == texts
        bits = sum(bit for bit, text in zip((1, 2, 4), texts, strict=True) if text is not None)
        assert (entry.sequence, entry.flags) == (at(one.sequences, index), one.flags[index] | bits)


@settings(max_examples=examples(100), deadline=None)
@given(groups())
def test_the_map_tells_who_is_in_the_block(one: EntryBatch) -> None:
    for encoded in encode_blocks(one, blockcodec.CODEC_NONE, 1, 1, True):
        entries = list(decode(encoded).iter_entries())
        assert {row.topic for row in encoded.names.topic_rows} == {entry.topic for entry in entries}
        for row in encoded.names.topic_rows:
            last = [entry for entry in entries if entry.topic == row.topic][-1]
            assert (row.last_txid, row.last_time) == (last.txid, last.time)
        for who in encoded.names.publishers:
            assert who.sequence == max(entry.sequence for entry in entries if entry.publisher == who.hash)
        assert encoded.header.earliest == min(entry.time for entry in entries)
        assert encoded.header.latest == max(entry.time for entry in entries)


def test_numpy_sees_the_same_columns() -> None:
    one = group([b"a", b"bc", b""], times=array("q", [5, 6, -7]), flags=array("H", [0, 32, 32]))
    (encoded,) = encode_blocks(one, blockcodec.CODEC_NONE, 1, 1, True)
    block = decode(encoded)
    plain, numpy = block.decode_columns(), block.decode_numpy_columns()
    for name in (
        "times",
        "expirations",
        "sequences",
        "lengths",
        "topic_indexes",
        "publisher_indexes",
        "flags",
        "operations",
    ):
        assert list(getattr(plain, name)) == getattr(numpy, name).tolist()
    assert numpy.keys.tolist() == [0, 1, 2]
    assert numpy.checks.tolist() == [7, 8, 9]
    assert not numpy.times.flags.owndata


def test_a_block_is_cut_at_entries_and_at_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 3)
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_bytes", 10)
    sizes = [1, 1, 1, 1, 9, 2, 30, 1, 1, 1]
    blocks = list(encode_blocks(group([b"x" * size for size in sizes]), blockcodec.CODEC_NONE, 1, 1, True))
    assert [block.header.count for block in blocks] == [3, 2, 1, 1, 3]


def test_a_payload_above_the_cap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_raw_bytes", 1000)
    with pytest.raises(LimitError, match="too large"):
        list(encode_blocks(group([b"x" * 1001]), blockcodec.CODEC_NONE, 1, 1, True))


@pytest.mark.parametrize(
    "change",
    [{"keys": b""}, {"publisher_indexes": [1]}, {"times": array("q", [1])}, {"user_keys": [None]}, {"operations": b""}],
)
def test_columns_of_different_lengths_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match="lengths"):
        list(encode_blocks(group([b"a", b"b"], **change), blockcodec.CODEC_NONE, 1, 1, True))


def test_a_block_of_a_newer_version_is_told_from_damage() -> None:
    (encoded,) = encode_blocks(group([b"a"]), blockcodec.CODEC_NONE, 1, 1, True)
    raw = bytearray(blockcodec.pack_block_header(encoded.header, 0, SEED))
    raw[8] = 2
    assert blockcodec.unpack_block_header(bytes(raw), SEED, "here") is None
    raw[100:] = zlib.crc32(raw[:100], SEED).to_bytes(4, "little")
    with pytest.raises(VersionError):
        blockcodec.unpack_block_header(bytes(raw), SEED, "here")


def test_a_block_is_valid_in_its_own_place_only() -> None:
    (encoded,) = encode_blocks(group([b"a"]), blockcodec.CODEC_NONE, 1, 1, True)
    raw = blockcodec.pack_block_header(encoded.header, 0, blockcodec.compute_header_seed(b"L" * 16, 3, 999))
    for lineage, number, offset in ((b"M" * 16, 3, 999), (b"L" * 16, 4, 999), (b"L" * 16, 3, 998)):
        assert (
            blockcodec.unpack_block_header(raw, blockcodec.compute_header_seed(lineage, number, offset), "here") is None
        )


@pytest.mark.parametrize(
    "change",
    [
        {"codec": 2},
        {"flags": 64},
        {"count": 0},
        {"count": 2},
        {"flags": blockcodec.ABORT_FLAG | blockcodec.LAST_BLOCK_FLAG},
        {"group": 9},
        {"map_size": blockcodec.MAX_MAP_BYTES + 1},
        {"payloads_raw": blockcodec.MAX_RAW_BYTES + 1},
        {"columns_raw": blockcodec.MAX_RAW_BYTES + 1},
    ],
)
def test_a_header_that_makes_no_sense_is_none(change: dict) -> None:
    (encoded,) = encode_blocks(group([b"a"]), blockcodec.CODEC_NONE, 5, 5, True)
    header = replace(encoded.header, **change)
    assert blockcodec.unpack_block_header(blockcodec.pack_block_header(header, 0, SEED), SEED, "here") is None


def forge(encoded, **parts: object) -> Block:
    """Return a block in which a part or header field is replaced."""
    block = decode(encoded)
    columns = parts.pop("columns", encoded.body[1])
    payloads = parts.pop("payloads", encoded.body[2])
    names = parts.pop("names", block.map)
    header = replace(block.header, **parts)
    return Block(block.path, 3, 999, header, names, memoryview(columns), memoryview(payloads))


def test_contents_that_contradict_the_header_are_damage() -> None:
    one = group([b"a", b"bc"], user_keys=[b"k", None], flags=array("H", [1, 0]))
    (encoded,) = encode_blocks(one, blockcodec.CODEC_NONE, 5, 5, True)
    columns = encoded.body[1]
    cuts = [forge(encoded, columns=columns[:size], columns_raw=size) for size in (0, 101, 104, 110, len(columns) - 1)]
    longer = forge(encoded, columns=columns + b"x", columns_raw=len(columns) + 1)
    lengths = forge(encoded, columns=columns[:80] + b"\7" + columns[81:])
    topic = forge(encoded, columns=columns[:88] + b"\7" + columns[89:])
    publisher = forge(encoded, columns=columns[:92] + b"\7\0" + columns[94:])
    unflagged = forge(encoded, columns=columns[:96] + b"\0" + columns[97:])
    size = forge(encoded, columns_raw=len(columns) + 1)
    for block in (*cuts, longer, lengths, topic, publisher, unflagged, size):
        with pytest.raises(DamageError) as caught:
            block.decode_columns()
        assert caught.value.code == "SOW-JRN-014"
    with pytest.raises(DamageError):
        forge(encoded, payloads=b"abcd").decompress_payloads()


def test_publisher_indexes_are_checked_against_the_list() -> None:
    one = group([b"a", b"b"], publishers=[(1, "x")], publisher_indexes=[0, fmt.NO_PUBLISHER])
    (encoded,) = encode_blocks(one, blockcodec.CODEC_NONE, 5, 5, True)
    assert [entry.client for entry in decode(encoded).iter_entries()] == ["x", None]
    with pytest.raises(DamageError):
        forge(encoded, columns=encoded.body[1][:92] + b"\1\0" + encoded.body[1][94:]).decode_columns()


def test_decompression_gives_the_stated_size_or_nothing() -> None:
    import zstandard

    raw = random.Random(1).randbytes(100) * 10
    frame = zstandard.ZstdCompressor(level=1).compress(raw)
    assert bytes(decompress_part(blockcodec.CODEC_ZSTD, memoryview(frame), 1000)) == raw
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(1 << 20))
    unsized = zstandard.ZstdCompressor(level=1, write_content_size=False).compress(raw)
    for stored, size in ((frame, 999), (frame, 1001), (frame[:-1], 1000), (frame + b"x", 1000), (b"junk", 4), (b"", 0)):
        with pytest.raises(ValueError):
            decompress_part(blockcodec.CODEC_ZSTD, memoryview(stored), size)
    for stored, size in ((bomb, 1000), (unsized, 1000), (frame, blockcodec.MAX_RAW_BYTES + 1)):
        with pytest.raises(ValueError):
            decompress_part(blockcodec.CODEC_ZSTD, memoryview(stored), size)


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_as_a_map_are_a_map_or_damage(raw: bytes) -> None:
    try:
        blockcodec.unpack_block_map(raw, "here")
    except DamageError as error:
        assert error.code == "SOW-JRN-014"

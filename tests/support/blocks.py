"""Batches of entries of every form, and their blocks as readers decode them, without a file."""

from __future__ import annotations

from array import array
from pathlib import Path

from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.journal import blockcodec
from sowctl.journal import format as fmt
from sowctl.journal.block import Block
from sowctl.journal.entries import EntryBatch
from sowctl.journal.group import EncodedBlock, encode_blocks
from sowctl.journal.limits import JOURNAL_LIMITS

SEED = blockcodec.compute_header_seed(b"L" * 16, 3, 999)
TEXT = st.none() | st.binary(max_size=6)


@st.composite
def groups(draw: st.DrawFn) -> EntryBatch:
    count = draw(st.integers(1, 12))

    def many(strategy: st.SearchStrategy) -> list:
        return draw(st.lists(strategy, min_size=count, max_size=count))

    topic_refs = [(f"t{number}", "json") for number in range(draw(st.integers(1, 4)))]
    publishers = [(number * 7, f"c{number}") for number in range(draw(st.integers(1, 3)))]
    texts = [draw(st.none() | st.lists(TEXT, min_size=count, max_size=count)) for _ in range(3)]
    long = st.integers(-(2**63), 2**63 - 1)
    index_of = st.integers(0, len(topic_refs) - 1)
    who = st.sampled_from([*range(len(publishers)), fmt.NO_PUBLISHER])
    return EntryBatch(
        topic_refs=topic_refs,
        publishers=publishers,
        operations=bytes(many(st.sampled_from([fmt.PUBLISH, fmt.DELETE]))),
        topic_indexes=draw(index_of) if draw(st.booleans()) else many(index_of),
        keys=draw(st.binary(min_size=8 * count, max_size=8 * count)),
        checks=draw(st.binary(min_size=8 * count, max_size=8 * count)),
        times=draw(long) if draw(st.booleans()) else array("q", many(long)),
        expirations=draw(long) if draw(st.booleans()) else array("q", many(long)),
        publisher_indexes=draw(who) if draw(st.booleans()) else many(who),
        sequences=draw(st.just(0) | st.just(array("Q", many(st.integers(0, 2**64 - 1))))),
        flags=many(st.sampled_from([0, 32])),
        payloads=many(st.binary(max_size=200)),
        user_keys=texts[0],
        correlation_ids=texts[1],
        logical_topics=texts[2],
    )


def decode(encoded: EncodedBlock, offset: int = 999, kind: type[Block] = Block) -> Block:
    """Return an encoded block as a reader of a file decodes it."""
    header = blockcodec.unpack_block_header(blockcodec.pack_block_header(encoded.header, 5, SEED), SEED, "here")
    assert header is not None
    assert header.synced_txid == 5
    assert encoded.header == replace(header, synced_txid=0, crc=0)
    names, columns, payloads = encoded.body
    assert blockcodec.unpack_block_map(names, "here") == encoded.names
    return kind(Path("f"), 3, offset, header, encoded.names, memoryview(columns), memoryview(payloads))


def decode_all(one: EntryBatch, codec: int, first: int = 1, kind: type[Block] = Block) -> list[Block]:
    """Return the blocks of a group of ``one``; compressed whatever their size."""
    before, JOURNAL_LIMITS.min_compressed_bytes = JOURNAL_LIMITS.min_compressed_bytes, 0
    try:
        return [decode(encoded, kind=kind) for encoded in encode_blocks(one, codec, first, first, True)]
    finally:
        JOURNAL_LIMITS.min_compressed_bytes = before

"""Entries of a decoded block as a batch: rows equal columns, and one entry equals that entry of a batch of many."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")

import numpy as np

from sowctl.engine.fold.blocks import encode_values, read_winner_values
from sowctl.identity.keyspace import join_words, split_words
from sowctl.journal import blockcodec
from sowctl.journal import format as fmt
from sowctl.journal.arrays import EntryArrays
from sowctl.journal.block import Block
from sowctl.journal.columns import ENTRY_SIZE
from sowctl.journal.entries import (
    ENTRY_COLUMNS,
    FIXED_COLUMNS,
    WORD_CODE,
    Entry,
    EntryBatch,
    concatenate_batches,
)
from sowctl.journal.group import pack_columns
from tests.support.blocks import decode_all, groups
from tests.support.examples import examples

CODECS = st.sampled_from([blockcodec.CODEC_NONE, blockcodec.CODEC_ZSTD])


def rows(batch: EntryBatch) -> list[Entry]:
    return list(batch.iterate_entries())


@settings(max_examples=examples(100), deadline=None)
@given(groups(), CODECS, st.integers(1, 2**40))
def test_rows_equal_columns(one: EntryBatch, codec: int, first: int) -> None:
    """With and without texts, deletions, expirations, empty payloads, times before 1970."""
    (block,) = decode_all(one, codec, first)
    columns, arrays, entries = block.decode_columns(), block.decode_numpy_columns(), list(block.iter_entries())
    assert [entry.payload for entry in entries] == list(columns.payloads) == list(one.payloads)
    assert [entry.txid for entry in entries] == arrays.txids.tolist() == list(range(first, first + len(one)))
    for column in ENTRY_COLUMNS:
        held, seen = getattr(columns, column.name), getattr(arrays, column.name)
        if column.code == WORD_CODE:
            assert seen.tobytes() == bytes(held)
            held = split_words(held)
        elif column.code:
            assert seen.tolist() == list(held)
        else:
            assert seen is held
        if column.part:
            assert [getattr(entry, column.part) for entry in entries] == list(held or [None] * len(one))


@settings(max_examples=examples(100), deadline=None)
@given(groups(), CODECS, st.data())
def test_entries_are_taken_cut_and_joined_as_rows_are(one: EntryBatch, codec: int, data: st.DataObject) -> None:
    (block,) = decode_all(one, codec)
    columns, entries = block.decode_columns(), list(block.iter_entries())
    places = data.draw(st.lists(st.integers(0, len(one) - 1), max_size=8))
    wanted = [entries[place] for place in places]
    assert rows(columns.take(places)) == rows(EntryArrays(columns).take(np.array(places, dtype="i8"))) == wanted
    assert rows(EntryArrays(columns.take(places)).take(np.arange(len(places)))) == wanted
    start = data.draw(st.integers(0, len(one) - 1))
    stop = data.draw(st.integers(start + 1, len(one)))
    assert rows(columns.slice(start, stop)) == entries[start:stop]
    halves = [columns.slice(0, start), columns.slice(start, len(one))] if start else [columns]
    assert rows(concatenate_batches(halves)) == entries
    ascending = sorted(set(places))
    assert list(block.iter_entries_at(ascending)) == [entries[place] for place in ascending]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(groups(), CODECS), min_size=1, max_size=4))
def test_blocks_joined_are_the_rows_of_each(parts: list[tuple[EntryBatch, int]]) -> None:
    blocks, first = [], 1
    for one, codec in parts:
        blocks += decode_all(one, codec, first)
        first += len(one)
    joined = concatenate_batches([block.decode_columns() for block in blocks])
    entries = [entry for block in blocks for entry in block.iter_entries()]
    assert rows(joined) == entries
    arrays = EntryArrays(joined)
    assert arrays.times.tolist() == [entry.time for entry in entries]
    assert arrays.keys.tobytes() == b"".join(entry.key for entry in entries)
    assert [joined.topic_refs[index] for index in arrays.topic_indexes] == [entry.topic for entry in entries]


@settings(max_examples=examples(100), deadline=None)
@given(groups())
def test_columns_of_one_are_the_columns_of_many(one: EntryBatch) -> None:
    """The bytes of each fixed column are the concatenated bytes of its entries, packed one by one."""
    count = len(one)
    whole, _ = pack_columns(one)
    single = [pack_columns(one.slice(place, place + 1))[0] for place in range(count)]
    start = 0
    for column in FIXED_COLUMNS:
        size = 8 if column.code == WORD_CODE else np.dtype(column.code).itemsize
        mine = b"".join(raw[start : start + size] for raw in single)
        assert whole[start * count : (start + size) * count] == mine, column.name
        start += size
    assert start == ENTRY_SIZE


@settings(max_examples=examples(100), deadline=None)
@given(groups(), CODECS, st.data())
def test_values_of_one_are_the_values_of_many(one: EntryBatch, codec: int, data: st.DataObject) -> None:
    """Whether the entries are those of the writer, of a block, or of blocks with one entry each."""
    (block,) = decode_all(one, codec)
    wanted = encode_values(one, range(1, 1 + len(one)))
    assert encode_values(block.decode_columns()) == wanted
    singles = [decode_all(one.slice(place, place + 1), codec, place + 1)[0] for place in range(len(one))]
    assert [encode_values(single.decode_columns())[0] for single in singles] == wanted
    chosen = sorted(data.draw(st.sets(st.integers(1, len(one)))))
    keys, values = read_winner_values(block, np.array(chosen, dtype="u8"))
    assert values == [wanted[txid - 1] for txid in chosen]
    assert b"".join(keys) == b"".join(join_words(one.keys)[8 * txid - 8 : 8 * txid] for txid in chosen)


def test_entries_without_txids_have_no_rows() -> None:
    batch: EntryBatch = EntryBatch([("a", "json")], [b""], bytes(8), bytes(8), 1, operations=fmt.PUBLISH)
    with pytest.raises(ValueError, match="txids"):
        batch.iterate_entries()


def test_a_block_is_not_held_by_its_entries() -> None:
    import gc
    import weakref

    class Held(Block):
        __slots__ = ("__weakref__",)

    one = EntryBatch([("a", "json")], [b"x"], bytes(8), bytes(8), 1)
    (block,) = decode_all(one, blockcodec.CODEC_ZSTD, kind=Held)
    entries, seen = block.decode_columns(), weakref.ref(block)
    gc.disable()
    try:
        del block
        assert seen() is None
    finally:
        gc.enable()
    assert list(entries.payloads) == [b"x"]

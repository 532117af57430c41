"""Entries of a block: both selections return the same as one that reads entry by entry, and decode the same values."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.engine.fold.blocks import (
    build_deletions,
    build_entry_mask,
    encode_tombstone,
    encode_values,
    find_entry_places,
    read_entry_values,
    read_winner_values,
)
from sowctl.journal.block import Block
from sowctl.journal.entries import HAS_USER_KEY, Entry, EntryBatch
from sowctl.journal.format import DELETE, INSERTED_FLAG, PUBLISH, UNKEYED_FLAG
from sowctl.journal.reader import Journal
from sowctl.store.codec import TOMBSTONE_FLAG, encode_plain_records, encode_record
from tests.support.journals import INSTANCE, NO_SYNC, ORDERS, TRADES, group, open_writer, publish

A, B = ORDERS, TRADES
TIMES = [1000, 1500, *range(2000, 2009), 3000]
"""The times of all entries below."""


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> list[Block]:
    """Blocks of one topic and of two, with deletions, texts, and entries from before the topic had a SOW."""
    directory = tmp_path_factory.mktemp("blocks")
    payloads = [b"%d" % number for number in range(9)]
    mixed = array("H", [0, 1, 0, 0, 1, 0, 1, 1, 0])
    gone = bytes([PUBLISH, PUBLISH, DELETE, PUBLISH, DELETE, PUBLISH, PUBLISH, PUBLISH, DELETE])
    groups = [
        group(payloads, time=1000, flags=UNKEYED_FLAG),
        group(payloads, topic=1, time=1500),
        group(
            [b"" if operation == DELETE else payload for payload, operation in zip(payloads, gone, strict=True)],
            topic=mixed,
            times=array("q", range(2000, 2009)),
            operations=gone,
            flags=array("H", [UNKEYED_FLAG if n == 3 else 0 for n in range(9)]),
        ),
        group(
            payloads,
            topic=mixed,
            time=3000,
            flags=array("H", [INSERTED_FLAG | (HAS_USER_KEY if n % 2 else 0) for n in range(9)]),
            user_keys=[b"user %d" % n if n % 2 else None for n in range(9)],
            expirations=array("q", range(9)),
        ),
    ]
    with open_writer(directory, NO_SYNC) as writer:
        publish(writer, *groups, now=3000)
    with Journal.open(directory, INSTANCE) as journal:
        return list(journal.iter_blocks())


def chosen(
    block: Block, topic: tuple[str, str], after: int, until: int | None, at: int | None, unkeyed: bool
) -> list[tuple[int, Entry]]:
    """Implement the specification of :func:`find_entry_places`, entry by entry."""
    return [
        (place, entry)
        for place, entry in enumerate(block.iter_entries())
        if entry.topic == topic
        and after < entry.txid
        and (until is None or entry.txid <= until)
        and (at is None or entry.time <= at)
        and (unkeyed or not entry.flags & UNKEYED_FLAG)
    ]


@given(
    st.integers(0, 40),
    st.none() | st.integers(0, 45),
    st.none() | st.sampled_from([0, *TIMES]),
    st.booleans(),
    st.sampled_from([A, B, ("other", "json")]),
)
def test_one_choice_in_two_forms(
    blocks: list[Block], after: int, until: int | None, at: int | None, unkeyed: bool, topic: tuple[str, str]
) -> None:
    assert {PUBLISH, DELETE} == {entry.operation for block in blocks for entry in block.iter_entries()}
    for block in blocks:
        wanted = chosen(block, topic, after, until, at, unkeyed)
        places = [place for place, _ in wanted]
        assert list(find_entry_places(block, topic, after=after, until=until, at=at, unkeyed=unkeyed)) == places
        mask = build_entry_mask(block, (topic,), after=after, until=until, at=at, unkeyed=unkeyed)
        assert (np.arange(len(block)) if mask is None else mask.nonzero()[0]).tolist() == places
        keys, values = read_entry_values(block, topic, after=after, until=until, at=at, unkeyed=unkeyed)
        assert keys == [entry.key for _, entry in wanted]
        assert values == [value(entry) for _, entry in wanted]
        winners = np.array([entry.txid for _, entry in wanted], dtype=np.uint64)
        assert read_winner_values(block, winners) == (keys, values)


@pytest.mark.parametrize("at", [0, *TIMES])
def test_an_entry_of_the_instant_itself_is_within_it(blocks: list[Block], at: int) -> None:
    assert sorted({entry.time for block in blocks for entry in block.iter_entries()}) == TIMES
    for block in blocks:
        for topic in (A, B):
            places = [place for place, _ in chosen(block, topic, 0, None, at, True)]
            assert list(find_entry_places(block, topic, at=at, unkeyed=True)) == places
            mask = build_entry_mask(block, (topic,), at=at, unkeyed=True)
            assert (np.arange(len(block)) if mask is None else mask.nonzero()[0]).tolist() == places
        since = build_entry_mask(block, (A, B), since=at, unkeyed=True)
        later = [entry.time >= at for entry in block.iter_entries()]
        assert all(later) if since is None else since.tolist() == later


def value(entry: Entry) -> bytes:
    if entry.operation == DELETE:
        return encode_tombstone(entry.key, entry.check, entry.txid, entry.time)
    texts = entry.user_key, entry.correlation_id, entry.logical_topic
    return encode_record(entry.key, entry.check, entry.txid, entry.time, entry.expiration, 0, entry.payload, texts)


def test_all_topics_of_a_block_are_all_of_its_entries(blocks: list[Block]) -> None:
    for block in blocks:
        assert build_entry_mask(block, (A, B), unkeyed=True) is None


def test_values_of_columns() -> None:
    keys, checks = [b"k" * 8, b"l" * 8], [b"c" * 8, b"d" * 8]
    columns = {"keys": keys, "checks": checks, "times": [3, 4], "expirations": [0, 5]}
    plain = EntryBatch([A], [b"x", b"y"], **columns)
    assert encode_values(plain, [1, 2]) == encode_plain_records(keys, checks, [1, 2], [3, 4], [0, 5], [b"x", b"y"])
    both = [encode_tombstone(key, check, txid, txid + 2) for key, check, txid in zip(keys, checks, (1, 2), strict=True)]
    deletions = build_deletions(A, keys, checks, 3)
    assert encode_values(replace(deletions, times=[3, 4]), [1, 2]) == both
    listed = EntryBatch([A], [b""] * 2, **columns, operations=bytes([DELETE, DELETE]), user_keys=[b"me"] * 2)
    assert encode_values(listed, [1, 2]) == both
    mixed = EntryBatch([A], [b"", b"y"], **columns, operations=bytes([DELETE, PUBLISH]), user_keys=[None, b"me"])
    gone, users = encode_values(mixed, [1, 2])
    assert gone == encode_tombstone(keys[0], checks[0], 1, 3) and gone[0] & TOMBSTONE_FLAG
    assert users == encode_record(keys[1], checks[1], 2, 4, 5, 0, b"y", (b"me", None, None))


def test_a_block_of_another_topic_has_nothing(blocks: list[Block]) -> None:
    assert read_entry_values(blocks[-1], ("nowhere", "json")) == ([], [])

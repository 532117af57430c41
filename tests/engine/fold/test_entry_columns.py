"""Pending records in columns: their key table acts like a dictionary, their memtable like one of values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

np = pytest.importorskip("numpy")

from sowctl.engine.fold.blocks import encode_tombstone  # noqa: E402
from sowctl.engine.fold.entry_columns import KeyTable, LatestEntries, find_latest_entries  # noqa: E402
from sowctl.engine.fold.memtable import Memtable  # noqa: E402
from sowctl.engine.writing.batch_outcomes import decide_batch  # noqa: E402
from sowctl.engine.writing.outcome import decide_outcomes, find_unchanged  # noqa: E402
from sowctl.journal.entries import EntryBatch, Numbers  # noqa: E402
from sowctl.store import codec  # noqa: E402
from tests.support.blocks import decode_all, groups  # noqa: E402
from tests.support.stores import START, key_of, value_of  # noqa: E402

NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 40)
CHECK, OTHER = b"checkwrd", b"drowkcehc"[:8]


@given(st.lists(st.sets(NUMBERS, max_size=60), max_size=8), st.sets(NUMBERS, max_size=20))
def test_a_table_is_a_dictionary(batches: list[set[int]], asked: set[int]) -> None:
    # Few slots, so that keys collide and the table grows.
    table, plain = KeyTable(3), dict[int, int]()
    for number, batch in enumerate(batches):
        keys, rows = sorted(batch), range(100 * number, 100 * number + len(batch))
        table.set_rows(np.array(keys, dtype=np.uint64), np.array(rows, dtype=np.intp))
        plain.update(zip(keys, rows, strict=True))
        assert len(table) == len(plain)
    every = sorted(asked | set(plain))
    assert table.find_rows(np.array(every, dtype=np.uint64)).tolist() == [plain.get(key, -1) for key in every]
    keys, rows = table.list_rows()
    assert dict(zip(keys.tolist(), rows.tolist(), strict=True)) == plain


def published(
    keys: list[bytes], payloads: list[bytes], times: Numbers, checks: list[bytes] | None = None
) -> tuple[EntryBatch, LatestEntries]:
    """Return records as columns, as a batch builds them."""
    last = {int.from_bytes(key, "big"): place for place, key in enumerate(keys)}
    places = np.array(list(last.values()), dtype=np.intp)
    entries = EntryBatch([("t", "json")], payloads, keys, checks or [CHECK] * len(keys), times)
    sizes = np.array(list(map(len, payloads)), dtype=np.int64)
    return entries, LatestEntries(np.array(list(last), dtype=np.uint64), places, sizes)


STEP = st.tuples(st.sampled_from(["columns", "values", "delete", "read"]), st.lists(st.integers(0, 9), min_size=1))


@given(st.lists(STEP, max_size=8), st.booleans(), st.integers(1, 4))
def test_an_overlay_says_the_same_of_columns_as_of_values(
    steps: list[tuple[str, list[int]]], dropping: bool, size: int
) -> None:
    """With any steps between; columns that the memtable drops were superseded."""
    one, other, txid = Memtable(), Memtable(), 0
    for form, numbers in steps:
        keys, payloads = [key_of(n) for n in numbers], [b"%d" % n for n in numbers]
        txids = range(txid + 1, txid + 1 + len(keys))
        values = [value_of(*one) for one in zip(keys, txids, payloads, strict=True)]
        if form == "delete":
            gone = [encode_tombstone(key, CHECK, at, START + at) for key, at in zip(keys, txids, strict=True)]
            one.put_deletions(keys, gone)
            other.put_deletions(keys, gone)
        elif form == "read":
            assert one.current_changes == other.current_changes
            continue
        else:
            other.put_records(keys, values)
            if form == "values":
                one.put_records(keys, values)
            else:
                times = [START + at for at in txids]
                one.put_columns(*published(keys, payloads, times), txids)
                waiting = one.unpacked
                assert waiting is not None and waiting.held <= waiting.taken <= waiting.added
                if dropping:
                    layer = waiting.sort_rows()
                    values = [value or b"" for value in layer.read_changes(0, len(layer))[1]]
                    assert waiting.exceeds_bytes(1) and waiting.taken == waiting.held == sum(map(len, values))
                assert not waiting.exceeds_bytes(waiting.taken + 1)
        txid = txids[-1]
        assert (one.last_txid, one.last_time, one.deletes) == (other.last_txid, other.last_time, other.deletes)
        assert 0 < one.added_bytes <= other.added_bytes and one.memory_change_count >= other.memory_change_count
    assert set(one.list_memory_keys()) == set(other.current_changes)
    windows = [dict(part) for _, part in one.select_newest(size, key_of(2), key_of(8)).read_upto(None)]
    assert windows == [dict(part) for _, part in other.select_newest(size, key_of(2), key_of(8)).read_upto(None)]
    assert list(one.iterate_parts(size)) == list(other.iterate_parts(size))
    for memtable in (one, other):
        count, parts = memtable.sort_memory_changes(size)
        found = [pair for keys, values in parts for pair in zip(keys, values, strict=True)]
        assert len(found) == count and found == sorted(other.current_changes.items())
    asked = [key_of(n) for n in range(12)]
    assert one.find_values(asked) == other.find_values(asked) and one.current_changes == other.current_changes


class Standing:
    """A topic as the decision by columns sees it: some records are pending in columns, the others are stored."""

    def __init__(self, memtable: Memtable, stored: dict[bytes, bytes]) -> None:
        self.memtable, self._stored = memtable, stored

    def read_packed_values(self, keys: list[bytes]) -> dict[bytes, bytes]:
        assert keys == sorted(set(keys))
        return {key: self._stored[key] for key in keys if key in self._stored}


RECORD = st.tuples(st.integers(0, 5), st.sampled_from([b"", b"{}", b"ab", b"{} "]), st.integers(0, 9).map(bool))


@given(st.lists(RECORD, min_size=1, max_size=12), st.lists(RECORD, max_size=6), st.lists(RECORD, max_size=6))
def test_columns_decide_what_lists_decide(
    messages: list[tuple[int, bytes, bool]],
    waiting: list[tuple[int, bytes, bool]],
    stored: list[tuple[int, bytes, bool]],
) -> None:
    """For the same messages and records; where a key belongs to another record, columns leave the decision to lists."""
    store = {
        key_of(n): codec.encode_record(key_of(n), CHECK if own else OTHER, 1, 2, 0, 0, text) for n, text, own in stored
    }
    memtable = Memtable()
    if waiting:
        keys = [key_of(n) for n, _, _ in waiting]
        checks = [CHECK if own else OTHER for _, _, own in waiting]
        memtable.put_columns(*published(keys, [text for _, text, _ in waiting], 5, checks), range(1, len(keys) + 1))
    keys, checks = [key_of(n) for n, _, _ in messages], [CHECK if own else OTHER for _, _, own in messages]
    payloads = [text for _, text, _ in messages]
    batch = EntryBatch([("t", "json")], payloads, keys, checks, 5)
    found = decide_batch(Standing(memtable, store), batch)  # type: ignore[arg-type]
    befores = [memtable.current_changes.get(key, store.get(key)) for key in keys]
    statuses, _ = decide_outcomes(keys, checks, payloads, befores, find_unchanged(befores, payloads))
    met: dict[bytes, bytes] = {
        key: value[codec.KEY_CHECK_SLICE] for key, value in zip(keys, befores, strict=True) if value
    }
    alike = all(met.setdefault(key, check) == check for key, check in zip(keys, checks, strict=True))
    assert (found is None) is not alike
    if found is not None:
        assert found.statuses == statuses
        assert dict(zip(found.latest.keys.tolist(), found.latest.places.tolist(), strict=True)) == {
            int.from_bytes(key, "big"): place for place, key in enumerate(keys)
        }


@given(groups(), st.booleans())
def test_a_block_as_columns_is_the_block_as_values(one: EntryBatch, plain: bool) -> None:
    """Where the block gives its last entries; never for a block of several topics, with deletions or texts."""
    if plain:
        one = structs.replace(one, operations=1, topic_indexes=0, user_keys=None, correlation_ids=None)
        one.logical_topics = None
    (block,) = decode_all(one, 0)
    latest = find_latest_entries(block)
    assert latest is not None or not plain
    if latest is None:
        return
    columns, values = Memtable(), Memtable()
    columns.put_columns(block.decode_columns(), latest, range(block.first_txid, block.last_txid + 1))
    values.fold_block(block, block.topic_refs[0])
    assert (columns.last_txid, columns.last_time) == (values.last_txid, values.last_time)
    assert columns.current_changes == values.current_changes

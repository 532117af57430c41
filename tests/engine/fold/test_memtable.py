"""The memtable: the newest value per key, every change for topics with History, and the held bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.blocks import encode_tombstone
from sowctl.engine.fold.memtable import Memtable
from tests.support.stores import START, key_of, value_of

CHANGES = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40)


@given(CHANGES, st.booleans())
def test_newest_per_key_and_all_changes(changes: list[tuple[int, bool]], history: bool) -> None:
    memtable = Memtable(history=history)
    log: list[tuple[bytes, bytes]] = []
    newest: dict[bytes, bytes | None] = {}
    for txid, (number, deleted) in enumerate(changes, start=1):
        key = key_of(number)
        if deleted:
            value = encode_tombstone(key, b"checkwrd", txid, START + txid)
            memtable.put_deletions([key], [value])
        else:
            value = value_of(key, txid, b"x" * number)
            memtable.put_records([key], [value])
        log.append((key, value))
        newest[key] = None if deleted else value
    assert memtable.current_changes == newest and len(memtable) == len(log if history else newest)
    assert memtable.changes == (log if history else None)
    assert memtable.deletes is any(deleted for _, deleted in changes)
    assert memtable.added_bytes == sum(len(value) for _, value in log)
    assert (memtable.last_txid, memtable.last_time) == ((len(log), START + len(log)) if log else (0, 0))
    assert 0 <= memtable.held_bytes <= memtable.added_bytes and (
        not history or memtable.held_bytes == memtable.added_bytes
    )


def test_what_was_applied_is_forgotten_but_its_position() -> None:
    memtable = Memtable(history=True, base=3)
    memtable.put_records([key_of(1)], [value_of(key_of(1), 7, b"x")])
    memtable.put_deletions([key_of(2)], [encode_tombstone(key_of(2), b"checkwrd", 8, START + 8)])
    memtable.clear(8)
    assert (memtable.base, memtable.last_txid, memtable.last_time) == (8, 8, START + 8)
    assert (
        memtable.current_changes,
        memtable.changes,
        memtable.added_bytes,
        memtable.held_bytes,
        memtable.deletes,
    ) == (
        {},
        [],
        0,
        0,
        False,
    )


@pytest.mark.parametrize("history", [False, True])
def test_several_values_of_one_key_at_once(history: bool) -> None:
    memtable = Memtable(history=history)
    key = key_of(1)
    values = [value_of(key, txid, b"%d" % txid) for txid in (1, 2, 3)]
    memtable.put_records([key] * 3, values)
    assert memtable.current_changes == {key: values[-1]} and memtable.last_txid == 3
    # superseded values are dropped unless the topic has History
    assert memtable.held_bytes == (memtable.added_bytes if history else memtable.added_bytes // 3)

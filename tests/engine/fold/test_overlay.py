"""The overlay: newest value per key, every change where there is history, and how much it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.blocks import tombstone
from sowctl.engine.fold.overlay import Overlay
from tests.support.stores import START, key_of, value_of

CHANGES = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40)


@given(CHANGES, st.booleans())
def test_newest_per_key_and_all_changes(changes: list[tuple[int, bool]], history: bool) -> None:
    overlay = Overlay(history=history)
    log: list[tuple[bytes, bytes]] = []
    newest: dict[bytes, bytes | None] = {}
    for txid, (number, deleted) in enumerate(changes, start=1):
        key = key_of(number)
        if deleted:
            value = tombstone(key, b"checkwrd", txid, START + txid)
            overlay.delete([key], [value])
        else:
            value = value_of(key, txid, b"x" * number)
            overlay.put([key], [value])
        log.append((key, value))
        newest[key] = None if deleted else value
    assert overlay.current == newest and len(overlay) == len(log if history else newest)
    assert overlay.changes == (log if history else None)
    assert overlay.deletes is any(deleted for _, deleted in changes)
    assert overlay.size == sum(len(value) for _, value in log)
    assert (overlay.last_txid, overlay.last_time) == ((len(log), START + len(log)) if log else (0, 0))
    assert 0 <= overlay.held <= overlay.size and (not history or overlay.held == overlay.size)


def test_what_was_applied_is_forgotten_but_its_position() -> None:
    overlay = Overlay(history=True, base=3)
    overlay.put([key_of(1)], [value_of(key_of(1), 7, b"x")])
    overlay.delete([key_of(2)], [tombstone(key_of(2), b"checkwrd", 8, START + 8)])
    overlay.clear(8)
    assert (overlay.base, overlay.last_txid, overlay.last_time) == (8, 8, START + 8)
    assert (overlay.current, overlay.changes, overlay.size, overlay.held, overlay.deletes) == ({}, [], 0, 0, False)


@pytest.mark.parametrize("history", [False, True])
def test_several_values_of_one_key_at_once(history: bool) -> None:
    overlay = Overlay(history=history)
    key = key_of(1)
    values = [value_of(key, txid, b"%d" % txid) for txid in (1, 2, 3)]
    overlay.put([key] * 3, values)
    assert overlay.current == {key: values[-1]} and overlay.last_txid == 3
    # superseded values are gone unless there is history
    assert overlay.held == (overlay.size if history else overlay.size // 3)

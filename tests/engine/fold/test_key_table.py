"""The table of the last entries by key: equal to a dict, under every memory limit."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from sowctl.engine.fold import key_table
from sowctl.engine.fold.key_table import KeyTable
from sowctl.engine.fold.last_per_key import LastPerKey
from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.errors import StorageError


def later(entries: list[tuple[int, int, bool]]) -> LastPerKey:
    """Return entries of distinct keys, later than all others: key, txid, whether it is a publish."""
    made = LastPerKey()
    keys, txids, publishes = zip(*entries, strict=True)
    columns = np.array(keys, np.uint64), np.array(txids, np.uint64), np.array(publishes)
    made.add_columns(*columns, entries=len(keys), latest=txids[-1], last_txid=txids[-1])
    return made


@pytest.mark.parametrize("held", [1, 20, 300, 100_000])
def test_it_finds_what_a_dict_finds(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "table_entries", held)
    monkeypatch.setattr(FOLD_LIMITS, "table_piece_entries", 16)
    monkeypatch.setattr(FOLD_LIMITS, "table_read_pieces", 3)
    rng = random.Random(held)
    keys = [0, (1 << 64) - 1, *(rng.getrandbits(64) for _ in range(700))]
    table, known, txid = KeyTable(), dict[int, int | None](), 0
    for _ in range(120):
        entries = []
        for key in rng.sample(keys, rng.choice((1, 5, 60))):
            txid += 1
            entries.append((key, txid, rng.random() < 0.7))
            known[key] = txid if entries[-1][2] else None
        table.add_entries(later(entries))
        wanted = sorted({*rng.sample(keys, rng.choice((0, 1, 3, 200))), *(rng.getrandbits(64) for _ in range(3))})
        found = table.find_record_txids(np.array(wanted, np.uint64))
        assert found.tolist() == sorted(filter(None, map(known.get, wanted)))
        assert found.dtype == np.uint64
    assert len(table._runs) < 30 and (len(table._runs) > 1) == (held <= 300)
    assert table.list_record_txids().tolist() == sorted(filter(None, known.values()))
    assert (table.entries, table.latest) == (txid, txid)


def test_an_empty_table() -> None:
    table = KeyTable()
    assert table.list_record_txids().tolist() == table.find_record_txids(np.array([5], np.uint64)).tolist() == []
    assert (table.entries, table.latest) == (0, 0)


def test_a_run_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "table_entries", 1)

    def open_full() -> object:
        return Path("/dev/full").open("r+b", buffering=0)

    monkeypatch.setattr(key_table.tempfile, "TemporaryFile", open_full)
    with pytest.raises(StorageError) as caught:
        KeyTable().add_entries(later([(1, 1, True)]))
    assert caught.value.code == "SOW-ENG-040"

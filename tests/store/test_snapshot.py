"""Snapshots: one state each, until they are renewed."""

from __future__ import annotations

from pathlib import Path

from sowctl.store.env import Store
from tests.support.stores import batch, key_of, new_store


def test_a_snapshot_stays_and_renews(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    with Store.open(path, write=True) as store, store.snapshot() as snapshot:
        store.write(lambda txn: txn.put(*batch(range(3, 8), 2)))
        assert snapshot.count == 5
        assert len(next(snapshot.scan())[0]) == 5
        snapshot.renew()
        assert snapshot.count == 8
        record = snapshot.get(key_of(4))
        assert record is not None
        assert record.txid == 2

"""Snapshots: one state each, until they are renewed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sowctl.errors import SowError, StorageError
from sowctl.store.check import check_store
from sowctl.store.env import Store
from tests.support.stores import batch, key_of, new_store


def test_a_snapshot_stays_and_renews(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    with Store.open(path, write=True) as store, store.open_snapshot() as snapshot:
        store.write(lambda txn: txn.put_records(*batch(range(3, 8), 2)))
        assert snapshot.record_count == 5
        assert len(next(snapshot.scan_records())[0]) == 5
        snapshot.renew()
        assert snapshot.record_count == 8
        record = snapshot.read_record(key_of(4))
        assert record is not None
        assert record.txid == 2


def test_a_copy_is_of_the_snapshot_whoever_writes_meanwhile(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3000)
    copy = tmp_path / "copy.sow"
    with Store.open(path, write=True) as store, store.open_snapshot() as snapshot:
        meta = snapshot.meta
        store.write(lambda txn: txn.put_records(*batch(range(0, 6000, 2), 2)))

        def take(pipe: int) -> int:
            store.write(lambda txn: txn.put_records(*batch(range(9000, 9100), 3)))
            with copy.open("wb") as target:
                return sum(target.write(part) for part in iter(lambda: os.read(pipe, 1 << 16), b""))

        assert snapshot.copy_to_pipe(take) == copy.stat().st_size
    assert not list(check_store(copy))
    with Store.open(copy, write=False) as store:
        assert store.read_meta() == meta


def test_who_reads_a_copy_may_give_up(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3000)
    before = set(Path("/proc/self/fd").iterdir())
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        for read in (0, 100):

            def take(pipe: int, read: int = read) -> None:
                os.read(pipe, read)
                raise OSError(28, "No space left on device")

            with pytest.raises(StorageError):
                snapshot.copy_to_pipe(take)
        assert sum(len(keys) for keys, _ in snapshot.scan_records()) == 3000
    assert len(set(Path("/proc/self/fd").iterdir()) - before) == 0


def test_what_is_read_in_parts_ends_with_its_snapshot(tmp_path: Path) -> None:
    # After its end the pages of a state may be reused: no more data may be returned from them.
    new_store(tmp_path / "x.sow", 3000)
    with Store.open(tmp_path / "x.sow", write=False) as store:
        snapshot = store.open_snapshot()
        parts = snapshot.scan_records(batch=100)
        assert len(next(parts)[0]) == 100
        snapshot.close()
        with pytest.raises(SowError):
            for _ in parts:
                pass
        with pytest.raises(SowError):
            snapshot.read_values([key_of(2000)])

"""Reading a store: records and scans (sow-store(5), HOW TO READ)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.checksum import crc32
from sowctl.errors import DamageError
from sowctl.store.env import Store
from sowctl.store.integrity import Marks
from sowctl.store.limits import STORE_LIMITS
from tests.support.stores import START, batch, key_of, new_store, tamper


def test_reading(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 25)
    keys, values = batch(range(25), 1)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert snapshot.record_count == 25
        record = snapshot.read_record(keys[3])
        assert record is not None
        assert (record.txid, record.time, record.value) == (1, START + 1, values[3])
        assert snapshot.read_record(key_of(99)) is None
        assert snapshot.read_values([keys[2], key_of(99), keys[9]]) == {keys[2]: values[2], keys[9]: values[9]}
        assert snapshot.read_values([]) == {}
        assert list(snapshot.scan_records(batch=10)) == [
            (keys[at : at + 10], values[at : at + 10]) for at in (0, 10, 20)
        ]
        assert list(snapshot.scan_records(keys[4], keys[7])) == [(keys[4:7], values[4:7])]
        assert list(snapshot.scan_records(key_of(3)[:4], keys[5], batch=1)) == [
            ([one], [two]) for one, two in zip(keys[3:5], values[3:5], strict=True)
        ]
        assert list(snapshot.scan_records(keys[5], keys[5])) == []
        assert list(snapshot.scan_records(b"\xff" * 8)) == []


def test_a_scan_refuses_values_that_are_too_short(tmp_path: Path) -> None:
    """A value with a valid checksum that is shorter than a header."""
    path, key, rest = new_store(tmp_path / "x.sow", 30), key_of(7), b"short"
    tamper(path, b"records", key, rest + crc32(rest, crc32(key)).to_bytes(4, "little"))
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        with pytest.raises(DamageError, match=f"record {int.from_bytes(key)} ") as caught:
            list(snapshot.scan_records())
        assert caught.value.code == "SOW-STO-001"
        assert [len(keys) for keys, _, _ in snapshot.scan_runs()] == [30], "that is left to whoever takes them apart"


def test_values_are_copied_where_they_are_not_too_large_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_store(tmp_path / "x.sow", 30)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(20, 22), 2, size=100_000)))
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        monkeypatch.setattr(STORE_LIMITS, "max_run_bytes", 10 * 4096)
        runs = list(snapshot.scan_runs(batch=10, marks=Marks(bytes(12))))
        assert [len(keys) for keys, _, _ in runs] == [10, 10, 10]
        assert [run is not None for _, _, run in runs] == [True, True, False]
        assert {run for _, _, run in snapshot.scan_runs(batch=10)} == {None}, "nobody could tell what stands where"

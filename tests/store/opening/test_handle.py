"""One open environment: its map grows with the store, even with little address space, and never survives a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sowctl.errors import RefusedError
from sowctl.store.env import Store
from sowctl.store.write import WriteTxn
from tests.support.stores import batch, contents, key_of, new_store


def test_the_map_grows_beyond_its_first_size(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=True, durable=False) as store:
        runs = []

        def fill(txn: WriteTxn) -> None:
            runs.append(1)
            txn.put_records(*batch(range(6000), 1, size=4000))

        store.write(fill)
        assert len(runs) == 2
        assert store.read_file_size() > 20 << 20
        runs.clear()
        store.write(fill, pending=6000 * 4100)
        assert len(runs) == 1
        assert store.read_meta().records == 6000


def test_it_does_not_grow_under_its_own_snapshot(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    with Store.open(path, write=True, durable=False) as store:
        with store.open_snapshot() as snapshot:
            with pytest.raises(RefusedError) as raised:
                store.write(lambda txn: txn.put_records(*batch(range(6000), 2, size=4000)))
            assert raised.value.code == "SOW-STO-028"
            assert len(next(snapshot.scan_records())[0]) == 10
            store.write(lambda txn: txn.put_records(*batch(range(20), 2)))
        store.write(lambda txn: txn.put_records(*batch(range(6000), 2, size=4000)))
        assert store.read_meta().records == 6000


CHILD = """
import sys
from pathlib import Path
from sowctl.store.env import Store
from tests.support.stores import batch
with Store.open(sys.argv[1], write=True, durable=False) as store:
    store.write(lambda txn: txn.put_records(*batch(range(int(sys.argv[2])), 2, size=4000)))
"""


def test_another_process_grows_the_map_while_a_reader_is_open(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    with Store.open(path, write=False) as store:
        with store.open_snapshot() as snapshot:
            subprocess.run([sys.executable, "-c", CHILD, str(path), "6000"], check=True)
            assert snapshot.record_count == 10
            assert sum(len(keys) for keys, _ in snapshot.scan_records()) == 10
        with store.open_snapshot() as snapshot:
            assert sum(len(keys) for keys, _ in snapshot.scan_records()) == 6000
            assert snapshot.read_record(key_of(5999)) is not None


def test_little_address_space_is_enough_for_a_small_store_and_named_for_a_large_one(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    script = "import resource; resource.setrlimit(resource.RLIMIT_AS, (160 << 20, 160 << 20))\n" + CHILD
    subprocess.run([sys.executable, "-c", script, str(path), "100"], check=True)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), "40000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "SOW-STO-043" in done.stderr or "address space" in done.stderr or "MemoryError" in done.stderr
    assert contents(path)[2].records == 100


def test_a_handle_does_not_survive_a_fork(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True) as store:
        pid = os.fork()
        if pid == 0:
            codes = []
            for action in (store.open_snapshot, lambda: store.write(lambda txn: None)):
                try:
                    action()
                except RefusedError as error:
                    codes.append(error.code)
            os._exit(0 if codes == ["SOW-STO-027"] * 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        store.write(lambda txn: txn.put_records(*batch(range(4), 2)))
        assert store.read_meta().records == 4

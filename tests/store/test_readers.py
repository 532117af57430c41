"""Concurrent readers: threads and handles of one process, alongside a writer and while a file is replaced."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sowctl.errors import RefusedError
from sowctl.seam import Seam
from sowctl.store import codec
from sowctl.store.env import Store
from tests.support.stores import batch, contents, new_store


def test_threads_read_while_one_writes(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 50)
    problems: list[BaseException] = []
    stop = threading.Event()
    with Store.open(path, write=True, durable=False, lock_wait=5) as store:

        def read() -> None:
            try:
                while not stop.is_set():
                    with store.open_snapshot() as snapshot:
                        txids = {
                            codec.read_stamps(value)[0] for _, values in snapshot.scan_records() for value in values
                        }
                        assert len(txids) == 1
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for txid in range(2, 60):
            store.write(lambda txn, txid=txid: txn.put_records(*batch(range(50), txid)))  # type: ignore[misc]
        stop.set()
        for thread in threads:
            thread.join()
    assert problems == []


def test_readers_of_one_process_share_an_environment(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 20)
    link = tmp_path / "link.sow"
    link.symlink_to(path)
    first, second = Store.open(path, write=False), Store.open(link, write=False)
    with first.open_snapshot() as one, second.open_snapshot() as other:
        assert one.record_count == other.record_count == 20
    first.close()
    with second.open_snapshot() as snapshot:
        first = Store.open(path, write=False)
        second.close()
        assert first.read_meta().records == snapshot.record_count == 20, "a snapshot goes on when its store is closed"
        first.close()
        with Store.open(path, write=False) as third:
            assert third.read_meta().records == 20, "nor does it keep others from opening it"
        assert len(list(snapshot.scan_records())) == 1
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(30), 2)))
        with pytest.raises(RefusedError) as raised:
            Store.open(path, write=False)
        assert raised.value.code == "SOW-STO-027"
    assert contents(path)[2].records == 30


def test_a_writer_does_not_share_with_readers(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=False) as reading:
        with pytest.raises(RefusedError) as raised:
            Store.open(path, write=True)
        assert raised.value.code == "SOW-STO-027"
        assert raised.value.hint is not None
        assert "close it" in raised.value.hint
        assert reading.read_meta().records == 3
    Store.open(path, write=True).close()


def test_who_opens_a_replaced_store_does_not_get_the_old_one(tmp_path: Path) -> None:
    path, other = new_store(tmp_path / "x.sow", 3), new_store(tmp_path / "y.sow", 5)
    with Store.open(path, write=False) as old, old.open_snapshot() as snapshot:
        other.rename(path)
        with Store.open(path, write=False, lock_wait=1) as new:
            assert (new.read_meta().records, snapshot.record_count) == (5, 3)
            assert old.read_meta().records == 5


def test_seams_are_not_shared(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=False), pytest.raises(RefusedError):
        Store.open(path, write=False, seam=Seam())


def test_threads_open_and_close_the_same_store(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 200)
    problems: list[BaseException] = []
    barrier = threading.Barrier(6)

    def read() -> None:
        try:
            barrier.wait()
            for _ in range(60):
                with Store.open(path, write=False, lock_wait=5) as store, store.open_snapshot() as snapshot:
                    assert sum(len(keys) for keys, _ in snapshot.scan_records()) == 200
        except BaseException as problem:  # whatever it is, the test tells
            problems.append(problem)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    Store.open(path, write=True).close()

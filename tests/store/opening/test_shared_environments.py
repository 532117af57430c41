"""Environments that stay open for the next reader, if a program announces further queries."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sowctl.errors import DamageError, LockedError, RefusedError
from sowctl.seam import Seam
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.opening import shared_environments
from tests.support.stores import batch, contents, new_store, opened


@contextmanager
def kept() -> Iterator[None]:
    shared_environments.keep_open()
    try:
        yield
    finally:
        shared_environments.end_keep_open()


def records(path: Path, seam: Seam | None = None) -> int:
    with Store.open(path, write=False, **({} if seam is None else {"seam": seam})) as store:
        return store.read_meta().records


pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")


def test_nothing_stays_open_unless_asked(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    assert (records(path), opened(path)) == (3, 0)
    with kept():
        with kept():
            assert (records(path), opened(path) > 0) == (3, True)
        assert opened(path) > 0
        shared_environments.close_unused_environments()
        assert opened(path) == 0
        assert (records(path), opened(path) > 0) == (3, True)
    assert opened(path) == 0


def test_a_snapshot_outlives_it(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with kept():
        store = Store.open(path, write=False)
        snapshot = store.open_snapshot()
        store.close()
    assert snapshot.record_count == 3
    assert opened(path) > 0
    snapshot.close()
    assert opened(path) == 0


def test_whoever_writes_gets_the_file(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with kept():
        assert records(path) == 3
        with Store.open(path, write=True) as store:
            store.write(lambda txn: txn.put_records(*batch(range(30), 2)))
        assert records(path) == 30
        with Store.open(path, write=False), pytest.raises(RefusedError):
            Store.open(path, write=True)
        assert records(path, Seam()) == 30, "nor does it keep other system calls from being used"
        assert contents(path)[2].records == 30


def test_another_process_writes_meanwhile(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with kept():
        assert records(path) == 3
        child = os.fork()
        if not child:
            with Store.open(path, write=True) as store:
                store.write(lambda txn: txn.put_records(*batch(range(500), 2, size=3000)))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert records(path) == 500


def test_a_replaced_file_is_seen(tmp_path: Path) -> None:
    path, other = new_store(tmp_path / "x.sow", 3), new_store(tmp_path / "y.sow", 5)
    with kept():
        assert records(path) == 3
        other.rename(path)
        assert records(path) == 5
        store = Store.open(path, write=False)
        assert store.read_meta().records == 5
        new_store(tmp_path / "z.sow", 7).rename(path)
        store.close()
        assert opened(path) == 0, "nobody can use the old one any more"
        assert records(path) == 7
        path.unlink()
        new_store(path, 9)
        assert records(path) == 9


def test_a_fork_finds_nothing_open(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with kept():
        assert records(path) == 3
        child = os.fork()
        if not child:
            os._exit(0 if records(path) == 3 and opened(path) == 0 else 1)
        assert opened(path) == 0, "LMDB's locks do not come along"
        assert os.waitpid(child, 0)[1] == 0
        assert records(path) == 3


def test_a_fork_may_leave_what_its_parent_entered(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    shared_environments.keep_open()
    child = os.fork()
    if not child:
        shared_environments.end_keep_open()
        os._exit(0 if records(path) == 3 and opened(path) == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (records(path), opened(path) > 0) == (3, True)
    shared_environments.end_keep_open()
    assert opened(path) == 0


def test_a_file_that_was_cut_meanwhile(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 300)
    with kept():
        assert records(path) == 300
        with path.open("r+b") as file:
            file.truncate(3 * 4096)
        for _ in range(2):
            with pytest.raises(DamageError) as raised:
                records(path)
            assert raised.value.code == "SOW-STO-022"
        assert opened(path) == 0


def test_a_writer_reads_a_replaced_file_that_others_have_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = new_store(tmp_path / "x.sow", 3), new_store(tmp_path / "y.sow", 5)
    with kept(), Store.open(path, write=True) as store:
        other.rename(path)
        assert records(path) == 5

        def refuse(wait: float) -> None:
            raise LockedError("SOW-STO-031", "another process writes")

        monkeypatch.setattr(store.lock, "hold", refuse)
        assert store.read_meta().records == 5


def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORE_LIMITS, "max_idle_environments", 2)
    paths = [new_store(tmp_path / f"{number}.sow", number + 1) for number in range(4)]
    with kept():
        assert [records(path) for path in paths] == [1, 2, 3, 4]
        assert [opened(path) > 0 for path in paths] == [False, False, True, True]
    assert not any(map(opened, paths))


def test_threads_read_while_one_writes(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 200)
    problems: list[BaseException] = []
    barrier = threading.Barrier(5)

    def read() -> None:
        try:
            barrier.wait()
            for _ in range(100):
                with Store.open(path, write=False, lock_wait=5) as store, store.open_snapshot() as snapshot:
                    assert sum(len(keys) for keys, _ in snapshot.scan_records()) >= 200
        except BaseException as problem:  # whatever it is, the test tells
            problems.append(problem)

    def close() -> None:
        barrier.wait()
        for _ in range(300):
            shared_environments.close_unused_environments()

    with kept():
        threads = [threading.Thread(target=read) for _ in range(4)] + [threading.Thread(target=close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert problems == []
    assert opened(path) == 0

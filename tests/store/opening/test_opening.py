"""Opening a store: files that are not stores, damaged or unreadable ones, and opening without locks."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from sowctl.errors import DamageError, LockedError, MissingError, StorageError
from sowctl.seam import Seam
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.write import WriteTxn
from tests.support.processes import Child
from tests.support.stores import batch, contents, new_store


def test_missing_store_makes_no_files(tmp_path: Path) -> None:
    for write in (False, True):
        with pytest.raises(MissingError) as raised:
            Store.open(tmp_path / "x.sow", write=write)
        assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-020", 10)
    assert list(tmp_path.iterdir()) == []


def test_garbage_is_not_a_store(tmp_path: Path) -> None:
    path = tmp_path / "x.sow"
    for content in (b"", b"x", b"garbage" * 5000, bytes(20_000)):
        path.write_bytes(content)
        with pytest.raises(DamageError) as raised:
            Store.open(path, write=False)
        assert raised.value.code == "SOW-STO-021"


def test_another_lmdb_file_is_not_a_store(tmp_path: Path) -> None:
    path = tmp_path / "x.sow"
    with lmdb.open(str(path), subdir=False) as env, env.begin(write=True) as txn:
        txn.put(b"a", b"b")
    for write in (False, True):
        with pytest.raises(DamageError) as raised:
            Store.open(path, write=write)
        assert raised.value.code == "SOW-STO-010"


def test_a_copy_is_read_without_locks_from_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    new_store(tmp_path / "x.sow", 4)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(tmp_path / "x.sow", copy / "x.sow")
    with Store.open(copy / "x.sow", write=False, no_lock=True) as store:
        assert store.read_meta().records == 4
    assert [entry.name for entry in copy.iterdir()] == ["x.sow"]
    with pytest.raises(ValueError, match="without locks"):
        Store.open(copy / "x.sow", write=True, no_lock=True)


def test_a_store_that_fails_behind_its_opening_is_not_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_store(tmp_path / "x.sow", 4)
    for place, problem in (
        ("unlocked_watch.StateWatch.read_inode", OSError(errno.EIO, "no disk")),
        ("unlocked_watch.StateWatch.read_inode", KeyboardInterrupt()),
        ("environment.read_identity", KeyboardInterrupt()),
    ):
        with monkeypatch.context() as patch:

            def failed(*_: object, problem: BaseException = problem) -> None:
                raise problem

            patch.setattr(f"sowctl.store.opening.{place}", failed)
            # While the error exists, so do the objects in its frames.
            with pytest.raises((StorageError, KeyboardInterrupt)) as raised:
                Store.open(path, write=False, no_lock=True)
        with Store.open(path, write=False, no_lock=True) as store:
            assert store.read_meta().records == 4
        assert raised.tb is not None


@pytest.fixture
def unfinished(tmp_path: Path) -> Iterator[tuple[Path, Child]]:
    """A store whose lock file was left by a killed process in LMDB's initial state and then used by another process;
    yields that process, too."""
    path = new_store(tmp_path / "x.sow", 4)
    with Store.open(path, write=True) as store:
        for txid in range(2, 302):
            store.write(lambda txn, txid=txid: txn.put_records(*batch(range(1), txid)))  # type: ignore[misc]

    def hold(child: Child) -> None:
        with lmdb.open(str(path), subdir=False, readonly=True):
            child.say("open")
            os.read(child.inlet, 1)

    with Child(hold) as child:
        child.wait_for(b"open")
        with lmdb.open(str(path), subdir=False, readonly=True) as env, env.begin() as txn:
            newest = txn.id()
        lock = path.with_name("x.sow-lock")
        raw = bytearray(lock.read_bytes())
        # It is preceded by 8 bytes of marks and a mutex.
        at = raw.index(newest.to_bytes(8, "little"))
        assert at < 128 and newest > 300
        raw[at : at + 8] = bytes(8)
        lock.write_bytes(raw)
        yield path, child


def test_a_lock_file_that_was_left_unfinished_is_not_used_for_writing(unfinished: tuple[Path, Child]) -> None:
    path, _ = unfinished
    before = path.read_bytes()
    with pytest.raises(StorageError) as raised:
        Store.open(path, write=True)
    assert raised.value.code == "SOW-STO-045"
    assert path.read_bytes() == before
    with Store.open(path, write=False) as store:
        assert store.read_meta().records == 4


def test_a_lock_file_that_was_left_unfinished_is_made_anew_when_nobody_uses_it(unfinished: tuple[Path, Child]) -> None:
    path, child = unfinished
    child.write(b"x")
    assert child.join() == 0
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(5), 400)))
        assert store.read_meta().records == 5
    with Store.open(path, write=False) as store:
        assert store.read_meta().records == 5


def test_a_process_that_opens_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "x.sow", 4)

    class Slow(Seam):
        def call(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if name == "lmdb.open":
                child.say("opening")
                os.read(child.inlet, 1)
            return super().call(name, function, *args, **kwargs)

    def work(me: Child) -> None:
        nonlocal child
        child = me
        Store.open(path, write=False, seam=Slow()).close()

    child = Child(work)
    with child:
        child.wait_for(b"opening")
        monkeypatch.setattr(STORE_LIMITS, "min_gate_wait_seconds", 0.05)
        with pytest.raises(LockedError) as raised:
            Store.open(path, write=False)
        assert raised.value.code == "SOW-STO-031"
        child.write(b"x")
        assert child.join() == 0
    Store.open(path, write=False).close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may everything")
def test_no_permission_is_said(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 4)
    path.chmod(0)
    with pytest.raises(StorageError) as raised:
        Store.open(path, write=False)
    assert raised.value.code == "SOW-STO-041"


def test_a_file_whose_unwritten_end_is_free_is_sound(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 4)
    shorter = 0
    for txid in range(2, 6):

        def come_and_go(txn: WriteTxn, txid: int = txid) -> None:
            keys, values = batch(range(300, 320), txid, size=5000)
            txn.put_records(keys, values)
            txn.delete_records(keys)

        with Store.open(path, write=True, durable=False) as store:
            store.write(come_and_go)
            needed = lmdb_pages(store)
        shorter += path.stat().st_size < needed
        assert len(contents(path)[0]) == contents(path)[2].records == 4
    assert shorter > 0
    with path.open("r+b") as file:
        file.truncate(3 * 4096)
    with pytest.raises(DamageError) as raised:
        Store.open(path, write=False)
    assert raised.value.code == "SOW-STO-022"


def lmdb_pages(store: Store) -> int:
    """Return the file size required by LMDB's last page."""
    env = store._current.open().env
    return (int(env.info()["last_pgno"]) + 1) * int(env.stat()["psize"])

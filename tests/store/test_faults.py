"""Every system call fails, once or permanently, or kills the process: the store is the old or the new one."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from sowctl.errors import DamageError, MissingError, SowError, StorageError
from sowctl.seam import P, R, Seam
from sowctl.store.builder import build_store, create_store
from sowctl.store.check import check_store
from sowctl.store.env import Store
from sowctl.store.write import WriteTxn
from tests.support.faults import CountingSeam, FailAt, KillAt, choose_kills
from tests.support.processes import Child
from tests.support.stores import (
    DEFINITION,
    START,
    Contents,
    batch,
    contents,
    key_of,
    new_store,
    recomputed_digest,
    value_of,
)

Action = Callable[[Path, Seam], None]


def create(path: Path, seam: Seam) -> None:
    create_store(path, DEFINITION, seam=seam, now=START)


def change(txn: WriteTxn) -> None:
    txn.put_records(*batch(range(5, 25), 2, expiration=99))
    txn.delete_records([key_of(1), key_of(2)])
    txn.put_versions([(key_of(1), value_of(key_of(1), 1, b"old"))])
    txn.set_sequence(3, 4)
    txn.set_applied_position(b"L" * 16, 2)


def write(path: Path, seam: Seam) -> None:
    with Store.open(path, write=True, seam=seam) as store:
        store.write(change)


def grow(path: Path, seam: Seam) -> None:
    with Store.open(path, write=True, seam=seam) as store:
        store.write(lambda txn: txn.put_records(*batch(range(5000), 2, size=4000)))


def replace(path: Path, seam: Seam) -> None:
    with build_store(path, DEFINITION, seam=seam, now=START + 1) as builder:
        builder.append_records(*batch(range(30), 3))
        builder.install()


def sync(path: Path, seam: Seam) -> None:
    with Store.open(path, write=True, durable=False, seam=seam) as store:
        store.write(change)
        store.sync()


ACTIONS: list[Action] = [create, write, grow, replace, sync]


def prepared(action: Action, path: Path) -> Path:
    return path if action is create else new_store(path, 20)


def state(path: Path) -> Contents | None:
    try:
        return contents(path)
    except MissingError:
        return None


def same(one: Contents | None, two: Contents | None) -> bool:
    return one == two


@pytest.mark.parametrize("after", [False, True], ids=["instead", "after"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_failing_call_is_exit_6_and_leaves_the_old_or_the_new(
    tmp_path: Path, action: Action, number: int, forever: bool, after: bool, deep: bool, seed: int
) -> None:
    counting = CountingSeam()
    action(prepared(action, tmp_path / "count.sow"), counting)
    new = state(tmp_path / "count.sow")
    reported = 0
    # In the short form every other call fails, once with one of the codes and permanently with the other.
    first, step = (1, 1) if deep else (1 + 2 * (seed % 2) + (forever ^ (number == errno.EIO)), 4)
    calls = range(first, counting.count + 1, step)
    for n in calls:
        path = prepared(action, tmp_path / f"{n}.sow")
        old = state(path)
        seam = FailAt(n, number, forever, after=after)
        try:
            action(path, seam)
        except StorageError as error:
            reported += 1
            assert error.code in ("SOW-STO-040", "SOW-STO-042"), error
            assert (error.code == "SOW-STO-040") == (number == errno.ENOSPC)
            assert error.place == str(path)
        assert seam.failed >= 1
        found = state(path)
        assert same(found, old) or same(found, new), f"call {n}: {counting.points[n - 1]}"
        if found is not None:
            assert recomputed_digest(path) == found[2].digest
            replace(path, Seam())
            assert len(contents(path)[0]) == 30
            for leftover in tmp_path.glob(f"{n}.sow*"):
                leftover.unlink()
        else:
            create(path, Seam())
    assert not list(tmp_path.glob("*.new-*"))
    assert reported >= len(calls) - 3


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_killed_process_leaves_the_old_or_the_new(tmp_path: Path, action: Action, after: bool) -> None:
    counting = CountingSeam()
    action(prepared(action, tmp_path / "count.sow"), counting)
    new = state(tmp_path / "count.sow")
    seen = set()
    for n in choose_kills(counting.count, after=after):
        path = prepared(action, tmp_path / f"{n}.sow")
        old = state(path)
        pid = os.fork()
        if pid == 0:
            try:
                action(path, KillAt(n, after=after))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
        found = state(path)
        assert same(found, old) or same(found, new), f"call {n}: {counting.points[n - 1]}"
        seen.add(same(found, new))
        if action is create and found is None:
            create(path, Seam())
            assert state(path) is not None
        else:
            write(path, Seam())
        assert recomputed_digest(path) == contents(path)[2].digest
        assert not list(tmp_path.glob(f"{n}.sow.new-*")) or action is not create
    assert True in seen or not after
    assert False in seen


@pytest.mark.parametrize(("after", "stored"), [(False, False), (True, True)])
def test_after_a_failed_commit_the_handle_says_what_is_stored_and_writes_no_more(
    tmp_path: Path, after: bool, stored: bool
) -> None:
    path = new_store(tmp_path / "x.sow", 20)
    seam = FailAt(1, errno.EIO, after=after, points=["lmdb.commit"])
    with Store.open(path, write=True, seam=seam) as store:
        with pytest.raises(StorageError) as raised:
            store.write(change)
        assert (raised.value.code, raised.value.facts["transaction_stored"]) == ("SOW-STO-042", stored)
        assert ("previous" in raised.value.message) is (stored is not True)
        for again in (lambda: store.write(change), store.sync):
            with pytest.raises(StorageError) as refused:
                again()
            assert refused.value.code == "SOW-STO-044"
        with store.open_snapshot() as snapshot:
            assert snapshot.record_count == (23 if stored else 20)
    assert list(check_store(path)) == []


def test_a_damaged_page_met_at_the_commit_is_damage(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 20)

    class Meets(Seam):
        def call(self, point: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
            if point == "lmdb.commit":
                raise lmdb.BadTxnError("mdb_txn_commit")
            return super().call(point, function, *args, **kwargs)

    with Store.open(path, write=True, seam=Meets()) as store:
        with pytest.raises(DamageError) as raised:
            store.write(change)
        assert (raised.value.code, raised.value.facts["transaction_stored"]) == ("SOW-STO-023", False)
        assert raised.value.message.endswith("the previous state")
        with pytest.raises(StorageError) as refused:
            store.write(change)
        assert (refused.value.code, refused.value.hint) == ("SOW-STO-044", raised.value.hint)
    assert contents(path)[2].records == 20


def test_a_failed_commit_under_an_open_snapshot(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 20)
    seam = FailAt(1, errno.EIO, points=["lmdb.commit"])
    with Store.open(path, write=True, seam=seam) as store:
        with store.open_snapshot() as snapshot:
            with pytest.raises(StorageError) as raised:
                store.write(change)
            assert raised.value.facts["transaction_stored"] is None
            assert sum(len(keys) for keys, _ in snapshot.scan_records()) == 20
        with pytest.raises(StorageError) as refused:
            store.write(change)
        assert refused.value.code == "SOW-STO-044"
    assert contents(path)[2].records == 20


def test_a_disk_that_is_full_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB reports a full disk as an input/output error; the file system shows the cause."""
    path = new_store(tmp_path / "x.sow", 20)
    stat = os.statvfs(tmp_path)
    full = os.statvfs_result((*stat[:3], 0, 0, *stat[5:]))
    seam = FailAt(1, errno.EIO, points=["lmdb.commit"])
    with Store.open(path, write=True, seam=seam) as store:
        monkeypatch.setattr(os, "statvfs", lambda _: full)
        with pytest.raises(StorageError) as raised:
            store.write(change)
    assert raised.value.code == "SOW-STO-040"
    assert raised.value.message.startswith("disk full: ")


@pytest.mark.parametrize("limit", [40_960, 50_000, 65_536, 100_001])
@pytest.mark.parametrize("durable", [True, False])
def test_the_limit_on_the_size_of_files_has_one_text(tmp_path: Path, limit: int, durable: bool) -> None:
    """A write that crosses the limit is cut, which LMDB reports as an I/O error; one after it fails as too large."""
    path = new_store(tmp_path / "x.sow", 10)
    said = as_limited(limit, lambda: _fill(path, durable))
    assert said.startswith("SOW-STO-040 6 file size limit ")
    assert "ulimit -f" in said
    assert len(contents(path)[0]) >= 10


@pytest.mark.parametrize("limit", [20_000, 32_768])
def test_a_store_that_is_built_meets_the_limit(tmp_path: Path, limit: int) -> None:
    def build_one() -> str:
        try:
            new_store(tmp_path / "y.sow", 10)
        except SowError as error:
            return f"{error.code} {error.exit_status} {error.message}"
        return ""

    assert as_limited(limit, build_one).startswith("SOW-STO-040 6 file size limit ")


def _fill(path: Path, durable: bool) -> str:
    try:
        with Store.open(path, write=True, durable=durable) as store:
            for txid in range(2, 40):
                fresh = batch(range(20 * txid, 20 * txid + 40), txid, 300)
                store.write(lambda txn, fresh=fresh: txn.put_records(*fresh))  # type: ignore[misc]
    except SowError as error:
        return f"{error.code} {error.exit_status} {error.message} {error.hint}"
    return ""


def as_limited(limit: int, work: Callable[[], str]) -> str:
    def limited(child: Child) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        child.say(work())

    with Child(limited) as child:
        assert child.join() == 0
        return child.lines[-1].decode()

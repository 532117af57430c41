"""Free space of a store, its readers, and files left by killed builders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import lmdb
import pytest

from sowctl.lockwait import is_running
from sowctl.store.env import Store
from sowctl.store.repair.leftovers import list_leftovers, remove_leftovers
from sowctl.store.repair.space import measure_space_at, read_process_age
from tests.support.processes import Child
from tests.support.stores import batch, key_of, new_store

GONE = 999_999_999


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_store(tmp_path / "x.sow", 3000, size=100)


def test_every_page_is_in_use_or_free(path: Path) -> None:
    for first in range(0, 3000, 500):
        with Store.open(path, write=True) as store:
            store.write(lambda txn, first=first: txn.delete_records(map(key_of, range(first, first + 400))))  # type: ignore[misc]
        space = measure_space_at(path)
        assert space is not None
        with lmdb.open(str(path), subdir=False, max_dbs=32, readonly=True, lock=False) as env, env.begin() as txn:
            trees = [env.stat()] + [
                txn.stat(env.open_db(name, txn=txn)) for name in list(txn.cursor().iternext(values=False))
            ]
            used = sum(tree[f"{kind}_pages"] for tree in trees for kind in ("branch", "leaf", "overflow"))
            assert space.pages == env.info()["last_pgno"] + 1
        own = space.pages - space.free_pages - used - 2
        assert 0 <= own <= 3, "what is left is the free list itself"
        assert space.map_bytes >= space.pages * space.page_size
    assert space.free_pages > space.pages / 2


def test_the_oldest_reader_and_what_it_keeps(path: Path) -> None:
    def read(child: Child) -> None:
        with Store.open(path, write=False) as store, store.open_snapshot():
            child.say("reading")
            os.read(child.inlet, 1)

    with Child(read) as child:
        child.wait_for(b"reading")
        for txid in range(2, 12):
            with Store.open(path, write=True) as store:
                store.write(lambda txn, txid=txid: txn.put_records(*batch(range(0, 3000, 50), txid)))  # type: ignore[misc]
        space = measure_space_at(path)
        assert space is not None
        assert space.oldest is not None
        assert (space.readers, space.oldest.pid, space.behind) == (1, child.pid, 10)
        assert space.oldest.seconds is not None
        assert 0 <= space.oldest.seconds < 60
        assert space.retained_pages > 300
        child.kill()
    gone = measure_space_at(path)
    assert gone is not None
    assert gone.oldest is None or gone.oldest.seconds is None, "its place is taken until a writer clears it"
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(1), 99)))
    later = measure_space_at(path)
    assert later is not None
    assert (later.readers, later.retained_pages) == (0, 0)


def test_how_long_a_process_runs() -> None:
    with Child(lambda child: (child.say("up"), os.read(child.inlet, 1))) as child:  # type: ignore[arg-type, return-value]
        child.wait_for(b"up")
        seconds = read_process_age(child.pid, time.time())
        assert seconds is not None
        assert seconds < 10
    assert read_process_age(GONE, time.time()) is None


def test_only_what_nobody_builds_is_left_over(path: Path) -> None:
    beside = path.parent
    for directory in ("x.sow-runs", "x.sow-memo"):
        (beside / directory).mkdir()
    dead = ["x.sow.new-999999999-0", "x.sow-verified.new-999999999", "x.sow-runs/1-2.run.new-999999999",
            "x.sow-memo/keys.memo.new-999999999"]  # fmt: skip
    others = [f"x.sow.new-{os.getpid()}-0", "y.sow.new-999999999-0", "x.sow.damaged-1", "x.sow-runs/1-2.run"]
    for name in dead + others:
        (beside / name).write_bytes(b"1234")
    with Child(lambda child: _hold(child, beside / "x.sow.new-999999998-7")) as child:
        child.wait_for(b"held")
        found = list_leftovers(path)
        assert {str(one.path.relative_to(beside)) for one in found} == set(dead)
        assert {(one.pid, one.bytes) for one in found} == {(GONE, 4)}
        assert len(remove_leftovers(path)) == 4
    assert all((beside / name).exists() for name in others)
    assert not any((beside / name).exists() for name in dead)
    assert [one.pid for one in list_leftovers(path)] == [GONE - 1]
    assert (is_running(os.getpid()), is_running(GONE), is_running(0)) == (True, False, False)


def _hold(child: Child, path: Path) -> None:
    import fcntl

    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        child.say("held")
        os.read(child.inlet, 1)

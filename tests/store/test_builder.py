"""Building stores and replacing live ones: readers never see invalid data, no acknowledged write is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sowctl.errors import LockedError, MissingError, RefusedError
from sowctl.seam import SEAM
from sowctl.store import integrity
from sowctl.store.builder import StoreBuilder, build_store, create_store, is_being_built
from sowctl.store.env import Store
from sowctl.store.opening.locks import StoreFiles, WriterLock
from tests.support.faults import CountingSeam, FailAt, KillAt, choose_kills
from tests.support.stores import DEFINITION, START, batch, contents, key_of, new_store, recomputed_digest, value_of


def rebuild(path: Path, records: int, txid: int, *, seam: CountingSeam | None = None) -> None:
    with build_store(path, DEFINITION, seam=seam or SEAM, now=START) as builder:
        builder.append_records(*batch(range(records), txid))
        builder.install()


def test_a_store_built_in_order_equals_one_that_grew(tmp_path: Path) -> None:
    grown = new_store(tmp_path / "grown.sow", 500)
    versions = [(key_of(3), value_of(key_of(3), txid, b"v")) for txid in (1, 2)]
    with Store.open(grown, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(20), 4, expiration=9)))
        store.write(lambda txn: txn.put_versions(versions))
    records, _, meta = contents(grown)
    built = tmp_path / "built.sow"
    with build_store(built, DEFINITION, seam=SEAM, now=START) as builder:
        keys = sorted(records)
        for at in range(0, 500, 70):
            builder.append_records(keys[at : at + 70], [records[key] for key in keys[at : at + 70]])
        builder.append_versions(versions)
        builder.install()
    assert contents(built) == contents(grown)
    assert recomputed_digest(built) == meta.digest
    with Store.open(built, write=False) as store, store.open_snapshot() as snapshot:
        assert list(snapshot.iter_expired_keys(9)) == keys[:20]


def test_many_flushes_and_a_growing_map(tmp_path: Path) -> None:
    path = tmp_path / "x.sow"
    with build_store(path, DEFINITION, seam=SEAM, now=START, lineage=b"L" * 16, applied=9) as builder:
        for at in range(0, 20_000, 1000):
            builder.append_records(*batch(range(at, at + 1000), 1, size=3000))
        builder.run_transaction(lambda txn: txn.raise_last_time(77))
        builder.finish()
        assert (builder.meta.records, builder.meta.last_time) == (20_000, 77)
        builder.install()
    with Store.open(path, write=False) as store:
        assert (store.read_meta().records, store.read_meta().applied, store.read_meta().last_time) == (20_000, 9, 77)


def test_keys_out_of_order_are_refused(tmp_path: Path) -> None:
    for numbers in ([range(5, 9), range(3, 6)], [range(5), range(4, 9)]):
        with build_store(tmp_path / "x.sow", DEFINITION, seam=SEAM, now=START) as builder:
            for one in numbers:
                builder.append_records(*batch(one, 1))
            with pytest.raises(ValueError, match="ascend"):
                builder.flush()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), build_store(tmp_path / "x.sow", DEFINITION, seam=SEAM, now=START) as builder:
        builder.append_records(*batch(range(5), 1))
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_new_does_not_replace(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with build_store(path, DEFINITION, seam=SEAM, now=START) as builder, pytest.raises(RefusedError) as raised:
        builder.install(new=True)
    assert raised.value.code == "SOW-STO-025"
    assert len(contents(path)[0]) == 3


def test_the_mode_of_the_file_is_kept(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    path.chmod(0o664)
    rebuild(path, 4, 2)
    assert path.stat().st_mode & 0o777 == 0o664


def test_an_open_store_follows_and_an_open_snapshot_stays(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 30)
    with Store.open(path, write=True) as store, store.open_snapshot() as old:
        walk = old.scan_records(batch=7)
        next(walk)
        rebuild(path, 40, 2)
        store.write(lambda txn: txn.put_records(*batch(range(45), 3)))
        assert sum(len(keys) for keys, _ in walk) == 23
        assert old.record_count == 30
        with store.open_snapshot() as new:
            assert new.record_count == 45
        old.renew()
        assert old.record_count == 45
    assert len(contents(path)[0]) == 45
    assert recomputed_digest(path) == contents(path)[2].digest


def test_putting_in_place_under_the_lock_that_one_holds_oneself(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 30)
    with Store.open(path, write=True) as store:
        with store.hold_writer_lock(0), build_store(path, DEFINITION, seam=SEAM, now=START) as builder:
            builder.append_records(*batch(range(31), 2))
            with pytest.raises(LockedError):
                StoreBuilder(StoreFiles.from_path(path), builder.meta, SEAM, "other").install()
            builder.install(lock=store.lock)
            store.write(lambda txn: txn.put_records(*batch(range(32), 3)))
        assert store.read_meta().records == 32


def test_a_replaced_store_of_another_definition_is_not_written(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True) as store:
        path.unlink()
        other = type(DEFINITION)("instance", "trades", "json", "user")
        with build_store(path, other, seam=SEAM, now=START) as builder:
            builder.install()
        with pytest.raises(RefusedError) as raised:
            store.write(lambda txn: txn.put_records(*batch(range(3), 2)))
        assert raised.value.code == "SOW-STO-024"
    assert contents(path)[0] == {}


def test_a_replaced_store_is_read_while_another_holds_its_writer_lock(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    other = WriterLock(StoreFiles.from_path(path), SEAM, "other")
    with Store.open(path, write=True) as store:
        with other.hold(0), build_store(path, DEFINITION, seam=SEAM, now=START) as builder:
            builder.append_records(*batch(range(5), 2))
            builder.install(lock=other)
            snapshot = store.open_snapshot()
            assert snapshot.record_count == 5
        with pytest.raises(RefusedError) as raised:
            store.write(lambda txn: txn.put_records(*batch(range(6), 3)))
        assert raised.value.code == "SOW-STO-028"
        assert snapshot.record_count == len(next(snapshot.scan_records())[0]) == 5
        snapshot.close()
        store.write(lambda txn: txn.put_records(*batch(range(6), 3)))
        assert store.read_meta().records == 6


WORKER = """
import sys
from sowctl.store.env import Store
from sowctl.store import codec, integrity
from tests.support.stores import batch, key_of, value_of
path, name = sys.argv[1], int(sys.argv[2])
with Store.open(path, write=True, lock_wait=30, durable=False) as store:
    for line in sys.stdin:
        number = int(line)
        if number < 0:
            with store.open_snapshot() as snapshot:
                seen = sum(len(keys) for keys, _ in snapshot.scan_records())
                assert seen == snapshot.record_count
                print(seen, flush=True)
            continue
        key = key_of(number)
        def add(txn):
            txn.put_records([key], [value_of(key, number, b"by %d" % name)])
            return txn.record_count
        print(store.write(add), flush=True)
"""


def start_worker(path: Path, name: int) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", WORKER, str(path), str(name)], stdin=pipe, stdout=pipe, text=True)


def ask(worker: subprocess.Popen[str], number: int) -> None:
    assert worker.stdin is not None
    worker.stdin.write(f"{number}\n")
    worker.stdin.flush()


def answer(worker: subprocess.Popen[str]) -> int:
    assert worker.stdout is not None
    return int(worker.stdout.readline())


def test_replacing_under_a_living_reader_and_a_waiting_writer(tmp_path: Path) -> None:
    """Two processes keep the store open during compactions; one is waiting for the lock while the file is replaced."""
    path = new_store(tmp_path / "x.sow")
    workers = [start_worker(path, name) for name in range(2)]
    written = 0
    try:
        for turn in range(6):
            for worker in workers:
                ask(worker, 1000 + written)
                written += 1
                assert answer(worker) == written
            with Store.open(path, write=True, lock_wait=30) as store, store.hold_writer_lock():
                ask(workers[turn % 2], 1000 + written)  # it waits for the lock that is held here
                ask(workers[1 - turn % 2], -1)
                with store.open_snapshot() as snapshot, build_store(path, DEFINITION, seam=SEAM, now=START) as builder:
                    for keys, values in snapshot.scan_records():
                        builder.append_records(keys, values)
                    builder.install(lock=store.lock)
                assert answer(workers[1 - turn % 2]) == written
            written += 1
            assert answer(workers[turn % 2]) == written
    finally:
        for worker in workers:
            worker.communicate(timeout=20)
    records, _, meta = contents(path)
    assert sorted(records) == [key_of(1000 + number) for number in range(written)]
    assert meta.digest == recomputed_digest(path)


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_step_of_replacing_while_others_have_it_open(tmp_path: Path, after: bool) -> None:
    """The old or the new file, complete; processes with the old one open continue without loss."""
    counting = CountingSeam(["file.", "dir.", "lmdb.sync"])
    rebuild(new_store(tmp_path / "count.sow", 3), 9, 5, seam=counting)
    outcomes = set()
    for number in choose_kills(counting.count, after=after):
        path = new_store(tmp_path / f"{number}.sow", 3)
        worker = start_worker(path, number)
        ask(worker, 100)
        assert answer(worker) == 4
        bystander = Store.open(path, write=False)
        old = bystander.open_snapshot()
        pid = os.fork()
        if pid == 0:
            try:
                rebuild(path, 9, 5, seam=KillAt(number, after=after, points=["file.", "dir.", "lmdb.sync"]))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
        ask(worker, 200)
        count = answer(worker)
        assert count in (5, 10)
        outcomes.add(count)
        newcomer = start_worker(path, number)
        ask(newcomer, 300)
        assert answer(newcomer) == count + 1
        ask(worker, -1)
        assert answer(worker) == count + 1
        for process in (worker, newcomer):
            process.communicate(timeout=20)
        assert sum(len(keys) for keys, _ in old.scan_records()) == old.record_count == 4
        old.close()
        bystander.close()
        records, _, meta = contents(path)
        assert len(records) == count + 1
        assert {key_of(200), key_of(300)} <= set(records)
        assert (
            meta.digest
            == sum(integrity.compute_digest_term(*pair) for pair in records.items()) % integrity.DIGEST_MODULUS
        )
    assert outcomes == {5, 10}


def test_synced_before_the_rename_and_the_name_after_it(tmp_path: Path) -> None:
    seam = CountingSeam(["lmdb.commit", "lmdb.sync", "file.rename", "file.unlink", "dir.sync", "file.pwrite"])
    path = new_store(tmp_path / "x.sow", 3)
    rebuild(path, 4, 2, seam=seam)
    expected = ["lmdb.commit", "lmdb.commit", "lmdb.sync", "file.rename", "file.unlink", "dir.sync", "file.pwrite"]
    assert seam.points == expected


def test_a_file_renamed_over_the_store_by_hand_is_noticed(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    other = new_store(tmp_path / "y.sow", 20)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(5), 2)))
        other.rename(path)
        store.write(lambda txn: txn.put_records(*batch(range(18, 25), 3)))
        assert store.read_meta().records == 25
    assert len(contents(path)[0]) == 25


def test_creating_never_replaces(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with pytest.raises(RefusedError) as raised:
        create_store(path, DEFINITION, now=START)
    assert raised.value.code == "SOW-STO-025"
    assert len(contents(path)[0]) == 3
    assert not list(tmp_path.glob("*.new-*"))


def test_a_builder_that_is_gone_is_cleared_away_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    pid = os.fork()
    if pid == 0:
        with build_store(path, DEFINITION, seam=KillAt(1, points=["lmdb.sync"]), now=START) as builder:
            builder.append_records(*batch(range(50), 2))
            builder.finish()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    (stale,) = tmp_path.glob("*.new-*")
    with build_store(path, DEFINITION, seam=SEAM, now=START) as living:
        assert not stale.exists()
        with build_store(path, DEFINITION, seam=SEAM, now=START):
            assert living.path.exists()
        living.install()
    assert not list(tmp_path.glob("*.new-*"))


@pytest.mark.parametrize("elsewhere", [False, True])
def test_one_builder_goes_on_with_what_another_has_left(tmp_path: Path, elsewhere: bool) -> None:
    left, path = tmp_path / "left", new_store(tmp_path / "x.sow", 3)
    with build_store(tmp_path / "staged", DEFINITION, seam=SEAM, now=START, lineage=b"L" * 16, applied=9) as other:
        other.append_records(*batch(range(4000), 1, size=3000))
        other.hand_over_file(left)
    assert [one.name for one in tmp_path.glob("*left*")] == ["left"] and not list(tmp_path.glob("staged*"))
    # A rename across file systems fails, and the bytes are copied.
    seam = FailAt(1, errno.EXDEV, points=["file.rename"]) if elsewhere else SEAM
    with build_store(path, DEFINITION, seam=seam, now=START, lineage=b"L" * 16, applied=9) as builder:
        builder.take_over_file(left)
        assert not left.exists() and is_being_built(path)
        assert builder.meta.records == 4000
        builder.append_records(*batch(range(4000, 4100), 2))
        builder.run_transaction(lambda txn: txn.raise_last_time(77))
        builder.install()
    with build_store(tmp_path / "y.sow", DEFINITION, seam=SEAM, now=START, lineage=b"L" * 16, applied=9) as plain:
        plain.append_records(*batch(range(4000), 1, size=3000))
        plain.append_records(*batch(range(4000, 4100), 2))
        plain.run_transaction(lambda txn: txn.raise_last_time(77))
        plain.install()
    assert contents(path) == contents(tmp_path / "y.sow")
    assert not list(tmp_path.glob("*.new-*"))


def test_nothing_is_left_of_a_builder_that_finds_nothing_to_take(tmp_path: Path) -> None:
    with (
        pytest.raises(MissingError),
        build_store(tmp_path / "x.sow", DEFINITION, seam=SEAM, now=START) as builder,
    ):
        builder.take_over_file(tmp_path / "nothing")
    assert not list(tmp_path.glob("*.new-*"))

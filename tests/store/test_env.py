"""Creating, opening, reading and writing a store; what it refuses, and in which words."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError, RefusedError, VersionError
from sowctl.seam import Seam
from sowctl.store import codec, integrity
from sowctl.store.env import Store
from sowctl.store.keys import history_key, history_key_of
from sowctl.store.meta import META_KEY, Definition
from sowctl.store.replace import create_store
from sowctl.store.write import WriteTxn
from tests.support.stores import (
    DEFINITION,
    START,
    batch,
    contents,
    key_of,
    new_store,
    recomputed_digest,
    tamper,
    value_of,
)


def test_a_new_store_is_empty_and_knows_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "orders.json.sow"
    create_store(path, DEFINITION, now=START, lineage=b"L" * 16, applied=7)
    records, versions, meta = contents(path)
    assert (records, versions, meta.definition, meta.created) == ({}, {}, DEFINITION, START)
    assert (meta.lineage, meta.applied, meta.has_journal, meta.digest) == (b"L" * 16, 7, True, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o027 == 0
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "orders.json.sow",
        "orders.json.sow-gate",
        "orders.json.sow-lock",
        "orders.json.sow-writer",
    ]


@pytest.mark.parametrize(
    "other",
    [
        Definition("another", "orders", "json", "fields", ("/id",), "orders"),
        Definition("instance", "another", "json", "fields", ("/id",), "orders"),
        Definition("instance", "orders", "xml", "fields", ("/id",), "orders"),
        Definition("instance", "orders", "json", "user", (), None),
        Definition("instance", "orders", "json", "fields", ("/id", "/b"), "orders"),
        Definition("instance", "orders", "json", "fields", ("/id",), "another"),
    ],
)
def test_another_definition_may_read_but_not_write(tmp_path: Path, other: Definition) -> None:
    path = new_store(tmp_path / "x.sow", 2)
    with pytest.raises(RefusedError) as raised:
        Store.open(path, write=True, definition=other)
    assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-024", 8)
    assert str(DEFINITION) in raised.value.message
    assert str(other) in raised.value.message
    with Store.open(path, write=False, definition=other) as store:
        assert store.definition == DEFINITION


def test_newer_format_is_named(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 2)
    with lmdb.open(str(path), subdir=False, max_dbs=8) as env:
        database = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            raw = txn.get(META_KEY, db=database)
            txn.put(META_KEY, raw[:8] + b"\2\0" + raw[10:], db=database)
    with pytest.raises(VersionError) as raised:
        Store.open(path, write=False)
    assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-011", 9)


def test_counts_that_do_not_agree_are_damage(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    tamper(path, b"records", key_of(1), None)
    with pytest.raises(DamageError) as raised:
        Store.open(path, write=False)
    assert raised.value.code == "SOW-STO-003"


def test_reading(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 25)
    keys, values = batch(range(25), 1)
    with Store.open(path, write=False) as store, store.snapshot() as snapshot:
        assert snapshot.count == 25
        record = snapshot.get(keys[3])
        assert record is not None
        assert (record.txid, record.time, record.value) == (1, START + 1, values[3])
        assert snapshot.get(key_of(99)) is None
        assert snapshot.get_many([keys[2], key_of(99), keys[9]]) == {keys[2]: values[2], keys[9]: values[9]}
        assert snapshot.get_many([]) == {}
        assert list(snapshot.scan(batch=10)) == [(keys[at : at + 10], values[at : at + 10]) for at in (0, 10, 20)]
        assert list(snapshot.scan(keys[4], keys[7])) == [(keys[4:7], values[4:7])]
        assert list(snapshot.scan(key_of(3)[:4], keys[5], batch=1)) == [
            ([one], [two]) for one, two in zip(keys[3:5], values[3:5], strict=True)
        ]
        assert list(snapshot.scan(keys[5], keys[5])) == []
        assert list(snapshot.scan(b"\xff" * 8)) == []


def test_a_scan_refuses_values_that_are_too_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "x.sow", 30)
    monkeypatch.setattr(integrity, "OVERHEAD", 300)
    with Store.open(path, write=False) as store, store.snapshot() as snapshot:
        with pytest.raises(DamageError, match="record 0 is damaged"):
            list(snapshot.scan())
        assert [len(keys) for keys, _, _ in snapshot.runs()] == [30], "that is left to whoever takes them apart"


def test_values_are_copied_where_they_are_not_too_large_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_store(tmp_path / "x.sow", 30)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put(*batch(range(20, 22), 2, size=100_000)))
    with Store.open(path, write=False) as store, store.snapshot() as snapshot:
        monkeypatch.setattr(integrity, "JOINED_BYTES", 10 * 4096)
        runs = list(snapshot.runs(batch=10))
        assert [len(keys) for keys, _, _ in runs] == [10, 10, 10]
        assert [run is not None for _, _, run in runs] == [True, True, False]


def test_a_store_opened_to_read_does_not_write(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=False) as store, pytest.raises(RefusedError) as raised:
        store.write(lambda txn: None)
    assert raised.value.code == "SOW-STO-026"


def test_what_the_function_raises_undoes_everything(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    before = contents(path)

    def fail(txn: WriteTxn) -> None:
        txn.put(*batch(range(10), 2))
        txn.set_sequence(1, 2)
        raise KeyError("stop")

    with Store.open(path, write=True) as store:
        with pytest.raises(KeyError):
            store.write(fail)
        assert store.write(lambda txn: txn.count) == 5
    assert contents(path) == before


def test_keys_must_ascend(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 5)
    keys, values = batch(range(10, 13), 2)
    with Store.open(path, write=True) as store:
        for wrong in ([keys[1], keys[0], keys[2]], [keys[0], keys[0], keys[1]], keys[:2]):
            with pytest.raises(ValueError, match="ascend"):
                store.write(lambda txn, wrong=wrong: txn.put(wrong, values))  # type: ignore[misc]
        with pytest.raises(ValueError, match="come after"):
            store.write(lambda txn: txn.bulk_append(*batch(range(3, 9), 2)))
        store.write(lambda txn: txn.bulk_append(keys, values))
    assert len(contents(path)[0]) == 8


def test_position_sequences_and_marks_are_part_of_the_transaction(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")

    def change(txn: WriteTxn) -> None:
        txn.set_applied(b"J" * 16, 42)
        txn.raise_last_time(500)
        txn.raise_last_time(400)
        txn.set_removal_mark(300)
        txn.set_removal_mark(200)
        txn.set_sequence(7, 10)
        txn.set_sequence((1 << 64) - 1, 11)
        txn.set_sequence(7, 12)

    with Store.open(path, write=True) as store:
        store.write(change)
        meta = store.meta()
        assert (meta.lineage, meta.applied, meta.last_time, meta.removal_mark, meta.sequences) == (
            b"J" * 16,
            42,
            500,
            300,
            2,
        )
        with store.snapshot() as snapshot:
            assert snapshot.sequences() == {7: 12, (1 << 64) - 1: 11}
            assert (snapshot.sequence(7), snapshot.sequence(8)) == (12, None)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sets(st.integers(0, 40), max_size=8), st.sampled_from([0, 50, 60])),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 40), max_size=8), st.just(0)),
        st.tuples(st.just("version"), st.sets(st.integers(0, 40), max_size=4), st.just(0)),
        st.tuples(st.just("prune"), st.sets(st.integers(0, 40), max_size=4), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(operations, st.integers(1, 4))
def test_counts_digest_and_expiry_kept_equal_those_computed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, set[int], int]], per_transaction: int
) -> None:
    directory = tmp_path_factory.mktemp("digest")
    path = new_store(directory / "x.sow")
    records: dict[bytes, bytes] = {}
    versions: dict[bytes, bytes] = {}

    def run(txn: WriteTxn, txid: int, kind: str, numbers: set[int], expiration: int) -> None:
        keys = [key_of(number) for number in sorted(numbers)]
        values = [value_of(key, txid, b"x" * (txid * 37 % 200), expiration) for key in keys]
        if kind == "put":
            olds = txn.get_many(keys) if txid % 2 else None
            txn.put(keys, values, olds)
            records.update(zip(keys, values, strict=True))
        elif kind == "delete":
            assert txn.delete(keys) == {key: records.pop(key) for key in keys if key in records}
        elif kind == "version":
            txn.put_versions(list(zip(keys, values, strict=True)))
            versions.update((history_key_of(key, value), value) for key, value in zip(keys, values, strict=True))
        else:
            gone = [name for name in versions if name[:8] in keys]
            assert txn.delete_versions([*gone, history_key(bytes(8), 1, 1)]) == len(gone)
            for name in gone:
                del versions[name]

    with Store.open(path, write=True) as store:
        for start in range(0, len(steps), per_transaction):
            chunk = list(enumerate(steps[start : start + per_transaction], start + 1))
            store.write(lambda txn, chunk=chunk: [run(txn, txid, *step) for txid, step in chunk])  # type: ignore[misc]
        with store.snapshot() as snapshot:
            expected = sorted(
                (codec.expiration_of(value), key) for key, value in records.items() if codec.expiration_of(value)
            )
            assert list(snapshot.expired(1 << 60)) == [key for _, key in expected]
    assert contents(path)[:2] == (records, versions)
    meta = contents(path)[2]
    assert meta.digest == recomputed_digest(path)
    assert meta.payload_bytes == sum(len(codec.decode(key, value).payload) for key, value in records.items())
    assert meta.version_bytes == sum(len(codec.decode(key[:8], value).payload) for key, value in versions.items())
    shutil.rmtree(directory)


def test_the_map_grows_beyond_its_first_size(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=True, durable=False) as store:
        runs = []

        def fill(txn: WriteTxn) -> None:
            runs.append(1)
            txn.put(*batch(range(6000), 1, size=4000))

        store.write(fill)
        assert len(runs) == 2
        assert store.file_size() > 20 << 20
        runs.clear()
        store.write(fill, pending=6000 * 4100)
        assert len(runs) == 1
        assert store.meta().records == 6000


def test_it_does_not_grow_under_its_own_snapshot(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    with Store.open(path, write=True, durable=False) as store:
        with store.snapshot() as snapshot:
            with pytest.raises(RefusedError) as raised:
                store.write(lambda txn: txn.put(*batch(range(6000), 2, size=4000)))
            assert raised.value.code == "SOW-STO-028"
            assert len(next(snapshot.scan())[0]) == 10
            store.write(lambda txn: txn.put(*batch(range(20), 2)))
        store.write(lambda txn: txn.put(*batch(range(6000), 2, size=4000)))
        assert store.meta().records == 6000


CHILD = """
import sys
from pathlib import Path
from sowctl.store.env import Store
from tests.support.stores import batch
with Store.open(sys.argv[1], write=True, durable=False) as store:
    store.write(lambda txn: txn.put(*batch(range(int(sys.argv[2])), 2, size=4000)))
"""


def test_another_process_grows_the_map_while_a_reader_is_open(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    with Store.open(path, write=False) as store:
        with store.snapshot() as snapshot:
            subprocess.run([sys.executable, "-c", CHILD, str(path), "6000"], check=True)
            assert snapshot.count == 10
            assert sum(len(keys) for keys, _ in snapshot.scan()) == 10
        with store.snapshot() as snapshot:
            assert sum(len(keys) for keys, _ in snapshot.scan()) == 6000
            assert snapshot.get(key_of(5999)) is not None


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


def test_threads_read_while_one_writes(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 50)
    problems: list[BaseException] = []
    stop = threading.Event()
    with Store.open(path, write=True, durable=False, lock_wait=5) as store:

        def read() -> None:
            try:
                while not stop.is_set():
                    with store.snapshot() as snapshot:
                        txids = {codec.stamps(value)[0] for _, values in snapshot.scan() for value in values}
                        assert len(txids) == 1
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for txid in range(2, 60):
            store.write(lambda txn, txid=txid: txn.put(*batch(range(50), txid)))  # type: ignore[misc]
        stop.set()
        for thread in threads:
            thread.join()
    assert problems == []


def test_readers_are_listed(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=False) as store, store.snapshot():
        assert str(os.getpid()) in store.readers()


def test_readers_of_one_process_share_an_environment(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 20)
    link = tmp_path / "link.sow"
    link.symlink_to(path)
    first, second = Store.open(path, write=False), Store.open(link, write=False)
    with first.snapshot() as one, second.snapshot() as other:
        assert one.count == other.count == 20
    first.close()
    with second.snapshot() as snapshot:
        first = Store.open(path, write=False)
        second.close()
        assert first.meta().records == snapshot.count == 20, "a snapshot goes on when its store is closed"
        first.close()
        with Store.open(path, write=False) as third:
            assert third.meta().records == 20, "nor does it keep others from opening it"
        assert len(list(snapshot.scan())) == 1
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put(*batch(range(30), 2)))
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
        assert reading.meta().records == 3
    Store.open(path, write=True).close()


def test_who_opens_a_replaced_store_does_not_get_the_old_one(tmp_path: Path) -> None:
    path, other = new_store(tmp_path / "x.sow", 3), new_store(tmp_path / "y.sow", 5)
    with Store.open(path, write=False) as old, old.snapshot() as snapshot:
        other.rename(path)
        with Store.open(path, write=False, lock_wait=1) as new:
            assert (new.meta().records, snapshot.count) == (5, 3)
            assert old.meta().records == 5


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
                with Store.open(path, write=False, lock_wait=5) as store, store.snapshot() as snapshot:
                    assert sum(len(keys) for keys, _ in snapshot.scan()) == 200
        except BaseException as problem:  # whatever it is, the test tells
            problems.append(problem)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    Store.open(path, write=True).close()

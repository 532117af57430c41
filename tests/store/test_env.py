"""Creating and opening a store; what it refuses, and in which words."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import lmdb
import pytest

from sowctl.errors import DamageError, MissingError, RefusedError, StorageError, VersionError
from sowctl.store.env import Store, create_store
from sowctl.store.meta import META_KEY, Definition
from sowctl.store.write import WriteTxn
from tests.support.stores import DEFINITION, START, batch, contents, key_of, new_store, tamper


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


def test_creating_never_replaces(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with pytest.raises(RefusedError) as raised:
        create_store(path, DEFINITION, now=START)
    assert raised.value.code == "SOW-STO-025"
    assert len(contents(path)[0]) == 3
    assert not list(tmp_path.glob("*.new-*"))


def test_missing_store_makes_no_files(tmp_path: Path) -> None:
    for write in (False, True):
        with pytest.raises(MissingError) as raised:
            Store.open(tmp_path / "x.sow", write=write)
        assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-020", 10)
    assert list(tmp_path.iterdir()) == []


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


def test_a_store_opened_to_read_does_not_write(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=False) as store, pytest.raises(RefusedError) as raised:
        store.write(lambda txn: None)
    assert raised.value.code == "SOW-STO-026"


def test_a_copy_is_read_without_locks_from_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    new_store(tmp_path / "x.sow", 4)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(tmp_path / "x.sow", copy / "x.sow")
    with Store.open(copy / "x.sow", write=False, no_lock=True) as store:
        assert store.meta().records == 4
    assert [entry.name for entry in copy.iterdir()] == ["x.sow"]
    with pytest.raises(ValueError, match="without locks"):
        Store.open(copy / "x.sow", write=True, no_lock=True)


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
            txn.put(keys, values)
            txn.delete(keys)

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
    """The file size that LMDB's last page would need."""
    env = store._current().env
    return (int(env.info()["last_pgno"]) + 1) * int(env.stat()["psize"])

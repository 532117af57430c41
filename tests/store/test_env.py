"""Creating and opening a store; which requests are refused, and with which messages."""

from __future__ import annotations

import stat
from pathlib import Path

import lmdb
import pytest

from sowctl.errors import DamageError, RefusedError, VersionError
from sowctl.store.builder import create_store
from sowctl.store.env import Store
from sowctl.store.meta import META_KEY, Definition
from tests.support.stores import DEFINITION, START, contents, key_of, new_store, tamper


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


def test_a_store_opened_to_read_does_not_write(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    with Store.open(path, write=False) as store, pytest.raises(RefusedError) as raised:
        store.write(lambda txn: None)
    assert raised.value.code == "SOW-STO-026"

"""A data file with several names: each has its own locks, so writing is refused; reading is allowed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sowctl.errors import DamageError, RefusedError
from sowctl.store.env import Store
from tests.support.damage import truncate
from tests.support.stores import batch, contents, new_store


def put(store: Store, txid: int) -> None:
    store.write(lambda txn: txn.put_records(*batch(range(5), txid)))


def test_no_name_is_written_through(tmp_path: Path) -> None:
    path, other = new_store(tmp_path / "x.sow", 10), tmp_path / "other" / "y.sow"
    other.parent.mkdir()
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(RefusedError) as raised:
            Store.open(name, write=True)
        assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-062", 8)
        assert "2 names" in raised.value.message and "-samefile" in str(raised.value.hint)
        assert len(contents(name)[0]) == 10
    shutil.copy(path, tmp_path / "copy")  # what the hint says: a copy in the place of one of them
    (tmp_path / "copy").replace(other)
    for name in (path, other):
        with Store.open(name, write=True) as store:
            put(store, 3)


def test_a_link_that_is_made_while_the_store_is_open(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    with Store.open(path, write=True) as store:
        put(store, 2)
        os.link(path, tmp_path / "backup")
        with pytest.raises(RefusedError):
            put(store, 3)
        assert store.read_meta().records == 10
        (tmp_path / "backup").unlink()
        put(store, 4)


def test_a_symbolic_link_is_no_second_name(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    (tmp_path / "y.sow").symlink_to(path)
    with Store.open(tmp_path / "y.sow", write=True) as store:
        put(store, 2)


def test_a_file_that_a_rebuild_keeps_aside_is_no_second_name(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 10)
    os.link(path, tmp_path / "x.sow.damaged-1")
    with Store.open(path, write=True) as store:
        put(store, 2)
    os.link(path, tmp_path / "z.sow")
    with pytest.raises(RefusedError):
        Store.open(path, write=True)


def test_damage_weighs_more(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 300)
    os.link(path, tmp_path / "y.sow")
    truncate(path, 20_000)
    with pytest.raises(DamageError):
        Store.open(path, write=True)

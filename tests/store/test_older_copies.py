"""A pointer to a free page with an older copy of the right one, which is sound by itself: every reader refuses it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.errors import DamageError
from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.lmdbfile.layout import NODE_LAYOUT, PAGE_LAYOUT
from sowctl.store.lmdbfile.walk import Walk, read_named_trees
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.repair.pagefile import PageFile
from sowctl.store.snapshot import Snapshot
from tests.support.damage import overwrite
from tests.support.stores import batch, key_of, new_store

PAGE = 4096
CHANGED = 300
"""The number of the record that was written last."""


def list_pages(path: Path) -> tuple[list[int], list[int]]:
    """The branches and the leaves of the records, in key order."""
    meta = read_verified_meta(path, SEAM)
    with PageFile(path, meta.page_size, SEAM) as file:
        trees = read_named_trees(file, meta)
        assert trees is not None
        pages = list(Walk(file).iter_pages(trees[b"records"].root))
    return [page.number for page in pages if page.is_branch], [page.number for page in pages if page.is_leaf]


def point_back(path: Path, size: int) -> None:
    """Write a record, then have its place in the tree lead to the page that it was on before."""
    shutil.copy(path, path.with_name("before"))
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(CHANGED, CHANGED + 1), 2, size)))
    (branch,), leaves = list_pages(path)
    old = list_pages(path.with_name("before"))[1]
    ((new, former),) = [(one, two) for one, two in zip(leaves, old, strict=True) if one != two]
    data = path.read_bytes()[branch * PAGE : (branch + 1) * PAGE]
    for place in range(PAGE_LAYOUT.size, PAGE - NODE_LAYOUT.size):
        if data[place : place + 6] == new.to_bytes(4, "little") + bytes(2) and place > PAGE // 2:
            overwrite(path, branch * PAGE + place, former.to_bytes(4, "little"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two levels, one of whose leaves is an older copy."""
    path = new_store(tmp_path / "x.sow", 900)
    point_back(path, 60)
    return path


READS: dict[str, Callable[[Snapshot], object]] = {
    "scan": lambda it: list(it.scan_records()),
    "range": lambda it: list(it.scan_records(key_of(CHANGED - 1), key_of(CHANGED + 1))),
    "one": lambda it: it.read_values([key_of(CHANGED)]),
    "record": lambda it: it.read_record(key_of(CHANGED)),
    "some": lambda it: it.read_values([key_of(number) for number in range(CHANGED - 20, CHANGED + 20)]),
    "many": lambda it: it.read_many_values([key_of(number) for number in range(900)]),
    "absent": lambda it: it.read_values([key_of(CHANGED)[:7] + b"\1"]),
}


@pytest.mark.parametrize("read", READS)
def test_no_reader_takes_it_for_the_right_one(path: Path, read: str) -> None:
    with (
        Store.open(path, write=False) as store,
        store.open_snapshot() as snapshot,
        pytest.raises(DamageError, match="listed as free") as error,
    ):
        READS[read](snapshot)
    assert error.value.code == "SOW-STO-023"


def test_columns_do_without(path: Path) -> None:
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert snapshot.read_record_offsets() is None
        assert snapshot.scan_lines() is None
        # Of other leaves, records can be read.
        assert len(snapshot.read_values([key_of(1)])) == 1


def test_the_pages_of_a_large_value(tmp_path: Path) -> None:
    """The number of the first one is in the leaf."""
    path = new_store(tmp_path / "x.sow", 3, size=9000)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(1, 2), 2, 9000)))
    raw = path.read_bytes()
    meta = read_verified_meta(path, SEAM)
    with PageFile(path, meta.page_size, SEAM) as file:
        trees = read_named_trees(file, meta)
        assert trees is not None
        nodes = {node.key: node.page for node in Walk(file).iter_entries(trees[b"records"].root) if node is not None}
    first, leaf = nodes[key_of(1)], trees[b"records"].root
    older = next(at // PAGE for at in range(0, len(raw), PAGE) if b'{"id":1,"txid":1}' in raw[at : at + PAGE])
    at = raw.index(key_of(1) + first.to_bytes(8, "little"), leaf * PAGE)
    overwrite(path, at + 8, older.to_bytes(8, "little"))
    for read in (READS["scan"], lambda it: list(it.scan_lines() or ()), lambda it: it.read_values([key_of(1)])):
        with (
            Store.open(path, write=False) as store,
            store.open_snapshot() as snapshot,
            pytest.raises(DamageError, match="listed as free"),
        ):
            read(snapshot)


def test_a_damaged_list_of_free_pages_hides_no_record(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 900)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(5), 2)))
    # The last bytes of its page are the last number of its first entry.
    overwrite(path, PAGE * (read_verified_meta(path, SEAM).free.root + 1) - 8, b"\xff" * 8)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        assert sum(len(keys) for keys, _ in snapshot.scan_records()) == 900

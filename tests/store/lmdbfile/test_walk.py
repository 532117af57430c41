"""Walks over a file's trees: every page once, in key order; they terminate whatever a branch refers to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from struct import pack_into, unpack_from

import pytest

from sowctl.seam import SEAM
from sowctl.store.env import Store
from sowctl.store.lmdbfile.layout import BRANCH_FLAG, count_overflow_pages
from sowctl.store.lmdbfile.meta_page import MetaPage
from sowctl.store.lmdbfile.walk import Walk, read_free_list, read_named_trees, read_value
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.repair.pagefile import PageFile
from tests.support.stores import batch, contents, key_of, new_store

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two levels, large values and free pages."""
    path = new_store(tmp_path / "x.sow", 900, size=150)
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(100, 120), 2, size=9000)))
        store.write(lambda txn: txn.delete_records([key_of(number) for number in range(0, 900, 9)]))
        store.write(lambda txn: txn.put_records(*batch(range(1, 900, 150), 4)))
    return path


@pytest.fixture
def opened(path: Path) -> Iterator[tuple[PageFile, MetaPage]]:
    meta = read_verified_meta(path, SEAM)
    with PageFile(path, meta.page_size, SEAM) as file:
        yield file, meta


def find_root(file: PageFile, meta: MetaPage) -> int:
    trees = read_named_trees(file, meta)
    assert trees is not None
    return trees[b"records"].root


def test_every_page_is_in_one_tree_or_free(opened: tuple[PageFile, MetaPage]) -> None:
    file, meta = opened
    trees, free = read_named_trees(file, meta), read_free_list(file, meta)
    assert trees is not None
    assert free is not None
    walk = Walk(file, seen={0, 1, meta.main.root}, last_page=meta.last_page)
    used = set(walk.seen)
    for tree in trees.values():
        pages = list(walk.iter_pages(tree.root))
        assert not any(page.is_repeated for page in pages)
        assert (sum(page.is_branch for page in pages), sum(page.is_leaf for page in pages)) == (
            tree.branch_pages,
            tree.leaf_pages,
        )
        assert [page.number for page in pages] == [
            page.number for page in Walk(file).iter_pages(tree.root, leaf_level=tree.depth - 1)
        ]
        used.update(page.number for page in pages)
        for node in Walk(file).iter_entries(tree.root):
            assert node is not None
            if node.value is None:
                used.update(range(node.page, node.page + count_overflow_pages(node.size, PAGE)))
    given = free.own.union(*free.freed.values())
    assert not used & given
    assert used | given == set(range(meta.last_page + 1))


def test_entries_are_those_of_the_store_in_key_order(path: Path, opened: tuple[PageFile, MetaPage]) -> None:
    file, meta = opened
    root = find_root(file, meta)
    found = [(node.key, read_value(file, node)) for node in Walk(file).iter_entries(root) if node is not None]
    assert found == sorted(contents(path)[0].items())
    leaves = [page for page in Walk(file).iter_pages(root) if page.is_leaf]
    assert all(one.high == other.low for one, other in pairwise(leaves))


@pytest.mark.parametrize("leads", ["to itself", "to the page before", "to a meta page", "behind the file"])
def test_a_branch_that_leads_elsewhere(path: Path, opened: tuple[PageFile, MetaPage], leads: str) -> None:
    file, meta = opened
    root = find_root(file, meta)
    data = bytearray(path.read_bytes())
    assert unpack_from("=H", data, root * PAGE + 10)[0] == BRANCH_FLAG
    first, second = (unpack_from("=H", data, root * PAGE + 16 + 2 * place)[0] for place in (0, 1))
    before = unpack_from("=I", data, root * PAGE + first)[0]
    target = {"to itself": root, "to the page before": before, "to a meta page": 1}.get(leads, len(data) // PAGE + 9)
    pack_into("=I", data, root * PAGE + second, target)
    path.write_bytes(data)
    sound = len(list(Walk(file).iter_pages(root)))
    with PageFile(path, PAGE, SEAM) as damaged:
        walk = Walk(damaged, seen={0, 1}, last_page=meta.last_page)
        faults = []
        for page in walk.iter_pages(root):
            if page.is_leaf:
                walk.seen.add(page.number)
            elif not page.is_branch:
                faults.append(page.number)
        assert faults == [target]
        entries = list(Walk(damaged).iter_entries(root))
        assert entries.count(None) == 1
    assert sound > 10

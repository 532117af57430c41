"""The list of free pages, from which LMDB allocates pages for writing: page numbers by the transaction that freed them.

LMDB would also write to a page number that is invalid or listed twice. A page that is both free and in use kills the
process: a branch page that was replaced by an older copy of itself leads to such pages. So a writer compares each page
that it proves with the list. Pages that it does not touch are compared only by checks.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from operator import neg
from typing import NamedTuple

from sowctl.errors import DamageError
from sowctl.store.lmdbfile.check import PageFault, read_free_numbers
from sowctl.store.lmdbfile.layout import (
    BIG_DATA_FLAG,
    FIRST_TREE_PAGE,
    NO_PAGE,
    PAGE_LAYOUT,
    PAGE_NUMBER_LAYOUT,
    count_overflow_pages,
)
from sowctl.store.lmdbfile.meta_page import MetaPage
from sowctl.store.opening.proof.tree import PageFile

_PAGE_NUMBER_BYTES = PAGE_NUMBER_LAYOUT.size


class _Leaf(NamedTuple):
    """A leaf of the list: its bytes, its first and last transaction, its runs of overflow pages, its lists."""

    data: bytes
    first: int
    last: int
    runs: list[tuple[int, int]]
    lists: dict[int, bytes]


class FreePages:
    """The free pages of the last proven state. An unchanged list is not decoded again."""

    def __init__(self) -> None:
        self._leaves: dict[int, _Leaf] = {}
        self._lists: dict[int, bytes] = {}
        self.marks = bytearray()
        """A byte for each page: 1 if it is free."""

    def update(self, file: PageFile, meta: MetaPage) -> None:
        """Prove the free list of a state. Raises DamageError SOW-STO-023, StorageError."""
        numbers, branches = _find_leaves(file, meta)
        leaves: dict[int, _Leaf] = {}
        lists: dict[int, bytes] = {}
        before = -1
        for number in numbers:
            known = self._leaves.get(number)
            if known is None or known.data != file.read(number) or known.runs:
                known = _read_leaf(file, meta, number)
            if not before < known.first <= known.last <= meta.txnid:
                raise file.page_error(number, "it is not a list of free pages")
            before = known.last
            leaves[number] = known
            lists.update(known.lists)
        self._mark(file, meta, numbers[0] if numbers else 0, lists)
        for number in (*branches, *numbers):
            if self.marks[number]:
                raise file.free_page_error(number)
        for number, leaf in leaves.items():
            for first, pages in leaf.runs:
                if any(self.marks[first : first + pages]):
                    raise file.free_page_error(number)
        self._leaves, self._lists = leaves, lists

    def _mark(self, file: PageFile, meta: MetaPage, page: int, lists: dict[int, bytes]) -> None:
        marks, known = self.marks, self._lists
        if len(marks) <= meta.last_page:
            marks.extend(bytes(meta.last_page + 1 - len(marks)))
        for freed_by, data in known.items():
            if lists.get(freed_by) != data:
                for number in memoryview(data).cast("Q")[1:]:
                    marks[number] = 0
        for freed_by, data in lists.items():
            if known.get(freed_by) != data:
                try:
                    free = read_free_numbers(data, meta.last_page)
                except PageFault as problem:
                    raise file.page_error(page, problem) from None
                if any(map(marks.__getitem__, free)) or len(set(free)) != len(free):
                    raise file.page_error(page, "a page is listed as free twice")
                for number in free:
                    marks[number] = 1


class FreeNumbers:
    """The numbers of the free pages of a state, for readers: no page of a tree may be one of them.

    A free page may be an older copy of a page in use, which is sound by itself: only this list tells.
    """

    def __init__(self, lists: Sequence[memoryview]) -> None:
        """``lists`` have page numbers of 8 bytes, descending."""
        self._lists = lists

    def __contains__(self, number: int) -> bool:
        for some in self._lists:
            place = bisect_left(some, -number, key=neg)
            if place < len(some) and some[place] == number:
                return True
        return False

    @cached_property
    def all_numbers(self) -> frozenset[int]:
        """All of them."""
        return frozenset(chain.from_iterable(some.tolist() for some in self._lists))


def read_free_page_numbers(file: PageFile, meta: MetaPage) -> FreeNumbers:
    """Read the free pages of a state for a reader; none if the list is damaged, which writers and checks report."""
    lists: list[memoryview] = []
    try:
        for number in _find_leaves(file, meta)[0]:
            for data in _read_leaf(file, meta, number).lists.values():
                if len(data) % _PAGE_NUMBER_BYTES == 0:
                    lists.append(memoryview(data).cast("Q")[1:])
    except DamageError:
        return FreeNumbers(())
    return FreeNumbers(lists)


def verify_free_list(file: PageFile, meta: MetaPage) -> None:
    """Prove the free list of a state, once for an open file. Raises DamageError SOW-STO-023, StorageError.

    It may be as long as the store was; LMDB derives later changes of it from the proven list.
    """
    if not file.has_proven_free_list:
        find_free_pages(file, meta)


def find_free_pages(file: PageFile, meta: MetaPage) -> bytearray:
    """Prove the free list of a state; return a byte for each page, 1 if it is free, valid until the next call.

    Raises DamageError SOW-STO-023, StorageError.
    """
    # After an error it is proven from the beginning again.
    free, file.free_pages = file.free_pages or FreePages(), None
    free.update(file, meta)
    file.free_pages = free
    return free.marks


def _find_leaves(file: PageFile, meta: MetaPage) -> tuple[list[int], list[int]]:
    """Return the leaves of the list, and the branches above them."""
    if meta.free.root == NO_PAGE:
        return [], []
    pages, branches = [meta.free.root], []
    # Their keys have another order than usual: only the page numbers are used.
    for _ in range(meta.free.depth - 1):
        branches += pages
        pages = [child for number in pages for child in file.read_branch(number).children]
        if min(pages) < FIRST_TREE_PAGE or max(pages) > meta.last_page or len(pages) > meta.last_page:
            raise file.page_error(meta.free.root, "it refers to a page that does not exist")
    return pages, branches


def _read_leaf(file: PageFile, meta: MetaPage, number: int) -> _Leaf:
    data, page = file.read_leaf(number)
    lists: dict[int, bytes] = {}
    runs: list[tuple[int, int]] = []
    before = -1
    for key, flags, size, place in zip(page.keys, page.flags, page.sizes, page.places, strict=True):
        freed_by = int.from_bytes(key, sys.byteorder) if len(key) == _PAGE_NUMBER_BYTES else -1
        if not before < freed_by <= meta.txnid or flags not in (0, BIG_DATA_FLAG):
            raise file.page_error(number, "it is not a list of free pages")
        before = freed_by
        if flags == BIG_DATA_FLAG:
            first = PAGE_NUMBER_LAYOUT.unpack_from(data, place)[0]
            file.verify_run(number, first, size, meta.last_page)
            pages = count_overflow_pages(size, file.page_size)
            runs.append((first, pages))
            lists[freed_by] = file.read(first, pages)[PAGE_LAYOUT.size : PAGE_LAYOUT.size + size]
        else:
            lists[freed_by] = data[place : place + size]
    return _Leaf(data, min(lists), before, runs, lists)


__all__ = ["FreeNumbers", "FreePages", "find_free_pages", "read_free_page_numbers", "verify_free_list"]

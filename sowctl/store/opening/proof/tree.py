"""The pages of one sub-database, proven on the way from its root (``sow-store(5)``, "How to read").

A page by itself may be sound and stand in a wrong place. So it is also proven that it has the depth which LMDB notes of
the tree, and that its keys lie between those of the branches above it: then a search that ends in it ends where the key
belongs, and an absent key is absent. What was proven counts for one transaction: LMDB does not write to a page that a
state in use holds.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import lt
from pathlib import Path
from typing import Any, NamedTuple

from sowctl.errors import DamageError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import REBUILD, explained
from sowctl.store.opening.pages import BIG_DATA, DEEPEST, NO_PAGE, PAGE, TREE, MetaPage, sound_meta_pages
from sowctl.store.opening.proof.page import (
    OVERFLOW,
    OVERFLOW_HEAD,
    PAGE_NUMBER,
    SUB_TREE,
    BranchPage,
    LeafPage,
    PageFault,
    probe_leaf,
    read_branch,
    read_leaf,
)

KEPT_BRANCHES = 4096
"""Branch pages that are kept from one transaction to the next, with their bytes: 16 MiB of 4 KiB pages."""
_LEAST_SHARE = 4
"""LMDB merges a leaf of which less than one part in so many is used."""
_NODE_ROOM = 8 + 2 + 1
"""Bytes that a node takes besides its key and value: its head, its place, and one of alignment, perhaps."""


class PageFile:
    """The file of an open environment, mapped for reading. ``inode`` tells which file it is; close it."""

    def __init__(self, path: Path, page_size: int, seam: Seam, *, place: Path | None = None) -> None:
        """``place`` is named in errors where the file has another name than ``path`` for a while. Raises OSError."""
        self.path = place or path
        self.page_size = page_size
        # LMDB has its locks on the lock file, so closing this descriptor releases none of them.
        self._fd: int = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        self.inode = os.fstat(self._fd).st_ino
        self._map: mmap.mmap | None = None
        self._size = 0
        self._meta: tuple[bytes, bytes, tuple[MetaPage, ...]] = (b"", b"", ())
        self._branches: dict[int, tuple[bytes, BranchPage]] = {}
        self.main: tuple[tuple[int, int, int], list[bytes], list[tuple[bytes, int, int]]] | None = None
        """The main tree that was proven last: root, depth and last page; its pages; names, roots and depths."""
        self.names: dict[Any, bytes] = {}
        """The names of sub-databases by LMDB's handles of them, which do not tell."""
        self.is_list_proven = False
        """Whether its free list was proven (:mod:`sowctl.store.opening.proof.freelist`)."""

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        self._map = None
        if fd >= 0:
            os.close(fd)

    def fault(self, number: int, reason: object) -> DamageError:
        """The error for page ``number``."""
        return DamageError("SOW-STO-023", f"page {number} is damaged: {reason}", place=str(self.path), hint=REBUILD)

    def state(self, txnid: int) -> MetaPage | None:
        """The meta page that transaction ``txnid`` wrote; None where it is not there any more.

        What is read from now on lies in the file as it is now. Raises StorageError.
        """
        with explained(self.path, "read the store"):
            # A map behind the end of a file that was cut would end the process.
            self._size = os.fstat(self._fd).st_size
            if self._map is not None and self._size < len(self._map):
                self._map = None
        if self._size < 2 * self.page_size:
            return None
        beginning = self._bytes(0, self.page_size), self._bytes(self.page_size, self.page_size)
        if beginning != self._meta[:2]:
            self._meta = *beginning, sound_meta_pages(self._bytes_at)
        return next((page for page in self._meta[2] if page.txnid == txnid), None)

    def _bytes_at(self, size: int, start: int) -> bytes:
        return self._bytes(start, size)

    def _mapped(self, end: int) -> mmap.mmap:
        """A map that reaches ``end``, which lies in the file."""
        if self._map is None or len(self._map) < end:
            with explained(self.path, "read the store"):
                self._size = os.fstat(self._fd).st_size
                self._map = mmap.mmap(self._fd, self._size, access=mmap.ACCESS_READ)
        return self._map

    def _bytes(self, start: int, size: int) -> bytes:
        return self._mapped(start + size)[start : start + size]

    def read(self, number: int, count: int = 1) -> bytes:
        """Some pages in a row. Raises DamageError where the file ends before, StorageError."""
        start, size = number * self.page_size, count * self.page_size
        data = self._bytes(start, size)
        if len(data) != size:
            raise self.fault(number, "the file ends before")
        return data

    def branch(self, number: int) -> BranchPage:
        """Branch page ``number``, proven but for the order of its keys. Raises DamageError."""
        data = self.read(number)
        # Equal bytes have been proven before: most branches stay from one transaction to the next.
        known = self._branches.get(number)
        if known is not None and known[0] == data:
            return known[1]
        try:
            found = read_branch(data, number)
        except PageFault as problem:
            raise self.fault(number, problem) from None
        if len(self._branches) >= KEPT_BRANCHES:
            self._branches.clear()
        self._branches[number] = data, found
        return found

    def leaf(self, number: int) -> tuple[bytes, LeafPage]:
        """The bytes and the entries of leaf page ``number``, proven by itself. Raises DamageError."""
        data = self.read(number)
        try:
            return data, read_leaf(data, number)
        except PageFault as problem:
            raise self.fault(number, problem) from None

    def probe(self, number: int) -> int | None:
        """How many entries leaf page ``number`` has; None where the short proof does not do (:func:`probe_leaf`).

        It is what reading takes where order, counts and checksums prove what was read. Raises DamageError.
        """
        try:
            return probe_leaf(self.read(number), number)
        except PageFault as problem:
            raise self.fault(number, problem) from None

    def verify_run(self, leaf: int, first: int, size: int, last_page: int) -> None:
        """Prove the overflow pages, from ``first`` on, of a value of a leaf. Raises DamageError."""
        needed = -(-(PAGE.size + size) // self.page_size)
        if not 2 <= first <= last_page + 1 - needed:
            raise self.fault(leaf, f"it has a value on page {first}")
        end = (first + needed) * self.page_size
        data = self._mapped(end)
        if len(data) < end:
            raise self.fault(first, "the file ends before")
        number, _, flags, pages = OVERFLOW_HEAD.unpack_from(data, first * self.page_size)
        # A value that was replaced by a shorter one in the same transaction keeps its pages: there may be more.
        if number != first or flags != OVERFLOW or not needed <= pages <= last_page + 1 - first:
            raise self.fault(first, "it is not the first page of a value")


class PlacedBranch(NamedTuple):
    """A branch page and the bounds of all keys below it: from ``low`` up to ``high``, None where there is no bound."""

    number: int
    page: BranchPage
    low: bytes
    high: bytes | None

    def child(self, index: int) -> tuple[int, bytes, bytes | None]:
        """The page number of a child, and its bounds."""
        starts = self.page.starts
        low = starts[index - 1] if index else self.low
        return self.page.children[index], low, starts[index] if index < len(starts) else self.high


Steps = tuple[tuple[PlacedBranch, int], ...]
"""The branches above a page, from the root on, each with the index of the child that was taken."""


class LeafPlace(NamedTuple):
    """Where the branches lead to: the number of a leaf, and the bounds of its keys."""

    steps: Steps
    number: int
    low: bytes
    high: bytes | None

    def holds(self, key: bytes) -> bool:
        """Whether a search for ``key`` ends here."""
        return self.low <= key and (self.high is None or key < self.high)


class Tree:
    """A sub-database as a state of the file has it. Every method raises DamageError SOW-STO-023, StorageError.

    ``root`` and ``depth`` are what LMDB notes of it; ``last_page`` is that of the state.
    """

    FLAGS: tuple[int, ...] = (0, BIG_DATA)
    """What LMDB may note of an entry."""

    def __init__(self, file: PageFile, root: int, depth: int, last_page: int) -> None:
        self._file = file
        self._depth = depth
        self._root = root
        self._last_page = last_page
        self._branches: dict[int, PlacedBranch] = {}
        self._ends: dict[int, tuple[bytes, bytes]] = {}
        self._probed: dict[int, int] = {}

    def fault(self, number: int, reason: object) -> DamageError:
        """The error for a page of it."""
        return self._file.fault(number, reason)

    @property
    def is_empty(self) -> bool:
        """Whether it has no page."""
        return self._root == NO_PAGE

    def _branch(self, number: int, low: bytes, high: bytes | None) -> PlacedBranch:
        known = self._branches.get(number)
        if known is not None and known.low == low and known.high == high:
            return known
        page = self._file.branch(number)
        starts = page.starts
        if starts and (starts[0] < low or (high is not None and starts[-1] >= high)):
            raise self._file.fault(number, "its keys are not those of its place")
        if not all(map(lt, starts, starts[1:])):
            raise self._file.fault(number, "its keys are out of order")
        if not min(page.children) >= 2 or max(page.children) > self._last_page:
            raise self._file.fault(number, "it leads to a page that there is not")
        found = self._branches[number] = PlacedBranch(number, page, low, high)
        return found

    def entries(self, number: int) -> LeafPage:
        """The entries of a leaf, proven but for their bounds."""
        data, page = self._file.leaf(number)
        if not all(map(lt, page.keys, page.keys[1:])):
            raise self._file.fault(number, "its keys are out of order")
        if any(page.flags):
            for flags, size, place in zip(page.flags, page.sizes, page.places, strict=True):
                if flags not in self.FLAGS:
                    raise self._file.fault(number, "it has an entry of another kind")
                if flags == BIG_DATA:
                    self._file.verify_run(number, PAGE_NUMBER.unpack_from(data, place)[0], size, self._last_page)
        return page

    def ends(self, leaf: LeafPlace) -> tuple[bytes, bytes]:
        """Prove a leaf; its first and its last key."""
        return self._prove(leaf.number, leaf.low, leaf.high)

    def _prove(self, number: int, low: bytes, high: bytes | None) -> tuple[bytes, bytes]:
        ends = self._ends.get(number)
        if ends is None:
            keys = self.entries(number).keys
            ends = self._ends[number] = keys[0], keys[-1]
        # Each time, as another branch may lead to the same page.
        if ends[0] < low or (high is not None and ends[1] >= high):
            raise self._file.fault(number, "its keys are not those of its place")
        return ends

    def visit(self, keys: Iterable[bytes], *, whole: bool) -> None:
        """Prove the leaf in which a search for each of ``keys`` ends: all of it, or what reading takes."""
        if self.is_empty:
            return
        branch: PlacedBranch | None = None
        starts: list[bytes] = []
        number, done = -1, -1
        for key in keys:
            if branch is None or key < branch.low or (branch.high is not None and key >= branch.high):
                leaf = self.find(key)
                if leaf is None or not leaf.steps:
                    if leaf is not None:
                        (self.ends if whole else self.probe)(leaf)
                    return
                branch = leaf.steps[-1][0]
                starts = branch.page.starts
            index = bisect_right(starts, key)
            number = branch.page.children[index]
            # Keys in order end in one leaf after the other.
            if number == done:
                continue
            done = number
            if whole:
                self._prove(*branch.child(index))
            else:
                self._probe(number)

    def read_entries(self, leaf: LeafPlace) -> tuple[bytes, LeafPage]:
        """The bytes and the entries of a leaf, all of it proven."""
        self.ends(leaf)
        return self._file.leaf(leaf.number)

    def bearing(self, leaf: LeafPlace) -> int:
        """How many of its entries may be removed before LMDB merges it with another one, at least."""
        page = self.entries(leaf.number)
        sizes = [8 if flags else size for flags, size in zip(page.flags, page.sizes, strict=True)]
        nodes = [len(key) + size + _NODE_ROOM for key, size in zip(page.keys, sizes, strict=True)]
        room = self._file.page_size - PAGE.size
        return min((sum(nodes) - len(nodes) - room // _LEAST_SHARE) // max(nodes), len(nodes) - 1)

    def probe(self, leaf: LeafPlace) -> int:
        """Prove what reading takes of a leaf (:meth:`PageFile.probe`); how many entries it has."""
        return self._probe(leaf.number)

    def _probe(self, number: int) -> int:
        count = self._probed.get(number)
        if count is None:
            found = self._file.probe(number)
            count = self._probed[number] = len(self.entries(number).keys) if found is None else found
        return count

    def _down(self, steps: Steps, number: int, low: bytes, high: bytes | None, *, last: bool) -> LeafPlace:
        """The first or the last leaf below a page."""
        for _ in range(self._depth - 1 - len(steps)):
            branch = self._branch(number, low, high)
            index = len(branch.page.starts) if last else 0
            steps = (*steps, (branch, index))
            number, low, high = branch.child(index)
        return LeafPlace(steps, number, low, high)

    def find(self, key: bytes) -> LeafPlace | None:
        """The leaf in which a search for ``key`` ends; None where there is no leaf."""
        if self.is_empty:
            return None
        steps: Steps = ()
        number, low, high = self._root, b"", None
        for _ in range(self._depth - 1):
            branch = self._branch(number, low, high)
            index = bisect_right(branch.page.starts, key)
            steps = (*steps, (branch, index))
            number, low, high = branch.child(index)
        return LeafPlace(steps, number, low, high)

    def end(self, *, last: bool) -> LeafPlace | None:
        """The first or the last leaf; None where there is none."""
        return None if self.is_empty else self._down((), self._root, b"", None, last=last)

    def beside(self, leaf: LeafPlace, *, forward: bool) -> LeafPlace | None:
        """The next leaf in the order of keys, or the one before; None at the end."""
        steps = leaf.steps
        for level in range(len(steps) - 1, -1, -1):
            branch, index = steps[level]
            index += 1 if forward else -1
            if 0 <= index < len(branch.page.children):
                above = (*steps[:level], (branch, index))
                return self._down(above, *branch.child(index), last=not forward)
        return None

    def leaves(self) -> Iterator[LeafPlace]:
        """All leaves, in the order of their keys."""
        leaf = self.end(last=False)
        while leaf is not None:
            yield leaf
            leaf = self.beside(leaf, forward=True)

    def verify_all(self) -> None:
        """Prove every page."""
        for leaf in self.leaves():
            self.ends(leaf)

    def verify_siblings(self, steps: Steps, level: int, radius: int) -> None:
        """Prove the branch page at ``level`` of a path, those up to ``radius`` beside it below the same branch, and
        the way from each of them to its first leaf."""
        above, index = steps[level - 1]
        for place in range(max(0, index - radius), min(len(above.page.children), index + radius + 1)):
            self.ends(self._down((*steps[: level - 1], (above, place)), *above.child(place), last=False))


class _MainTree(Tree):
    """The tree whose entries describe the sub-databases."""

    FLAGS = (SUB_TREE, 0, BIG_DATA)

    def describe(self) -> tuple[list[bytes], list[tuple[bytes, int, int]]]:
        """All pages of it, proven; name, root and depth of every sub-database."""
        pages: list[bytes] = []
        found: list[tuple[bytes, int, int]] = []
        for leaf in self.leaves():
            self.ends(leaf)
            data, page = self._file.leaf(leaf.number)
            pages.append(data)
            for name, flags, size, place in zip(page.keys, page.flags, page.sizes, page.places, strict=True):
                # What is no sub-database is not opened, and so not found: another program's file may have it.
                if flags != SUB_TREE:
                    continue
                if size != TREE.size:
                    raise self._file.fault(leaf.number, "it does not describe a sub-database")
                _, kind, depth, _, _, _, _, root = TREE.unpack_from(data, place)
                # Another kind of sub-database would have LMDB read keys and values in another way.
                if kind or depth > DEEPEST or (root == NO_PAGE) != (depth == 0):
                    raise self._file.fault(leaf.number, "its description of a sub-database is damaged")
                if root != NO_PAGE and not 2 <= root <= self._last_page:
                    raise self._file.fault(leaf.number, "it leads to a page that there is not")
                found.append((name, root, depth))
        return pages, found


def sub_databases(file: PageFile, meta: MetaPage) -> dict[bytes, Tree]:
    """The sub-databases of a state by their names. Raises DamageError SOW-STO-023, StorageError."""
    state = meta.main_root, meta.main_depth, meta.last_page
    known = file.main
    # The main tree of a store is one page. One with the bytes that were proven before is not taken apart again.
    if known is None or known[0] != state or meta.main_depth != 1 or known[1] != [file.read(meta.main_root)]:
        known = file.main = (state, *_MainTree(file, *state).describe())
    return {name: Tree(file, root, depth, meta.last_page) for name, root, depth in known[2]}


__all__ = ["LeafPlace", "PageFile", "Tree", "sub_databases"]

"""The pages of one sub-database, proven on the way from its root (``sow-store(5)``, "How to read").

A page by itself may be sound and stand in a wrong place. So it is also proven that it has the depth which LMDB notes of
the tree, and that its keys lie between those of the branches above it: then a search that ends in it ends where the key
belongs, and an absent key is absent. What was proven counts for one transaction: LMDB does not write to a page that a
state in use holds.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from operator import lt
from pathlib import Path
from typing import Any, NamedTuple

from sowctl.errors import DamageError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import REBUILD, explained
from sowctl.store.opening.pages import BIG_DATA, DEEPEST, NO_PAGE, PAGE, TREE, MetaPage, meta_page_of
from sowctl.store.proof.page import (
    OVERFLOW,
    OVERFLOW_HEAD,
    PAGE_NUMBER,
    SUB_TREE,
    BranchPage,
    LeafPage,
    PageFault,
    read_branch,
    read_leaf,
)

KEPT_BRANCHES = 4096
"""Branch pages that are kept from one transaction to the next, with their bytes: 16 MiB of 4 KiB pages."""


class PageFile:
    """The file of an open environment, read with plain reads. ``inode`` tells which file it is; close it."""

    def __init__(self, path: Path, page_size: int, seam: Seam) -> None:
        """Raises StorageError, MissingError."""
        self.path = path
        self.page_size = page_size
        # LMDB has its locks on the lock file, so closing this descriptor releases none of them.
        with explained(path, "open the store"):
            self._fd: int = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        self.inode = os.fstat(self._fd).st_ino
        self._branches: dict[int, tuple[bytes, BranchPage]] = {}
        self.names: dict[Any, bytes] = {}
        """The names of sub-databases by LMDB's handles of them, which do not tell."""
        self.sound_lists: set[bytes] = set()
        """The parts of the free list that were found sound (:mod:`sowctl.store.proof.freelist`)."""

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def fault(self, number: int, reason: object) -> DamageError:
        """The error for page ``number``."""
        return DamageError("SOW-STO-023", f"page {number} is damaged: {reason}", place=str(self.path), hint=REBUILD)

    def state(self, txnid: int) -> MetaPage | None:
        """The meta page that transaction ``txnid`` wrote; None where it is not the one in use."""
        with explained(self.path, "read the store"):
            return meta_page_of(self._fd, txnid)

    def read(self, number: int, count: int = 1) -> bytes:
        """Some pages in a row. Raises DamageError where the file ends before, StorageError."""
        size = count * self.page_size
        with explained(self.path, "read the store"):
            data = os.pread(self._fd, size, number * self.page_size)
        if len(data) != size:
            raise self.fault(number, "the file ends before")
        return data

    def branch(self, number: int) -> BranchPage:
        """Branch page ``number``, proven by itself. Raises DamageError."""
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

    def verify_run(self, leaf: int, first: int, size: int, last_page: int) -> None:
        """Prove the overflow pages, from ``first`` on, of a value of a leaf. Raises DamageError."""
        needed = -(-(PAGE.size + size) // self.page_size)
        if not 2 <= first <= last_page + 1 - needed:
            raise self.fault(leaf, f"it has a value on page {first}")
        with explained(self.path, "read the store"):
            head = os.pread(self._fd, OVERFLOW_HEAD.size, first * self.page_size)
            there = os.fstat(self._fd).st_size
        if len(head) < OVERFLOW_HEAD.size or (first + needed) * self.page_size > there:
            raise self.fault(first, "the file ends before")
        number, _, flags, pages = OVERFLOW_HEAD.unpack(head)
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


class PlacedLeaf(NamedTuple):
    """A proven leaf: the branches above it, each with the index of the child that was taken, from the root on; its
    number, its bounds, its first and last key, and how many entries it has."""

    steps: tuple[tuple[PlacedBranch, int], ...]
    number: int
    low: bytes
    high: bytes | None
    first: bytes
    last: bytes
    count: int

    def holds(self, key: bytes) -> bool:
        """Whether a search for ``key`` ends here."""
        return self.low <= key and (self.high is None or key < self.high)


Steps = tuple[tuple[PlacedBranch, int], ...]


class Tree:
    """A sub-database as a state of the file has it. Every method raises DamageError SOW-STO-023, StorageError.

    ``root`` and ``depth`` are what LMDB notes of it; ``last_page`` is that of the state.
    """

    FLAGS = (0, BIG_DATA)
    """What LMDB may note of an entry."""

    def __init__(self, file: PageFile, root: int, depth: int, last_page: int) -> None:
        self._file = file
        self._depth = depth
        self._root = root
        self._last_page = last_page
        self._branches: dict[int, PlacedBranch] = {}
        self._leaves: dict[int, tuple[bytes, bytes, int]] = {}

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
        if not 2 <= min(page.children) or max(page.children) > self._last_page:
            raise self._file.fault(number, "it leads to a page that there is not")
        found = self._branches[number] = PlacedBranch(number, page, low, high)
        return found

    def _leaf(self, steps: Steps, number: int, low: bytes, high: bytes | None, *, kept: bool) -> PlacedLeaf:
        ends = self._leaves.get(number)
        if ends is None:
            keys = self.entries(number).keys
            ends = keys[0], keys[-1], len(keys)
            if kept:
                self._leaves[number] = ends
        # Each time, as another branch may lead to the same page.
        if ends[0] < low or (high is not None and ends[1] >= high):
            raise self._file.fault(number, "its keys are not those of its place")
        return PlacedLeaf(steps, number, low, high, *ends)

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

    def _down(self, steps: Steps, number: int, low: bytes, high: bytes | None, key: bytes | None, *, last: bool,
              kept: bool = True) -> PlacedLeaf:  # fmt: skip
        """The leaf of ``key`` below a page; the first or the last one where it is None."""
        for _ in range(self._depth - 1 - len(steps)):
            branch = self._branch(number, low, high)
            if key is not None:
                index = bisect_right(branch.page.starts, key)
            else:
                index = len(branch.page.starts) if last else 0
            steps = (*steps, (branch, index))
            number, low, high = branch.child(index)
        return self._leaf(steps, number, low, high, kept=kept)

    def find(self, key: bytes) -> PlacedLeaf | None:
        """The leaf in which a search for ``key`` ends; None where there is no leaf."""
        return None if self.is_empty else self._down((), self._root, b"", None, key, last=False)

    def end(self, *, last: bool, kept: bool = True) -> PlacedLeaf | None:
        """The first or the last leaf; None where there is none."""
        return None if self.is_empty else self._down((), self._root, b"", None, None, last=last, kept=kept)

    def beside(self, leaf: PlacedLeaf, *, forward: bool, kept: bool = True) -> PlacedLeaf | None:
        """The next leaf in the order of keys, or the one before; None at the end."""
        steps = leaf.steps
        for level in range(len(steps) - 1, -1, -1):
            branch, index = steps[level]
            index += 1 if forward else -1
            if 0 <= index < len(branch.page.children):
                above = (*steps[:level], (branch, index))
                return self._down(above, *branch.child(index), None, last=not forward, kept=kept)
        return None

    def leaves(self) -> Iterator[PlacedLeaf]:
        """All leaves, in the order of their keys."""
        leaf = self.end(last=False, kept=False)
        while leaf is not None:
            yield leaf
            leaf = self.beside(leaf, forward=True, kept=False)

    def verify_siblings(self, steps: Steps, level: int, radius: int) -> None:
        """Prove the branch page at ``level`` of a path, those up to ``radius`` beside it below the same branch, and
        the way from each of them to its first leaf."""
        above, index = steps[level - 1]
        for place in range(max(0, index - radius), min(len(above.page.children), index + radius + 1)):
            self._down((*steps[: level - 1], (above, place)), *above.child(place), None, last=False)


class MainTree(Tree):
    """The tree whose entries describe the sub-databases."""

    FLAGS = (SUB_TREE,)

    def trees(self) -> dict[bytes, Tree]:
        """The sub-databases by their names, all of this tree proven."""
        found: dict[bytes, Tree] = {}
        for leaf in self.leaves():
            data, page = self._file.leaf(leaf.number)
            for name, size, place in zip(page.keys, page.sizes, page.places, strict=True):
                if size != TREE.size:
                    raise self._file.fault(leaf.number, "it does not describe a sub-database")
                _, flags, depth, _, _, _, _, root = TREE.unpack_from(data, place)
                # Another kind of sub-database would have LMDB read keys and values in another way.
                if flags or depth > DEEPEST or (root == NO_PAGE) != (depth == 0):
                    raise self._file.fault(leaf.number, "its description of a sub-database is damaged")
                if root != NO_PAGE and not 2 <= root <= self._last_page:
                    raise self._file.fault(leaf.number, "it leads to a page that there is not")
                found[name] = Tree(self._file, root, depth, self._last_page)
        return found


def sub_databases(file: PageFile, meta: MetaPage) -> dict[bytes, Tree]:
    """The sub-databases of a state by their names. Raises DamageError SOW-STO-023, StorageError."""
    return MainTree(file, meta.main_root, meta.main_depth, meta.last_page).trees()


__all__ = ["PageFile", "PlacedLeaf", "Tree", "sub_databases"]

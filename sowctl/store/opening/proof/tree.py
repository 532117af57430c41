"""The pages of one sub-database, proven on the way from its root (``sow-store(5)``, "How to read").

A page by itself may be sound and stand in a wrong place. So it is also proven that it has the depth which LMDB notes of
the tree, and that its keys lie between those of the branches above it: then a search that ends in it ends where the key
belongs, and an absent key is absent. What was proven counts for one transaction: LMDB does not write to a page that a
state in use holds.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from operator import lt
from pathlib import Path
from typing import Any, NamedTuple

from sowctl.errors import DamageError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import REBUILD_HINT, translate_errors
from sowctl.store.lmdbfile.check import (
    BranchPage,
    LeafPage,
    PageFault,
    find_child,
    find_entry,
    probe_leaf,
    read_branch,
    read_entries,
    read_leaf,
)
from sowctl.store.lmdbfile.layout import (
    BIG_DATA_FLAG,
    FIRST_TREE_PAGE,
    NO_PAGE,
    NODE_WORD_LAYOUT,
    OVERFLOW_FLAG,
    OVERFLOW_LAYOUT,
    PAGE_LAYOUT,
    PAGE_NUMBER_LAYOUT,
    SUB_TREE_FLAG,
    TREE_LAYOUT,
    count_overflow_pages,
)
from sowctl.store.lmdbfile.meta_page import MetaPage, TreeInfo, find_sound_meta_pages
from sowctl.store.opening.proof import limits as proof_limits
from sowctl.store.opening.proof.limits import Limits

_MERGE_DIVISOR = 4
"""LMDB merges a leaf of which less than one part in N is used."""
Entries = tuple[list[bytes], list[bytes]]
"""Keys and values, in parallel."""


class PageFile:
    """The file of an open environment, mapped for reading. ``inode`` tells which file it is; close it."""

    def __init__(
        self, path: Path, page_size: int, seam: Seam, *, place: Path | None = None, limits: Limits | None = None
    ) -> None:
        """``place`` is named in errors where the file has another name than ``path`` for a while. Raises OSError."""
        self.path = place or path
        self.page_size = page_size
        self.limits = limits or proof_limits.LIMITS
        # LMDB has its locks on the lock file, so closing this descriptor releases none of them.
        self._fd: int = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        self.inode = os.fstat(self._fd).st_ino
        self._map: mmap.mmap | None = None
        self._size = 0
        self._meta: tuple[bytes, bytes, tuple[MetaPage, ...]] = (b"", b"", ())
        self._branches: dict[int, tuple[bytes, BranchPage]] = {}
        self.main: tuple[tuple[int, int, int], list[bytes], list[tuple[bytes, TreeInfo]]] | None = None
        """The main tree that was proven last: root, depth and last page; its pages; names and descriptions."""
        self.names: dict[Any, bytes] = {}
        """The names of sub-databases by LMDB's handles of them, which do not tell."""
        self.trees: tuple[MetaPage, dict[bytes, Tree]] | None = None
        """The sub-databases of the state that was read last, with what is proven of them."""
        self.free_pages: Any = None
        """Its free pages, once :mod:`sowctl.store.opening.proof.freelist` proved them, which has the class."""
        self._leaves = 0
        self._has_columns = False

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        self._map = None
        if fd >= 0:
            os.close(fd)

    def page_error(self, number: int, reason: object) -> DamageError:
        """The error for page ``number``."""
        return DamageError(
            "SOW-STO-023", f"page {number} is damaged: {reason}", place=str(self.path), hint=REBUILD_HINT
        )

    def free_page_error(self, number: int) -> DamageError:
        """The error for page ``number``, which a tree and the free list have."""
        return self.page_error(number, "it is in use and listed as free")

    @property
    def has_proven_free_list(self) -> bool:
        """True if its free list was proven."""
        return self.free_pages is not None

    def find_meta_page(self, txnid: int) -> MetaPage | None:
        """The meta page that transaction ``txnid`` wrote; None where it is not there any more.

        What is read from now on lies in the file as it is now. Raises StorageError.
        """
        with translate_errors(self.path, "read the store"):
            # A map behind the end of a file that was cut would end the process.
            self._size = os.fstat(self._fd).st_size
            if self._map is not None and self._size < len(self._map):
                self._map = None
        if self._size < 2 * self.page_size:
            return None
        beginning = self._read_bytes(0, self.page_size), self._read_bytes(self.page_size, self.page_size)
        if beginning != self._meta[:2]:
            self._meta = *beginning, find_sound_meta_pages(self._read_sized_bytes)
        return next((page for page in self._meta[2] if page.txnid == txnid), None)

    def _read_sized_bytes(self, size: int, start: int) -> bytes:
        return self._read_bytes(start, size)

    def _map_until(self, end: int) -> mmap.mmap:
        """A map that reaches ``end``, which lies in the file."""
        if self._map is None or len(self._map) < end:
            with translate_errors(self.path, "read the store"):
                self._size = os.fstat(self._fd).st_size
                self._map = mmap.mmap(self._fd, self._size, access=mmap.ACCESS_READ)
        return self._map

    def _read_bytes(self, start: int, size: int) -> bytes:
        return self._map_until(start + size)[start : start + size]

    def read(self, number: int, count: int = 1) -> bytes:
        """Some pages in a row. Raises DamageError where the file ends before, StorageError."""
        start, size = number * self.page_size, count * self.page_size
        data = self._read_bytes(start, size)
        if len(data) != size:
            raise self.page_error(number, "the file ends before")
        return data

    def read_branch(self, number: int) -> BranchPage:
        """Branch page ``number``, proven but for the order of its keys. Raises DamageError."""
        data = self.read(number)
        # Equal bytes have been proven before: most branches stay from one transaction to the next.
        known = self._branches.get(number)
        if known is not None and known[0] == data:
            return known[1]
        try:
            found = read_branch(data, number)
        except PageFault as problem:
            raise self.page_error(number, problem) from None
        if len(self._branches) >= self.limits.kept_branches:
            self._branches.clear()
        self._branches[number] = data, found
        return found

    def read_leaf(self, number: int) -> tuple[bytes, LeafPage]:
        """The bytes and the entries of leaf page ``number``, proven by itself. Raises DamageError."""
        data = self.read(number)
        try:
            return data, read_leaf(data, number)
        except PageFault as problem:
            raise self.page_error(number, problem) from None

    def can_prove_columns(self, leaves: int) -> bool:
        """Return whether the next ``leaves`` are proven in columns, which takes a third of the time but starts
        slower.
        """
        return self._can_use_columns(leaves, self.limits.column_leaves)

    def can_walk_columns(self, leaves: int) -> bool:
        """Return whether the next ``leaves`` of a walk are read in columns."""
        return self._can_use_columns(leaves, self.limits.walked_leaves)

    def _can_use_columns(self, leaves: int, most: int) -> bool:
        self._leaves += leaves
        if leaves < self.limits.least_column_leaves:
            return False
        # Once they are loaded there is nothing to wait for.
        self._has_columns = self._has_columns or self._leaves > most
        return self._has_columns

    def map_pages(self, numbers: list[int]) -> mmap.mmap:
        """A map in which pages lie. Raises DamageError where the file ends before one, StorageError."""
        last = max(numbers)
        found = self._map_until((last + 1) * self.page_size)
        if len(found) < (last + 1) * self.page_size:
            raise self.page_error(last, "the file ends before")
        return found

    def read_entry(self, number: int, index: int) -> tuple[bytes, int, int, int]:
        """Key, flags, size and place in the file of an entry of a leaf that is proven."""
        data, base = self._map_until(0), number * self.page_size
        place = base + int.from_bytes(
            data[base + PAGE_LAYOUT.size + 2 * index : base + PAGE_LAYOUT.size + 2 * index + 2], sys.byteorder
        )
        head = NODE_WORD_LAYOUT.unpack_from(data, place)[0]
        start = place + NODE_WORD_LAYOUT.size
        end = start + (head >> 48)
        return data[start:end], head >> 32 & 0xFFFF, head & 0xFFFFFFFF, end

    def read_range(self, start: int, size: int) -> bytes:
        """Bytes of the file."""
        return self._read_bytes(start, size)

    def probe_leaf(self, number: int) -> int | None:
        """Count the entries of leaf page ``number``; None where the short proof does not suffice.

        It is what reading takes where order, counts and checksums prove what was read. Raises DamageError.
        """
        try:
            return probe_leaf(self.read(number), number)
        except PageFault as problem:
            raise self.page_error(number, problem) from None

    def read_entries(self, numbers: list[int], *, columns: bool, tiled: bool) -> Entries | None:
        """Keys and values of leaf pages, in their order; None where the short proof does not do."""
        data = self.map_pages(numbers)
        if not columns:
            return read_entries(data, self.page_size, numbers, tiled=tiled)
        from sowctl.store.lmdbfile.column_check import read_entries as read_columns

        return read_columns(data, self.page_size, numbers, tiled=tiled)

    def verify_run(self, leaf: int, first: int, size: int, last_page: int) -> int:
        """Prove the overflow pages, from ``first`` on, of a value of a leaf; how many they are. Raises DamageError."""
        needed = count_overflow_pages(size, self.page_size)
        if not FIRST_TREE_PAGE <= first <= last_page + 1 - needed:
            raise self.page_error(leaf, f"it has a value on page {first}")
        end = (first + needed) * self.page_size
        data = self._map_until(end)
        if len(data) < end:
            raise self.page_error(first, "the file ends before")
        number, _, flags, pages = OVERFLOW_LAYOUT.unpack_from(data, first * self.page_size)
        # A value that was replaced by a shorter one in the same transaction keeps its pages: there may be more.
        if number != first or flags != OVERFLOW_FLAG or not needed <= pages <= last_page + 1 - first:
            raise self.page_error(first, "it is not the first page of a value")
        return int(pages)


class BranchPlace(NamedTuple):
    """A branch page and the bounds of all keys below it: from ``low`` up to ``high``, None where there is no bound."""

    number: int
    page: BranchPage
    low: bytes
    high: bytes | None

    def locate_child(self, index: int) -> tuple[int, bytes, bytes | None]:
        """The page number of a child, and its bounds."""
        starts = self.page.starts
        low = starts[index - 1] if index else self.low
        return self.page.children[index], low, starts[index] if index < len(starts) else self.high


BranchPath = tuple[tuple[BranchPlace, int], ...]
"""The branches above a page, from the root on, each with the index of the child that was taken."""


class LeafPlace(NamedTuple):
    """The place of a leaf: the branches above it, its number, and the bounds of its keys."""

    steps: BranchPath
    number: int
    low: bytes
    high: bytes | None

    def covers_key(self, key: bytes) -> bool:
        """Return whether a search for ``key`` ends here."""
        return self.low <= key and (self.high is None or key < self.high)


class Tree:
    """A sub-database as a state of the file has it. Every method raises DamageError SOW-STO-023, StorageError.

    ``root`` and ``depth`` are what LMDB notes of it; ``last_page`` is that of the state.
    """

    ENTRY_FLAGS: tuple[int, ...] = (0, BIG_DATA_FLAG)
    """What LMDB may note of an entry."""

    def __init__(self, file: PageFile, root: int, depth: int, last_page: int) -> None:
        self._file = file
        self._depth = depth
        self._root = root
        self._last_page = last_page
        self._branches: dict[int, BranchPlace] = {}
        self._ends: dict[int, tuple[bytes, bytes]] = {}
        self._probed: dict[int, int] = {}
        self._last: tuple[BranchPath, BranchPlace] | None = None
        self._counts: dict[int, tuple[int, int, int]] = {}
        self._lengths: dict[int, int] = {}
        self._visited: tuple[list[bytes], list[int]] = [], []
        self._reached: tuple[bytes, LeafPlace | None] | None = None
        self._has_runs = False
        self._free: bytearray | None = None

    def copy_for_writing(self, free: bytearray) -> Tree:
        """The same tree with what is proven of it; none of its pages may be one of the ``free`` pages.

        A tree of its own, as readers of this one go on while ``free`` becomes that of later states.
        """
        tree = Tree(self._file, self._root, self._depth, self._last_page)
        tree._free = free
        tree._verify_used(self._branches)
        tree._branches = self._branches.copy()
        # Overflow pages are compared when their leaf is proven.
        if not self._has_runs:
            tree._verify_used(self._ends)
            tree._ends, tree._counts = self._ends.copy(), self._counts.copy()
            tree._lengths = self._lengths.copy()
        return tree

    def _verify_used(self, numbers: Iterable[int]) -> None:
        """Raise DamageError where one of some pages is free."""
        free = self._free
        if free is None:
            return
        for number in numbers:
            if free[number]:
                raise self._file.free_page_error(number)

    def page_error(self, number: int, reason: object) -> DamageError:
        """The error for a page of it."""
        return self._file.page_error(number, reason)

    @property
    def is_empty(self) -> bool:
        """True if it has no page."""
        return self._root == NO_PAGE

    def _prove_branch(self, number: int, low: bytes, high: bytes | None) -> BranchPlace:
        known = self._branches.get(number)
        if known is not None and known.low == low and known.high == high:
            return known
        page = self._file.read_branch(number)
        starts = page.starts
        if starts and (starts[0] < low or (high is not None and starts[-1] >= high)):
            raise self._file.page_error(number, "its keys are not those of its place")
        if not all(map(lt, starts, starts[1:])):
            raise self._file.page_error(number, "its keys are out of order")
        if min(page.children) < FIRST_TREE_PAGE or max(page.children) > self._last_page:
            raise self._file.page_error(number, "it refers to a page that does not exist")
        self._verify_used((number,))
        found = self._branches[number] = BranchPlace(number, page, low, high)
        return found

    def read_leaf(self, number: int) -> LeafPage:
        """The entries of a leaf, proven but for their bounds."""
        data, page = self._file.read_leaf(number)
        if not all(map(lt, page.keys, page.keys[1:])):
            raise self._file.page_error(number, "its keys are out of order")
        self._verify_used((number,))
        if any(page.flags):
            for flags, size, place in zip(page.flags, page.sizes, page.places, strict=True):
                if flags not in self.ENTRY_FLAGS:
                    raise self._file.page_error(number, "it has an entry of another kind")
                if flags == BIG_DATA_FLAG:
                    first = PAGE_NUMBER_LAYOUT.unpack_from(data, place)[0]
                    count = self._file.verify_run(number, first, size, self._last_page)
                    self._has_runs = True
                    self._verify_used(range(first, first + count))
        return page

    def verify_end_keys(self, leaf: LeafPlace) -> tuple[bytes, bytes]:
        """Prove a leaf; its first and its last key."""
        return self._prove_leaf(leaf.number, leaf.low, leaf.high)

    def _prove_leaf(self, number: int, low: bytes, high: bytes | None) -> tuple[bytes, bytes]:
        ends = self._ends.get(number)
        if ends is None:
            keys = self.read_leaf(number).keys
            ends = self._ends[number] = keys[0], keys[-1]
            self._lengths[number] = len(keys)
        # Each time, as another branch may lead to the same page.
        if ends[0] < low or (high is not None and ends[1] >= high):
            raise self._file.page_error(number, "its keys are not those of its place")
        return ends

    def find_known_leaf(self, key: bytes) -> LeafPlace | None:
        """The leaf in which a search for ``key`` ends, without the steps; None where only :meth:`find_leaf` can tell.

        Of the branches no more is proven than what the search meets. Where the key is neither the first nor the last
        one of the leaf, nor would be, the leaf is the right one: one wrong key in a branch leads to the end of a leaf.
        """
        if self._reached is not None and self._reached[0] == key:
            return self._reached[1]
        found = self._descend_to_leaf(key)
        self._reached = key, found
        return found

    def _descend_to_leaf(self, key: bytes) -> LeafPlace | None:
        number, low, high = self._root, b"", None
        if number == NO_PAGE:
            return None
        with suppress(DamageError, PageFault, struct.error):
            for _ in range(self._depth - 1):
                known = self._branches.get(number)
                if known is not None and known.low == low and known.high == high:
                    number, low, high = known.locate_child(bisect_right(known.page.starts, key))
                    continue
                number, begin, end = find_child(self._file.read(number), number, key)
                if not FIRST_TREE_PAGE <= number <= self._last_page or (begin is not None and begin < low):
                    return None
                if high is not None and end is not None and end >= high:
                    return None
                low, high = low if begin is None else begin, high if end is None else end
            return LeafPlace((), number, low, high)
        return None

    def look_up(self, key: bytes) -> bytes | None:
        """The value of ``key``, which proves itself; None where a search does not find it, whatever the reason."""
        leaf = self.find_known_leaf(key)
        if leaf is None:
            return None
        with suppress(DamageError, PageFault, struct.error):
            page = self._file.read(leaf.number)
            found = find_entry(page, leaf.number, key)
            if found is not None:
                flags, size, place = found
                if flags == 0:
                    return page[place : place + size]
                if flags == BIG_DATA_FLAG:
                    return self._read_large(leaf.number, PAGE_NUMBER_LAYOUT.unpack_from(page, place)[0], size)
        return None

    def _read_large(self, leaf: int, first: int, size: int) -> bytes:
        """A value of a leaf in overflow pages, from ``first`` on."""
        self._file.verify_run(leaf, first, size, self._last_page)
        return self._file.read_range(first * self._file.page_size + PAGE_LAYOUT.size, size)

    def verify_leaves(self, keys: Iterable[bytes], *, whole: bool) -> list[int]:
        """Prove the leaf in which a search for each of ``keys`` ends: all of it, or what reading takes; the leaves."""
        if self.is_empty:
            return []
        keys = sorted(keys)
        # A writer looks up what it is going to write.
        if whole and keys == self._visited[0]:
            return self._visited[1]
        numbers = self._prove_each_leaf(keys, whole=whole)
        if whole:
            self._visited = keys, numbers
        return numbers

    def _prove_each_leaf(self, keys: list[bytes], *, whole: bool) -> list[int]:
        numbers: list[int] = []
        found: list[tuple[BranchPlace, list[int]]] = []
        at = leaves = 0
        while at < len(keys):
            leaf = self.find_leaf(keys[at])
            if leaf is None or not leaf.steps:
                if leaf is not None:
                    (self.verify_end_keys if whole else self.probe_leaf)(leaf)
                    numbers.append(leaf.number)
                break
            branch = leaf.steps[-1][0]
            high, starts = branch.high, branch.page.starts
            stop = len(keys) if high is None or keys[-1] < high else bisect_left(keys, high, at)
            if stop == at + 1:
                indexes = [leaf.steps[-1][1]]
            else:
                indexes = sorted({bisect_right(starts, key) for key in keys[at:stop]})
            found.append((branch, indexes))
            at, leaves = stop, leaves + len(indexes)
            if leaves >= self._file.limits.batch_leaves or at == len(keys):
                numbers += self._prove_places(found, whole=whole)
                found, leaves = [], 0
        return numbers

    def _prove_places(self, found: list[tuple[BranchPlace, list[int]]], *, whole: bool) -> list[int]:
        """Prove leaves below some branches; their numbers."""
        numbers = [branch.page.children[index] for branch, indexes in found for index in indexes]
        if whole:
            self._prove_in_columns(numbers)
            for branch, indexes in found:
                starts, last = branch.page.starts, len(branch.page.starts)
                for index in indexes:
                    ends = self._ends.get(branch.page.children[index])
                    # Most are proven by now, and only compared with their bounds.
                    if (
                        ends is not None
                        and 0 < index < last
                        and starts[index - 1] <= ends[0] <= ends[1] < starts[index]
                    ):
                        continue
                    self._prove_leaf(*branch.locate_child(index))
        else:
            self._probe_leaves(numbers)
        return numbers

    def _probe_leaves(self, numbers: list[int]) -> None:
        probed, ends = self._probed, self._ends
        numbers = [number for number in numbers if number not in probed and number not in ends]
        if not numbers:
            return
        self._make_room(probed)
        if self._file.can_prove_columns(len(numbers)):
            probed.update(self._probe_columns(numbers))
            numbers = [number for number in numbers if number not in probed]
        for number in numbers:
            self._probe_page(number)

    def _probe_columns(self, numbers: list[int]) -> dict[int, int]:
        from sowctl.store.lmdbfile.column_check import probe_leaves

        return probe_leaves(self._file.map_pages(numbers), self._file.page_size, numbers)

    def _prove_in_columns(self, numbers: list[int]) -> None:
        """Prove leaves in columns, if they are many, but for their bounds, as far as that goes."""
        numbers = [number for number in numbers if number not in self._ends]
        if not numbers or not self._file.can_prove_columns(len(numbers)):
            return
        from sowctl.store.lmdbfile.column_check import read_leaves

        self._make_room(self._ends)
        self._verify_used(numbers)
        found = read_leaves(self._file.map_pages(numbers), self._file.page_size, numbers)
        if found is None:
            return
        self._ends.update(zip(found.numbers, zip(found.firsts, found.lasts, strict=True), strict=True))
        self._counts.update(zip(found.numbers, zip(found.counts, found.used, found.largest, strict=True), strict=True))

    def read_gap_entries(
        self, keys: Sequence[bytes], numbers: Sequence[int]
    ) -> tuple[Iterable[bytes], Sequence[bytes]]:
        """The entries, key and value in a row, beside the places where ``keys`` would be in the leaves ``numbers``,
        which are proven; and those keys of which that is not told."""
        if not numbers or not self._file.can_prove_columns(len(numbers)):
            return (), keys
        from sowctl.store.lmdbfile.column_check import find_gaps

        data = self._file.map_pages(list(numbers))
        found = find_gaps(data, self._file.page_size, numbers, keys)
        if found is None:
            return (), keys
        return map(data.__getitem__, map(slice, found.starts, found.stops)), found.edges

    def find_edge_leaves(self, keys: Sequence[bytes], length: int | None) -> Iterator[tuple[LeafPlace, bool]]:
        """Prove the leaves in which ``keys``, in order, would be; those of them whose first or last entry one of the
        keys would be, and whether the last one. First and last keys have a ``length`` (None: any)."""
        self.verify_leaves(keys, whole=True)
        branch: BranchPlace | None = None
        for key in keys:
            # Most keys are in the middle of a leaf, and are passed with one search below the branch of the one before.
            if branch is not None and branch.low <= key and (branch.high is None or key < branch.high):
                ends = self._ends.get(branch.page.children[bisect_right(branch.page.starts, key)])
                if ends is not None and ends[0] < key < ends[1] and length in (None, len(ends[0])):
                    continue
            leaf = self.find_leaf(key)
            if leaf is None:
                return
            branch = leaf.steps[-1][0] if leaf.steps else None
            first, last = self.verify_end_keys(leaf)
            # A leaf of another sub-database, whose keys are in order and lie in the bounds by chance.
            if length is not None and not len(first) == len(last) == length:
                raise self.page_error(leaf.number, "its keys are of another length than those of its tree")
            if not first < key < last:
                yield leaf, key > first

    def _make_room(self, known: dict[int, Any]) -> None:
        if len(known) >= self._file.limits.kept_leaves:
            known.clear()

    def search_leaf(self, leaf: LeafPlace, key: bytes) -> tuple[int, int]:
        """Find where ``key`` is or would be among the entries of a proven leaf, and how many these are."""
        self.verify_end_keys(leaf)
        count = self._count_entries(leaf.number)
        return bisect_left(range(count), key, key=lambda index: self._file.read_entry(leaf.number, index)[0]), count

    def read_entry(self, leaf: LeafPlace, index: int) -> tuple[bytes, int, bytes]:
        """Key, flags and value of an entry of a leaf, all of which is proven; of a large value, where it is."""
        self.verify_end_keys(leaf)
        if index < 0:
            index += self._count_entries(leaf.number)
        key, flags, size, start = self._file.read_entry(leaf.number, index)
        return key, flags, self._file.read_range(start, PAGE_NUMBER_LAYOUT.size if flags else size)

    def _count_entries(self, number: int) -> int:
        # One of the two has it, as the leaf is proven.
        known = self._counts.get(number)
        return known[0] if known is not None else self._lengths[number]

    def _measure_leaf(self, number: int) -> tuple[int, int, int]:
        """Return the number of a leaf's entries, the bytes they take, and the largest of them."""
        page = self.read_leaf(number)
        sizes = [PAGE_NUMBER_LAYOUT.size if flags else size for flags, size in zip(page.flags, page.sizes, strict=True)]
        nodes = [len(key) + size + NODE_WORD_LAYOUT.size + 1 & -2 for key, size in zip(page.keys, sizes, strict=True)]
        return len(nodes), sum(nodes), max(nodes)

    def count_safe_deletions(self, leaf: LeafPlace) -> int:
        """Return how many of a leaf's entries may at least be removed before LMDB merges it with another."""
        if leaf.number not in self._counts:
            self._counts[leaf.number] = self._measure_leaf(leaf.number)
        count, used, largest = self._counts[leaf.number]
        room = self._file.page_size - PAGE_LAYOUT.size
        # LMDB counts what is used with the places of the nodes, two bytes each.
        return min((used + 2 * count - room // _MERGE_DIVISOR - 1) // (largest + 2), count - 1)

    def probe_leaf(self, leaf: LeafPlace) -> int:
        """Prove what reading takes of a leaf (:meth:`PageFile.probe_leaf`); how many entries it has."""
        return self._probe_page(leaf.number)

    def _probe_page(self, number: int) -> int:
        count = self._probed.get(number)
        if count is None:
            found = self._file.probe_leaf(number)
            count = self._probed[number] = len(self.read_leaf(number).keys) if found is None else found
        return count

    def walk_entries(self, leaf: LeafPlace, *, forward: bool, tiled: bool) -> Iterator[Entries]:
        """Keys and values of a leaf and of those beside it, one or many leaves at a time, proven for reading.

        ``tiled``: no count tells the reader that no entry was left out, so it is proven that the entries fill the leaf.
        """
        yield self._read_leaves([leaf.number], forward=forward, tiled=tiled)
        together = 1
        while (beside := self.find_adjacent_leaf(leaf, forward=forward)) is not None:
            # A tree of one leaf has no other one, so there is a branch.
            branch, index = beside.steps[-1]
            below = branch.page.children
            numbers = below[index:] if forward else below[index::-1]
            at = 0
            while at < len(numbers):
                # Few at first: most readers do not go far.
                together = min(2 * together, self._file.limits.batch_leaves)
                part = numbers[at : at + together]
                entries = self._read_leaves(part, forward=forward, tiled=tiled)
                if tiled:
                    first = index + at if forward else index - at - len(part) + 1
                    self._verify_places(branch, first, len(part), sorted((entries[0][0], entries[0][-1])), entries[0])
                yield entries
                at += together
            index = len(below) - 1 if forward else 0
            leaf = LeafPlace((*beside.steps[:-1], (branch, index)), *branch.locate_child(index))

    def _verify_places(
        self, branch: BranchPlace, first: int, count: int, ends: list[bytes], keys: Sequence[bytes]
    ) -> None:
        """Raise DamageError unless ``keys`` are in order, and lie in the bounds of some children of a branch."""
        # Who reads up to a key would take one beyond it, in a leaf of another place, for the end.
        number, low, _ = branch.locate_child(first)
        high = branch.locate_child(first + count - 1)[2]
        is_placed = low <= ends[0] and (high is None or ends[1] < high)
        rest = keys[1:]
        if not is_placed or not (all(map(lt, keys, rest)) or all(map(lt, rest, keys))):
            raise self._file.page_error(number, "keys below it are not those of their place")

    def _read_leaves(self, numbers: list[int], *, forward: bool, tiled: bool) -> Entries:
        """Keys and values of leaves beside each other."""
        if not forward:
            keys, values = self._read_leaves(numbers[::-1], forward=True, tiled=tiled)
            return keys[::-1], values[::-1]
        columns = self._file.can_walk_columns(len(numbers))
        found = self._file.read_entries(numbers, columns=columns, tiled=tiled)
        if found is None:
            # Which one is of another form, or damaged, is told by looking at them one by one.
            found = [], []
            for number in numbers:
                for all_of_them, some in zip(found, self._read_any(number), strict=True):
                    all_of_them += some
        return found

    def _read_any(self, number: int) -> Entries:
        """Keys and values of a leaf of any form."""
        file, page = self._file, self.read_leaf(number)
        data = file.read(number)
        values = []
        for flags, size, place in zip(page.flags, page.sizes, page.places, strict=True):
            if flags:
                values.append(self._read_large(number, PAGE_NUMBER_LAYOUT.unpack_from(data, place)[0], size))
            else:
                values.append(data[place : place + size])
        return page.keys, values

    def _descend_to_edge(
        self, steps: BranchPath, number: int, low: bytes, high: bytes | None, *, last: bool
    ) -> LeafPlace:
        """The first or the last leaf below a page."""
        for _ in range(self._depth - 1 - len(steps)):
            branch = self._prove_branch(number, low, high)
            index = len(branch.page.starts) if last else 0
            steps = (*steps, (branch, index))
            number, low, high = branch.locate_child(index)
        return LeafPlace(steps, number, low, high)

    def find_leaf(self, key: bytes) -> LeafPlace | None:
        """The leaf in which a search for ``key`` ends; None where there is no leaf."""
        if self.is_empty:
            return None
        # Most searches end below the branch of the one before.
        if self._last is not None:
            above, branch = self._last
            if branch.low <= key and (branch.high is None or key < branch.high):
                index = bisect_right(branch.page.starts, key)
                return LeafPlace((*above, (branch, index)), *branch.locate_child(index))
        steps: BranchPath = ()
        number, low, high = self._root, b"", None
        for _ in range(self._depth - 1):
            branch = self._prove_branch(number, low, high)
            index = bisect_right(branch.page.starts, key)
            steps = (*steps, (branch, index))
            number, low, high = branch.locate_child(index)
        # Only here: a fault on the way would leave a branch above the lowest ones, whose children are no leaves.
        if steps:
            self._last = steps[:-1], steps[-1][0]
        return LeafPlace(steps, number, low, high)

    def find_end_leaf(self, *, last: bool) -> LeafPlace | None:
        """The first or the last leaf; None where there is none."""
        return None if self.is_empty else self._descend_to_edge((), self._root, b"", None, last=last)

    def find_adjacent_leaf(self, leaf: LeafPlace, *, forward: bool) -> LeafPlace | None:
        """The next leaf in the order of keys, or the one before; None at the end."""
        steps = leaf.steps
        for level in range(len(steps) - 1, -1, -1):
            branch, index = steps[level]
            index += 1 if forward else -1
            if 0 <= index < len(branch.page.children):
                above = (*steps[:level], (branch, index))
                return self._descend_to_edge(above, *branch.locate_child(index), last=not forward)
        return None

    def iter_leaves(self) -> Iterator[LeafPlace]:
        """All leaves, in the order of their keys."""
        leaf = self.find_end_leaf(last=False)
        while leaf is not None:
            yield leaf
            leaf = self.find_adjacent_leaf(leaf, forward=True)

    def verify_all(self) -> None:
        """Prove every page."""
        for leaf in self.iter_leaves():
            self.verify_end_keys(leaf)

    def verify_siblings(self, steps: BranchPath, level: int, radius: int) -> None:
        """Prove the branch page at ``level`` of a path, those up to ``radius`` beside it below the same branch, and
        the way from each of them to its first leaf."""
        above, index = steps[level - 1]
        for place in range(max(0, index - radius), min(len(above.page.children), index + radius + 1)):
            self.verify_end_keys(
                self._descend_to_edge((*steps[: level - 1], (above, place)), *above.locate_child(place), last=False)
            )


class _MainTree(Tree):
    """The tree whose entries describe the sub-databases."""

    ENTRY_FLAGS = (SUB_TREE_FLAG, 0, BIG_DATA_FLAG)

    def read_sub_trees(self) -> tuple[list[bytes], list[tuple[bytes, TreeInfo]]]:
        """All pages of it, proven; name and description of every sub-database."""
        pages: list[bytes] = []
        found: list[tuple[bytes, TreeInfo]] = []
        for leaf in self.iter_leaves():
            self.verify_end_keys(leaf)
            data, page = self._file.read_leaf(leaf.number)
            pages.append(data)
            for name, flags, size, place in zip(page.keys, page.flags, page.sizes, page.places, strict=True):
                # What is no sub-database is not opened, and so not found: another program's file may have it.
                if flags != SUB_TREE_FLAG:
                    continue
                if size != TREE_LAYOUT.size:
                    raise self._file.page_error(leaf.number, "it does not describe a sub-database")
                # Another kind of sub-database would have LMDB read keys and values in another way.
                tree = TreeInfo.decode(data[place : place + size])
                if tree is None:
                    raise self._file.page_error(leaf.number, "its description of a sub-database is damaged")
                if tree.root != NO_PAGE and not FIRST_TREE_PAGE <= tree.root <= self._last_page:
                    raise self._file.page_error(leaf.number, "it refers to a page that does not exist")
                found.append((name, tree))
        return pages, found


def read_sub_databases(file: PageFile, meta: MetaPage) -> dict[bytes, Tree]:
    """The sub-databases of a state by their names. Raises DamageError SOW-STO-023, StorageError."""
    state = meta.main.root, meta.main.depth, meta.last_page
    if file.trees is not None and file.trees[0] == meta:
        return file.trees[1]
    known = file.main
    # The main tree of a store is one page. One with the bytes that were proven before is not taken apart again.
    if known is None or known[0] != state or meta.main.depth != 1 or known[1] != [file.read(meta.main.root)]:
        known = file.main = (state, *_MainTree(file, *state).read_sub_trees())
    trees = {name: Tree(file, tree.root, tree.depth, meta.last_page) for name, tree in known[2]}
    file.trees = meta, trees
    return trees


__all__ = ["LeafPlace", "PageFile", "Tree", "read_sub_databases"]

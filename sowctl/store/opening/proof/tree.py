"""The pages of one sub-database, proven along the path from its root (``sow-store(5)``, "How to read").

A valid page may be in the wrong position. So it is also proven that its depth is the depth of the tree in LMDB's
record, and that its keys lie between those of the branches above it: then a search ends where the key belongs, and a
key that is not found does not exist. A proof is valid for one transaction: LMDB does not write to a page of a state in
use.
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
from typing import Any, NamedTuple, Protocol

from sowctl.errors import DamageError
from sowctl.seam import Seam
from sowctl.store.codec import REBUILD_HINT
from sowctl.store.lmdberrors import translate_errors
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
    """The file of an open environment, mapped for reading. ``inode`` identifies the file; close it."""

    def __init__(
        self, path: Path, page_size: int, seam: Seam, *, place: Path | None = None, limits: Limits | None = None
    ) -> None:
        """``place`` is the path in errors while the file has another name than ``path``. Raises OSError."""
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
        """The main tree proven last: root, depth and last page; its pages; names and descriptions."""
        self.names: dict[Any, bytes] = {}
        """The names of sub-databases by LMDB's handles, which do not have them."""
        self.trees: tuple[MetaPage, dict[bytes, Tree]] | None = None
        """The sub-databases of the state read last, with their proofs."""
        self.free_pages: Any = None
        """Its free pages after :mod:`sowctl.store.opening.proof.freelist`, which defines their class, has proven
        them."""
        self._leaves = 0
        self._has_columns = False

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        self._map = None
        if fd >= 0:
            os.close(fd)

    def page_error(self, number: int, reason: object) -> DamageError:
        """Return the error for page ``number``."""
        return DamageError(
            "SOW-STO-023", f"page {number} is damaged: {reason}", place=str(self.path), hint=REBUILD_HINT
        )

    def free_page_error(self, number: int) -> DamageError:
        """Return the error for page ``number``, which is in a tree and in the free list."""
        return self.page_error(number, "it is in use and listed as free")

    @property
    def has_proven_free_list(self) -> bool:
        """True if the free list was proven."""
        return self.free_pages is not None

    def find_meta_page(self, txnid: int) -> MetaPage | None:
        """Return the meta page that transaction ``txnid`` wrote; None if it was replaced.

        Later reads refer to the file as it is now. Raises StorageError.
        """
        with translate_errors(self.path, "read the store"):
            # Accessing the map after the end of a truncated file would kill the process.
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
        """Return a map that extends to ``end``, which is within the file."""
        if self._map is None or len(self._map) < end:
            with translate_errors(self.path, "read the store"):
                self._size = os.fstat(self._fd).st_size
                self._map = mmap.mmap(self._fd, self._size, access=mmap.ACCESS_READ)
        return self._map

    def _read_bytes(self, start: int, size: int) -> bytes:
        return self._map_until(start + size)[start : start + size]

    def read(self, number: int, count: int = 1) -> bytes:
        """Return several consecutive pages. Raises DamageError if the file ends before them, StorageError."""
        start, size = number * self.page_size, count * self.page_size
        data = self._read_bytes(start, size)
        if len(data) != size:
            raise self.page_error(number, "the file ends before")
        return data

    def read_branch(self, number: int) -> BranchPage:
        """Return branch page ``number``, proven except for the order of its keys. Raises DamageError."""
        data = self.read(number)
        # Equal bytes were proven before: most branches do not change from one transaction to the next.
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
        """Return the bytes and the entries of leaf page ``number``, proven by itself. Raises DamageError."""
        data = self.read(number)
        try:
            return data, read_leaf(data, number)
        except PageFault as problem:
            raise self.page_error(number, problem) from None

    def can_prove_columns(self, leaves: int) -> bool:
        """Return whether the next ``leaves`` are proven in columns, which takes a third of the time but starts more
        slowly."""
        return self._can_use_columns(leaves, self.limits.column_leaves)

    def can_walk_columns(self, leaves: int) -> bool:
        """Return whether the next ``leaves`` of a walk are read in columns."""
        return self._can_use_columns(leaves, self.limits.walked_leaves)

    def _can_use_columns(self, leaves: int, most: int) -> bool:
        self._leaves += leaves
        if leaves < self.limits.least_column_leaves:
            return False
        # Once imported, columns cost no start time.
        self._has_columns = self._has_columns or self._leaves > most
        return self._has_columns

    def map_pages(self, numbers: list[int]) -> mmap.mmap:
        """Return a map that contains pages. Raises DamageError if the file ends before one, StorageError."""
        last = max(numbers)
        found = self._map_until((last + 1) * self.page_size)
        if len(found) < (last + 1) * self.page_size:
            raise self.page_error(last, "the file ends before")
        return found

    def read_entry(self, number: int, index: int) -> tuple[bytes, int, int, int]:
        """Return key, flags, size and offset in the file of an entry of a proven leaf."""
        data, base = self._map_until(0), number * self.page_size
        place = base + int.from_bytes(
            data[base + PAGE_LAYOUT.size + 2 * index : base + PAGE_LAYOUT.size + 2 * index + 2], sys.byteorder
        )
        head = NODE_WORD_LAYOUT.unpack_from(data, place)[0]
        start = place + NODE_WORD_LAYOUT.size
        end = start + (head >> 48)
        return data[start:end], head >> 32 & 0xFFFF, head & 0xFFFFFFFF, end

    def read_range(self, start: int, size: int) -> bytes:
        """Return bytes of the file."""
        return self._read_bytes(start, size)

    def probe_leaf(self, number: int) -> int | None:
        """Count the entries of leaf page ``number``; None if the short proof does not suffice.

        The short proof suffices for reading if order, counts and checksums prove the data. Raises DamageError.
        """
        try:
            return probe_leaf(self.read(number), number)
        except PageFault as problem:
            raise self.page_error(number, problem) from None

    def read_entries(self, numbers: list[int], *, columns: bool, tiled: bool) -> Entries | None:
        """Return keys and values of leaf pages, in their order; None if the short proof does not suffice."""
        data = self.map_pages(numbers)
        if not columns:
            return read_entries(data, self.page_size, numbers, tiled=tiled)
        from sowctl.store.lmdbfile.column_check import read_entries as read_columns

        return read_columns(data, self.page_size, numbers, tiled=tiled)

    def verify_run(self, leaf: int, first: int, size: int, last_page: int) -> int:
        """Prove the overflow pages, from ``first`` on, of a value of a leaf; return their number. Raises
        DamageError."""
        needed = count_overflow_pages(size, self.page_size)
        if not FIRST_TREE_PAGE <= first <= last_page + 1 - needed:
            raise self.page_error(leaf, f"it has a value on page {first}")
        end = (first + needed) * self.page_size
        data = self._map_until(end)
        if len(data) < end:
            raise self.page_error(first, "the file ends before")
        number, _, flags, pages = OVERFLOW_LAYOUT.unpack_from(data, first * self.page_size)
        # A value replaced by a shorter one in the same transaction keeps its pages: there may be more than needed.
        if number != first or flags != OVERFLOW_FLAG or not needed <= pages <= last_page + 1 - first:
            raise self.page_error(first, "it is not the first page of a value")
        return int(pages)


class FreePageNumbers(Protocol):
    """The numbers of the free pages of a state (:class:`~sowctl.store.opening.proof.freelist.FreeNumbers`)."""

    def __contains__(self, number: int) -> bool: ...

    @property
    def all_numbers(self) -> frozenset[int]:
        """All of them."""


class BranchPlace(NamedTuple):
    """A branch page and the bounds of all keys below it: from ``low`` up to ``high``, None for no bound."""

    number: int
    page: BranchPage
    low: bytes
    high: bytes | None

    def locate_child(self, index: int) -> tuple[int, bytes, bytes | None]:
        """Return the page number of a child, and its bounds."""
        starts = self.page.starts
        low = starts[index - 1] if index else self.low
        return self.page.children[index], low, starts[index] if index < len(starts) else self.high


BranchPath = tuple[tuple[BranchPlace, int], ...]
"""The branches above a page, from the root on, each with the index of the child on the path."""


class LeafPlace(NamedTuple):
    """The position of a leaf: the branches above it, its number, and the bounds of its keys."""

    steps: BranchPath
    number: int
    low: bytes
    high: bytes | None

    def covers_key(self, key: bytes) -> bool:
        """Return whether a search for ``key`` ends here."""
        return self.low <= key and (self.high is None or key < self.high)


class Tree:
    """A sub-database in one state of the file. Every method raises DamageError SOW-STO-023, StorageError.

    ``root`` and ``depth`` are those of LMDB's record of the tree; ``last_page`` is that of the state.
    """

    ENTRY_FLAGS: tuple[int, ...] = (0, BIG_DATA_FLAG)
    """Flags that LMDB may store for an entry."""

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
        self.free_numbers: FreePageNumbers | None = None
        """The free pages of the state, for a reader."""

    def refuse_free_pages(self, free: FreePageNumbers) -> None:
        """Refuse from now on each page that is free in the state: it may be an older copy of the right one. Raises
        DamageError.
        """
        self.free_numbers = free
        self._require_used(self._root)

    def _require_used(self, number: int) -> None:
        if self.free_numbers is not None and number in self.free_numbers:
            raise self._file.free_page_error(number)

    def copy_for_writing(self, free: bytearray) -> Tree:
        """Return the same tree with its proofs; none of its pages may be one of the ``free`` pages.

        A separate tree, because readers continue to use this one while ``free`` changes with later states.
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
        """Raise DamageError if one of some pages is free."""
        free = self._free
        if free is None:
            return
        for number in numbers:
            if free[number]:
                raise self._file.free_page_error(number)

    def page_error(self, number: int, reason: object) -> DamageError:
        """Return the error for one of its pages."""
        return self._file.page_error(number, reason)

    @property
    def is_empty(self) -> bool:
        """True if the tree has no page."""
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
        if self.free_numbers is not None and not self.free_numbers.all_numbers.isdisjoint(page.children):
            raise self._file.free_page_error(next(filter(self.free_numbers.all_numbers.__contains__, page.children)))
        self._verify_used((number,))
        found = self._branches[number] = BranchPlace(number, page, low, high)
        return found

    def read_leaf(self, number: int) -> LeafPage:
        """Return the entries of a leaf, proven except for their bounds."""
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
                    self._require_used(first)
                    self._has_runs = True
                    self._verify_used(range(first, first + count))
        return page

    def verify_end_keys(self, leaf: LeafPlace) -> tuple[bytes, bytes]:
        """Prove a leaf; return its first and last key."""
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
        """Return the leaf in which a search for ``key`` ends, without the path; None if only :meth:`find_leaf` can
        determine it.

        Of the branches, only the nodes on the search path are proven. Unless the key is, or would be, the first or last
        one of the leaf, the leaf is the right one: one wrong key in a branch leads to the end of a leaf.
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
                self._require_used(number)
                low, high = low if begin is None else begin, high if end is None else end
            return LeafPlace((), number, low, high)
        return None

    def look_up(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, which is proven by its checksum; None if a search does not find it, for any
        reason."""
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
        """Return a value of a leaf in overflow pages, from ``first`` on."""
        self._file.verify_run(leaf, first, size, self._last_page)
        self._require_used(first)
        return self._file.read_range(first * self._file.page_size + PAGE_LAYOUT.size, size)

    def verify_leaves(self, keys: Iterable[bytes], *, whole: bool) -> list[int]:
        """Prove the leaf in which a search for each of ``keys`` ends, completely or as needed for reading; return the
        leaves."""
        if self.is_empty:
            return []
        keys = sorted(keys)
        # A writer looks up the keys that it is going to write.
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
        """Prove leaves below some branches; return their numbers."""
        numbers = [branch.page.children[index] for branch, indexes in found for index in indexes]
        if whole:
            self._prove_in_columns(numbers)
            for branch, indexes in found:
                starts, last = branch.page.starts, len(branch.page.starts)
                for index in indexes:
                    ends = self._ends.get(branch.page.children[index])
                    # Most were proven in columns, and are only compared with their bounds.
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
        """Prove leaves in columns, except for their bounds, if there are many; omits leaves that need another proof."""
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
        """Return the entries, each as key and value in sequence, next to the positions where ``keys`` would be in the
        proven leaves ``numbers``; and the keys for which this is unknown."""
        if not numbers or not self._file.can_prove_columns(len(numbers)):
            return (), keys
        from sowctl.store.lmdbfile.column_check import find_gaps

        data = self._file.map_pages(list(numbers))
        found = find_gaps(data, self._file.page_size, numbers, keys)
        if found is None:
            return (), keys
        return map(data.__getitem__, map(slice, found.starts, found.stops)), found.edges

    def find_edge_leaves(self, keys: Sequence[bytes], length: int | None) -> Iterator[tuple[LeafPlace, bool]]:
        """Prove the leaves in which the ordered ``keys`` would be; yield those of which a key would be the first or
        last entry, and whether it is the last. First and last keys must have ``length`` (None: any)."""
        self.verify_leaves(keys, whole=True)
        branch: BranchPlace | None = None
        for key in keys:
            # Most keys are in the middle of a leaf, and need only one search below the branch of the previous key.
            if branch is not None and branch.low <= key and (branch.high is None or key < branch.high):
                ends = self._ends.get(branch.page.children[bisect_right(branch.page.starts, key)])
                if ends is not None and ends[0] < key < ends[1] and length in (None, len(ends[0])):
                    continue
            leaf = self.find_leaf(key)
            if leaf is None:
                return
            branch = leaf.steps[-1][0] if leaf.steps else None
            first, last = self.verify_end_keys(leaf)
            # A leaf of another sub-database, whose keys are in order and within the bounds by chance.
            if length is not None and not len(first) == len(last) == length:
                raise self.page_error(leaf.number, "its keys are of another length than those of its tree")
            if not first < key < last:
                yield leaf, key > first

    def _make_room(self, known: dict[int, Any]) -> None:
        if len(known) >= self._file.limits.kept_leaves:
            known.clear()

    def search_leaf(self, leaf: LeafPlace, key: bytes) -> tuple[int, int]:
        """Return the index at which ``key`` is or would be among the entries of a proven leaf, and their number."""
        self.verify_end_keys(leaf)
        count = self._count_entries(leaf.number)
        return bisect_left(range(count), key, key=lambda index: self._file.read_entry(leaf.number, index)[0]), count

    def read_entry(self, leaf: LeafPlace, index: int) -> tuple[bytes, int, bytes]:
        """Return key, flags and value of an entry of a leaf, after proving the leaf; for a large value, its page
        number."""
        self.verify_end_keys(leaf)
        if index < 0:
            index += self._count_entries(leaf.number)
        key, flags, size, start = self._file.read_entry(leaf.number, index)
        return key, flags, self._file.read_range(start, PAGE_NUMBER_LAYOUT.size if flags else size)

    def _count_entries(self, number: int) -> int:
        # The leaf is proven, so one of the two has it.
        known = self._counts.get(number)
        return known[0] if known is not None else self._lengths[number]

    def _measure_leaf(self, number: int) -> tuple[int, int, int]:
        """Return the number of a leaf's entries, their total bytes, and the bytes of the largest."""
        page = self.read_leaf(number)
        sizes = [PAGE_NUMBER_LAYOUT.size if flags else size for flags, size in zip(page.flags, page.sizes, strict=True)]
        nodes = [len(key) + size + NODE_WORD_LAYOUT.size + 1 & -2 for key, size in zip(page.keys, sizes, strict=True)]
        return len(nodes), sum(nodes), max(nodes)

    def count_safe_deletions(self, leaf: LeafPlace) -> int:
        """Return how many of a leaf's entries can certainly be removed before LMDB merges it with another leaf."""
        if leaf.number not in self._counts:
            self._counts[leaf.number] = self._measure_leaf(leaf.number)
        count, used, largest = self._counts[leaf.number]
        room = self._file.page_size - PAGE_LAYOUT.size
        # LMDB's used size includes the offsets of the nodes, two bytes each.
        return min((used + 2 * count - room // _MERGE_DIVISOR - 1) // (largest + 2), count - 1)

    def probe_leaf(self, leaf: LeafPlace) -> int:
        """Prove a leaf as needed for reading (:meth:`PageFile.probe_leaf`); return the number of its entries."""
        return self._probe_page(leaf.number)

    def _probe_page(self, number: int) -> int:
        count = self._probed.get(number)
        if count is None:
            found = self._file.probe_leaf(number)
            count = self._probed[number] = len(self.read_leaf(number).keys) if found is None else found
        return count

    def walk_entries(self, leaf: LeafPlace, *, forward: bool, tiled: bool) -> Iterator[Entries]:
        """Yield keys and values of a leaf and of its neighbours, one or many leaves at a time, proven for reading.

        ``tiled``: no count shows the reader that no entry is missing, so it is proven that the entries fill the leaf.
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
                # Few at first: most readers do not read far.
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
        """Raise DamageError unless ``keys`` are in order, and within the bounds of some children of a branch."""
        # A reader up to a key would mistake a later key, in a misplaced leaf, for the end.
        number, low, _ = branch.locate_child(first)
        high = branch.locate_child(first + count - 1)[2]
        is_placed = low <= ends[0] and (high is None or ends[1] < high)
        rest = keys[1:]
        if not is_placed or not (all(map(lt, keys, rest)) or all(map(lt, rest, keys))):
            raise self._file.page_error(number, "keys below it are not those of their place")

    def _read_leaves(self, numbers: list[int], *, forward: bool, tiled: bool) -> Entries:
        """Return keys and values of neighbouring leaves."""
        if not forward:
            keys, values = self._read_leaves(numbers[::-1], forward=True, tiled=tiled)
            return keys[::-1], values[::-1]
        columns = self._file.can_walk_columns(len(numbers))
        found = self._file.read_entries(numbers, columns=columns, tiled=tiled)
        if found is None:
            # Reading them one by one shows which one has another form or is damaged.
            found = [], []
            for number in numbers:
                for all_of_them, some in zip(found, self._read_any(number), strict=True):
                    all_of_them += some
        return found

    def _read_any(self, number: int) -> Entries:
        """Return keys and values of a leaf of any form."""
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
        """Return the first or the last leaf below a page."""
        for _ in range(self._depth - 1 - len(steps)):
            branch = self._prove_branch(number, low, high)
            index = len(branch.page.starts) if last else 0
            steps = (*steps, (branch, index))
            number, low, high = branch.locate_child(index)
        return LeafPlace(steps, number, low, high)

    def find_leaf(self, key: bytes) -> LeafPlace | None:
        """Return the leaf in which a search for ``key`` ends; None if the tree is empty."""
        if self.is_empty:
            return None
        # Most searches end below the branch of the previous one.
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
        # Set only here: after a fault on the path it would be a branch above the lowest ones, whose children are no
        # leaves.
        if steps:
            self._last = steps[:-1], steps[-1][0]
        return LeafPlace(steps, number, low, high)

    def find_end_leaf(self, *, last: bool) -> LeafPlace | None:
        """Return the first or the last leaf; None if the tree is empty."""
        return None if self.is_empty else self._descend_to_edge((), self._root, b"", None, last=last)

    def find_adjacent_leaf(self, leaf: LeafPlace, *, forward: bool) -> LeafPlace | None:
        """Return the next or the previous leaf in key order; None at the end."""
        steps = leaf.steps
        for level in range(len(steps) - 1, -1, -1):
            branch, index = steps[level]
            index += 1 if forward else -1
            if 0 <= index < len(branch.page.children):
                above = (*steps[:level], (branch, index))
                return self._descend_to_edge(above, *branch.locate_child(index), last=not forward)
        return None

    def iter_leaves(self) -> Iterator[LeafPlace]:
        """Yield all leaves in key order."""
        leaf = self.find_end_leaf(last=False)
        while leaf is not None:
            yield leaf
            leaf = self.find_adjacent_leaf(leaf, forward=True)

    def verify_all(self) -> None:
        """Prove every page."""
        for leaf in self.iter_leaves():
            self.verify_end_keys(leaf)

    def verify_siblings(self, steps: BranchPath, level: int, radius: int) -> None:
        """Prove the branch page at ``level`` of a path, its neighbours up to ``radius`` below the same branch, and the
        path from each of them to its first leaf."""
        above, index = steps[level - 1]
        for place in range(max(0, index - radius), min(len(above.page.children), index + radius + 1)):
            self.verify_end_keys(
                self._descend_to_edge((*steps[: level - 1], (above, place)), *above.locate_child(place), last=False)
            )


class _MainTree(Tree):
    """The tree whose entries describe the sub-databases."""

    ENTRY_FLAGS = (SUB_TREE_FLAG, 0, BIG_DATA_FLAG)

    def read_sub_trees(self) -> tuple[list[bytes], list[tuple[bytes, TreeInfo]]]:
        """Prove and return all its pages, and name and description of every sub-database."""
        pages: list[bytes] = []
        found: list[tuple[bytes, TreeInfo]] = []
        for leaf in self.iter_leaves():
            self.verify_end_keys(leaf)
            data, page = self._file.read_leaf(leaf.number)
            pages.append(data)
            for name, flags, size, place in zip(page.keys, page.flags, page.sizes, page.places, strict=True):
                # Other entries are never opened, and so not found: another program's file may have them.
                if flags != SUB_TREE_FLAG:
                    continue
                if size != TREE_LAYOUT.size:
                    raise self._file.page_error(leaf.number, "it does not describe a sub-database")
                # With another kind of sub-database, LMDB would read keys and values in another way.
                tree = TreeInfo.decode(data[place : place + size])
                if tree is None:
                    raise self._file.page_error(leaf.number, "its description of a sub-database is damaged")
                if tree.root != NO_PAGE and not FIRST_TREE_PAGE <= tree.root <= self._last_page:
                    raise self._file.page_error(leaf.number, "it refers to a page that does not exist")
                found.append((name, tree))
        return pages, found


def read_sub_databases(file: PageFile, meta: MetaPage) -> dict[bytes, Tree]:
    """Return the sub-databases of a state by name. Raises DamageError SOW-STO-023, StorageError."""
    state = meta.main.root, meta.main.depth, meta.last_page
    if file.trees is not None and file.trees[0] == meta:
        return file.trees[1]
    known = file.main
    # The main tree of a store is one page. If its bytes were proven before, it is not decoded again.
    if known is None or known[0] != state or meta.main.depth != 1 or known[1] != [file.read(meta.main.root)]:
        known = file.main = (state, *_MainTree(file, *state).read_sub_trees())
    trees = {name: Tree(file, tree.root, tree.depth, meta.last_page) for name, tree in known[2]}
    file.trees = meta, trees
    return trees


__all__ = ["LeafPlace", "PageFile", "Tree", "read_sub_databases"]

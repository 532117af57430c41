"""LMDB's pages with plain reads, for figures and for what can be saved of a damaged store (``sow-store(5)``).

LMDB maps a file and follows what stands in it, so a damaged page may end the process. Here pages are read one by one,
and every number in them is proven to lie within its page before it is followed: what does not parse is None. Format:
LMDB 0.9, in the byte order of the machine, as in :mod:`sowctl.store.opening.meta_pages`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from sowctl.seam import Seam
from sowctl.store.lmdbfile.layout import (
    BIG_DATA_FLAG,
    BRANCH_FLAG,
    LEAF_FLAG,
    MAX_TREE_DEPTH,
    NO_PAGE,
    NODE_ALIGNMENT_BYTES,
    NODE_LAYOUT,
    OVERFLOW_FLAG,
    OVERFLOW_LAYOUT,
    PAGE_LAYOUT,
    PAGE_NUMBER_LAYOUT,
    SUB_TREE_FLAG,
    TREE_LAYOUT,
)
from sowctl.store.opening.meta_pages import MetaPage

_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 2


class PageNode(Struct, frozen=True):
    """One entry of a leaf: its key, and its value where it stands in the leaf, or else its ``size`` and the first page
    of those that it has to itself. ``tree``: the value describes a sub-database."""

    key: bytes
    value: bytes | None
    size: int
    page: int = 0
    tree: bool = False


class TreeInfo(Struct, frozen=True):
    """LMDB's record of a sub-database: how deep it is, pages by kind, entries, and its root."""

    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int

    @classmethod
    def decode(cls, data: bytes) -> TreeInfo | None:
        """From the 48 bytes in the main tree; None where they cannot be right."""
        # 48 bytes of what may be anything: what LMDB could not have written is no tree.
        if len(data) != TREE_LAYOUT.size:
            return None
        _, flags, depth, branches, leaves, overflows, entries, root = TREE_LAYOUT.unpack(data)
        if flags or depth > MAX_TREE_DEPTH or (root == NO_PAGE) != (depth == 0):
            return None
        return cls(depth, branches, leaves, overflows, entries, root)

    @property
    def page_count(self) -> int:
        """All pages of it."""
        return self.branch_pages + self.leaf_pages + self.overflow_pages


class PageFile:
    """An LMDB file open for plain reads. Close it. ``unreadable`` counts pages that the disk did not give."""

    def __init__(self, path: Path, page_size: int, seam: Seam) -> None:
        """Raises OSError."""
        self.page_size = page_size
        self.unreadable = 0
        self._seam = seam
        self._fd: int = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        # The last piece of the file that was read: leaves are mostly neighbours, and a read for each would cost more
        # than looking at it.
        self._at, self._piece = 0, b""

    def __enter__(self) -> PageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def read_page(self, number: int) -> bytes | None:
        """One page; None where the file ends before, or the disk fails. Raises OSError for other reasons."""
        start = number * self.page_size
        # Of a file that was cut, a map would end the process here (SIGBUS); a plain read is just not made.
        if start + self.page_size > self.size:
            return None
        if not self._at <= start < self._at + len(self._piece):
            self._at, self._piece = start - start % _CHUNK_BYTES, b""
            self._piece = self._read_range(_CHUNK_BYTES, self._at) or b""
        data = self._piece[start - self._at : start - self._at + self.page_size]
        if len(data) == self.page_size:
            return data
        # The piece ends too early, or a sector within it cannot be read: this page by itself.
        data = self._read_range(self.page_size, start) or b""
        if len(data) == self.page_size:
            return data
        self.unreadable += 1
        return None

    def read_page_run(self, first: int, count: int) -> bytes | None:
        """Several pages in a row; None where the file ends before, or the disk fails."""
        if (first + count) * self.page_size > self.size:
            return None
        data = self._read_range(count * self.page_size, first * self.page_size)
        return data if data is not None and len(data) == count * self.page_size else None

    def read_beginning(self, size: int) -> bytes:
        """The first bytes of the file, fewer where it ends before."""
        return self._read_range(size, 0) or b""

    def _read_range(self, size: int, start: int) -> bytes | None:
        for _ in range(_ATTEMPTS):
            try:
                return self._seam.call("file.read", os.pread, self._fd, size, start)
            except OSError as problem:
                # A sector that the disk has lost is damage, like any other; what passes is none.
                if problem.errno != errno.EIO:
                    raise
        return None

    def read_overflow(self, first: int, size: int) -> bytes | None:
        """A value of ``size`` bytes that has pages of its own."""
        count = self.count_overflow_pages(size)
        data = self.read_page_run(first, count)
        if data is None:
            return None
        # The first page says how many follow it: fewer than the value needs means that the entry points to another run.
        number, _, flags, pages = OVERFLOW_LAYOUT.unpack_from(data)
        if number != first or not flags & OVERFLOW_FLAG or pages < count:
            return None
        return data[PAGE_LAYOUT.size : PAGE_LAYOUT.size + size]

    def count_overflow_pages(self, size: int) -> int:
        """Return how many pages of its own a value of ``size`` bytes takes."""
        return (PAGE_LAYOUT.size + size + self.page_size - 1) // self.page_size

    def count_run_pages(self, data: bytes, number: int) -> int:
        """Count the pages of the run of overflow pages that begins with this page; 0 where none does."""
        found, _, flags, pages = OVERFLOW_LAYOUT.unpack_from(data)
        return pages if found == number and flags & OVERFLOW_FLAG and not flags & (BRANCH_FLAG | LEAF_FLAG) else 0

    def read_value(self, node: PageNode) -> bytes | None:
        """The value of a leaf's entry, wherever it stands."""
        return node.value if node.value is not None else self.read_overflow(node.page, node.size)


def read_page_kind(data: bytes, number: int) -> int:
    """Return the kind of a page: that of a branch, of a leaf, or 0 for neither or the page of another number."""
    found, _, flags, lower, upper = PAGE_LAYOUT.unpack_from(data)
    # Every page notes its own number: a branch that leads to the wrong page is found out here.
    if found != number or not PAGE_LAYOUT.size <= lower <= upper <= len(data):
        return 0
    kind: int = flags & (BRANCH_FLAG | LEAF_FLAG | OVERFLOW_FLAG)
    return kind if kind in (BRANCH_FLAG, LEAF_FLAG) else 0


def _node_places(data: bytes) -> Iterator[int]:
    """Yield the places of the nodes of a page, as far as these lie within the page."""
    lower: int = PAGE_LAYOUT.unpack_from(data)[3]
    for index in range((lower - PAGE_LAYOUT.size) // NODE_ALIGNMENT_BYTES):
        at = int.from_bytes(
            data[
                PAGE_LAYOUT.size + NODE_ALIGNMENT_BYTES * index : PAGE_LAYOUT.size
                + NODE_ALIGNMENT_BYTES * index
                + NODE_ALIGNMENT_BYTES
            ],
            sys.byteorder,
        )
        yield at if lower <= at <= len(data) - NODE_LAYOUT.size else -1


def parse_leaf(data: bytes) -> Iterator[PageNode | None]:
    """The entries of a leaf, in order; None for one that does not lie within the page.

    Entries fill the end of a page without a gap. Where those that are listed do not, the list may have been cut: a None
    at its end stands for what it lacks.
    """
    filled = 0
    for at in _node_places(data):
        if at < 0:
            yield None
            continue
        low, high, flags, key_size = NODE_LAYOUT.unpack_from(data, at)
        start, size = at + NODE_LAYOUT.size + key_size, low | high << 16
        end = start + (PAGE_NUMBER_LAYOUT.size if flags & BIG_DATA_FLAG else size)
        # Entries begin at even places.
        filled += end - at + (end - at) % NODE_ALIGNMENT_BYTES
        if end > len(data):
            yield None
        elif flags & BIG_DATA_FLAG:
            yield PageNode(data[start - key_size : start], None, size, PAGE_NUMBER_LAYOUT.unpack_from(data, start)[0])
        else:
            yield PageNode(data[start - key_size : start], data[start:end], size, tree=bool(flags & SUB_TREE_FLAG))
    upper: int = PAGE_LAYOUT.unpack_from(data)[4]
    if filled != len(data) - upper:
        yield None


def parse_branch(data: bytes) -> Iterator[tuple[bytes, int] | None]:
    """The children of a branch page: the first key below each (empty for the first child), and its page.

    None for one that does not lie within the page, and, as in a :func:`parse_leaf`, at the end for what a cut list
    lacks.
    """
    filled = 0
    for at in _node_places(data):
        if at < 0:
            yield None
            continue
        low, high, more, key_size = NODE_LAYOUT.unpack_from(data, at)
        start = at + NODE_LAYOUT.size
        filled += NODE_LAYOUT.size + key_size + key_size % NODE_ALIGNMENT_BYTES
        if start + key_size > len(data):
            yield None
        else:
            yield data[start : start + key_size], low | high << 16 | more << 32
    upper: int = PAGE_LAYOUT.unpack_from(data)[4]
    if filled != len(data) - upper:
        yield None


def read_main_trees(file: PageFile, meta: MetaPage) -> dict[bytes, TreeInfo] | None:
    """The sub-databases by their names; None where the main tree cannot be read."""
    if meta.main_root == NO_PAGE:
        return {}
    # A store has few sub-databases: the main tree is one leaf.
    data = file.read_page(meta.main_root)
    # None, and not an empty dictionary: an unreadable main tree is damage, a missing one a new file.
    if data is None or read_page_kind(data, meta.main_root) != LEAF_FLAG:
        return None
    found = {}
    for node in parse_leaf(data):
        if node is not None and node.tree and node.value is not None:
            tree = TreeInfo.decode(node.value)
            if tree is not None:
                found[node.key] = tree
    return found


class FreeList(Struct, frozen=True):
    """Pages that are not in use, by the transaction that freed them; and the pages that the list itself takes."""

    freed: dict[int, list[int]]
    own: set[int]

    @property
    def page_count(self) -> int:
        """The number of free pages."""
        return sum(map(len, self.freed.values()))


def read_free_list(file: PageFile, meta: MetaPage) -> FreeList | None:
    """The free list of a state; None where it cannot be read as a whole, and so says nothing."""
    found = FreeList({}, set())
    if meta.free_root == NO_PAGE:
        return found
    pages = [meta.free_root]
    while pages:
        number = pages.pop()
        data = file.read_page(number)
        # A ring of pages would be walked for ever.
        if data is None or number in found.own or len(found.own) > meta.last_page:
            return None
        found.own.add(number)
        kind = read_page_kind(data, number)
        if kind == BRANCH_FLAG:
            for child in parse_branch(data):
                if child is None:
                    return None
                pages.append(child[1])
        elif kind != LEAF_FLAG or not all(_collect_free_pages(file, meta, node, found) for node in parse_leaf(data)):
            return None
    return found


def _collect_free_pages(file: PageFile, meta: MetaPage, node: PageNode | None, found: FreeList) -> bool:
    if node is None or len(node.key) != PAGE_NUMBER_LAYOUT.size:
        return False
    data = file.read_value(node)
    # One wrong entry makes the list say nothing: a page that is wrongly free would be left out of a salvage.
    if data is None or len(data) < PAGE_NUMBER_LAYOUT.size or len(data) % PAGE_NUMBER_LAYOUT.size:
        return False
    if node.value is None:
        found.own.update(range(node.page, node.page + file.count_overflow_pages(node.size)))
    words = memoryview(data).cast("Q")
    # The first word counts the others.
    numbers = list(words[1 : 1 + words[0]])
    if words[0] > len(words) - 1 or any(not 2 <= number <= meta.last_page for number in numbers):
        return False
    found.freed[PAGE_NUMBER_LAYOUT.unpack(node.key)[0]] = numbers
    return True

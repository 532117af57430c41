"""LMDB's pages with plain reads, for figures and for what can be saved of a damaged store (``sow-store(5)``).

LMDB maps a file and follows what stands in it, so a damaged page may end the process. Here pages are read one by one,
and every number in them is proven to lie within its page before it is followed: what does not parse is None. Format:
LMDB 0.9, in the byte order of the machine, as in :mod:`sowctl.store.opening.pages`.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from sowctl.seam import Seam
from sowctl.store.opening.pages import BIG_DATA, BRANCH, LEAF, MAX_TREE_DEPTH, NO_PAGE, NODE, PAGE, TREE, MetaPage

OVERFLOW = 0x04
SUB_TREE = 0x02
_NODE_OFFSET_BYTES = 2
_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 2
_NUMBER = struct.Struct("=Q")
_PAGES = struct.Struct("=QHHI")
"""The head of the first overflow page: its number, padding, flags, how many pages follow one another."""


class PageNode(Struct, frozen=True):
    """One entry of a leaf: its key, and its value where it stands in the leaf, or else its ``size`` and the first page
    of those that it has to itself. ``tree``: the value describes a sub-database."""

    key: bytes
    value: bytes | None
    size: int
    page: int = 0
    tree: bool = False


class Tree(Struct, frozen=True):
    """What LMDB notes of a sub-database: how deep it is, pages by kind, entries, and its root."""

    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int

    @classmethod
    def unpacked(cls, data: bytes) -> Tree | None:
        """From the 48 bytes in the main tree; None where they cannot be right."""
        # 48 bytes of what may be anything: what LMDB could not have written is no tree.
        if len(data) != TREE.size:
            return None
        _, flags, depth, branches, leaves, overflows, entries, root = TREE.unpack(data)
        if flags or depth > MAX_TREE_DEPTH or (root == NO_PAGE) != (depth == 0):
            return None
        return cls(depth, branches, leaves, overflows, entries, root)

    @property
    def pages(self) -> int:
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

    def page(self, number: int) -> bytes | None:
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

    def run(self, first: int, count: int) -> bytes | None:
        """Several pages in a row; None where the file ends before, or the disk fails."""
        if (first + count) * self.page_size > self.size:
            return None
        data = self._read_range(count * self.page_size, first * self.page_size)
        return data if data is not None and len(data) == count * self.page_size else None

    def beginning(self, size: int) -> bytes:
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

    def overflow(self, first: int, size: int) -> bytes | None:
        """A value of ``size`` bytes that has pages of its own."""
        count = self.overflow_pages(size)
        data = self.run(first, count)
        if data is None:
            return None
        # The first page says how many follow it: fewer than the value needs means that the entry points to another run.
        number, _, flags, pages = _PAGES.unpack_from(data)
        if number != first or not flags & OVERFLOW or pages < count:
            return None
        return data[PAGE.size : PAGE.size + size]

    def overflow_pages(self, size: int) -> int:
        """How many pages a value of ``size`` bytes takes that has pages of its own."""
        return (PAGE.size + size + self.page_size - 1) // self.page_size

    def following(self, data: bytes, number: int) -> int:
        """How many pages the run of overflow pages has that begins with this page; 0 where none does."""
        found, _, flags, pages = _PAGES.unpack_from(data)
        return pages if found == number and flags & OVERFLOW and not flags & (BRANCH | LEAF) else 0

    def body(self, node: PageNode) -> bytes | None:
        """The value of a leaf's entry, wherever it stands."""
        return node.value if node.value is not None else self.overflow(node.page, node.size)


def kind_of(data: bytes, number: int) -> int:
    """What kind of page this is: BRANCH, LEAF, or 0 where it is neither, or not the page of this number."""
    found, _, flags, lower, upper = PAGE.unpack_from(data)
    # Every page notes its own number: a branch that leads to the wrong page is found out here.
    if found != number or not PAGE.size <= lower <= upper <= len(data):
        return 0
    kind: int = flags & (BRANCH | LEAF | OVERFLOW)
    return kind if kind in (BRANCH, LEAF) else 0


def _node_places(data: bytes) -> Iterator[int]:
    """Where the nodes of a page begin, as far as these places lie within the page."""
    lower: int = PAGE.unpack_from(data)[3]
    for index in range((lower - PAGE.size) // _NODE_OFFSET_BYTES):
        at = int.from_bytes(
            data[PAGE.size + _NODE_OFFSET_BYTES * index : PAGE.size + _NODE_OFFSET_BYTES * index + _NODE_OFFSET_BYTES],
            sys.byteorder,
        )
        yield at if lower <= at <= len(data) - NODE.size else -1


def leaf(data: bytes) -> Iterator[PageNode | None]:
    """The entries of a leaf, in order; None for one that does not lie within the page.

    Entries fill the end of a page without a gap. Where those that are listed do not, the list may have been cut: a None
    at its end stands for what it lacks.
    """
    filled = 0
    for at in _node_places(data):
        if at < 0:
            yield None
            continue
        low, high, flags, key_size = NODE.unpack_from(data, at)
        start, size = at + NODE.size + key_size, low | high << 16
        end = start + (_NUMBER.size if flags & BIG_DATA else size)
        # Entries begin at even places.
        filled += end - at + (end - at) % _NODE_OFFSET_BYTES
        if end > len(data):
            yield None
        elif flags & BIG_DATA:
            yield PageNode(data[start - key_size : start], None, size, _NUMBER.unpack_from(data, start)[0])
        else:
            yield PageNode(data[start - key_size : start], data[start:end], size, tree=bool(flags & SUB_TREE))
    upper: int = PAGE.unpack_from(data)[4]
    if filled != len(data) - upper:
        yield None


def branch(data: bytes) -> Iterator[tuple[bytes, int] | None]:
    """The children of a branch page: the first key below each (empty for the first child), and its page.

    None for one that does not lie within the page, and, as in a :func:`leaf`, at the end for what a cut list lacks.
    """
    filled = 0
    for at in _node_places(data):
        if at < 0:
            yield None
            continue
        low, high, more, key_size = NODE.unpack_from(data, at)
        start = at + NODE.size
        filled += NODE.size + key_size + key_size % _NODE_OFFSET_BYTES
        if start + key_size > len(data):
            yield None
        else:
            yield data[start : start + key_size], low | high << 16 | more << 32
    upper: int = PAGE.unpack_from(data)[4]
    if filled != len(data) - upper:
        yield None


def main_trees(file: PageFile, meta: MetaPage) -> dict[bytes, Tree] | None:
    """The sub-databases by their names; None where the main tree cannot be read."""
    if meta.main_root == NO_PAGE:
        return {}
    # A store has few sub-databases: the main tree is one leaf.
    data = file.page(meta.main_root)
    # None, and not an empty dictionary: an unreadable main tree is damage, a missing one a new file.
    if data is None or kind_of(data, meta.main_root) != LEAF:
        return None
    found = {}
    for node in leaf(data):
        if node is not None and node.tree and node.value is not None:
            tree = Tree.unpacked(node.value)
            if tree is not None:
                found[node.key] = tree
    return found


class FreeList(Struct, frozen=True):
    """Pages that are not in use, by the transaction that freed them; and the pages that the list itself takes."""

    freed: dict[int, list[int]]
    own: set[int]

    @property
    def pages(self) -> int:
        """How many are free."""
        return sum(map(len, self.freed.values()))


def free_list(file: PageFile, meta: MetaPage) -> FreeList | None:
    """The free list of a state; None where it cannot be read as a whole, and so says nothing."""
    found = FreeList({}, set())
    if meta.free_root == NO_PAGE:
        return found
    pages = [meta.free_root]
    while pages:
        number = pages.pop()
        data = file.page(number)
        # A ring of pages would be walked for ever.
        if data is None or number in found.own or len(found.own) > meta.last_page:
            return None
        found.own.add(number)
        kind = kind_of(data, number)
        if kind == BRANCH:
            for child in branch(data):
                if child is None:
                    return None
                pages.append(child[1])
        elif kind != LEAF or not all(_collect_free_pages(file, meta, node, found) for node in leaf(data)):
            return None
    return found


def _collect_free_pages(file: PageFile, meta: MetaPage, node: PageNode | None, found: FreeList) -> bool:
    if node is None or len(node.key) != _NUMBER.size:
        return False
    data = file.body(node)
    # One wrong entry makes the list say nothing: a page that is wrongly free would be left out of a salvage.
    if data is None or len(data) < _NUMBER.size or len(data) % _NUMBER.size:
        return False
    if node.value is None:
        found.own.update(range(node.page, node.page + file.overflow_pages(node.size)))
    words = memoryview(data).cast("Q")
    # The first word counts the others.
    numbers = list(words[1 : 1 + words[0]])
    if words[0] > len(words) - 1 or any(not 2 <= number <= meta.last_page for number in numbers):
        return False
    found.freed[_NUMBER.unpack(node.key)[0]] = numbers
    return True

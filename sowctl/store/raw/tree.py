"""The places of the records of a state in the store's file, by LMDB's own pages (``sow-memo(5)``, "Kind 5").

LMDB never writes to a page that a state in use holds, so a process that has a snapshot open may follow that state's
tree. The format is LMDB 0.9's, as in :mod:`sowctl.store.opening.meta_pages`. Loads numpy; called by
:mod:`sowctl.store.raw.offset_read`, where memo indexes are built or used.
"""

from __future__ import annotations

import mmap
from struct import Struct, error
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sowctl.store.codec import CRC_SIZE, KEY_SIZE
from sowctl.store.lmdbfile.layout import (
    BIG_DATA_FLAG,
    BRANCH_FLAG,
    CHILD_MASK,
    LEAF_FLAG,
    MAX_TREE_DEPTH,
    NO_PAGE,
    NODE_ALIGNMENT_BYTES,
    NODE_LAYOUT,
    PAGE_LAYOUT,
    PAGE_NUMBER_LAYOUT,
    SUB_TREE_FLAG,
    TREE_LAYOUT,
)
from sowctl.store.opening.meta_pages import MetaPage, find_meta_in_use

Array: TypeAlias = "np.ndarray[Any, Any]"
_PAGE_NUMBER = np.uint64(CHILD_MASK)
_PAGE_READ_ERRORS = (IndexError, OverflowError, ValueError, error)
"""What reading raises where numbers in pages lead nowhere: behind the file, or behind all that 64 bits can name."""


class StaleTree(Exception):
    """The pages are not those of the state that was asked for."""


class Leaves(NamedTuple):
    """Keys of all entries, 8 bytes each, end to end; where each value begins, its size (i64), its last bytes (u32)."""

    keys: bytes
    starts: Array
    sizes: Array
    sums: Array


def read_leaves(data: mmap.mmap, txnid: int, name: bytes) -> Leaves:
    """All entries of sub-database ``name`` in the state of LMDB transaction ``txnid``.

    Nothing says yet that they are those of the state: see :func:`locate_values`. Raises :class:`StaleTree` where the
    file shows another state.
    """
    return read_page_entries(data, *find_leaf_pages(data, txnid, name))


def find_leaf_pages(data: mmap.mmap, txnid: int, name: bytes) -> tuple[MetaPage, Array]:
    """The leaf pages of a sub-database, in the order of their keys, of the state that the meta page is of.

    Raises :class:`StaleTree`.
    """
    try:
        meta = _find_state_page(data, txnid)
        # Every step may meet pages that were written again: whatever does not parse ends as StaleTree, and the caller
        # asks LMDB.
        return meta, _list_leaf_pages(data, meta, *_find_root(data, meta, name))
    except _PAGE_READ_ERRORS as problem:
        raise StaleTree(str(problem)) from problem


def read_page_entries(data: mmap.mmap, meta: MetaPage, pages: Array) -> Leaves:
    """The entries of some leaf pages. Raises :class:`StaleTree`."""
    try:
        return _locate_leaf_values(data, meta, pages)
    except _PAGE_READ_ERRORS as problem:
        raise StaleTree(str(problem)) from problem


def locate_values(data: mmap.mmap, txnid: int, name: bytes, keys: bytes) -> tuple[Array, Array, Array]:
    """Return the offset, size and last four bytes of each value of sub-database ``name`` (u64, u32, u32).

    The state is that of LMDB transaction ``txnid``; ``keys`` are its keys, 8 bytes each, end to end. Raises
    :class:`StaleTree` where the file shows another state.
    """
    found = read_leaves(data, txnid, name)
    # All keys, byte for byte: then the leaves are those of the state, and each offset belongs to its key.
    if found.keys != keys:
        raise StaleTree("the keys are others")
    return found.starts.astype(np.uint64), found.sizes.astype(np.uint32), found.sums


def _find_state_page(data: mmap.mmap, txnid: int) -> MetaPage:
    """The meta page of this state. Only the one in use is trusted: after a failed write the other one leads astray."""
    meta = find_meta_in_use(data)
    if meta is None or meta.txnid != txnid:
        raise StaleTree("the meta page in use is that of another state")
    return meta


class _Words:
    """A file as numbers of 4 and 8 bytes that begin at any byte, and of 2 at even ones."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        # A stride of one byte: number i begins at byte i, so that fields are read at any place by one indexing.
        self.longs: Array = np.ndarray((max(len(data) - 7, 0),), "=u8", data, 0, (1,))
        self.words: Array = np.ndarray((max(len(data) - 3, 0),), "=u4", data, 0, (1,))
        self.pointers: Array = np.frombuffer(data, "=u2", len(data) // NODE_ALIGNMENT_BYTES)

    def count_nodes(self, pages: Array, bases: Array, kind: int) -> Array:
        """Count the nodes of pages of a kind."""
        heads = self.longs[bases + PAGE_LAYOUT.size // 2]
        # Each page carries its own number and kind: a pointer that leads to another page, or to one used anew, is
        # noticed here.
        if not (heads >> 16 & kind).all() or (self.longs[bases] != pages).any():
            raise StaleTree("a page of the tree is not what the tree says")
        found: Array = (heads >> 32 & 0xFFFF).astype(np.int64) - PAGE_LAYOUT.size
        return found // NODE_ALIGNMENT_BYTES


def _locate_bodies(data: mmap.mmap, meta: MetaPage, heads: Array, starts: Array) -> tuple[Array, Array]:
    """Return offsets and sizes of the values of leaf nodes: behind the key, or on pages of their own."""
    # The head of a node is four 16-bit fields: size of the value (low, high), flags, size of the key.
    if (heads >> 48 != KEY_SIZE).any():
        raise StaleTree("the keys are others")
    sizes = (heads & 0xFFFFFFFF).astype(np.int64)
    # A large value has pages of its own; the node holds the number of the first one.
    for place in np.flatnonzero(heads >> 32 & BIG_DATA_FLAG).tolist():
        starts[place] = PAGE_NUMBER_LAYOUT.unpack_from(data, starts[place])[0] * meta.page_size + PAGE_LAYOUT.size
    ends = starts + sizes
    # Proven before the last four bytes of each are read.
    if len(ends) and (int(ends.max()) > len(data) or int(sizes.min()) < CRC_SIZE):
        raise StaleTree("a record extends beyond the end of the file")
    return starts, sizes


def _locate_nodes(data: mmap.mmap, meta: MetaPage, page: int, kind: int) -> list[int]:
    """Return the offsets of the nodes of a page, in the order of their keys."""
    base = page * meta.page_size
    number, _, flags, lower, _ = PAGE_LAYOUT.unpack_from(data, base)
    if number != page or not flags & kind:
        raise StaleTree(f"page {page} is not what the tree says")
    count = (lower - PAGE_LAYOUT.size) // NODE_ALIGNMENT_BYTES
    return [
        base + at
        for (at,) in Struct("=H").iter_unpack(
            data[base + PAGE_LAYOUT.size : base + PAGE_LAYOUT.size + NODE_ALIGNMENT_BYTES * count]
        )
    ]


def _find_root(data: mmap.mmap, meta: MetaPage, name: bytes) -> tuple[int, int]:
    """Root page and depth of a sub-database."""
    for page in _list_leaf_pages(data, meta, meta.main_root, meta.main_depth).tolist():
        for at in _locate_nodes(data, meta, page, LEAF_FLAG):
            _, _, flags, size = NODE_LAYOUT.unpack_from(data, at)
            start = at + NODE_LAYOUT.size
            if flags & SUB_TREE_FLAG and data[start : start + size] == name:
                _, _, depth, _, _, _, _, root = TREE_LAYOUT.unpack_from(data, start + size)
                return root, depth
    raise StaleTree("there is no such sub-database")


def _list_leaf_pages(data: mmap.mmap, meta: MetaPage, root: int, depth: int) -> Array:
    """The leaf pages in the order of their keys."""
    if root == NO_PAGE or depth > MAX_TREE_DEPTH:
        return np.zeros(0, np.int64)
    file = _Words(data)
    pages = np.array([root], np.int64)
    for _ in range(depth - 1):
        bases = pages * meta.page_size
        # The head of a branch node has the number of a page in its lower 48 bits, and above them the size of the key.
        pages = (
            file.longs[_flatten_nodes(file, bases, file.count_nodes(pages, bases, BRANCH_FLAG))] & _PAGE_NUMBER
        ).astype(np.int64)
        if len(pages) > meta.last_page or int(pages.max(initial=0)) > meta.last_page:
            raise StaleTree("the tree has more pages than the file")
    return pages


def _locate_leaf_values(data: mmap.mmap, meta: MetaPage, pages: Array) -> Leaves:
    file = _Words(data)
    bases = pages * meta.page_size
    nodes = _flatten_nodes(file, bases, file.count_nodes(pages, bases, LEAF_FLAG))
    keys = file.longs[nodes + NODE_LAYOUT.size].tobytes()
    starts, sizes = _locate_bodies(data, meta, file.longs[nodes], nodes + NODE_LAYOUT.size + KEY_SIZE)
    return Leaves(keys, starts, sizes, file.words[starts + sizes - CRC_SIZE])


def _flatten_nodes(file: _Words, bases: Array, counts: Array) -> Array:
    """Return the offsets of all nodes of pages, page by page, in the order of their keys."""
    nodes = np.repeat(bases, counts)
    number = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
    nodes += file.pointers[(nodes + PAGE_LAYOUT.size) // NODE_ALIGNMENT_BYTES + number]
    return nodes


__all__ = ["Array", "Leaves", "StaleTree", "find_leaf_pages", "locate_values", "read_leaves", "read_page_entries"]

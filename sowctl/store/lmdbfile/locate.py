"""The locations of many nodes at once, in columns, and of the records of a state (``sow-memo(5)``, "Kind 5").

LMDB never writes to a page of a state in use, so a process with an open snapshot may follow that state's tree. Imports
numpy; called to build or use memo indexes, to look up many keys together, and to check many leaves.
"""

from __future__ import annotations

import mmap
from struct import error
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
    NODE_WORD_LAYOUT,
    PAGE_LAYOUT,
    PAGE_NUMBER_LAYOUT,
)
from sowctl.store.lmdbfile.meta_page import MetaPage, TreeInfo, find_meta_in_use
from sowctl.store.lmdbfile.walk import read_free_list, read_named_trees

Array: TypeAlias = "np.ndarray[Any, Any]"
_HEAD_SIZE, _NODE_SIZE = PAGE_LAYOUT.size, NODE_WORD_LAYOUT.size
_WORD_BYTES = 8
_LOW_BITS = np.uint64(CHILD_MASK)
"""The page number in the header of a branch node; in that of a leaf node, the size of the value below its flags."""
_SIZE_BITS = np.uint64((1 << 32) - 1)
_PAGE_READ_ERRORS = (IndexError, OverflowError, ValueError, error)
"""Errors of reading if numbers in pages are invalid: after the end of the file, or beyond 64 bits."""


class StaleTree(Exception):
    """The pages are not those of the requested state."""


class Nodes(NamedTuple):
    """The nodes of some pages, page by page: ``begins`` has the index of the first node of each page.

    Of each node: the offset of its page in the file (``rows``), its offset in the page, its header, and its end in the
    page.
    """

    pages: Array
    bases: Array
    counts: Array
    uppers: Array
    begins: Array
    rows: Array
    places: Array
    heads: Array
    ends: Array


class Leaves(NamedTuple):
    """Keys of all entries, 8 bytes each, end to end; of each value the offset, size (i64) and last bytes (u32)."""

    keys: bytes
    starts: Array
    sizes: Array
    sums: Array


class _MappedPages:
    """A mapped file as pages."""

    def __init__(self, data: mmap.mmap, page_size: int) -> None:
        self._data, self.page_size = data, page_size

    def read_page(self, number: int) -> bytes | None:
        """Return one page; None if the file ends before it."""
        return self.read_page_run(number, 1)

    def read_page_run(self, first: int, count: int) -> bytes | None:
        """Return several consecutive pages; None if the file ends before them."""
        data = bytes(self._data[first * self.page_size : (first + count) * self.page_size])
        return data if len(data) == count * self.page_size else None


def view_longs(data: mmap.mmap) -> Array:
    """Return a file as numbers of 8 bytes that begin at every byte."""
    # A stride of one byte: number i begins at byte i, so that fields are read at any offset by one indexing operation.
    return np.ndarray((max(len(data) - _WORD_BYTES + 1, 0),), "=u8", data, 0, (1,))


def read_nodes(data: mmap.mmap, page_size: int, pages: Array, kind: int = LEAF_FLAG, *, large: bool = False) -> Nodes:
    """Return the nodes of those pages that have this kind and contain all their nodes completely.

    All of ``pages`` must be in the file, or IndexError may be raised. Leaves count if all their values are in the leaf;
    with ``large``, also those with values in overflow pages.
    """
    longs = view_longs(data)
    pairs = np.frombuffer(data, np.uint16, len(data) // NODE_ALIGNMENT_BYTES)
    bases = pages * page_size
    heads = longs[bases + _WORD_BYTES]
    lowers = (heads >> np.uint64(32) & np.uint64(0xFFFF)).astype(np.int64) - _HEAD_SIZE
    uppers = (heads >> np.uint64(48)).astype(np.int64)
    # Each page has its own number and kind: this detects a pointer to another page, or to a reused one.
    sound = (longs[bases] == pages) & (heads >> np.uint64(16) & np.uint64(0xFFFF) == kind)
    sound &= (
        (lowers >= NODE_ALIGNMENT_BYTES) & (lowers & 1 == 0) & (lowers + _HEAD_SIZE <= uppers) & (uppers <= page_size)
    )
    if not sound.all():
        pages, bases, lowers, uppers = pages[sound], bases[sound], lowers[sound], uppers[sound]
    counts = lowers // NODE_ALIGNMENT_BYTES
    begins = np.cumsum(counts) - counts
    rows = np.repeat(bases, counts)
    first = np.repeat((bases + _HEAD_SIZE) // NODE_ALIGNMENT_BYTES - begins, counts)
    first += np.arange(len(rows))
    places = pairs[first].astype(np.int64)
    wrong = places > page_size - _NODE_SIZE
    if wrong.any():
        places[wrong] = 0
    heads = longs[rows + places]
    ends = places + (heads >> np.uint64(48)).astype(np.int64)
    if kind == LEAF_FLAG:
        # Flags and the upper part of the size are 0 within a page, or the end is far beyond it.
        bodies = (heads & _LOW_BITS).astype(np.int64)
        if large:
            bodies[bodies >> 32 == BIG_DATA_FLAG] = PAGE_NUMBER_LAYOUT.size
        ends += bodies
    ends += _NODE_SIZE
    wrong |= ends > page_size
    nodes = Nodes(pages, bases, counts, uppers, begins, rows, places, heads, ends)
    if not wrong.any():
        return nodes
    kept = ~np.logical_or.reduceat(wrong, begins)
    if not kept.any():
        return Nodes(*(column[:0] for column in nodes))
    return read_nodes(data, page_size, pages[kept], kind, large=large)


def read_leaves(data: mmap.mmap, txnid: int, name: bytes) -> Leaves:
    """Return all entries of sub-database ``name`` in the state of LMDB transaction ``txnid``.

    They are not proven to belong to the state yet: see :func:`locate_values`. Raises :class:`StaleTree` if the file
    shows another state.
    """
    return read_page_entries(data, *find_leaf_pages(data, txnid, name))


def find_leaf_pages(data: mmap.mmap, txnid: int, name: bytes) -> tuple[MetaPage, Array]:
    """Return the meta page of a state and the leaf pages of a sub-database in it, in key order.

    Raises :class:`StaleTree`.
    """
    try:
        meta, tree = _find_tree(data, txnid, name)
        return meta, _list_leaf_pages(data, meta, tree.root, tree.depth)
    except _PAGE_READ_ERRORS as problem:
        raise StaleTree(str(problem)) from problem


def _find_tree(data: mmap.mmap, txnid: int, name: bytes) -> tuple[MetaPage, TreeInfo]:
    """Return the meta page and a sub-database of a state.

    Every step may meet rewritten pages: anything that cannot be decoded raises StaleTree, and the caller uses LMDB
    instead.
    """
    meta = _find_state_page(data, txnid)
    tree = (read_named_trees(_MappedPages(data, meta.page_size), meta) or {}).get(name)
    if tree is None:
        raise StaleTree("there is no such sub-database")
    return meta, tree


def read_page_entries(data: mmap.mmap, meta: MetaPage, pages: Array) -> Leaves:
    """Return the entries of some leaf pages. Raises :class:`StaleTree`."""
    try:
        return _locate_leaf_values(data, meta, pages)
    except _PAGE_READ_ERRORS as problem:
        raise StaleTree(str(problem)) from problem


def locate_values(data: mmap.mmap, txnid: int, name: bytes, keys: bytes) -> tuple[Array, Array, Array]:
    """Return the offset, size and last four bytes of each value of sub-database ``name`` (u64, u32, u32).

    The state is that of LMDB transaction ``txnid``; ``keys`` are its keys, 8 bytes each, end to end. Raises
    :class:`StaleTree` if the file shows another state.
    """
    found = read_leaves(data, txnid, name)
    # If all keys match byte for byte, the leaves are those of the state, and each offset belongs to its key.
    if found.keys != keys:
        raise StaleTree("the keys are others")
    return found.starts.astype(np.uint64), found.sizes.astype(np.uint32), found.sums


def find_values(data: mmap.mmap, txnid: int, name: bytes, keys: Array) -> tuple[Array, Array, Array, Array]:
    """Return the indexes of the ``keys`` that a search in sub-database ``name`` finds, and the locations of their
    values.

    ``keys`` are 64-bit numbers, at least one, ascending. Of each value found: offset, size (i64, i64) and last four
    bytes (u32). A value is proven by its checksum; absent keys are not proven absent. The state is that of LMDB
    transaction ``txnid``. Raises :class:`StaleTree` if the file shows another state.
    """
    try:
        meta, tree = _find_tree(data, txnid, name)
        if tree.root == NO_PAGE or tree.depth > MAX_TREE_DEPTH:
            raise StaleTree("the tree is empty")
        pages, lows = np.array([tree.root], np.int64), np.zeros(1, np.uint64)
        # Level by level, all pages in which the search for one of the keys continues.
        free = _read_free_pages(data, meta)
        _refuse_free(pages, free)
        for _ in range(tree.depth - 1):
            nodes = _read_all_nodes(data, meta, pages, BRANCH_FLAG)
            # The first node of a branch has no key: its keys begin at the lower bound of the branch.
            starts = _read_node_keys(data, nodes, np.delete(np.arange(len(nodes.heads)), nodes.begins))
            starts[nodes.begins] = lows
            chosen = np.searchsorted(starts, keys, side="right") - 1
            chosen = chosen[np.append(True, chosen[1:] != chosen[:-1])]
            pages, lows = (nodes.heads[chosen] & _LOW_BITS).astype(np.int64), starts[chosen]
            if int(pages.max()) > meta.last_page:
                raise StaleTree("the tree has more pages than the file")
            _refuse_free(pages, free)
        nodes = _read_all_nodes(data, meta, pages, LEAF_FLAG)
        there = _read_node_keys(data, nodes, np.arange(len(nodes.heads)))
        at = np.searchsorted(there, keys)
        at[at == len(there)] = 0
        found = np.flatnonzero(there[at] == keys)
        at = at[found]
        heads = nodes.heads[at]
        return found, *_locate_node_values(data, meta, nodes.rows[at] + nodes.places[at] + _NODE_SIZE, heads)
    except _PAGE_READ_ERRORS as problem:
        raise StaleTree(str(problem)) from problem


def _read_node_keys(data: mmap.mmap, nodes: Nodes, chosen: Array) -> Array:
    """Return the keys of some nodes as numbers, 0 for the others. Raises StaleTree unless all keys ascend."""
    if (nodes.heads[chosen] >> np.uint64(48) != KEY_SIZE).any():
        raise StaleTree("the keys are others")
    keys = np.zeros(len(nodes.heads), np.uint64)
    known = view_longs(data)[nodes.rows[chosen] + nodes.places[chosen] + _NODE_SIZE].view(">u8").astype(np.uint64)
    if (known[1:] <= known[:-1]).any():
        raise StaleTree("keys do not ascend")
    keys[chosen] = known
    return keys


def _find_state_page(data: mmap.mmap, txnid: int) -> MetaPage:
    """Return the meta page of this state. Only the one in use is trusted: after a failed write the other one is
    wrong."""
    meta = find_meta_in_use(data)
    if meta is None or meta.txnid != txnid:
        raise StaleTree("the meta page in use is that of another state")
    return meta


def _list_leaf_pages(data: mmap.mmap, meta: MetaPage, root: int, depth: int) -> Array:
    """Return the leaf pages in key order."""
    if root == NO_PAGE or depth > MAX_TREE_DEPTH:
        return np.zeros(0, np.int64)
    pages, free = np.array([root], np.int64), _read_free_pages(data, meta)
    _refuse_free(pages, free)
    for _ in range(depth - 1):
        pages = (_read_all_nodes(data, meta, pages, BRANCH_FLAG).heads & _LOW_BITS).astype(np.int64)
        if len(pages) > meta.last_page or int(pages.max(initial=0)) > meta.last_page:
            raise StaleTree("the tree has more pages than the file")
        _refuse_free(pages, free)
    return pages


def _read_free_pages(data: mmap.mmap, meta: MetaPage) -> Array:
    """The numbers of the free pages of a state; none where their list is damaged."""
    found = read_free_list(_MappedPages(data, meta.page_size), meta)
    lists = [] if found is None else [np.array(some, np.int64) for some in found.freed.values()]
    return np.concatenate(lists) if lists else np.zeros(0, np.int64)


def _refuse_free(pages: Array, free: Array) -> None:
    """Raise StaleTree if one of ``pages`` is free: it may be an older copy of the right one."""
    if len(free) and np.isin(pages, free).any():
        raise StaleTree("the tree refers to a free page")


def _read_all_nodes(data: mmap.mmap, meta: MetaPage, pages: Array, kind: int) -> Nodes:
    nodes = read_nodes(data, meta.page_size, pages, kind, large=True)
    if len(nodes.pages) != len(pages):
        raise StaleTree("a page of the tree is not what the tree says")
    return nodes


def _locate_leaf_values(data: mmap.mmap, meta: MetaPage, pages: Array) -> Leaves:
    nodes = _read_all_nodes(data, meta, pages, LEAF_FLAG)
    heads, bodies = nodes.heads, nodes.rows + nodes.places + _NODE_SIZE
    if (heads >> np.uint64(48) != KEY_SIZE).any():
        raise StaleTree("the keys are others")
    keys = view_longs(data)[bodies].tobytes()
    return Leaves(keys, *_locate_node_values(data, meta, bodies, heads))


def _locate_node_values(data: mmap.mmap, meta: MetaPage, bodies: Array, heads: Array) -> tuple[Array, Array, Array]:
    """Return offset, size and last bytes of the value of each of some nodes; keys are at ``bodies``."""
    starts, sizes = bodies + KEY_SIZE, (heads & _SIZE_BITS).astype(np.int64)
    # A large value has overflow pages; the node has the number of the first one.
    large = np.flatnonzero(heads >> np.uint64(32) & np.uint64(BIG_DATA_FLAG)).tolist()
    numbers = [PAGE_NUMBER_LAYOUT.unpack_from(data, starts[place])[0] for place in large]
    if large:
        _refuse_free(np.array(numbers, np.uint64).astype(np.int64), _read_free_pages(data, meta))
    for place, number in zip(large, numbers, strict=True):
        starts[place] = number * meta.page_size + PAGE_LAYOUT.size
    ends = starts + sizes
    # Checked before the last four bytes of each are read.
    if len(ends) and (int(ends.max()) > len(data) or int(sizes.min()) < CRC_SIZE):
        raise StaleTree("a record extends beyond the end of the file")
    words = np.ndarray((max(len(data) - CRC_SIZE + 1, 0),), "=u4", data, 0, (1,))
    return starts, sizes, words[ends - CRC_SIZE]


__all__ = [
    "Array",
    "Leaves",
    "Nodes",
    "StaleTree",
    "find_leaf_pages",
    "find_values",
    "locate_values",
    "read_leaves",
    "read_nodes",
    "read_page_entries",
    "view_longs",
]

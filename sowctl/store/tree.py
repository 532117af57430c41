"""Where the records of a state lie in the store's file, by LMDB's own pages (``sow-memo(5)``, "Kind 5").

LMDB never writes to a page that a state in use holds, so that whoever has a snapshot open may follow that state's tree.
The format is LMDB 0.9's, as in :mod:`sowctl.store.pages`. Loads numpy; called where memo indexes are built.
"""

from __future__ import annotations

import mmap
from struct import Struct, error
from typing import Any, TypeAlias

import numpy as np

from sowctl.store.codec import CRC_SIZE, KEY_SIZE
from sowctl.store.pages import BIG_DATA, BRANCH, DEEPEST, LEAF, NO_PAGE, NODE, PAGE, TREE, MetaPage, both_meta_pages

Array: TypeAlias = "np.ndarray[Any, Any]"
_SUB_TREE = 0x02
_BIG_PAGE = Struct("=Q")
_PAIR = 2
"""Bytes by which LMDB's nodes are aligned."""


class Astray(Exception):
    """The pages are not those of the state that was asked for."""


def locate(data: mmap.mmap, txnid: int, name: bytes, keys: bytes) -> tuple[Array, Array, Array]:
    """Where each value of sub-database ``name`` begins, its size, and its last four bytes (u64, u32, u32).

    The state is that of LMDB transaction ``txnid``; ``keys`` are its keys, 8 bytes each, end to end. Raises
    :class:`Astray` where the file shows another state.
    """
    try:
        meta = next((page for page in both_meta_pages(data) if page.txnid == txnid), None)
        if meta is None:
            raise Astray("no meta page shows this state any more")
        root, depth = _root(data, meta, name)
        pages = _leaves(data, meta, root, depth)
        return _values(data, meta, np.array(pages, np.int64) * meta.page_size, keys)
    except (IndexError, ValueError, error) as problem:
        raise Astray(str(problem)) from problem


def _nodes(data: mmap.mmap, meta: MetaPage, page: int, kind: int) -> list[int]:
    """Where the nodes of a page begin, in the order of their keys."""
    base = page * meta.page_size
    number, _, flags, lower, _ = PAGE.unpack_from(data, base)
    if number != page or not flags & kind:
        raise Astray(f"page {page} is not what the tree says")
    count = (lower - PAGE.size) // _PAIR
    return [base + at for (at,) in Struct("=H").iter_unpack(data[base + PAGE.size : base + PAGE.size + _PAIR * count])]


def _children(data: mmap.mmap, meta: MetaPage, page: int) -> list[int]:
    found = []
    for at in _nodes(data, meta, page, BRANCH):
        low, high, more, _ = NODE.unpack_from(data, at)
        found.append(low | high << 16 | more << 32)
    return found


def _root(data: mmap.mmap, meta: MetaPage, name: bytes) -> tuple[int, int]:
    """Root page and depth of a sub-database."""
    for page in _leaves(data, meta, meta.main_root, meta.main_depth):
        for at in _nodes(data, meta, page, LEAF):
            _, _, flags, size = NODE.unpack_from(data, at)
            start = at + NODE.size
            if flags & _SUB_TREE and data[start : start + size] == name:
                _, _, depth, _, _, _, _, root = TREE.unpack_from(data, start + size)
                return root, depth
    raise Astray("there is no such sub-database")


def _leaves(data: mmap.mmap, meta: MetaPage, root: int, depth: int) -> list[int]:
    """The leaf pages in the order of their keys."""
    if root == NO_PAGE or depth > DEEPEST:
        return []
    pages = [root]
    for _ in range(depth - 1):
        pages = [child for page in pages for child in _children(data, meta, page)]
        if len(pages) > meta.last_page:
            raise Astray("the tree has more pages than the file")
    return pages


def _values(data: mmap.mmap, meta: MetaPage, bases: Array, keys: bytes) -> tuple[Array, Array, Array]:
    # Numbers of 4 and 8 bytes that begin at any byte: what is read of all pages at once stands wherever it stands.
    longs = np.ndarray((max(len(data) - 7, 0),), "=u8", data, 0, (1,))
    words = np.ndarray((max(len(data) - 3, 0),), "=u4", data, 0, (1,))
    pointers = np.frombuffer(data, "=u2", len(data) // _PAIR)
    heads = longs[bases + PAGE.size // 2]
    if not (heads >> 16 & LEAF).all():
        raise Astray("a page of the tree is not a leaf")
    counts = ((heads >> 32 & 0xFFFF).astype(np.int64) - PAGE.size) // _PAIR
    starts = np.repeat(bases, counts)
    firsts = np.cumsum(counts) - counts
    number = np.arange(len(starts)) - np.repeat(firsts, counts)
    starts += pointers[(starts + PAGE.size) // _PAIR + number]
    heads = longs[starts]
    starts += NODE.size
    if longs[starts].tobytes() != keys or (heads >> 48 != KEY_SIZE).any():
        raise Astray("the keys are others")
    starts += KEY_SIZE
    sizes = (heads & 0xFFFFFFFF).astype(np.int64)
    for place in np.flatnonzero(heads >> 32 & BIG_DATA).tolist():
        starts[place] = _BIG_PAGE.unpack_from(data, starts[place])[0] * meta.page_size + PAGE.size
    ends = starts + sizes
    if len(ends) and (int(ends.max()) > len(data) or int(sizes.min()) < CRC_SIZE):
        raise Astray("a record ends behind the file")
    return starts.astype(np.uint64), sizes.astype(np.uint32), words[ends - CRC_SIZE]


__all__ = ["Astray", "locate"]

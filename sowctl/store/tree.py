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
    whole = np.frombuffer(data, np.uint8, len(data) // _PAIR * _PAIR)
    words = whole.view(np.uint16)
    if not (words[bases // _PAIR + 5] & LEAF).all():
        raise Astray("a page of the tree is not a leaf")
    counts = (words[bases // _PAIR + 6].astype(np.int64) - PAGE.size) // _PAIR
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    number = np.arange(len(firsts)) - firsts
    base = np.repeat(bases, counts)
    nodes = base + words[(base + PAGE.size) // _PAIR + number]
    at = nodes // _PAIR
    sizes = words[at].astype(np.int64) | words[at + 1].astype(np.int64) << 16
    starts = nodes + NODE.size + KEY_SIZE
    found = np.ascontiguousarray(words[at[:, None] + np.arange(4, 4 + KEY_SIZE // _PAIR)]).tobytes()
    if found != keys or (words[at + 3] != KEY_SIZE).any():
        raise Astray("the keys are others")
    for place in np.flatnonzero(words[at + 2] & BIG_DATA).tolist():
        starts[place] = _BIG_PAGE.unpack_from(data, starts[place])[0] * meta.page_size + PAGE.size
    ends = starts + sizes
    if len(ends) and (int(ends.max()) > len(whole) or int(sizes.min()) < CRC_SIZE):
        raise Astray("a record ends behind the file")
    sums = np.ascontiguousarray(whole[ends[:, None] + np.arange(-CRC_SIZE, 0)]).view(np.uint32).ravel()
    return starts.astype(np.uint64), sizes.astype(np.uint32), sums


__all__ = ["Astray", "locate"]

"""The pages and entries of a file's trees, in order, tolerating any damage (``sow-store(5)``, "Repairing").

No function raises for damage: parts that cannot be followed are yielded as faults, omitted, or returned as None, as
documented. Every number in a page is proven to lie within its page before it is followed, and no page is walked twice,
so that a cycle of pages ends. Called before a file is opened, by checks, by repairs, and for figures. Readers of single
keys or neighbouring entries use the proof of their own path in :mod:`sowctl.store.opening.proof`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import pairwise
from operator import lt
from typing import NamedTuple, Protocol

from msgspec import Struct

from sowctl.store.lmdbfile.check import PageFault, iter_node_places, read_free_numbers
from sowctl.store.lmdbfile.layout import (
    BIG_DATA_FLAG,
    BRANCH_FLAG,
    FIRST_TREE_PAGE,
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
    count_overflow_pages,
)
from sowctl.store.lmdbfile.meta_page import MetaPage, TreeInfo

KEY_END = b"\xff" * 600
"""Sorts after every key: LMDB's have at most 511 bytes."""


class PageSource(Protocol):
    """A file from which pages are read."""

    @property
    def page_size(self) -> int:
        """The size of a page in bytes."""

    def read_page(self, number: int) -> bytes | None:
        """Return one page; None if it is missing or unreadable."""

    def read_page_run(self, first: int, count: int) -> bytes | None:
        """Return several consecutive pages; None as for one."""


class PageNode(Struct, frozen=True):
    """One entry of a leaf: its key, and its value if it is in the leaf, otherwise its ``size`` and first overflow page.
    ``tree``: the value describes a sub-database."""

    key: bytes
    value: bytes | None
    size: int
    page: int = 0
    tree: bool = False


class TreePage(NamedTuple):
    """A page referenced by a tree, and the bounds of its keys: from ``low`` up to ``high`` (exclusive).

    ``above``: the bounds of the referencing branch. ``data`` is None if the page cannot be read or was not requested;
    ``kind`` that of a branch or a leaf, otherwise 0; ``children`` those of a branch, None for one that does not lie
    within it. ``is_repeated``: the page was walked before, or is not a page of the file. ``is_ordered``: the keys of a
    branch ascend within its bounds.
    """

    number: int
    low: bytes
    high: bytes
    above: tuple[bytes, bytes]
    data: bytes | None
    kind: int
    children: Sequence[tuple[bytes, int] | None]
    is_repeated: bool = False
    is_ordered: bool = True

    @property
    def is_branch(self) -> bool:
        """True for a branch that was not walked before."""
        return self.kind == BRANCH_FLAG and not self.is_repeated

    @property
    def is_leaf(self) -> bool:
        """True for a leaf that was not walked before."""
        return self.kind == LEAF_FLAG and not self.is_repeated


class Walk:
    """Walks over the trees of one state, with a common set of walked pages: ``seen``.

    A caller may add pages to ``seen`` at any time, and passes in ``closed`` the pages that must not be walked.
    ``last_page`` is that of the state; without it, because it may be damaged, every readable page of the file counts.
    """

    def __init__(
        self,
        pages: PageSource,
        *,
        seen: set[int] | None = None,
        closed: Container[int] = (),
        last_page: int = NO_PAGE,
    ) -> None:
        self.seen = set[int]() if seen is None else seen
        self._pages, self._last_page, self._closed = pages, last_page, closed

    def iter_pages(self, root: int, leaf_level: int | None = None) -> Iterator[TreePage]:
        """Yield the pages of the tree below ``root``, each branch before its children, which are in key order.

        With ``leaf_level`` (0: the root is a leaf) the pages of that level count as leaves and are not read. Leaves are
        not added to ``seen`` here, as a caller may reject one.
        """
        everything = b"", KEY_END
        waiting = [(root, everything, everything, 0)] if root != NO_PAGE else []
        seen, closed, last_page = self.seen, self._closed, self._last_page
        while waiting:
            number, within, above, level = waiting.pop()
            low, high = within
            is_known = number in seen or number in closed or not FIRST_TREE_PAGE <= number <= last_page
            if is_known or level > MAX_TREE_DEPTH:
                yield TreePage(number, low, high, above, None, 0, (), True)
                continue
            if level == leaf_level:
                yield TreePage(number, low, high, above, None, LEAF_FLAG, ())
                continue
            data = self._pages.read_page(number)
            kind = 0 if data is None else read_page_kind(data, number)
            if data is None or kind != BRANCH_FLAG:
                yield TreePage(number, low, high, above, data, kind, ())
                continue
            seen.add(number)
            children = list(parse_branch(data))
            # The first child has no key of its own: it begins at the lower bound of the branch.
            starts = [low, *(child[0] if child is not None else b"" for child in children[1:]), high]
            is_ordered = low <= starts[1] and all(map(lt, starts[1:], starts[2:]))
            yield TreePage(number, low, high, above, data, kind, children, is_ordered=is_ordered)
            # Keys that do not ascend contain wrong bits: then each child may have any key of the page.
            bounds = list(pairwise(starts)) if is_ordered else [within] * len(children)
            waiting += [
                (child[1], bound, within, level + 1)
                for child, bound in zip(reversed(children), reversed(bounds), strict=False)
                if child is not None
            ]

    def iter_entries(self, root: int) -> Iterator[PageNode | None]:
        """Yield the entries of the tree below ``root``, in page order; None for each part that cannot be decoded."""
        for page in self.iter_pages(root):
            if page.is_leaf and page.data is not None:
                self.seen.add(page.number)
                yield from parse_leaf(page.data)
            elif not page.is_branch or None in page.children:
                yield None


def read_page_kind(data: bytes, number: int) -> int:
    """Return the kind of a page: that of a branch, of a leaf, or 0 for neither or a page with another number."""
    found, _, flags, lower, upper = PAGE_LAYOUT.unpack_from(data)
    # Every page has its own number: this detects a branch that leads to the wrong page.
    if found != number or not PAGE_LAYOUT.size <= lower <= upper <= len(data):
        return 0
    kind: int = flags & (BRANCH_FLAG | LEAF_FLAG | OVERFLOW_FLAG)
    return kind if kind in (BRANCH_FLAG, LEAF_FLAG) else 0


def count_run_pages(data: bytes, number: int) -> int:
    """Count the pages of the run of overflow pages that begins with this page; 0 if none does."""
    found, _, flags, pages = OVERFLOW_LAYOUT.unpack_from(data)
    return pages if found == number and flags & OVERFLOW_FLAG and not flags & (BRANCH_FLAG | LEAF_FLAG) else 0


def parse_leaf(data: bytes) -> Iterator[PageNode | None]:
    """Yield the entries of a leaf, in order; None for one that does not lie within the page.

    Entries fill the end of a page without a gap. If the listed ones do not, the list may have been truncated: a None at
    its end represents the missing ones.
    """
    filled = 0
    for at in iter_node_places(data):
        if at < 0:
            yield None
            continue
        low, high, flags, key_size = NODE_LAYOUT.unpack_from(data, at)
        start, size = at + NODE_LAYOUT.size + key_size, low | high << 16
        end = start + (PAGE_NUMBER_LAYOUT.size if flags & BIG_DATA_FLAG else size)
        # Entries begin at even offsets.
        filled += end - at + (end - at) % NODE_ALIGNMENT_BYTES
        if end > len(data):
            yield None
        elif flags & BIG_DATA_FLAG:
            yield PageNode(data[start - key_size : start], None, size, PAGE_NUMBER_LAYOUT.unpack_from(data, start)[0])
        else:
            yield PageNode(data[start - key_size : start], data[start:end], size, tree=bool(flags & SUB_TREE_FLAG))
    if filled != len(data) - _read_upper(data):
        yield None


def parse_branch(data: bytes) -> Iterator[tuple[bytes, int] | None]:
    """Yield the children of a branch page: the first key below each (empty for the first child), and its page.

    None for one that does not lie within the page, and, as in :func:`parse_leaf`, at the end for a truncated list.
    """
    filled = 0
    for at in iter_node_places(data):
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
    if filled != len(data) - _read_upper(data):
        yield None


def _read_upper(data: bytes) -> int:
    upper: int = PAGE_LAYOUT.unpack_from(data)[4]
    return upper


def read_value(pages: PageSource, node: PageNode) -> bytes | None:
    """Return the value of a leaf's entry, from the leaf or from its overflow pages."""
    if node.value is not None:
        return node.value
    count = count_overflow_pages(node.size, pages.page_size)
    data = pages.read_page_run(node.page, count)
    # The first page has the length of the run: fewer pages than the value needs mean that the entry refers to another
    # run.
    if data is None or count_run_pages(data, node.page) < count:
        return None
    return data[PAGE_LAYOUT.size : PAGE_LAYOUT.size + node.size]


def read_named_trees(pages: PageSource, meta: MetaPage) -> dict[bytes, TreeInfo] | None:
    """Return the sub-databases by name; None if the main tree cannot be read."""
    found = {}
    is_whole = True
    # None instead of an empty dictionary: an unreadable main tree is damage, a missing one a new file.
    for page in Walk(pages).iter_pages(meta.main.root):
        if page.is_leaf and page.data is not None:
            for node in parse_leaf(page.data):
                tree = TreeInfo.decode(node.value) if node is not None and node.tree and node.value else None
                if tree is not None and node is not None:
                    found[node.key] = tree
        else:
            is_whole = is_whole and page.is_branch and None not in page.children
    return found if is_whole else None


class FreeList(Struct, frozen=True):
    """Free pages by the transaction that freed them; and the pages of the list itself."""

    freed: dict[int, list[int]]
    own: set[int]

    @property
    def page_count(self) -> int:
        """The number of free pages."""
        return sum(map(len, self.freed.values()))


def read_free_list(pages: PageSource, meta: MetaPage) -> FreeList | None:
    """Return the free list of a state; None if it cannot be read completely, and is therefore useless."""
    walk = Walk(pages)
    found = FreeList({}, walk.seen)
    for node in walk.iter_entries(meta.free.root):
        # One wrong entry makes the list useless: a page that is wrongly free would be omitted from a salvage.
        if node is None or len(node.key) != PAGE_NUMBER_LAYOUT.size:
            return None
        data = read_value(pages, node)
        if data is None:
            return None
        if node.value is None:
            walk.seen.update(range(node.page, node.page + count_overflow_pages(node.size, pages.page_size)))
        try:
            found.freed[PAGE_NUMBER_LAYOUT.unpack(node.key)[0]] = read_free_numbers(data, meta.last_page)
        except PageFault:
            return None
    return found


__all__ = [
    "KEY_END",
    "FreeList",
    "PageNode",
    "PageSource",
    "TreePage",
    "Walk",
    "count_run_pages",
    "parse_branch",
    "parse_leaf",
    "read_free_list",
    "read_named_trees",
    "read_page_kind",
    "read_value",
]

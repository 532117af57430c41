"""The trees of a store without the content of their leaves: branches, counts, and every page used once or free.

Branch pages are a hundredth of a file, so every check reads all of them. They also show the distribution of keys, so
that a check can read a share of them. Called by :mod:`sowctl.store.repair.partial`, in the process of a check.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from sowctl.store.codec import KEY_SIZE, extract_sow_key
from sowctl.store.lmdbfile.layout import MAX_TREE_DEPTH, NO_PAGE
from sowctl.store.lmdbfile.meta_page import MetaPage, TreeInfo
from sowctl.store.lmdbfile.walk import PageSource, Walk, read_free_list, read_named_trees
from sowctl.store.repair.checked_ranges import KEY_SPACE_END
from sowctl.values.display import format_count

MAX_UNITS = 1000
"""Maximum number of parts into which the keys of a store are divided."""


class Unit(Struct, frozen=True):
    """Keys from ``low`` up to ``high`` (exclusive, as numbers), and the number of their leaf pages."""

    low: int
    high: int
    pages: int


class StructureCheck:
    """The branches of a store's trees, checked. Iterate over :meth:`iter_faults` first; afterwards ``pages`` and
    :meth:`list_units` are available.
    """

    def __init__(self, file: PageSource, meta: MetaPage) -> None:
        self.pages = 2
        self._file, self._meta = file, meta
        self._walk = Walk(file, seen={0, 1, meta.main.root}, last_page=meta.last_page)
        self._starts: list[int] = []

    def iter_faults(self) -> Iterator[tuple[str, bool]]:
        """Yield a text for every problem, and whether it is damage or only lost space."""
        file, meta = self._file, self._meta
        trees = read_named_trees(file, meta)
        if trees is None:
            yield "the main tree cannot be read", True
            return
        # Every page is in use by one tree, in the free list, or part of the list itself: the sum shows lost pages.
        used = 2 + (meta.main.root != NO_PAGE)
        for name, tree in sorted(trees.items()):
            used += tree.page_count
            yield from ((f"{name.decode(errors='replace')}: {words}", True) for words in self._check_tree(name, tree))
        free = read_free_list(file, meta)
        if free is None:
            yield "the list of free pages cannot be read", True
            return
        # A page that is free twice, or free and in use, would be reused while it has records.
        listed = [page for pages in free.freed.values() for page in pages]
        if len(set(listed)) != len(listed):
            yield "a page is listed as free twice", True
        if both := self._walk.seen.intersection(listed):
            count = format_count(len(both), "page is", "pages are")
            yield f"{count} both in use and free, the first is page {min(both)}", True
        lost = meta.last_page + 1 - used - len(free.own) - len(listed)
        if lost:
            count = format_count(abs(lost), "page is", "pages are")
            yield f"{count} {'neither in use nor free' if lost > 0 else 'counted twice'}", lost < 0

    def _check_tree(self, name: bytes, tree: TreeInfo) -> Iterator[str]:
        if not tree.depth:
            return
        branches = leaves = 0
        # Leaves are counted but not read, so that only a hundredth of the file is read.
        for page in self._walk.iter_pages(tree.root, leaf_level=tree.depth - 1):
            if page.is_repeated:
                # Two branches that lead to one page: a search would find its keys in the wrong position.
                yield f"page {page.number} has two branches, or an invalid one"
            elif page.is_leaf:
                self._walk.seen.add(page.number)
                leaves += 1
                if name in (b"records", b"history"):
                    self._starts.append(int.from_bytes(extract_sow_key(page.low).ljust(KEY_SIZE, b"\0"), "big"))
            else:
                branches += 1
                self.pages += 1
                if not page.children or None in page.children:
                    yield f"branch page {page.number} is invalid"
                elif not page.is_ordered:
                    yield f"the keys of branch page {page.number} are out of order"
        if (branches, leaves) != (tree.branch_pages, tree.leaf_pages) or tree.depth > MAX_TREE_DEPTH:
            yield (
                f"{format_count(branches, 'branch page')} and {format_count(leaves, 'leaf', 'leaves')} found, "
                f"but the counters are {tree.branch_pages} and {tree.leaf_pages}"
            )

    def list_units(self) -> list[Unit]:
        """Return the keys in parts with about the same number of leaf pages, at most :data:`MAX_UNITS`, in order."""
        starts = sorted(self._starts)
        step = max(1, -(-len(starts) // MAX_UNITS))
        # Several leaves of versions may begin with one key: a part begins at a key, never within one.
        bounds = sorted({0, *starts[::step]})
        places = [0] * len(bounds)
        at = 0
        for start in starts:
            while at + 1 < len(bounds) and bounds[at + 1] <= start:
                at += 1
            places[at] += 1
        return [
            Unit(low, high, max(1, pages))
            for low, high, pages in zip(bounds, [*bounds[1:], KEY_SPACE_END], places, strict=True)
        ]


__all__ = ["StructureCheck", "Unit"]

"""The trees of a store without what is in their leaves: branches, counts, and every page used once or free.

Branch pages are a hundredth of a file, so all of them are read in every check. They also say where the keys are, so
that a check can read a share of them. Called by :mod:`sowctl.store.repair.partial`, in the process of a check.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from sowctl.store.codec import KEY_SIZE
from sowctl.store.lmdbfile.layout import BRANCH_FLAG, MAX_TREE_DEPTH, NO_PAGE
from sowctl.store.opening.meta_pages import MetaPage
from sowctl.store.repair.checked_ranges import KEY_SPACE_END
from sowctl.store.repair.pagefile import (
    PageFile,
    TreeInfo,
    parse_branch,
    read_free_list,
    read_main_trees,
    read_page_kind,
)
from sowctl.values.display import format_count

MAX_UNITS = 1000
"""Parts into which the keys of a store are divided at most."""


class Unit(Struct, frozen=True):
    """Keys from ``low`` up to ``high`` (exclusive, as numbers), and so many leaf pages."""

    low: int
    high: int
    pages: int


class StructureCheck:
    """The branches of a store's trees, checked. Iterate over :meth:`iter_faults` first; then ``pages`` and
    :meth:`list_units` are known.
    """

    def __init__(self, file: PageFile, meta: MetaPage) -> None:
        self.pages = 2
        self._file, self._meta = file, meta
        self._seen: set[int] = {0, 1, meta.main_root}
        self._starts: list[int] = []

    def iter_faults(self) -> Iterator[tuple[str, bool]]:
        """Words for everything that is wrong; and whether it is damage, or only room that is lost."""
        file, meta = self._file, self._meta
        trees = read_main_trees(file, meta)
        if trees is None:
            yield "the main tree cannot be read", True
            return
        # Every page is either in use by one tree, in the free list, or of the list itself: the sum tells what got lost.
        used = 2 + (meta.main_root != NO_PAGE)
        for name, tree in sorted(trees.items()):
            used += tree.page_count
            yield from ((f"{name.decode(errors='replace')}: {words}", True) for words in self._check_tree(name, tree))
        free = read_free_list(file, meta)
        if free is None:
            yield "the list of free pages cannot be read", True
            return
        # A page that is free twice, or free and in use, would be given away while it holds records.
        listed = [page for pages in free.freed.values() for page in pages]
        if len(set(listed)) != len(listed):
            yield "a page is listed as free twice", True
        if both := self._seen.intersection(listed):
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
        level = [(tree.root, b"", b"\xff" * 600)]
        for depth in range(tree.depth):
            last = depth == tree.depth - 1
            below: list[tuple[int, bytes, bytes]] = []
            for number, low, high in level:
                # Two branches that lead to one page: a search would find its keys in the wrong place.
                if number in self._seen or not 2 <= number <= self._meta.last_page:
                    yield f"page {number} has two branches, or an invalid one"
                    continue
                self._seen.add(number)
                # Leaves are counted and not read: that is what keeps this a hundredth of the file.
                if last:
                    leaves += 1
                    if name in (b"records", b"history"):
                        self._starts.append(int.from_bytes(low[:KEY_SIZE].ljust(KEY_SIZE, b"\0"), "big"))
                    continue
                branches += 1
                data = self._file.read_page(number)
                self.pages += 1
                children = (
                    [] if data is None or read_page_kind(data, number) != BRANCH_FLAG else list(parse_branch(data))
                )
                if not children or None in children:
                    yield f"branch page {number} is invalid"
                    continue
                found = [child for child in children if child is not None]
                # The first child has no key of its own: it begins where the branch does.
                starts = [low, *(key for key, _ in found[1:]), high]
                if not all(one < other for one, other in pairwise(starts[1:])) or not low <= starts[1]:
                    yield f"the keys of branch page {number} are out of order"
                below += [(page, one, other) for (_, page), one, other in zip(found, starts, starts[1:], strict=False)]
            level = below
        if (branches, leaves) != (tree.branch_pages, tree.leaf_pages) or tree.depth > MAX_TREE_DEPTH:
            yield (
                f"{format_count(branches, 'branch page')} and {format_count(leaves, 'leaf', 'leaves')} found, "
                f"but the counters are {tree.branch_pages} and {tree.leaf_pages}"
            )

    def list_units(self) -> list[Unit]:
        """The keys in parts of about equally many leaf pages, at most :data:`MAX_UNITS`, in order."""
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

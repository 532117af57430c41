"""LMDB's two meta pages as bytes: their content, which one is in use, and whether LMDB can have written both.

The choice between the two follows LMDB exactly: the one with the higher transaction number, page 0 if they are equal.
That page must be valid. Of the other one LMDB needs only the beginning, and so does this module: if writing a meta page
fails, LMDB restores the old transaction number and last page, so that the page keeps the roots of a transaction that
was never committed, and the next transaction rewrites it completely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.store.lmdbfile.layout import (
    FIRST_TREE_PAGE,
    INTEGER_KEY_FLAG,
    LMDB_MAGIC,
    LMDB_VERSION,
    MAX_TREE_DEPTH,
    META_END,
    META_FLAG,
    META_HEAD_AT,
    META_HEAD_LAYOUT,
    META_TAIL_AT,
    META_TAIL_LAYOUT,
    META_TREES_AT,
    NO_PAGE,
    NO_SUBDIR_FLAG,
    PAGE_LAYOUT,
    PAGE_SIZES,
    TREE_LAYOUT,
)

if TYPE_CHECKING:
    import mmap

ReadRange = Callable[[int, int], bytes]
"""Returns a number of bytes from an offset of the file."""


class TreeInfo(Struct, frozen=True):
    """LMDB's record of a tree: flags, depth, pages by kind, entries, and root."""

    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int

    @classmethod
    def read(cls, data: bytes, place: int) -> TreeInfo:
        """Return the record at an offset, valid or not. Raises struct.error if ``data`` ends before it."""
        return cls(*TREE_LAYOUT.unpack_from(data, place)[1:])

    @classmethod
    def decode(cls, data: bytes) -> TreeInfo | None:
        """Decode the 48 bytes in the main tree; None if LMDB cannot have written them for this program."""
        found = cls.read(data, 0) if len(data) == TREE_LAYOUT.size else None
        return None if found is None or found.flags or not found.is_plausible else found

    @property
    def is_plausible(self) -> bool:
        """True unless depth, root and counts contradict each other."""
        # A tree without a root has no pages and no entries: with any of them it is not empty, but lost.
        is_empty = self.root == NO_PAGE
        return self.depth <= MAX_TREE_DEPTH and is_empty == (self.depth == 0) and not (is_empty and self.has_counts)

    @property
    def has_counts(self) -> bool:
        """True if it counts pages or entries."""
        return any((self.branch_pages, self.leaf_pages, self.overflow_pages, self.entries))

    @property
    def page_count(self) -> int:
        """The number of all its pages."""
        return self.branch_pages + self.leaf_pages + self.overflow_pages


class MetaPage(Struct, frozen=True):
    """The content of one of LMDB's two meta pages; ``fault`` describes why it cannot be the one in use."""

    number: int
    page_size: int
    last_page: int
    txnid: int
    free: TreeInfo
    main: TreeInfo
    fault: str = ""
    map_size: int = 0

    @property
    def required_bytes(self) -> int:
        """The file size that all pages need."""
        return (self.last_page + 1) * self.page_size


def parse_meta_page(data: bytes, number: int) -> MetaPage | str:
    """Decode one meta page; return a text if LMDB rejects the file because of it, whether it is the newer one or
    not."""
    if len(data) < META_END:
        return "it ends within its meta pages"
    page, _, flags, _, _ = PAGE_LAYOUT.unpack_from(data)
    magic, version, _, map_size = META_HEAD_LAYOUT.unpack_from(data, META_HEAD_AT)
    # From general to specific errors, so that the text matches the kind of file.
    if magic != LMDB_MAGIC:
        return "it does not start like an LMDB file"
    if version != LMDB_VERSION:
        return f"it has LMDB data version {version}, not {LMDB_VERSION}"
    # The padding of the first tree is the page size.
    page_size = TREE_LAYOUT.unpack_from(data, META_TREES_AT)[0]
    free, main, last_page, txnid = _read_state(data)
    # No transaction writes the first 32 bytes or another page size: an error there does not result from a failed write.
    if page != number or flags != META_FLAG or page_size not in PAGE_SIZES:
        return f"its meta page {number} is damaged"
    # A failed write may leave wrong roots and a wrong last page; they are a fault of this page, not of the file.
    roots = [tree.root for tree in (free, main) if tree.root != NO_PAGE]
    sound = (
        free.flags & ~NO_SUBDIR_FLAG == INTEGER_KEY_FLAG
        and main.flags == 0
        and max(free.depth, main.depth) <= MAX_TREE_DEPTH
        and last_page >= FIRST_TREE_PAGE - 1
        and all(FIRST_TREE_PAGE <= root <= last_page for root in roots)
    )
    fault = "" if sound else f"its meta page {number} is damaged"
    return MetaPage(number, page_size, last_page, txnid, free, main, fault, map_size)


def parse_likely_meta_page(data: bytes, number: int, page_size: int) -> MetaPage | None:
    """Decode a meta page whose beginning may be wrong, for a salvage, which verifies the pages below its roots."""
    if len(data) < META_END:
        return None
    free, main, last_page, txnid = _read_state(data)
    return MetaPage(number, page_size, last_page, txnid, free, main)


def _read_state(data: bytes) -> tuple[TreeInfo, TreeInfo, int, int]:
    free, main = (TreeInfo.read(data, META_TREES_AT + place) for place in (0, TREE_LAYOUT.size))
    return free, main, *META_TAIL_LAYOUT.unpack_from(data, META_TAIL_AT)


def read_both_metas(read: ReadRange) -> tuple[MetaPage, MetaPage] | str:
    """Return the meta page in use and the other one, valid or not; a text if LMDB opens neither."""
    first = parse_meta_page(read(META_END, 0), 0)
    if isinstance(first, str):
        return first
    second = parse_meta_page(read(META_END, first.page_size), 1)
    if isinstance(second, str):
        return second
    if second.page_size != first.page_size:
        return "its meta pages have different page sizes"
    # LMDB's own rule: at equal numbers (a new file) page 0 counts.
    return (second, first) if second.txnid > first.txnid else (first, second)


def are_consecutive(newer: MetaPage, older: MetaPage) -> bool:
    """Return whether LMDB can have written both: transactions alternate, even numbers are in page 0.

    A failed write leaves the old number in the page, so this also holds after one. A page with any other number is not
    an older state but damaged: it may have been the newest one.
    """
    return newer.txnid == 0 or (newer.txnid - older.txnid == 1 and newer.txnid % 2 == newer.number)


def find_sound_meta_pages(read: ReadRange) -> tuple[MetaPage, ...]:
    """Return those of the two meta pages that may be in use, the newer one first."""
    pages = read_both_metas(read)
    return () if isinstance(pages, str) else tuple(page for page in pages if not page.fault)


def find_meta_in_use(data: mmap.mmap) -> MetaPage | None:
    """Return the meta page in use of a mapped file. The other one is not trusted: its roots may belong to no state."""
    pages = read_both_metas(lambda size, start: data[start : start + size])
    return None if isinstance(pages, str) or pages[0].fault else pages[0]


__all__ = [
    "MetaPage",
    "ReadRange",
    "TreeInfo",
    "are_consecutive",
    "find_meta_in_use",
    "find_sound_meta_pages",
    "parse_likely_meta_page",
    "parse_meta_page",
    "read_both_metas",
]

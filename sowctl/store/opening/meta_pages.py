"""LMDB's own pages, read with plain reads before anything is mapped (``sow-store(5)``, "How to read").

A file that is shorter than its last page ends the process by SIGBUS once it is mapped, and a wrong bit in a meta page
shows another state. Both are found here. Format: LMDB 0.9, ``struct MDB_meta`` and page headers, in the byte order of
the machine. :func:`read_verified_meta` is called before a file is opened, and before a kept environment is used again.

Which of the two meta pages counts is LMDB's choice, followed exactly: the one with the higher transaction number, page
0 where they are equal. That page must be sound. Of the other one LMDB needs its beginning alone, and so do we: where
writing a meta page fails, LMDB puts the old transaction number and last page back over what it wrote, so that the page
keeps the roots of a transaction that never was, and the next transaction writes all of it anew.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.errors import DamageError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import REBUILD_HINT, translate_errors
from sowctl.store.lmdbfile.layout import (
    BIG_DATA_FLAG,
    BRANCH_FLAG,
    LEAF_FLAG,
    MAX_TREE_DEPTH,
    META_FLAG,
    NO_PAGE,
    NODE_LAYOUT,
    PAGE_LAYOUT,
    PAGE_SIZES,
    TREE_LAYOUT,
)

if TYPE_CHECKING:
    import mmap

LMDB_MAGIC = 0xBEEFC0DE
LMDB_VERSION = 1
_META = struct.Struct("=IIQQ")
_TAIL = struct.Struct("=QQ")
# Behind the page header: magic, version, address, map size; the roots of free list and main tree; last page and
# transaction number.
_META_AT = PAGE_LAYOUT.size
_TREES_AT = _META_AT + _META.size
_TAIL_AT = _TREES_AT + 2 * TREE_LAYOUT.size
_META_END = _TAIL_AT + _TAIL.size
_INTEGER_KEY = 0x08
_NO_SUBDIR = 0x4000
# A meta page is one write of LMDB, which a reader may see half done; twice in a row is rare, five times is damage.
_ATTEMPTS = 5


class MetaPage(Struct, frozen=True):
    """The content of one of LMDB's two meta pages; ``fault`` in words where it cannot be the one in use."""

    number: int
    page_size: int
    last_page: int
    txnid: int
    free_root: int
    main_root: int
    main_depth: int
    fault: str = ""
    map_size: int = 0
    free_depth: int = 0

    @property
    def required_bytes(self) -> int:
        """The file size that all pages take."""
        return (self.last_page + 1) * self.page_size


def read_verified_meta(path: Path, seam: Seam) -> MetaPage:
    """Check the file's beginning and size and give the meta page that LMDB will use.

    Raises :class:`DamageError` SOW-STO-021 (beginning) or SOW-STO-022 (cut end), MissingError, StorageError.
    """
    with translate_errors(path, "read the store"):
        # O_NONBLOCK: a pipe of this name must not keep the program waiting.
        fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise DamageError("SOW-STO-021", "not a regular file", place=str(path), hint=REBUILD_HINT)
            newest = _read_newest_meta(fd, path)
            # The free list is read by writers alone, which abort on a wrong page. It is checked here, when it can still
            # become an error.
            while not _is_free_root_sound(fd, newest):
                again = _read_newest_meta(fd, path)
                if again == newest:
                    raise _damaged_file_error(path, "the first page of its free list is invalid")
                newest = again  # writers went on meanwhile, and used the page for something else
            size = os.fstat(fd).st_size
            # Touching a mapped page behind the end of the file ends the process by SIGBUS. A missing tail is harmless
            # only if all of its pages are free.
            if size < newest.required_bytes and not _is_tail_free(fd, newest, size // newest.page_size):
                raise DamageError(
                    "SOW-STO-022",
                    f"the end of the file is missing: it has {size} of {newest.required_bytes} bytes",
                    place=str(path),
                    hint=REBUILD_HINT,
                )
            return newest
        finally:
            os.close(fd)


def _read_newest_meta(fd: int, path: Path) -> MetaPage:
    """The meta page in use; read again while a writer is just replacing one of them."""
    reason = ""
    for _ in range(_ATTEMPTS):
        pages = _read_both_metas(partial(_read_at, fd))
        if isinstance(pages, str):
            raise _damaged_file_error(path, pages)
        newer, older = pages
        # A writer may have committed between the reads of the two pages: read again before it is called damage.
        if not _are_consecutive(*pages):
            reason = f"its meta pages have the transaction numbers {older.txnid} and {newer.txnid}"
        elif newer.fault:
            reason = newer.fault
        else:
            return newer
    raise _damaged_file_error(path, reason)


def _read_at(fd: int, size: int, start: int) -> bytes:
    return os.pread(fd, size, start)


def _read_both_metas(read: Callable[[int, int], bytes]) -> tuple[MetaPage, MetaPage] | str:
    """The meta page in use and the other one, whatever is wrong with their contents; words where LMDB opens neither.

    ``read`` gives so many bytes from a place of the file.
    """
    first = parse_meta_page(read(_META_END, 0), 0)
    if isinstance(first, str):
        return first
    second = parse_meta_page(read(_META_END, first.page_size), 1)
    if isinstance(second, str):
        return second
    if second.page_size != first.page_size:
        return "its meta pages have different page sizes"
    # LMDB's own rule: at equal numbers (a new file) page 0 counts.
    return (second, first) if second.txnid > first.txnid else (first, second)


def _are_consecutive(newer: MetaPage, older: MetaPage) -> bool:
    """Return whether LMDB can have written both: transactions alternate, even numbers are in page 0.

    A failed write leaves the old number in the page, so this holds after one, too. A page with any other number is no
    older state but damage: it may have been the newest one.
    """
    return newer.txnid == 0 or (newer.txnid - older.txnid == 1 and newer.txnid % 2 == newer.number)


def read_newest_txnid(fd: int) -> int | None:
    """The number of the newest committed transaction of an open file; None where its meta pages do not tell."""
    pages = _read_both_metas(partial(_read_at, fd))
    return None if isinstance(pages, str) or pages[0].fault or not _are_consecutive(*pages) else pages[0].txnid


def find_sound_meta_pages(read: Callable[[int, int], bytes]) -> tuple[MetaPage, ...]:
    """Return the meta pages of the two that may be in use, the newer one first; ``read`` gives so many bytes of a
    place."""
    pages = _read_both_metas(read)
    return () if isinstance(pages, str) else tuple(page for page in pages if not page.fault)


def find_meta_in_use(data: mmap.mmap) -> MetaPage | None:
    """The meta page in use of a file that is mapped. The other one is not trusted: its roots may belong to no state."""
    pages = _read_both_metas(lambda size, start: data[start : start + size])
    return None if isinstance(pages, str) or pages[0].fault else pages[0]


def read_spare_meta(path: Path, seam: Seam) -> tuple[MetaPage, bytes | None] | None:
    """The meta page that is not in use, and the first value that its roots lead to in sub-database ``meta``, if any.

    None where a writer goes on all the time, and replaces it. Raises as :func:`read_verified_meta` does.
    """
    with translate_errors(path, "read the store"):
        fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _ in range(_ATTEMPTS):
                pages = _read_both_metas(partial(_read_at, fd))
                if isinstance(pages, str):
                    raise _damaged_file_error(path, pages)
                value = None
                if not pages[1].fault:
                    with suppress(ValueError, struct.error):
                        value = _read_first_value(fd, pages[1], b"meta")
                # Only if the meta pages did not change meanwhile is what was read of one state.
                if _read_both_metas(partial(_read_at, fd)) == pages:
                    return pages[1], value
        finally:
            os.close(fd)
    return None


def _read_first_value(fd: int, meta: MetaPage, name: bytes) -> bytes | None:
    """The first value of a sub-database; None where there is no such sub-database, or nothing in it."""
    described = _read_leaf_value(fd, meta, meta.main_root, name)
    if described is None:
        return None
    return _read_leaf_value(fd, meta, TREE_LAYOUT.unpack_from(described)[-1], None)


def _read_leaf_value(fd: int, meta: MetaPage, page: int, name: bytes | None) -> bytes | None:
    """The value of ``name``, or of the first key, in the first leaf of a tree (which has few entries)."""
    for _ in range(MAX_TREE_DEPTH):
        if page == NO_PAGE:
            return None
        data = _read_pages(fd, meta, page, 1)
        number, _, flags, lower, _ = PAGE_LAYOUT.unpack_from(data)
        if number != page or not flags & (BRANCH_FLAG | LEAF_FLAG):
            raise ValueError(page)
        for index in range((lower - PAGE_LAYOUT.size) // 2):
            at = int.from_bytes(data[PAGE_LAYOUT.size + 2 * index : PAGE_LAYOUT.size + 2 * index + 2], sys.byteorder)
            # In a branch node three of the four fields are the number of the child page, in a leaf two are the size of
            # the value.
            low, high, more, key_size = NODE_LAYOUT.unpack_from(data, at)
            start = at + NODE_LAYOUT.size
            if flags & BRANCH_FLAG:
                page = low | high << 16 | more << 32
                break
            if name in (None, data[start : start + key_size]) and not more & BIG_DATA_FLAG:
                return data[start + key_size : start + key_size + (low | high << 16)]
        else:
            return None
    return None


def _damaged_file_error(path: Path, reason: str) -> DamageError:
    return DamageError("SOW-STO-021", f"invalid LMDB file: {reason}", place=str(path), hint=REBUILD_HINT)


def parse_meta_page(data: bytes, number: int) -> MetaPage | str:
    """One meta page; words where LMDB refuses the file because of it, whether it is the newer one or not."""
    if len(data) < _META_END:
        return "it ends within its meta pages"
    page, _, flags, _, _ = PAGE_LAYOUT.unpack_from(data)
    magic, version, _, map_size = _META.unpack_from(data, _META_AT)
    # From the most general to the particular, so that the words fit what the file is.
    if magic != LMDB_MAGIC:
        return "it does not start like an LMDB file"
    if version != LMDB_VERSION:
        return f"it has LMDB data version {version}, not {LMDB_VERSION}"
    page_size, free_flags, free_depth, _, _, _, _, free_root = TREE_LAYOUT.unpack_from(data, _TREES_AT)
    _, main_flags, main_depth, _, _, _, _, main_root = TREE_LAYOUT.unpack_from(data, _TREES_AT + TREE_LAYOUT.size)
    last_page, txnid = _TAIL.unpack_from(data, _TAIL_AT)
    # No transaction writes the first 32 bytes or another page size: what is wrong there, no failed write has left.
    if page != number or flags != META_FLAG or page_size not in PAGE_SIZES:
        return f"its meta page {number} is damaged"
    # Roots and last page are part of what a failed write may leave; wrong ones are a fault of this page, and not of the
    # file.
    roots = [root for root in (free_root, main_root) if root != NO_PAGE]
    sound = (
        free_flags & ~_NO_SUBDIR == _INTEGER_KEY
        and main_flags == 0
        and max(free_depth, main_depth) <= MAX_TREE_DEPTH
        and last_page >= 1
        and all(2 <= root <= last_page for root in roots)
    )
    fault = "" if sound else f"its meta page {number} is damaged"
    return MetaPage(number, page_size, last_page, txnid, free_root, main_root, main_depth, fault, map_size, free_depth)


def parse_likely_meta_page(data: bytes, number: int, page_size: int) -> MetaPage | None:
    """Parse a meta page whose beginning need not be right, for a salvage, which proves where its roots lead."""
    if len(data) < _META_END:
        return None
    free_root = TREE_LAYOUT.unpack_from(data, _TREES_AT)[-1]
    _, _, main_depth, _, _, _, _, main_root = TREE_LAYOUT.unpack_from(data, _TREES_AT + TREE_LAYOUT.size)
    last_page, txnid = _TAIL.unpack_from(data, _TAIL_AT)
    return MetaPage(number, page_size, last_page, txnid, free_root, main_root, main_depth)


def _is_free_root_sound(fd: int, meta: MetaPage) -> bool:
    """Return whether the free list starts with a page of free lists; on any other, LMDB ends a writer's process.

    A leaf holds numbers of 8 bytes with a count and so many page numbers each, or points to pages of their own.
    """
    # An empty list has no root.
    if meta.free_root == NO_PAGE:
        return True
    try:
        data = _read_pages(fd, meta, meta.free_root, 1)
    except ValueError:
        return True  # the end of the file is missing: an error of its own
    # `lower` is where the list of node offsets ends, two bytes for each node: so it tells how many there are.
    number, _, flags, lower, _ = PAGE_LAYOUT.unpack_from(data)
    if number != meta.free_root or flags & (BRANCH_FLAG | LEAF_FLAG) not in (BRANCH_FLAG, LEAF_FLAG):
        return False
    for index in range((lower - PAGE_LAYOUT.size) // 2 if flags & LEAF_FLAG else 0):
        at = int.from_bytes(data[PAGE_LAYOUT.size + 2 * index : PAGE_LAYOUT.size + 2 * index + 2], sys.byteorder)
        # Every offset is proven to lie within the page before it is followed.
        if at + NODE_LAYOUT.size + 8 > len(data):
            return False
        low, high, node_flags, key_size = NODE_LAYOUT.unpack_from(data, at)
        start, length = at + NODE_LAYOUT.size + 8, low | high << 16
        count = int.from_bytes(data[start : start + 8], sys.byteorder)
        if key_size != 8 or (not node_flags & BIG_DATA_FLAG and length != 8 * (count + 1)):
            return False
    return True


def _is_tail_free(fd: int, meta: MetaPage, first_missing: int) -> bool:
    """Return whether every page from ``first_missing`` to the last stands in LMDB's free list.

    A transaction may take new pages at the end and give them back before they are written; such a file is short and
    sound. Anything that does not parse counts as not free.
    """
    free: set[int] = set()
    try:
        _collect_free(fd, meta, meta.free_root, free, MAX_TREE_DEPTH)
    except (ValueError, IndexError):
        return False
    return all(page in free for page in range(first_missing, meta.last_page + 1))


def _collect_free(fd: int, meta: MetaPage, page: int, free: set[int], depth: int) -> None:
    if page == NO_PAGE:
        return
    data = _read_pages(fd, meta, page, 1)
    _, _, flags, lower, _ = PAGE_LAYOUT.unpack_from(data)
    # The depth bounds the recursion: damaged branch pages may form a ring.
    if depth == 0 or flags & (BRANCH_FLAG | LEAF_FLAG) == 0:
        raise ValueError(page)
    for index in range((lower - PAGE_LAYOUT.size) // 2):
        at = int.from_bytes(data[PAGE_LAYOUT.size + 2 * index : PAGE_LAYOUT.size + 2 * index + 2], sys.byteorder)
        if at + NODE_LAYOUT.size > len(data):
            raise ValueError(page)
        low, high, node_flags, key_size = NODE_LAYOUT.unpack_from(data, at)
        if flags & BRANCH_FLAG:
            _collect_free(fd, meta, low | high << 16 | node_flags << 32, free, depth - 1)
            continue
        start, length = at + NODE_LAYOUT.size + key_size, low | high << 16
        numbers = data[start : start + length]
        if node_flags & BIG_DATA_FLAG:
            first = int.from_bytes(data[start : start + 8], sys.byteorder)
            # A large list has pages of its own in a row, with one page header in front.
            count = (PAGE_LAYOUT.size + length + meta.page_size - 1) // meta.page_size
            numbers = _read_pages(fd, meta, first, count)[PAGE_LAYOUT.size : PAGE_LAYOUT.size + length]
        _add_numbers(numbers, free)


def _add_numbers(data: bytes, free: set[int]) -> None:
    words = memoryview(data[: len(data) // 8 * 8]).cast("Q")
    count = words[0]
    # The first word counts the others; a larger count is a damaged one.
    if count > len(words) - 1:
        raise ValueError(count)
    free.update(words[1 : 1 + count])


def _read_pages(fd: int, meta: MetaPage, page: int, count: int) -> bytes:
    data = os.pread(fd, count * meta.page_size, page * meta.page_size)
    if len(data) != count * meta.page_size:
        raise ValueError(page)
    return data

"""A file's meta pages and free list, read with plain reads before anything is mapped (``sow-store(5)``, "How to read").

A file that is shorter than its last page kills the process by SIGBUS once it is mapped, and a wrong bit in a meta page
shows another state. Both are detected here: :func:`read_verified_meta` is called before a file is opened, and before a
cached environment is used again. :mod:`sowctl.store.lmdbfile.meta_page` decodes the bytes.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from sowctl.errors import DamageError
from sowctl.seam import Seam
from sowctl.store.codec import REBUILD_HINT
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.lmdbfile.check import is_free_list_page
from sowctl.store.lmdbfile.layout import NO_PAGE
from sowctl.store.lmdbfile.meta_page import MetaPage, are_consecutive, read_both_metas

# LMDB writes a meta page in one write, which a reader may see half done; twice in a row is rare, five times is damage.
_ATTEMPTS = 5


class _OpenFile:
    """An open file, as pages."""

    def __init__(self, fd: int, page_size: int) -> None:
        self._fd, self.page_size = fd, page_size

    def read_page(self, number: int) -> bytes | None:
        """Return one page; None if the file ends before it."""
        return self.read_page_run(number, 1)

    def read_page_run(self, first: int, count: int) -> bytes | None:
        """Return several consecutive pages; None if the file ends before them."""
        start, size = first * self.page_size, count * self.page_size
        # The number may not be that of a page, so nothing is read after the end of the file.
        if start + size > os.fstat(self._fd).st_size:
            return None
        data = os.pread(self._fd, size, start)
        return data if len(data) == size else None


def read_verified_meta(path: Path, seam: Seam) -> MetaPage:
    """Check the file's beginning and size and return the meta page that LMDB will use.

    Raises :class:`DamageError` SOW-STO-021 (beginning) or SOW-STO-022 (truncated end), MissingError, StorageError.
    """
    with translate_errors(path, "read the store"):
        # O_NONBLOCK: a pipe of this name must not block the program.
        fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise DamageError("SOW-STO-021", "not a regular file", place=str(path), hint=REBUILD_HINT)
            newest = _read_newest_meta(fd, path)
            # Only writers read the free list, and they abort on a wrong page. It is checked here, when an error can
            # still be raised.
            while not _is_free_root_sound(fd, newest):
                again = _read_newest_meta(fd, path)
                if again == newest:
                    raise _damaged_file_error(path, "the first page of its free list is invalid")
                newest = again  # writers continued meanwhile, and reused the page
            size = os.fstat(fd).st_size
            # Accessing a mapped page after the end of the file kills the process by SIGBUS. A missing tail is harmless
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
    """Return the meta page in use; reads again while a writer is replacing one of them."""
    reason = ""
    for _ in range(_ATTEMPTS):
        pages = _read_metas(fd)
        if isinstance(pages, str):
            raise _damaged_file_error(path, pages)
        newer, older = pages
        # A writer may have committed between the reads of the two pages: read again before reporting damage.
        if not are_consecutive(*pages):
            reason = f"its meta pages have the transaction numbers {older.txnid} and {newer.txnid}"
        elif newer.fault:
            reason = newer.fault
        else:
            return newer
    raise _damaged_file_error(path, reason)


def _read_metas(fd: int) -> tuple[MetaPage, MetaPage] | str:
    return read_both_metas(lambda size, start: os.pread(fd, size, start))


def read_newest_txnid(fd: int) -> int | None:
    """Return the number of the newest committed transaction of an open file; None if its meta pages are unclear."""
    pages = _read_metas(fd)
    return None if isinstance(pages, str) or pages[0].fault or not are_consecutive(*pages) else pages[0].txnid


def read_spare_meta(path: Path, seam: Seam) -> tuple[MetaPage, bytes | None] | None:
    """Return the meta page that is not in use, and the first value of sub-database ``meta`` under its roots, if any.

    None if a writer keeps replacing it. Raises as :func:`read_verified_meta` does.
    """
    with translate_errors(path, "read the store"):
        fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _ in range(_ATTEMPTS):
                pages = _read_metas(fd)
                if isinstance(pages, str):
                    raise _damaged_file_error(path, pages)
                value = None if pages[1].fault else _read_first_value(fd, pages[1], b"meta")
                # The data belongs to one state only if the meta pages did not change meanwhile.
                if _read_metas(fd) == pages:
                    return pages[1], value
        finally:
            os.close(fd)
    return None


def read_present_meta_record(path: Path, seam: Seam) -> bytes | None:
    """The meta record of the last transaction, unverified; None where there is no file, or it cannot be read."""
    with suppress(OSError):
        fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            pages = _read_metas(fd)
            return None if isinstance(pages, str) or pages[0].fault else _read_first_value(fd, pages[0], b"meta")
        finally:
            os.close(fd)
    return None


def _read_first_value(fd: int, meta: MetaPage, name: bytes) -> bytes | None:
    """Return the first value of a sub-database; None if it is missing or empty."""
    from sowctl.store.lmdbfile.walk import Walk, read_named_trees, read_value

    file = _OpenFile(fd, meta.page_size)
    tree = (read_named_trees(file, meta) or {}).get(name)
    first = None if tree is None else next(Walk(file).iter_entries(tree.root), None)
    return None if first is None else read_value(file, first)


def _damaged_file_error(path: Path, reason: str) -> DamageError:
    return DamageError("SOW-STO-021", f"invalid LMDB file: {reason}", place=str(path), hint=REBUILD_HINT)


def _is_free_root_sound(fd: int, meta: MetaPage) -> bool:
    """Return whether the free list starts with a page of free lists; with any other, LMDB kills a writer's process."""
    # An empty list has no root. A missing end of the file is a separate error.
    data = None if meta.free.root == NO_PAGE else _OpenFile(fd, meta.page_size).read_page(meta.free.root)
    return data is None or is_free_list_page(data, meta.free.root)


def _is_tail_free(fd: int, meta: MetaPage, first_missing: int) -> bool:
    """Return whether every page from ``first_missing`` to the last is in LMDB's free list.

    A transaction may allocate new pages at the end and free them before they are written; such a file is short and
    valid. If anything cannot be decoded, the pages count as used.
    """
    # Imported here, because only a truncated file needs it.
    from sowctl.store.lmdbfile.walk import read_free_list

    found = read_free_list(_OpenFile(fd, meta.page_size), meta)
    free = set[int]() if found is None else found.own.union(*found.freed.values())
    return all(page in free for page in range(first_missing, meta.last_page + 1))

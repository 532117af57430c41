"""A file's meta pages and free list, read with plain reads before anything is mapped (``sow-store(5)``, "How to read").

A file that is shorter than its last page ends the process by SIGBUS once it is mapped, and a wrong bit in a meta page
shows another state. Both are found here: :func:`read_verified_meta` is called before a file is opened, and before a
kept environment is used again. What the bytes mean is in :mod:`sowctl.store.lmdbfile.meta_page`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sowctl.errors import DamageError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import REBUILD_HINT, translate_errors
from sowctl.store.lmdbfile.check import is_free_list_page
from sowctl.store.lmdbfile.layout import NO_PAGE
from sowctl.store.lmdbfile.meta_page import MetaPage, are_consecutive, read_both_metas

# A meta page is one write of LMDB, which a reader may see half done; twice in a row is rare, five times is damage.
_ATTEMPTS = 5


class _OpenFile:
    """A file that is open, as pages."""

    def __init__(self, fd: int, page_size: int) -> None:
        self._fd, self.page_size = fd, page_size

    def read_page(self, number: int) -> bytes | None:
        """One page; None where the file ends before."""
        return self.read_page_run(number, 1)

    def read_page_run(self, first: int, count: int) -> bytes | None:
        """Several pages in a row; None where the file ends before."""
        start, size = first * self.page_size, count * self.page_size
        # Of what may be no number of a page, none is asked for behind the end of the file.
        if start + size > os.fstat(self._fd).st_size:
            return None
        data = os.pread(self._fd, size, start)
        return data if len(data) == size else None


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
        pages = _read_metas(fd)
        if isinstance(pages, str):
            raise _damaged_file_error(path, pages)
        newer, older = pages
        # A writer may have committed between the reads of the two pages: read again before it is called damage.
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
    """The number of the newest committed transaction of an open file; None where its meta pages do not tell."""
    pages = _read_metas(fd)
    return None if isinstance(pages, str) or pages[0].fault or not are_consecutive(*pages) else pages[0].txnid


def read_spare_meta(path: Path, seam: Seam) -> tuple[MetaPage, bytes | None] | None:
    """The meta page that is not in use, and the first value that its roots lead to in sub-database ``meta``, if any.

    None where a writer goes on all the time, and replaces it. Raises as :func:`read_verified_meta` does.
    """
    with translate_errors(path, "read the store"):
        fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _ in range(_ATTEMPTS):
                pages = _read_metas(fd)
                if isinstance(pages, str):
                    raise _damaged_file_error(path, pages)
                value = None if pages[1].fault else _read_first_value(fd, pages[1], b"meta")
                # Only if the meta pages did not change meanwhile is what was read of one state.
                if _read_metas(fd) == pages:
                    return pages[1], value
        finally:
            os.close(fd)
    return None


def _read_first_value(fd: int, meta: MetaPage, name: bytes) -> bytes | None:
    """The first value of a sub-database; None where there is no such sub-database, or nothing in it."""
    from sowctl.store.lmdbfile.walk import Walk, read_named_trees, read_value

    file = _OpenFile(fd, meta.page_size)
    tree = (read_named_trees(file, meta) or {}).get(name)
    first = None if tree is None else next(Walk(file).iter_entries(tree.root), None)
    return None if first is None else read_value(file, first)


def _damaged_file_error(path: Path, reason: str) -> DamageError:
    return DamageError("SOW-STO-021", f"invalid LMDB file: {reason}", place=str(path), hint=REBUILD_HINT)


def _is_free_root_sound(fd: int, meta: MetaPage) -> bool:
    """Return whether the free list starts with a page of free lists; on any other, LMDB ends a writer's process."""
    # An empty list has no root. Where the end of the file is missing, that is an error of its own.
    data = None if meta.free.root == NO_PAGE else _OpenFile(fd, meta.page_size).read_page(meta.free.root)
    return data is None or is_free_list_page(data, meta.free.root)


def _is_tail_free(fd: int, meta: MetaPage, first_missing: int) -> bool:
    """Return whether every page from ``first_missing`` to the last stands in LMDB's free list.

    A transaction may take new pages at the end and give them back before they are written; such a file is short and
    sound. Anything that does not parse counts as not free.
    """
    # Here, because only a file that was cut needs it.
    from sowctl.store.lmdbfile.walk import read_free_list

    found = read_free_list(_OpenFile(fd, meta.page_size), meta)
    free = set[int]() if found is None else found.own.union(*found.freed.values())
    return all(page in free for page in range(first_missing, meta.last_page + 1))

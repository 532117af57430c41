"""LMDB's pages with plain reads, for figures and for the salvage of a damaged store (``sow-store(5)``).

LMDB maps a file and trusts its content, so a damaged page may kill the process. Here pages are read one by one, and
:mod:`sowctl.store.lmdbfile.walk` follows their references.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sowctl.seam import Seam

_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 2


class PageFile:
    """An LMDB file open for plain reads. Close it. ``unreadable`` counts pages that the disk could not read."""

    def __init__(self, path: Path, page_size: int, seam: Seam) -> None:
        """Open the file. Raises OSError."""
        self.page_size = page_size
        self.unreadable = 0
        self._seam = seam
        self._fd: int = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        # The part of the file read last: leaves are mostly neighbours, and a read for each would cost more than
        # processing it.
        self._at, self._piece = 0, b""

    def __enter__(self) -> PageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def read_page(self, number: int) -> bytes | None:
        """Return one page; None if the file ends before it, or the disk fails. Raises OSError for other reasons."""
        start = number * self.page_size
        # With a truncated file, a map would kill the process here (SIGBUS); a plain read is just not made.
        if start + self.page_size > self.size:
            return None
        if not self._at <= start < self._at + len(self._piece):
            self._at, self._piece = start - start % _CHUNK_BYTES, b""
            self._piece = self._read_range(_CHUNK_BYTES, self._at) or b""
        data = self._piece[start - self._at : start - self._at + self.page_size]
        if len(data) == self.page_size:
            return data
        # The part ends too early, or a sector in it cannot be read: read this page separately.
        data = self._read_range(self.page_size, start) or b""
        if len(data) == self.page_size:
            return data
        self.unreadable += 1
        return None

    def read_page_run(self, first: int, count: int) -> bytes | None:
        """Return several consecutive pages; None if the file ends before them, or the disk fails."""
        if (first + count) * self.page_size > self.size:
            return None
        data = self._read_range(count * self.page_size, first * self.page_size)
        return data if data is not None and len(data) == count * self.page_size else None

    def read_beginning(self, size: int) -> bytes:
        """Return the first bytes of the file, fewer if it is shorter."""
        return self._read_range(size, 0) or b""

    def _read_range(self, size: int, start: int) -> bytes | None:
        for _ in range(_ATTEMPTS):
            try:
                return self._seam.call("file.read", os.pread, self._fd, size, start)
            except OSError as problem:
                # A lost disk sector is damage like any other; a transient error is not.
                if problem.errno != errno.EIO:
                    raise
        return None


__all__ = ["PageFile"]

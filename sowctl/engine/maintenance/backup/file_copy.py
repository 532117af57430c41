"""Copying files into and out of a backup: linked if possible, else copied, with the digest of their bytes.

A copy is synced in portions, so that a concurrent writer who syncs its journal never waits long; with ``rest``, each
portion is followed by a pause of equal duration, which leaves the disk to the writer.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from xxhash import xxh3_128

from sowctl.interrupts import allow_interrupts
from sowctl.seam import Seam
from sowctl.values.display import format_count

_CHUNK_BYTES = 4 << 20
_SYNC_INTERVAL_BYTES = 8 << 20
_PAUSE_INTERVAL_BYTES = 2 << 20
"""Bytes between two pauses."""
_UNLINKABLE_ERRNOS = frozenset((errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS))


def _ignore_portion(size: int) -> None:
    return


class PortionProgress:
    """Adds up the sizes of portions and reports the sum of ``total`` bytes to ``watch``; ``what`` names the bytes."""

    def __init__(self, watch: Callable[[str, int, int], None], what: str, total: int) -> None:
        self._watch, self._what, self._total = watch, what, total
        self._done = 0

    def __call__(self, size: int) -> None:
        """Report one more portion."""
        self._done += size
        self._watch(self._what, self._done, self._total)


def copy_file(
    source: Path,
    target: Path,
    seam: Seam,
    size: int | None = None,
    *,
    rest: bool = False,
    on_read: Callable[[int], None] = _ignore_portion,
) -> tuple[int, str]:
    """Copy a file, or its first ``size`` bytes; synced on return. Return its size and digest. Raises OSError.

    ``on_read`` is called with the size of each portion.
    """
    fd = seam.call("file.open", os.open, source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        mode = os.fstat(fd).st_mode & 0o777
        part = _PAUSE_INTERVAL_BYTES if rest else _CHUNK_BYTES

        def chunks() -> Iterator[bytes]:
            left = size
            while left is None or left > 0:
                chunk = seam.call("file.read", os.read, fd, part if left is None else min(part, left))
                if not chunk:
                    if left is not None:
                        raise OSError(f"the file is {format_count(left, 'byte')} shorter than expected")
                    return
                left = None if left is None else left - len(chunk)
                on_read(len(chunk))
                yield chunk

        return write_file(chunks(), target, seam, mode, rest=rest)
    finally:
        os.close(fd)


def read_pipe(pipe: int) -> Iterator[bytes]:
    """Read a pipe to its end, in portions."""
    held = bytearray()
    while chunk := os.read(pipe, _PAUSE_INTERVAL_BYTES):
        held += chunk
        if len(held) >= _PAUSE_INTERVAL_BYTES:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def write_file(chunks: Iterable[bytes], target: Path, seam: Seam, mode: int, *, rest: bool) -> tuple[int, str]:
    """Write a new file, synced on return. Return its size and digest. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    # Writable for the owner even if the source is not: a restore opens copied stores for writing.
    out = seam.call("file.open", os.open, target, flags, mode | 0o200)
    try:
        digest, done, unsynced = xxh3_128(), 0, 0
        for chunk in chunks:
            begin = time.monotonic()
            digest.update(chunk)
            left = memoryview(chunk)
            while left:
                left = left[seam.call("file.write", os.write, out, left) :]
            done += len(chunk)
            unsynced += len(chunk)
            if rest or unsynced >= _SYNC_INTERVAL_BYTES:
                seam.call("file.sync", os.fdatasync, out)
                unsynced = 0
            if rest:
                with allow_interrupts():
                    time.sleep(time.monotonic() - begin)
        seam.call("file.sync", os.fsync, out)
        return done, digest.hexdigest()
    finally:
        os.close(out)


def link_file(source: Path, target: Path, seam: Seam) -> bool:
    """Link a file to a second name; return False if that is impossible: another file system, or no permission."""
    try:
        seam.call("file.link", os.link, source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _UNLINKABLE_ERRNOS:
            return False
        raise
    return True


def read_digest(path: Path, seam: Seam, on_read: Callable[[int], None] = _ignore_portion) -> tuple[int, str]:
    """Return size and digest of a file; ``on_read`` is called as by :func:`copy_file`. Raises OSError."""
    digest, done = xxh3_128(), 0
    fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        while chunk := seam.call("file.read", os.read, fd, _CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            on_read(len(chunk))
    finally:
        os.close(fd)
    return done, digest.hexdigest()


def link_or_copy(source: Path, target: Path, seam: Seam) -> None:
    """Link a file to a second name, or copy it if that is impossible. Raises OSError."""
    if not link_file(source, target, seam):
        copy_file(source, target, seam)

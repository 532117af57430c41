"""Files into a backup and out of it: linked where that is possible, else copied, with the digest of their bytes.

What is copied is synced in portions, so that a writer who syncs its journal beside this never waits for much.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from xxhash import xxh3_128

from sowctl.seam import Seam

_CHUNK = 4 << 20
_SYNC_EVERY = 8 << 20
_NO_LINK = frozenset((errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS))


def copy(source: Path, target: Path, seam: Seam, size: int | None = None) -> tuple[int, str]:
    """Copy a file, or its first ``size`` bytes; on disk when this returns. Its size and digest. Raises OSError."""
    fd = seam.call("file.open", os.open, source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        mode = os.fstat(fd).st_mode & 0o777
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        out = seam.call("file.open", os.open, target, flags, mode | 0o200)
        try:
            return _pump(fd, out, seam, size)
        finally:
            os.close(out)
    finally:
        os.close(fd)


def _pump(fd: int, out: int, seam: Seam, size: int | None) -> tuple[int, str]:
    digest, done, unsynced = xxh3_128(), 0, 0
    while size is None or done < size:
        wanted = _CHUNK if size is None else min(_CHUNK, size - done)
        chunk = seam.call("file.read", os.read, fd, wanted)
        if not chunk:
            if size is not None:
                raise OSError(f"the file has {done} bytes, and {size} were expected")
            break
        digest.update(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[seam.call("file.write", os.write, out, rest) :]
        done += len(chunk)
        unsynced += len(chunk)
        if unsynced >= _SYNC_EVERY:
            seam.call("file.sync", os.fdatasync, out)
            unsynced = 0
    seam.call("file.sync", os.fsync, out)
    return done, digest.hexdigest()


def link(source: Path, target: Path, seam: Seam) -> bool:
    """Give a file a second name; False where it cannot have one there: another file system, or no permission."""
    try:
        seam.call("file.link", os.link, source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True


def read_digest(path: Path, seam: Seam) -> tuple[int, str]:
    """Size and digest of a file's bytes. Raises OSError."""
    digest, done = xxh3_128(), 0
    fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        while chunk := seam.call("file.read", os.read, fd, _CHUNK):
            digest.update(chunk)
            done += len(chunk)
    finally:
        os.close(fd)
    return done, digest.hexdigest()


def link_or_copy(source: Path, target: Path, seam: Seam) -> None:
    """A second name, or where that cannot be a copy. Raises OSError."""
    if not link(source, target, seam):
        copy(source, target, seam)

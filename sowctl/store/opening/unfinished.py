"""The file of a store under construction: a temporary name, a lock that says that its builder lives, its directory.

Called by :mod:`sowctl.store.opening.replace`, and by those who make directories or put names into them as durably as a
store does. Ruled by ``sow-store(5)``, "Replacing a store".
"""

from __future__ import annotations

import fcntl
import os
from itertools import count
from pathlib import Path

from sowctl.seam import Seam
from sowctl.store.opening.locks import FILE_MODE, Files

DIRECTORY_MODE = 0o750
_numbers = count()


def temporary_file(files: Files, seam: Seam) -> tuple[Path, int]:
    """A new file of a name of its own, locked for as long as its builder lives."""
    while True:
        path = files.path.with_name(f"{files.path.name}.new-{os.getpid()}-{next(_numbers)}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = seam.call("file.open", os.open, path, flags, FILE_MODE)
        except FileExistsError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                return path, fd
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        os.close(fd)


def remove_stale(files: Files) -> None:
    """Remove stores under construction whose builder is gone."""
    start = f"{files.path.name}.new-"
    for path in [entry for entry in files.directory.iterdir() if entry.name.startswith(start)]:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except OSError:
            pass
        finally:
            os.close(fd)


def make_directories(directory: Path, seam: Seam) -> None:
    """Make the directory and the missing ones above it, each synced into the one that holds it."""
    if directory.is_dir():
        return
    make_directories(directory.parent, seam)
    directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    sync_directory(directory.parent, seam)


def sync_directory(directory: Path, seam: Seam) -> None:
    """Make names in a directory durable."""
    fd = seam.call("file.open", os.open, directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        seam.call("dir.sync", os.fsync, fd)
    finally:
        os.close(fd)

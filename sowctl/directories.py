"""Directories that outlive a power failure: made, and names in them put on disk.

A file that was synced is found after a power failure only if the directory that holds its name was synced, too. Called
by everything that makes or renames files which must not be lost: journals, stores, the files of key chains.
"""

from __future__ import annotations

import os
from pathlib import Path

from sowctl.seam import Seam

FILE_MODE = 0o640
"""The mode of new files; the umask takes from it."""
DIRECTORY_MODE = 0o750


def make_directories(directory: Path, seam: Seam) -> None:
    """Make a directory and the missing ones above it, each synced into the one that holds it. Raises OSError."""
    if directory.is_dir():
        return
    # From the top down: a directory is on disk before a name is put into it.
    make_directories(directory.parent, seam)
    try:
        seam.call("dir.make", os.mkdir, directory, DIRECTORY_MODE)
    except FileExistsError:
        # Another process made it meanwhile, and syncs it before it reports success. What stands here may also be no
        # directory: then the first use of it says so.
        return
    sync_directory(directory.parent, seam)


def sync_directory(directory: Path, seam: Seam) -> None:
    """Put the names in a directory on disk. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        seam.call("dir.sync", os.fsync, fd)
    finally:
        os.close(fd)

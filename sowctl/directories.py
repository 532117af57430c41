"""Directories that survive a power failure: creating them, and syncing names in them.

A synced file survives a power failure only if the directory that holds its name was synced, too. Used by all code that
creates or renames files which must not be lost: journals, stores, the files of key chains.
"""

from __future__ import annotations

import os
from pathlib import Path

from sowctl.seam import Seam

FILE_MODE = 0o640
"""The mode of new files, reduced by the umask."""
DIRECTORY_MODE = 0o750


def make_directories(directory: Path, seam: Seam) -> None:
    """Create a directory and its missing parents, each synced into its own parent. Raises OSError."""
    if directory.is_dir():
        return
    # From the top down: a directory is on disk before a name is added to it.
    make_directories(directory.parent, seam)
    try:
        seam.call("dir.make", os.mkdir, directory, DIRECTORY_MODE)
    except FileExistsError:
        # Another process created it meanwhile, and syncs it before it reports success. If the path is no directory, its
        # first use fails.
        return
    sync_directory(directory.parent, seam)


def sync_directory(directory: Path, seam: Seam) -> None:
    """Sync the names in a directory to disk. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        seam.call("dir.sync", os.fsync, fd)
    finally:
        os.close(fd)

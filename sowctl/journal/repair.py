"""Cutting a torn tail off, with a copy kept (``sow-journal(5)``, "What a crash leaves"). Under the lock only."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sowctl.journal.format import FILE_MODE
from sowctl.journal.state import write_all
from sowctl.seam import Seam

_CHUNK = 4 << 20


def sync_directory(directory: Path, seam: Seam) -> None:
    """Put the names in a directory on disk. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        seam.call("dir.sync", os.fsync, fd)
    finally:
        os.close(fd)


def cut_tail(fd: int, path: Path, offset: int, seam: Seam) -> Path:
    """Copy everything from ``offset`` on to ``FILE.torn-N`` (the first N that is free), then cut it off ``fd``.

    The copy is on disk before anything is cut. Returns its path. Raises OSError.
    """
    copy, target = _new_copy(path, seam)
    try:
        at = offset
        while chunk := os.pread(fd, _CHUNK, at):
            write_all(seam, target, chunk)
            at += len(chunk)
        seam.call("file.sync", os.fsync, target)
    finally:
        os.close(target)
    sync_directory(path.parent, seam)
    seam.call("file.truncate", os.ftruncate, fd, offset)
    seam.call("file.sync", os.fsync, fd)
    return copy


def _new_copy(path: Path, seam: Seam) -> tuple[Path, int]:
    number = 1
    while True:
        copy = path.with_name(f"{path.name}.torn-{number}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return copy, seam.call("file.open", os.open, copy, flags, FILE_MODE)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            number += 1

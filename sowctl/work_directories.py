"""Temporary directories of this process, for files as large as its data.

Each is removed at the end of the block that created it. A killed process leaves its directory with all of its content;
the next process of the same user that creates one removes it, and so does ``store clean``. A lock shows whether its
process is alive.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

WORK_PREFIX = "sowctl-work-"
SPARK_PREFIX = "sowctl-spark-"
_PREFIXES = (WORK_PREFIX, SPARK_PREFIX)
_LOCK_FILE = "lock"


class DeadDirectory(Struct, frozen=True):
    """An unused directory: the id of the process that created it, 0 if unknown, and the size of its files in bytes."""

    path: Path
    pid: int
    bytes: int


@contextmanager
def create_work_directory(prefix: str = WORK_PREFIX) -> Iterator[Path]:
    """Create a directory for temporary files, removed at the end; those of dead processes are removed first.

    Raises OSError if none can be created.
    """
    remove_dead_directories()
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=tempfile.gettempdir()))
    lock = None
    try:
        # Without a lock, for example if the file system has none, no other process removes the directory.
        with suppress(OSError):
            lock = _lock_directory(work)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def list_dead_directories() -> list[DeadDirectory]:
    """The directories whose processes have ended, without those of other users."""
    return _visit_dead_directories(remove=False)


def remove_dead_directories() -> list[DeadDirectory]:
    """Remove the directories whose processes have ended, and return them. Those of other users are skipped."""
    return _visit_dead_directories(remove=True)


def _visit_dead_directories(*, remove: bool) -> list[DeadDirectory]:
    gone = []
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIXES):
                continue
            # Removed by its owner meanwhile, not permitted, or without a lock file: in doubt it stays.
            with suppress(OSError):
                if (found := _examine(entry, remove=remove)) is not None:
                    gone.append(found)
    return sorted(gone, key=lambda one: one.path)


def _examine(entry: os.DirEntry[str], *, remove: bool) -> DeadDirectory | None:
    """Return a directory whose lock is free, after removing it if ``remove``; None for any other entry."""
    # An entry of another user with this name may lead elsewhere.
    if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return None
    lock = os.open(Path(entry.path, _LOCK_FILE), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # The kernel releases a lock when its process dies, for any reason, and not before. A process id, which means
        # another process in another container, is not needed.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pid = os.read(lock, 20).decode("ascii", "replace").strip()
        path = Path(entry.path)
        found = DeadDirectory(path, int(pid) if pid.isdecimal() else 0, _measure_files(path))
        if remove:
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
    return found


def _measure_files(directory: Path) -> int:
    size = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += Path(place, name).lstat().st_size
    return size


def _lock_directory(work: Path) -> int:
    """Lock a directory for as long as the returned file is open."""
    # Locked under another name, so that a visible lock file is never free while its process lives. Closed in child
    # programs: one that lives on would hold the lock of a dead process.
    made = work / f"{_LOCK_FILE}.new"
    lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(lock, f"{os.getpid()}\n".encode())
        made.rename(work / _LOCK_FILE)
    except OSError:
        os.close(lock)
        raise
    return lock

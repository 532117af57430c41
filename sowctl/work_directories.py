"""Temporary directories of this process, for files that are as large as its data.

Each goes with the block that made it. A process that is killed leaves its directory, with all that is in it; the next
process of the same user that makes one removes it, and ``store clean`` does. Its lock tells a dead process from one
that lives.
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
    """A directory that nobody uses any more: the process that made it, 0 if unknown, and the bytes of its files."""

    path: Path
    pid: int
    bytes: int


@contextmanager
def create_work_directory(prefix: str = WORK_PREFIX) -> Iterator[Path]:
    """A new directory below the one for temporary files, removed at the end; those of dead processes are removed first.

    Raises OSError where none can be made.
    """
    remove_dead_directories()
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=tempfile.gettempdir()))
    lock = None
    try:
        # Without a lock, as where a file system has none, nobody else removes the directory.
        with suppress(OSError):
            lock = _lock_directory(work)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def list_dead_directories() -> list[DeadDirectory]:
    """The directories whose processes have ended; those of other users are left out."""
    return _visit_dead_directories(remove=False)


def remove_dead_directories() -> list[DeadDirectory]:
    """Remove the directories whose processes have ended; which they were. Those of other users are left alone."""
    return _visit_dead_directories(remove=True)


def _visit_dead_directories(*, remove: bool) -> list[DeadDirectory]:
    gone = []
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIXES):
                continue
            # Removed by its owner meanwhile, not permitted, without a lock file: in doubt it stays.
            with suppress(OSError):
                if (found := _examine(entry, remove=remove)) is not None:
                    gone.append(found)
    return sorted(gone, key=lambda one: one.path)


def _examine(entry: os.DirEntry[str], *, remove: bool) -> DeadDirectory | None:
    """A directory whose lock is free, which is removed then if it should be; None for any other."""
    # A name that another user has put there may lead elsewhere.
    if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return None
    lock = os.open(Path(entry.path, _LOCK_FILE), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # The kernel lets go of a lock when its process dies, however it dies, and not before: no process id, which
        # means another process in another container, has to be asked.
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
    """Lock a directory for as long as the file that is returned is open."""
    # Locked under another name, so that no lock file is ever seen that is free while its process lives. Closed in
    # programs that are started: one that lives on would hold the lock of a dead process.
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

"""The directory of a session's own: settings of its log, and Spark's scratch files where nobody names another place.

It goes with the session. A driver that is killed leaves it, with all that a large shuffle has written in it, and the
next session on the machine removes it. Called by :mod:`sowctl.spark.sessions`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DIRECTORY_PREFIX = "sowctl-spark-"
_LOCK_FILE = "lock"


@contextmanager
def create_work_directory() -> Iterator[Path]:
    """A new directory below the one for temporary files, removed at the end; those of dead drivers are removed first.

    Raises OSError where none can be made.
    """
    root = Path(tempfile.gettempdir())
    remove_dead_directories(root)
    work = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=root))
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


def remove_dead_directories(root: Path) -> list[Path]:
    """Remove the directories whose drivers have ended; which they were. Those of other users are left alone."""
    gone = []
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if not entry.name.startswith(DIRECTORY_PREFIX):
                continue
            # Removed by its owner meanwhile, not permitted, without a lock file: in doubt it stays.
            with suppress(OSError):
                if _remove_if_dead(entry):
                    gone.append(Path(entry.path))
    return gone


def _remove_if_dead(entry: os.DirEntry[str]) -> bool:
    """Remove a directory if its lock is free, and say whether it was."""
    # A name that another user has put there may lead elsewhere.
    if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return False
    lock = os.open(Path(entry.path, _LOCK_FILE), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # The kernel lets go of a lock when its driver dies, however it dies, and not before: no process id, which
        # means another process in another container, has to be asked.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(lock)
    return True


def _lock_directory(work: Path) -> int:
    """Lock a directory for as long as the file that is returned is open."""
    # Locked under another name, so that no lock file is ever seen that is free while its driver lives. Closed in
    # programs that are started: one that lives on would hold the lock of a dead driver.
    made = work / f"{_LOCK_FILE}.new"
    lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made.rename(work / _LOCK_FILE)
    except OSError:
        os.close(lock)
        raise
    return lock

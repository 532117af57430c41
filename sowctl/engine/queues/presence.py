"""Whether workers live: each holds the lock of a file of its own, which ends with its process.

A lock tells more than a process id: it counts in other containers of the machine, and no other process gets it later.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.directories import make_directories
from sowctl.store.opening.locks import FileLock

if TYPE_CHECKING:
    from sowctl.seam import Seam


class Presence:
    """The files of the workers of the queue whose state file is ``path``."""

    def __init__(self, path: Path, seam: Seam) -> None:
        self._directory = path.with_name(f"{path.name}-workers")
        self._seam = seam
        self._own: dict[int, FileLock] = {}

    def _path(self, number: int) -> Path:
        return self._directory / f"{number}.lock"

    def enter(self, number: int) -> None:
        """From here on this process is the worker of this number. Raises OSError."""
        if number in self._own:
            return  # a change that is made again
        make_directories(self._directory, self._seam)
        lock = FileLock(self._path(number), self._seam)
        if not lock.acquire(exclusive=True, wait=0):
            raise OSError(f"the lock of worker {number} is taken")
        self._own[number] = lock

    def leave(self, number: int) -> None:
        """The worker of this number ends."""
        lock = self._own.pop(number, None)
        if lock is not None:
            self._path(number).unlink(missing_ok=True)
            lock.release()

    def alone(self) -> bool:
        """Whether this process is now the one that does what one at a time does; :meth:`leave` 0 ends it."""
        try:
            self.enter(0)
        except OSError:
            return False
        return True

    def descriptor(self, number: int) -> int:
        """The descriptor of the lock of a worker of this process."""
        return self._own[number].fd

    def lives(self, number: int) -> bool:
        """Whether the worker of this number lives. The file of one that does not is removed."""
        held = self._own.get(number)
        if held is not None and held.pid == os.getpid():
            return True
        if not self._path(number).exists():
            return False
        lock = FileLock(self._path(number), self._seam)
        if not lock.acquire(exclusive=True, wait=0):
            return True
        self._path(number).unlink(missing_ok=True)
        lock.release()
        return False

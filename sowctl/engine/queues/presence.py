"""Lock files of live workers: each worker holds the lock of its own file, which ends with its process.

A lock is more reliable than a process id: it is valid across containers of the machine, and no other process gets it
later. The commands of a worker hold the lock, too. So the process that finds the lock free removes it together with the
files that the worker left, with messages for its commands: no command can be reading them any more.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.directories import make_directories
from sowctl.store.opening.locks import FileLock

if TYPE_CHECKING:
    from sowctl.seam import Seam


class WorkerPresence:
    """The files of the workers of the queue whose state file is ``path``."""

    def __init__(self, path: Path, seam: Seam) -> None:
        self._directory = path.with_name(f"{path.name}-workers")
        self._seam = seam
        self._own: dict[int, FileLock] = {}
        self._messages = 0

    def _build_path(self, number: int) -> Path:
        return self._directory / f"{number}.lock"

    def register_worker(self, number: int) -> bool:
        """Register this process as the worker of this number; return False if another process has it. Raises
        OSError."""
        if number in self._own:
            return True  # a change that is executed again
        make_directories(self._directory, self._seam)
        lock = FileLock(self._build_path(number), self._seam)
        if not lock.acquire(exclusive=True, wait=0):
            return False
        self._own[number] = lock
        return True

    def unregister_worker(self, number: int) -> None:
        """End the worker of this number: remove its files and release its lock."""
        lock = self._own.pop(number, None)
        if lock is not None:
            self._remove_files(number)
            lock.release()

    def try_exclusive_role(self) -> bool:
        """Try to get the exclusive role for tasks that only one worker does at a time; unregistering 0 ends it."""
        return self.register_worker(0)

    def get_lock_descriptor(self, number: int) -> int:
        """Return the lock descriptor of a worker of this process."""
        return self._own[number].fd

    def create_message_file(self, number: int, content: bytes) -> MessageFile:
        """Create a file for a command of this worker. Raises OSError."""
        self._messages += 1
        return MessageFile(self._directory.absolute() / f"{number}.message-{self._messages}", content)

    def is_alive(self, number: int) -> bool:
        """Return whether the worker of this number is alive. The files of a dead one are removed."""
        held = self._own.get(number)
        if held is not None and held.pid == os.getpid():
            return True
        if not self._build_path(number).exists():
            return False
        lock = FileLock(self._build_path(number), self._seam)
        try:
            if not lock.acquire(exclusive=True, wait=0):
                return True
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return self._is_held(lock)
        self._remove_files(number)
        lock.release()
        return False

    def _is_held(self, lock: FileLock) -> bool:
        """Return whether a worker holds its lock, without writing; True if the file is not readable."""
        try:
            if not lock.acquire(exclusive=False, wait=0):
                return True
        except OSError:
            return True
        lock.release()
        return False

    def remove_dead_files(self) -> None:
        """Remove the files of all dead workers, including those that no state file has."""
        if self._directory.is_dir():
            for path in list(self._directory.glob("*.lock")):
                if path.stem.isdecimal():
                    self.is_alive(int(path.stem))

    def _remove_files(self, number: int) -> None:
        # The lock file goes last: while it exists, another process will check here again.
        for path in self._directory.glob(f"{number}.message-*"):
            path.unlink(missing_ok=True)
        self._build_path(number).unlink(missing_ok=True)


class MessageFile:
    """A file with a message, for a command that requires a file name; removed by :meth:`close`."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.name = str(path)
        # Like temporary files: accessible only to this user.
        path.touch(0o600)
        path.write_bytes(content)

    def close(self) -> None:
        """Remove the file after the command has ended."""
        Path(self.name).unlink(missing_ok=True)

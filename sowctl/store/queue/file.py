"""The state file of a queue: opened, locked, made, one change after the other (``sow-queue(5)``, "Locks").

All processes take one flock(2) lock for a change, and no process reads without it. So LMDB needs no lock file of its
own, a new file can take the place of an old one by a rename, and a process that is killed leaves nothing to clear up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lmdb

from sowctl.breaks import unbroken
from sowctl.directories import make_directories
from sowctl.errors import DamageError, LockedError, StorageError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import explained, translate
from sowctl.store.opening.locks import FILE_MODE, FileLock
from sowctl.store.opening.pages import inspect
from sowctl.store.queue.rows import NAMES, Rows
from sowctl.store.queue.values import damaged
from sowctl.waiting import holders

_PAUSES = 0.0002, 0.01
"""Seconds between two attempts at the lock: a change takes some hundred microseconds."""
_ROOM = 64 << 20
"""Bytes that a change may add to the file; the map is made larger beforehand."""
_MAP = 256 << 20
_ATTEMPTS = 3
SYNCED = "synced"
"""What the lock file says where every change was synced."""


class QueueFile:
    """The file at ``path``. ``boot`` names the present start of the machine: no change is synced, and a file that was
    written since an earlier start is not used. Where it is None, each change is synced.

    ``lock_wait`` seconds; ``tell`` is told once of a long wait for the lock. For one thread.
    """

    def __init__(
        self, path: Path, seam: Seam, *, boot: str | None, lock_wait: float, tell: Callable[[str], None] | None = None
    ) -> None:
        self.path = path
        self.boot = boot
        self.lock_wait = lock_wait
        self._seam = seam
        self._tell = tell
        self._lock = FileLock(path.with_name(f"{path.name}-lock"), seam)
        self._env: lmdb.Environment | None = None
        self._databases: dict[str, Any] = {}
        self._identity: tuple[int, int] | None = None
        self._pid = 0
        self._mapped = 0
        self._size = 0
        self._housed = False

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    @contextmanager
    def change(self) -> Iterator[Rows]:
        """One change, or one look: written when the block ends without an error. A file is made where there is none.

        Raises LockedError ``SOW-QUE-010``, DamageError ``SOW-QUE-002``, VersionError, StorageError.
        """
        with unbroken(), self._locked():
            self._current()
            assert self._env is not None
            txn = self._begin()
            try:
                try:
                    rows = Rows(txn, self._databases, self._seam, str(self.path))
                    yield rows
                    rows.finish()
                    self._seam.call("lmdb.commit", txn.commit)
                except BaseException:
                    with suppress(lmdb.Error):
                        txn.abort()
                    raise
            except lmdb.Error as problem:
                # What LMDB keeps in memory after a failed commit is not to be trusted.
                self.close()
                raise self._explained(problem, "write to the queue") from problem

    def put_aside(self) -> Path | None:
        """Give a damaged file another name; the new name, None where there is no file."""
        with unbroken(), self._locked():
            if not self.path.exists():
                return None
            self.close()
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
                number += 1
            with explained(self.path, "put the file aside"):
                self._seam.call("file.rename", os.rename, self.path, aside)
            return aside

    def close(self) -> None:
        """Close the environment; the next change opens it again."""
        env, self._env, self._identity = self._env, None, None
        if env is not None and self._pid == os.getpid():
            env.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with explained(self.path, "lock the queue"):
            if not self._housed:
                make_directories(self.path.parent, self._seam)
                self._housed = True
            taken = self._lock.acquire(exclusive=True, wait=self.lock_wait, tell=self._waiting, pauses=_PAUSES)
        if not taken:
            raise LockedError(
                "SOW-QUE-010",
                f"the queue is in use by another process{self._who()}, for more than {self.lock_wait:g} s",
                place=str(self.path),
                hint="find out what it does; --lock-wait says how long to wait",
            )
        try:
            yield
        finally:
            self._lock.release()

    def _waiting(self) -> None:
        if self._tell is not None:
            self._tell(f"waiting for the queue, which is in use by another process{self._who()}")

    def _who(self) -> str:
        found = holders(self._lock.path)
        return f" ({', '.join(map(str, sorted(found)))})" if found else ""

    def _current(self) -> None:
        """Have the environment of the file that the path shows now; the lock is held."""
        with explained(self.path, "open the queue"):
            marked = self._mark()
            try:
                if marked not in (SYNCED, self.boot or SYNCED):
                    # LMDB without syncs is whole only as long as the machine runs; what it says then is not to be read.
                    self.path.unlink(missing_ok=True)
                now = self.path.stat()
            except FileNotFoundError:
                self.close()
                self._make()
                now = self.path.stat()
            self._size = now.st_size
            if self._env is not None and self._identity == (now.st_dev, now.st_ino) and self._pid == os.getpid():
                return
            self.close()
            try:
                # A file that was cut would end this process by SIGBUS.
                inspect(self.path, self._seam)
                self._env, self._databases = self._open(self.path)
            except DamageError as problem:
                raise damaged(problem.message, str(self.path)) from problem
            except lmdb.Error as problem:
                raise self._explained(problem, "open the queue") from problem
            self._identity, self._pid = (now.st_dev, now.st_ino), os.getpid()
            if marked != (self.boot or SYNCED):
                if self.boot is None:
                    self._seam.call("lmdb.sync", self._env.sync, True)
                self._remark()

    def _mark(self) -> str:
        """What the lock file says of the data file: that it is synced, or the start of the machine it was made in."""
        raw = os.pread(self._lock.fd, 100, 0)
        return raw.decode("ascii", "replace").strip() or SYNCED

    def _remark(self) -> None:
        # On disk before the first change that is not synced: a crash must not leave a mark that promises more.
        raw = (self.boot or SYNCED).encode()
        self._seam.call("file.truncate", os.ftruncate, self._lock.fd, 0)
        self._seam.call("file.pwrite", os.pwrite, self._lock.fd, raw, 0)
        self._seam.call("file.sync", os.fsync, self._lock.fd)

    def _make(self) -> None:
        """Make an empty file under another name first: one that is there is whole."""
        temporary = self.path.with_name(f"{self.path.name}.new")
        temporary.unlink(missing_ok=True)
        try:
            env, _ = self._open(temporary)
            self._seam.call("lmdb.sync", env.sync, True)
            env.close()
            self._seam.call("file.rename", os.rename, temporary, self.path)
        except lmdb.Error as problem:
            raise translate(problem, self.path, "make the queue's state file") from problem
        finally:
            temporary.unlink(missing_ok=True)

    def _open(self, path: Path) -> tuple[lmdb.Environment, dict[str, Any]]:
        size = path.stat().st_size if path.exists() else 0
        self._mapped = max(_MAP, 4 * size)
        env = self._seam.call(
            "lmdb.open",
            lmdb.open,
            str(path),
            subdir=False,
            lock=False,
            map_size=self._mapped,
            max_dbs=len(NAMES),
            mode=FILE_MODE,
            sync=self.boot is None,
            metasync=self.boot is None,
            readahead=False,
        )
        try:
            return env, {name: env.open_db(name.encode()) for name in NAMES}
        except BaseException:
            env.close()
            raise

    def _begin(self) -> lmdb.Transaction:
        assert self._env is not None
        for _ in range(_ATTEMPTS):
            # Others may have made the file larger than this process has mapped.
            if self._mapped < self._size + _ROOM:
                self._mapped = 2 * self._size + _MAP
                self._seam.call("lmdb.resize", self._env.set_mapsize, self._mapped)
            try:
                return self._seam.call("lmdb.begin", self._env.begin, write=True)
            except lmdb.MapResizedError:
                self._mapped, self._size = 0, self.path.stat().st_size
            except lmdb.Error as problem:
                raise self._explained(problem, "write to the queue") from problem
        raise StorageError("SOW-STO-043", "the map of the queue's state file is too small", place=str(self.path))

    def _explained(self, problem: lmdb.Error, action: str) -> Exception:
        found = translate(problem, self.path, action)
        return damaged(found.message, str(self.path)) if isinstance(found, DamageError) else found

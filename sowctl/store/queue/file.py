"""The state file of a queue: opening, locking, creating, one change after the other (``sow-queue(5)``, "Locks").

All processes hold one flock(2) lock for a change, and no process reads without it. So LMDB needs no lock file of its
own, a new file can replace an old one by a rename, and a killed process leaves nothing to clean up.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import lmdb
from msgspec import Struct

from sowctl.directories import FILE_MODE, make_directories
from sowctl.errors import DamageError, LockedError, StorageError
from sowctl.interrupts import without_interrupts
from sowctl.lockwait import find_lock_holders
from sowctl.seam import Seam
from sowctl.store.lmdberrors import build_store_error, translate_errors
from sowctl.store.opening.locks import FileLock
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.opening.proof.transaction import ProvenTransaction, begin_proven_transaction
from sowctl.store.opening.proof.tree import PageFile
from sowctl.store.queue.rows import DATABASE_NAMES, StateRows
from sowctl.store.queue.values import damaged_queue_error

_LOCK_PAUSE_SECONDS = 0.0002, 0.002
"""Seconds between two attempts to lock: a change takes some hundred microseconds."""
_CHANGE_ROOM_BYTES = 64 << 20
"""Bytes that a change may add to the file; the map is enlarged beforehand."""
_INITIAL_MAP_BYTES = 256 << 20
_ATTEMPTS = 3
_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SYNCED_MARK = "synced"
"""Mark in the lock file if every change was synced."""


class _SharedEnvironment(Struct, eq=False):
    """The environment of a file, of which LMDB allows one per process. All users in this process share it, one after
    the other, because each acquires the file's lock through its own descriptor. ``identity`` is device and inode of the
    file, ``synced``: LMDB syncs commits.
    """

    identity: tuple[int, int]
    env: lmdb.Environment
    pages: PageFile
    databases: dict[str, Any]
    mapped: int
    synced: bool
    pid: int
    users: int = 0
    closed: bool = False

    def serves(self, identity: tuple[int, int]) -> bool:
        """Return whether this process may use it for this file."""
        return not self.closed and self.identity == identity and self.pid == os.getpid()

    def close(self) -> None:
        """Close it for all users."""
        if not self.closed:
            self.closed = True
            # Also in a child process that inherited it: without LMDB's own locks, this does not affect the parent.
            self.env.close()
            self.pages.close()


_open_environments: dict[tuple[int, int], _SharedEnvironment] = {}
"""The open environments of this process, by device and inode of the lock file, which never changes."""
_guard = Lock()
_running_changes: dict[Path, int] = {}
"""Files whose lock this process holds, and its process id: a forked child does not hold them."""


def is_changed_here(path: Path) -> bool:
    """Return whether this process is changing the file, so that waiting for its lock would never end."""
    return _running_changes.get(path) == os.getpid()


def _release_environment(opened: _SharedEnvironment) -> None:
    """Release one user; the last one closes."""
    with _guard:
        opened.users -= 1
        if opened.users <= 0 or opened.closed:
            opened.close()
            for place in [place for place, one in _open_environments.items() if one is opened]:
                del _open_environments[place]


class QueueFile:
    """The file at ``path``. ``boot`` identifies the current boot of the machine: unless ``synced``, changes are not
    synced, and a file written this way before the current boot is not used. If it is None, each change is synced.

    ``lock_wait``: seconds; ``tell`` receives one message about a long wait for the lock. Not thread-safe.
    """

    def __init__(
        self,
        path: Path,
        seam: Seam,
        *,
        boot: str | None,
        lock_wait: float,
        synced: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.path = path
        self._place = path
        """The path in errors: for a copy, the path of the original."""
        self.synced = synced or boot is None
        self._boot = boot
        self.lock_wait = lock_wait
        self._seam = seam
        self._tell = tell
        self._lock = FileLock(path.with_name(f"{path.name}-lock"), seam)
        self._opened: _SharedEnvironment | None = None
        self._size = 0
        self._housed = False

    @property
    def exists(self) -> bool:
        """True if the file exists. Raises StorageError ``SOW-STO-041`` without permission to search its directory."""
        with translate_errors(self._place, "look for the queue"):
            return self.path.exists()

    @contextmanager
    def begin_change(self) -> Iterator[StateRows]:
        """Begin a change or a read; it is committed when the block ends without an error. Creates a missing file.

        Raises LockedError ``SOW-QUE-010``, DamageError ``SOW-QUE-002``, VersionError, StorageError.
        """
        with without_interrupts(), self._hold_lock():
            opened = self._current_environment()
            txn = self._begin_transaction(opened)
            try:
                try:
                    rows = StateRows(txn, opened.databases, self._seam, str(self._place))
                    yield rows
                    rows.finish()
                    self._seam.call("lmdb.commit", txn.commit)
                    # Another user of the file in this process may have opened the shared environment without syncs.
                    if self.synced and not opened.synced:
                        self._seam.call("lmdb.sync", opened.env.sync, True)
                except BaseException:
                    with suppress(lmdb.Error):
                        txn.abort()
                    raise
            except DamageError as problem:
                # Damage of the journal, perhaps, which is also read during a change.
                if not self._is_own(problem):
                    raise
                raise self._translate_errors(problem, "read the queue") from problem
            except lmdb.Error as problem:
                # LMDB's memory must not be trusted after a failed commit.
                opened.close()
                self.close()
                raise self._translate_errors(problem, "write to the queue") from problem

    @contextmanager
    def open_rows(self) -> Iterator[StateRows | None]:
        """Open the rows as of the last change, read-only; None without a usable file.

        Creates, writes and replaces nothing; read permission suffices. Raises as :meth:`begin_change`.
        """
        if not self.exists:
            yield None
            return
        # Exclusive, as LMDB opens a file once per process; processes with read permission only share the lock.
        alone = os.access(self._lock.path, os.W_OK)
        with (
            without_interrupts(),
            self._hold_lock(exclusive=alone),
            translate_errors(self._place, "read the queue"),
            ExitStack() as stack,
        ):
            if not self._is_usable(self._read_mark()):
                yield None
                return
            try:
                env, pages, databases = self._open_for_reading(stack)
                txn = begin_proven_transaction(partial(self._seam.call, "lmdb.begin", env.begin), pages, write=False)
                stack.callback(txn.abort)
                if databases is None:
                    databases = {name: txn.open(env, name.encode(), create=False) for name in DATABASE_NAMES}
                yield StateRows(txn, databases, self._seam, str(self._place))
            except DamageError as problem:
                if not self._is_own(problem):
                    raise
                raise self._translate_errors(problem, "read the queue") from problem
            except lmdb.Error as problem:
                raise self._translate_errors(problem, "read the queue") from problem

    def _is_own(self, problem: DamageError) -> bool:
        """Return whether this is damage of this file that does not have the code of queues yet."""
        return problem.code.startswith("SOW-STO") and problem.place == str(self.path)

    def _open_for_reading(self, stack: ExitStack) -> tuple[lmdb.Environment, PageFile, dict[str, Any] | None]:
        now, there = self.path.stat(), os.fstat(self._lock.fd)
        with _guard:
            found = _open_environments.get((there.st_dev, there.st_ino))
            if found is not None and found.serves((now.st_dev, now.st_ino)):
                found.users += 1
                stack.callback(_release_environment, found)
                return found.env, found.pages, found.databases
        newest = read_verified_meta(self.path, self._seam)
        mapped = max(_INITIAL_MAP_BYTES, 4 * now.st_size)
        env = self._seam.call(
            "lmdb.open",
            lmdb.open,
            os.fsencode(self.path),
            subdir=False,
            lock=False,
            readonly=True,
            map_size=mapped,
            max_dbs=len(DATABASE_NAMES),
            readahead=False,
        )
        stack.callback(env.close)
        pages = PageFile(self.path, newest.page_size, self._seam)
        stack.callback(pages.close)
        return env, pages, None

    @contextmanager
    def hold_unchanged(self) -> Iterator[bool]:
        """Keep the file unchanged, to copy it, without opening it; yields whether its content is usable.

        Raises LockedError ``SOW-QUE-010``, StorageError.
        """
        with without_interrupts(), self._hold_lock():
            yield self.path.exists() and self._is_usable(self._read_mark())

    def copy_into(self, directory: Path) -> QueueFile:
        """Copy the file to another directory, for a process without write permission: changes of the copy stay in the
        copy. The copy is empty without a usable file.

        The lock is shared, as by other readers. If the lock file is missing and cannot be created, no process changes
        the file. Raises LockedError ``SOW-QUE-010``, DamageError ``SOW-QUE-002``, StorageError.
        """
        copy = QueueFile(directory / self.path.name, self._seam, boot="copy", lock_wait=0.0)
        copy._place = self.path
        if not self.exists:
            return copy
        with without_interrupts(), ExitStack() as stack:
            if self._lock.path.exists():
                stack.enter_context(self._hold_lock(exclusive=False))
                if not self._is_usable(self._read_mark()):
                    return copy
            with translate_errors(self._place, "read the queue"):
                shutil.copyfile(self.path, copy.path)
        # A file without a mark counts as synced, as which this process has read it.
        copy.path.chmod(FILE_MODE)
        return copy

    def rename_damaged(self) -> Path | None:
        """Rename a damaged file; return the new name, None if the file does not exist."""
        with without_interrupts(), self._hold_lock():
            if not self.path.exists():
                return None
            self.close()
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
                number += 1
            with translate_errors(self._place, "put the file aside"):
                self._seam.call("file.rename", os.rename, self.path, aside)
            return aside

    def close(self) -> None:
        """Close the environment, unless other users in this process have it open; the next change opens it again."""
        opened, self._opened = self._opened, None
        if opened is not None:
            _release_environment(opened)

    @contextmanager
    def _hold_lock(self, *, exclusive: bool = True) -> Iterator[None]:
        with translate_errors(self._place, "lock the queue"):
            if exclusive and not self._housed:
                make_directories(self.path.parent, self._seam)
                self._housed = True
            taken = self._lock.acquire(
                exclusive=exclusive, wait=self.lock_wait, tell=self._describe_waiting, pauses=_LOCK_PAUSE_SECONDS
            )
        if not taken:
            raise LockedError(
                "SOW-QUE-010",
                f"the queue is in use by another process{self._describe_holder()}, for more than {self.lock_wait:g} s",
                place=str(self._place),
                hint="find out what it does; --lock-wait says how long to wait",
            )
        if exclusive:
            _running_changes[self.path] = os.getpid()
        try:
            yield
        finally:
            if exclusive:
                _running_changes.pop(self.path, None)
            self._lock.release()

    def _describe_waiting(self) -> None:
        self._notify_waiting(f"waiting for the queue, which is in use by another process{self._describe_holder()}")

    def _notify_waiting(self, words: str) -> None:
        if self._tell is not None:
            self._tell(words)

    def _describe_holder(self) -> str:
        found = find_lock_holders(self._lock.path)
        return f" ({', '.join(map(str, sorted(found)))})" if found else ""

    def _current_environment(self) -> _SharedEnvironment:
        """Return the environment of the current file at the path; the lock is held."""
        with translate_errors(self._place, "open the queue"):
            marked = self._read_mark()
            try:
                if not self._is_usable(marked):
                    # Without syncs an LMDB file is consistent only until the machine stops; afterwards it must not be
                    # read.
                    self.path.unlink(missing_ok=True)
                    self._notify_waiting(
                        "the machine was restarted after the last change; leases and counters are lost"
                    )
                now = self.path.stat()
            except FileNotFoundError:
                self.close()
                self._make_file()
                now = self.path.stat()
            self._size = now.st_size
            identity, mine = (now.st_dev, now.st_ino), self._opened
            if mine is not None and mine.serves(identity):
                return mine
            self.close()
            try:
                mine = self._attach_environment(identity)
            except (lmdb.Error, DamageError) as problem:
                raise self._translate_errors(problem, "open the queue") from problem
            self._opened = mine
            if marked != self._own_mark:
                if self.synced:
                    self._seam.call("lmdb.sync", mine.env.sync, True)
                self._rewrite_mark()
            return mine

    def _attach_environment(self, identity: tuple[int, int]) -> _SharedEnvironment:
        """Return the environment of this file in this process, opening it if necessary."""
        with _guard:
            there = os.fstat(self._lock.fd)
            found = _open_environments.get((there.st_dev, there.st_ino))
            if found is None or not found.serves(identity):
                if found is not None:
                    # Another file has replaced it: its other users will notice, too.
                    found.close()
                # A truncated file would kill this process by SIGBUS.
                read_verified_meta(self.path, self._seam)
                found = _open_environments[there.st_dev, there.st_ino] = self._open_environment(self.path)
            found.users += 1
            return found

    def _read_mark(self) -> str:
        """Read the data file's mark in the lock file: synced, or the boot in which it was written."""
        raw = os.pread(self._lock.fd, 100, 0)
        return raw.decode("ascii", "replace").strip() or SYNCED_MARK

    @property
    def _own_mark(self) -> str:
        return SYNCED_MARK if self.synced or self._boot is None else self._boot

    def _is_usable(self, mark: str) -> bool:
        """Return whether a file with this mark is consistent. Raises DamageError for an invalid mark."""
        if mark in (SYNCED_MARK, self._boot):
            return True
        if self.path.exists() and not _BOOT_ID.fullmatch(mark):
            raise damaged_queue_error("its lock file does not say how it was written", str(self._lock.path))
        return False

    def _rewrite_mark(self) -> None:
        # On disk before the first change without a sync: a crash must not leave a mark that promises too much.
        raw = self._own_mark.encode()
        self._seam.call("file.truncate", os.ftruncate, self._lock.fd, 0)
        self._seam.call("file.pwrite", os.pwrite, self._lock.fd, raw, 0)
        self._seam.call("file.sync", os.fsync, self._lock.fd)

    def _make_file(self) -> None:
        """Create an empty file under a temporary name first: an existing file is always complete."""
        temporary = self.path.with_name(f"{self.path.name}.new")
        temporary.unlink(missing_ok=True)
        try:
            opened = self._open_environment(temporary)
            self._seam.call("lmdb.sync", opened.env.sync, True)
            opened.close()
            # The directory is not synced: a state file lost in a crash is rebuilt from the journal.
            self._seam.call("file.rename", os.rename, temporary, self.path)
        except lmdb.Error as problem:
            raise build_store_error(problem, self._place, "make the queue's state file") from problem
        finally:
            temporary.unlink(missing_ok=True)

    def _open_environment(self, path: Path) -> _SharedEnvironment:
        size = path.stat().st_size if path.exists() else 0
        mapped = max(_INITIAL_MAP_BYTES, 4 * size)
        env = self._seam.call(
            "lmdb.open",
            lmdb.open,
            os.fsencode(path),
            subdir=False,
            lock=False,
            map_size=mapped,
            max_dbs=len(DATABASE_NAMES),
            mode=FILE_MODE,
            sync=self.synced,
            metasync=self.synced,
            readahead=False,
        )
        pages = None
        try:
            pages = PageFile(path, env.stat()["psize"], self._seam, place=self.path)
            databases = self._open_databases(env, pages, is_being_made=path != self.path)
            made = path.stat()
            return _SharedEnvironment(
                (made.st_dev, made.st_ino), env, pages, databases, mapped, self.synced, os.getpid()
            )
        except BaseException:
            if pages is not None:
                pages.close()
            env.close()
            raise

    def _open_databases(self, env: lmdb.Environment, pages: PageFile, *, is_being_made: bool) -> dict[str, Any]:
        """Open the databases, and create those of a new file. Raises DamageError if one is missing."""
        txn = begin_proven_transaction(partial(env.begin, write=True), pages, write=True)
        try:
            missing = {name.encode() for name in DATABASE_NAMES}.difference(txn.names)
            # A file gets its name only when it has all of them.
            if missing and (txn.names or not is_being_made):
                raise damaged_queue_error("a database is missing", str(self._place))
            databases = {name: txn.open(env, name.encode(), create=True) for name in DATABASE_NAMES}
            txn.commit()
            return databases
        finally:
            txn.abort()

    def _begin_transaction(self, opened: _SharedEnvironment) -> ProvenTransaction:
        for _ in range(_ATTEMPTS):
            # Other processes may have grown the file beyond the map of this process.
            if opened.mapped < self._size + _CHANGE_ROOM_BYTES:
                opened.mapped = 2 * self._size + _INITIAL_MAP_BYTES
                self._seam.call("lmdb.resize", opened.env.set_mapsize, opened.mapped)
            try:
                begin = partial(self._seam.call, "lmdb.begin", opened.env.begin, write=True)
                return begin_proven_transaction(begin, opened.pages, write=True)
            except lmdb.MapResizedError:
                opened.mapped, self._size = 0, self.path.stat().st_size
            except (lmdb.Error, DamageError) as problem:
                raise self._translate_errors(problem, "write to the queue") from problem
        raise StorageError("SOW-STO-043", "the map of the queue's state file is too small", place=str(self._place))

    def _translate_errors(self, problem: lmdb.Error | DamageError, action: str) -> Exception:
        found = build_store_error(problem, self._place, action)
        if not isinstance(found, DamageError) or found.code.startswith("SOW-QUE"):
            return found
        return damaged_queue_error(found.message, str(self._place))

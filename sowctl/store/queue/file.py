"""The state file of a queue: opened, locked, made, one change after the other (``sow-queue(5)``, "Locks").

All processes take one flock(2) lock for a change, and no process reads without it. So LMDB needs no lock file of its
own, a new file can take the place of an old one by a rename, and a process that is killed leaves nothing to clear up.
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
"""Seconds between two attempts at the lock: a change takes some hundred microseconds."""
_CHANGE_ROOM_BYTES = 64 << 20
"""Bytes that a change may add to the file; the map is made larger beforehand."""
_INITIAL_MAP_BYTES = 256 << 20
_ATTEMPTS = 3
_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SYNCED_MARK = "synced"
"""What the lock file says where every change was synced."""


class _SharedEnvironment(Struct, eq=False):
    """The environment of a file, of which LMDB allows one in a process. All who have the file open in this process use
    it, one after the other, as each takes the file's lock by a descriptor of its own. ``identity`` is device and inode
    of the file, ``synced``: LMDB syncs commits.
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
        """Close it for everybody."""
        if not self.closed:
            self.closed = True
            # Also in a child that inherited it: without LMDB's own locks there is nothing that its parent would miss.
            self.env.close()
            self.pages.close()


_open_environments: dict[tuple[int, int], _SharedEnvironment] = {}
"""What is open in this process, by device and inode of the lock file, which is never another one."""
_guard = Lock()
_running_changes: dict[Path, int] = {}
"""Files whose lock this process holds, and its number: a forked child does not hold them."""


def is_changed_here(path: Path) -> bool:
    """Return whether this process is changing the file, so that waiting for its lock would not end."""
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
    """The file at ``path``. ``boot`` names the present start of the machine: unless ``synced``, changes are not synced,
    and a file that was written so since an earlier start is not used. Where it is None, each change is synced.

    ``lock_wait`` seconds; ``tell`` is told once of a long wait for the lock. For one thread.
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
        """What errors name: of a copy, the file that it was made of."""
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
        """True if there is a file. Raises StorageError ``SOW-STO-041`` where its directory may not be looked into."""
        with translate_errors(self._place, "look for the queue"):
            return self.path.exists()

    @contextmanager
    def begin_change(self) -> Iterator[StateRows]:
        """One change, or one look: written when the block ends without an error. A file is made where there is none.

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
                # Of the journal, perhaps, which is read in a change, too.
                if not self._is_own(problem):
                    raise
                raise self._translate_errors(problem, "read the queue") from problem
            except lmdb.Error as problem:
                # What LMDB keeps in memory after a failed commit is not to be trusted.
                opened.close()
                self.close()
                raise self._translate_errors(problem, "write to the queue") from problem

    @contextmanager
    def open_rows(self) -> Iterator[StateRows | None]:
        """The rows as the last change left them, for reading alone; None where there is no file that may be used.

        Nothing is made, written or replaced; who may only read the files may look. Raises as :meth:`begin_change`.
        """
        if not self.exists:
            yield None
            return
        # Alone, as LMDB opens a file once in a process; who may only read shares it with others of that kind.
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
        """Return whether it is damage of this file that does not have the code of queues yet."""
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
        """Keep the file from changing, to copy it, without opening it; whether its content may be used.

        Raises LockedError ``SOW-QUE-010``, StorageError.
        """
        with without_interrupts(), self._hold_lock():
            yield self.path.exists() and self._is_usable(self._read_mark())

    def copy_into(self, directory: Path) -> QueueFile:
        """A copy of the file in another directory, for a process that may not write it: changes of the copy are its
        own. Empty where there is no file that may be used.

        The lock is shared, as another user takes it. Without a lock file, where none can be made, no process changes
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
        # A file without a mark is taken for one that was synced, which is what this process has read.
        copy.path.chmod(FILE_MODE)
        return copy

    def rename_damaged(self) -> Path | None:
        """Give a damaged file another name; the new name, None where there is no file."""
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
        """Close the environment, unless others of this process use it; the next change opens it again."""
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
        """The environment of the file that the path shows now; the lock is held."""
        with translate_errors(self._place, "open the queue"):
            marked = self._read_mark()
            try:
                if not self._is_usable(marked):
                    # LMDB without syncs is whole only as long as the machine runs; what it says then is not to be read.
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
        """The environment of this file in this process, opened unless it is."""
        with _guard:
            there = os.fstat(self._lock.fd)
            found = _open_environments.get((there.st_dev, there.st_ino))
            if found is None or not found.serves(identity):
                if found is not None:
                    # Another file has taken its place: whoever still has it opened finds that out, too.
                    found.close()
                # A file that was cut would end this process by SIGBUS.
                read_verified_meta(self.path, self._seam)
                found = _open_environments[there.st_dev, there.st_ino] = self._open_environment(self.path)
            found.users += 1
            return found

    def _read_mark(self) -> str:
        """Read the data file's mark in the lock file: that it is synced, or the machine start it was made in."""
        raw = os.pread(self._lock.fd, 100, 0)
        return raw.decode("ascii", "replace").strip() or SYNCED_MARK

    @property
    def _own_mark(self) -> str:
        return SYNCED_MARK if self.synced or self._boot is None else self._boot

    def _is_usable(self, mark: str) -> bool:
        """Return whether a file with this mark is whole. Raises DamageError for a mark that is none."""
        if mark in (SYNCED_MARK, self._boot):
            return True
        if self.path.exists() and not _BOOT_ID.fullmatch(mark):
            raise damaged_queue_error("its lock file does not say how it was written", str(self._lock.path))
        return False

    def _rewrite_mark(self) -> None:
        # On disk before the first change that is not synced: a crash must not leave a mark that promises more.
        raw = self._own_mark.encode()
        self._seam.call("file.truncate", os.ftruncate, self._lock.fd, 0)
        self._seam.call("file.pwrite", os.pwrite, self._lock.fd, raw, 0)
        self._seam.call("file.sync", os.fsync, self._lock.fd)

    def _make_file(self) -> None:
        """Make an empty file under another name first: one that is there is whole."""
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
        """Open the databases, and make those of a new file. Raises DamageError where one is missing."""
        txn = begin_proven_transaction(partial(env.begin, write=True), pages, write=True)
        try:
            missing = {name.encode() for name in DATABASE_NAMES}.difference(txn.names)
            # A file gets its name when it has all of them.
            if missing and (txn.names or not is_being_made):
                raise damaged_queue_error("a database is missing", str(self._place))
            databases = {name: txn.open(env, name.encode(), create=True) for name in DATABASE_NAMES}
            txn.commit()
            return databases
        finally:
            txn.abort()

    def _begin_transaction(self, opened: _SharedEnvironment) -> ProvenTransaction:
        for _ in range(_ATTEMPTS):
            # Others may have made the file larger than this process has mapped.
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

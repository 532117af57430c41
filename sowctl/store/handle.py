"""One open LMDB environment and the rules for opening, growing and closing it (``sow-store(5)``).

Called by ``env`` and ``replace`` only. A handle knows which files it opened, how many transactions of this process run
in it, and that it must not be used after a fork.
"""

from __future__ import annotations

import os
import time
from _thread import RLock
from pathlib import Path
from typing import Any

import lmdb

from sowctl.errors import DamageError, RefusedError, SowError, StorageError
from sowctl.plain import dataclass
from sowctl.seam import Seam
from sowctl.store.locks import FILE_MODE, Files, Gate, record_inode, recorded_inode
from sowctl.store.pages import inspect
from sowctl.store.trouble import explained, missing, translate

DEFAULT_MAP = 16 << 20
READER_MAP = 1 << 20
MAP_UNIT = 1 << 16
MAX_READERS = 254
MAX_DATABASES = 32
RECORDS = b"records"
NAMES = (b"meta", RECORDS, b"history", b"expiry")
CHANGES = b"changes"
"""The sub-database that stores made before it was thought of do not have, until they are built anew."""
_OPEN_ATTEMPTS = 5
_OPEN_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Databases:
    """LMDB's handles of the sub-databases."""

    meta: Any
    records: Any
    history: Any
    expiry: Any
    changes: Any = None


@dataclass(frozen=True, slots=True)
class Identity:
    """The inodes behind a handle; when the path shows others, the store was replaced."""

    data: int
    lock: int


class Handle:
    """An open environment. ``users`` counts its running read transactions, ``sharers`` the stores that have it open."""

    def __init__(self, files: Files, env: Any, databases: Databases, identity: Identity, seam: Seam) -> None:
        self.files = files
        self.env = env
        self.databases = databases
        self.identity = identity
        self.seam = seam
        self.writable = False
        self.users = 0
        self.sharers = 1
        self.retired = False
        self._mutex = RLock()
        self.pid = os.getpid()

    def check_process(self) -> None:
        """Refuse to work in a forked child: LMDB's locks did not come along. Raises RefusedError SOW-STO-027."""
        if self.pid != os.getpid():
            raise RefusedError("SOW-STO-027", "a store handle does not survive a fork", place=str(self.files.path))

    def begin(self, *, write: bool) -> Any:
        """Begin a transaction; follows a map that another process made larger."""
        self.check_process()
        while True:
            try:
                with explained(self.files.path, "begin a transaction"):
                    return self.seam.call("lmdb.begin", self.env.begin, write=write)
            except lmdb.MapResizedError:
                self.resize(0)

    def begin_reading(self) -> Any:
        """Begin a read transaction, which counts until :meth:`release`. Raises as :meth:`begin`."""
        with self._mutex:
            txn = self.begin(write=False)
            self.users += 1
            return txn

    def map_size(self) -> int:
        """The size of the map in bytes."""
        return int(self.env.info()["map_size"])

    def resize(self, size: int) -> None:
        """Set the map's size (0: what the file asks for).

        Raises RefusedError SOW-STO-028 while a snapshot of this process is open, StorageError SOW-STO-043 when there
        is no address space; the environment is closed then, because LMDB leaves it without a map.
        """
        if self.users:
            raise RefusedError(
                "SOW-STO-028",
                "the map must grow while a snapshot of this process is open",
                place=str(self.files.path),
                hint="read the result to its end, or close it, before writing",
            )
        try:
            with explained(self.files.path, "enlarge the map"):
                self.seam.call("lmdb.resize", self.env.set_mapsize, _rounded(size))
        except SowError:
            self.retired = True
            self.close()
            raise

    def last_txnid(self) -> int:
        """The number of the last committed LMDB transaction."""
        return int(self.env.info()["last_txnid"])

    def release(self) -> None:
        """One read transaction less; the last one closes a retired environment."""
        with self._mutex:
            self.users -= 1
            if self.retired and self.users == 0:
                self.close()

    def retire(self) -> None:
        """Close as soon as nobody reads."""
        with self._mutex:
            self.retired = True
            if self.users == 0:
                self.close()

    def revive(self) -> bool:
        """Do not close after all; False where that has happened."""
        with self._mutex:
            if self.env is not None:
                self.retired = False
            return self.env is not None

    def close(self) -> None:
        """Close the environment; in a forked child it is only forgotten."""
        env, self.env = self.env, None
        if env is not None and self.pid == os.getpid():
            env.close()


def _rounded(size: int) -> int:
    return -(-size // MAP_UNIT) * MAP_UNIT


@dataclass(frozen=True, slots=True)
class Mode:
    """How a store is opened."""

    write: bool
    durable: bool
    no_lock: bool
    lock_wait: float


def current_identity(files: Files, no_lock: bool) -> Identity | None:
    """The inodes that the path shows now; None when there is no data file."""
    try:
        data = files.path.stat().st_ino
    except FileNotFoundError:
        return None
    if no_lock:
        return Identity(data, 0)
    try:
        return Identity(data, files.lock.stat().st_ino)
    except FileNotFoundError:
        return Identity(data, 0)


def open_handle(files: Files, mode: Mode, seam: Seam) -> Handle:
    """Open the store through its gate, completing a replacement that was interrupted.

    To open for writing the caller holds the writer lock. Raises MissingError, DamageError, StorageError, LockedError,
    RefusedError SOW-STO-027 (open already in this process).
    """
    with explained(files.path, "open the store"):
        if not files.path.exists():
            raise missing(files.path)
        if mode.no_lock or _read_only_system(files.directory):
            return _open(files, mode, seam)
    gate = Gate(files, seam, mode.lock_wait)
    for _ in range(_OPEN_ATTEMPTS):
        with gate.held(exclusive=False) as lock, explained(files.path, "open the store"):
            if recorded_inode(lock) == files.path.stat().st_ino:
                return _open(files, mode, seam)
        with gate.held(exclusive=True) as lock, explained(files.path, "complete a replacement"):
            settle(files, lock, seam)
    raise StorageError("SOW-STO-042", "the store is replaced again and again", place=str(files.path))


def settle(files: Files, lock: Any, seam: Seam) -> None:
    """With the gate held exclusively: part the data file from an LMDB lock file that belonged to another one."""
    inode = files.path.stat().st_ino
    if recorded_inode(lock) == inode:
        return
    if files.lock.exists():
        seam.call("file.unlink", os.unlink, files.lock)
    record_inode(lock, inode, seam)


def _read_only_system(directory: Path) -> bool:
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


def _open(files: Files, mode: Mode, seam: Seam) -> Handle:
    for attempt in range(_OPEN_ATTEMPTS):
        needed = inspect(files.path, seam).needed
        try:
            env = open_environment(files.path, needed, mode, seam)
            break
        except (lmdb.Error, OSError) as problem:
            if "already open in this process" in str(problem):
                raise RefusedError(
                    "SOW-STO-027",
                    "the store is open already in this process",
                    place=str(files.path),
                    hint="read the result of a query to its end, or close it, before writing to its topic",
                ) from problem
            # LMDB documents that opening may fail while another process opens or closes at the same instant
            if isinstance(problem, OSError) or attempt == _OPEN_ATTEMPTS - 1 or not _passing(problem):
                raise translate(problem, files.path, "open the store") from problem
            time.sleep(_OPEN_PAUSE)
    try:
        databases = open_databases(env, files.path, write=mode.write)
        if mode.write:
            env.reader_check()
    except BaseException:
        env.close()
        raise
    identity = current_identity(files, mode.no_lock)
    handle = Handle(files, env, databases, identity or Identity(0, 0), seam)
    handle.writable = mode.write
    return handle


def _passing(problem: lmdb.Error) -> bool:
    return not isinstance(problem, (lmdb.VersionMismatchError, lmdb.MemoryError))


def open_environment(path: Path, needed: int, mode: Mode, seam: Seam) -> Any:
    """``lmdb.open`` with the flags of this format; a smaller map where address space is short."""
    wanted = max(DEFAULT_MAP, 2 * needed) if mode.write else max(READER_MAP, 2 * needed)
    options: dict[str, Any] = {
        "subdir": False,
        "readonly": not mode.write,
        "metasync": mode.durable,
        "mode": FILE_MODE,
        "max_dbs": MAX_DATABASES,
        "max_readers": MAX_READERS,
        "lock": not mode.no_lock,
    }
    try:
        return seam.call("lmdb.open", lmdb.open, str(path), map_size=_rounded(wanted), **options)
    except (lmdb.MemoryError, MemoryError):
        return seam.call("lmdb.open", lmdb.open, str(path), map_size=_rounded(needed), **options)


def open_databases(env: Any, path: Path, *, write: bool) -> Databases:
    """Open the sub-databases of an existing store. Raises DamageError SOW-STO-010, SOW-STO-023.

    py-lmdb keeps handles opened in a read transaction of a writable environment for that transaction only, so there
    it takes an (empty) write transaction; whoever opens to write holds the writer lock and so never waits for LMDB's.
    """
    with explained(path, "open the store"):
        txn = env.begin(write=True) if write else None
        try:
            found = [env.open_db(name, txn=txn, create=False) for name in NAMES]
            found.append(_open_changes(env, txn))
            if any(any(database.flags().values()) for database in found if database is not None):
                raise DamageError("SOW-STO-023", "LMDB's description of a sub-database is damaged", place=str(path))
            if txn is not None:
                txn.commit()
        except lmdb.NotFoundError as problem:
            raise DamageError(
                "SOW-STO-010", "this LMDB file is not a SOW file: a sub-database is missing", place=str(path)
            ) from problem
        finally:
            if txn is not None:
                txn.abort()
    return Databases(*found)


def _open_changes(env: Any, txn: Any) -> Any:
    try:
        return env.open_db(CHANGES, txn=txn, create=False)
    except lmdb.NotFoundError:
        return None


def create_databases(env: Any, txn: Any) -> Databases:
    """Make the sub-databases of a new store within ``txn``."""
    return Databases(*(env.open_db(name, txn=txn) for name in (*NAMES, CHANGES)))

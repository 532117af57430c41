"""Opening the LMDB environment of a store: through its gate, with its sub-databases (``sow-store(5)``).

Called by ``current_handle``, ``shared_environments``, the store's ``examine`` and ``builder``. Completes an interrupted
replacement; :mod:`sowctl.store.opening.handle` describes an open environment.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
from msgspec import Struct

from sowctl.directories import FILE_MODE
from sowctl.errors import DamageError, RefusedError, StorageError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import build_store_error, missing_store_error, translate_errors
from sowctl.store.opening.access import (
    DAMAGED_SUFFIX,
    REPLACED_SUFFIX,
    StoreFiles,
    can_discard_lock,
    can_hold_gate,
    can_lock,
)
from sowctl.store.opening.handle import Databases, FileIdentity, Handle, read_identity, round_map_size
from sowctl.store.opening.locks import Gate, read_gate_inode, write_gate_inode
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.opening.proof.transaction import ProvenTransaction, begin_proven_transaction
from sowctl.store.opening.proof.tree import PageFile
from sowctl.store.opening.unlocked_watch import StateWatch

# A map reserves address space, not memory. Readers begin small, because a limit on address space (ulimit -v) affects
# many readers at once.
MIN_WRITER_MAP_BYTES = 16 << 20
MIN_READER_MAP_BYTES = 1 << 20
MAX_READERS = 254
MAX_DATABASES = 32
RECORDS_DATABASE = b"records"
DATABASE_NAMES = (b"meta", RECORDS_DATABASE, b"history", b"expiry")
CHANGES_DATABASE = b"changes"
"""The sub-database that stores written by older releases lack until they are rebuilt."""
# Opening fails briefly while another process opens or closes, or replaces the file: number of attempts.
_OPEN_ATTEMPTS = 5
_OPEN_PAUSE_SECONDS = 0.02


class OpenMode(Struct, frozen=True):
    """The mode in which a store is opened."""

    write: bool
    durable: bool
    no_lock: bool
    lock_wait: float


def open_handle(files: StoreFiles, mode: OpenMode, seam: Seam) -> Handle:
    """Open the store through its gate, completing an interrupted replacement.

    To open for writing the caller holds the writer lock. A reader without permission for the locks reads without them;
    then its handle has a ``watch``. Raises MissingError, DamageError, StorageError, LockedError, RefusedError
    SOW-STO-027 (already open in this process).
    """
    with translate_errors(files.path, "open the store"):
        if not files.path.exists():
            raise missing_store_error(files.path)
    # A reader that cannot write to the lock table cannot protect its pages; it verifies after reading instead
    # (unlocked).
    if mode.no_lock or not (mode.write or can_lock(files)):
        return _open_environment(files, mode, seam, locks=False)
    gate = Gate(files, seam, mode.lock_wait)
    # The first process that opens a store creates the table in LMDB's lock file. Processes open it one by one: if the
    # first is killed meanwhile, no other process waits within LMDB and adopts an incomplete table; the next one creates
    # it again. A reader that cannot write to the gate shares it.
    alone = can_hold_gate(files)
    for _ in range(_OPEN_ATTEMPTS):
        with gate.hold(exclusive=alone) as lock, translate_errors(files.path, "open the store"):
            # While the gate is held the file cannot be replaced. The gate names the data file to which LMDB's lock file
            # belongs; only a matching pair may be opened.
            if read_gate_inode(lock) == files.path.stat().st_ino:
                return _open_environment(files, mode, seam)
        if not mode.write and not can_discard_lock(files):
            # The lock file belongs to another data file, and this process cannot discard it: it reads without locks.
            return _open_environment(files, mode, seam, locks=False)
        # They do not match: a replacement was interrupted, or the file was copied or restored. One process corrects
        # this, then all try again.
        with gate.hold(exclusive=True) as lock, translate_errors(files.path, "complete a replacement"):
            discard_foreign_lock(files, lock, seam)
    raise StorageError("SOW-STO-042", "the store is being replaced repeatedly", place=str(files.path))


def require_single_name(files: StoreFiles) -> None:
    """Refuse to write to a data file that has several names. Raises RefusedError SOW-STO-062, StorageError.

    The locks of a store are named after its file: through two hard links two writers would change one file at once. And
    a link is no copy: LMDB writes into the file, so a "backup" that is a hard link changes with it.
    """
    with translate_errors(files.path, "open the store"):
        names = files.path.stat().st_nlink
        if names > 1:  # a file that a rebuild keeps aside has a second name until the new store replaces it
            kept = (files.path.name + DAMAGED_SUFFIX, files.path.name + REPLACED_SUFFIX)
            aside = (one for one in files.directory.iterdir() if one.name.startswith(kept))
            names -= sum(one.samefile(files.path) for one in aside)
    if names > 1:
        raise RefusedError(
            "SOW-STO-062",
            f"the file has {names} names (hard links): locks do not apply to writers that use "
            "another name, and every write changes all of them",
            place=str(files.path),
            hint=f"'find DIR -samefile {files.path.name}' finds the other names: replace them with "
            "copies; a hard link is not a backup",
            names=names,
        )


def discard_foreign_lock(files: StoreFiles, lock: Any, seam: Seam) -> None:
    """With the gate held exclusively: separate the data file from an LMDB lock file that belonged to another one."""
    inode = files.path.stat().st_ino
    # Another process may have corrected it between the two locks.
    if read_gate_inode(lock) == inode:
        return
    # Order: the lock file is removed first, the gate is written last. If the process dies in between, the next one
    # repeats this.
    if files.lock.exists():
        seam.call("file.unlink", os.unlink, files.lock)
    write_gate_inode(lock, inode, seam)


def _open_environment(files: StoreFiles, mode: OpenMode, seam: Seam, *, locks: bool = True) -> Handle:
    for attempt in range(_OPEN_ATTEMPTS):
        # Before LMDB maps the file: a file shorter than its last page would kill this process by SIGBUS.
        newest = read_verified_meta(files.path, seam)
        if mode.write:
            require_single_name(files)
        watch = env = pages = None
        try:
            if not locks:
                watch = StateWatch(files, seam)
            pages = PageFile(files.path, newest.page_size, seam)
            env = open_environment(files.path, newest.required_bytes, mode, seam, locks=locks)
            # The store has a transaction (txnid is not 0) but the table names none: a writer would restart counting,
            # and assign transaction numbers twice.
            if locks and mode.write and newest.txnid and not _is_table_finished(env):
                # After the last process closes the store, the next one that opens it creates the table again.
                _close_parts(env, watch, pages)
                if attempt == _OPEN_ATTEMPTS - 1:
                    raise _unfinished_error(files.path)
                time.sleep(_OPEN_PAUSE_SECONDS)
                continue
            # The environment and the files read beside it were opened by name, one after the other: they are the same
            # file only if the name still shows it.
            inode = files.path.stat().st_ino
            if pages.inode == inode and (watch is None or watch.read_inode() == inode):
                break
            _close_parts(env, watch, pages)  # replaced between the two, and it is unknown which of them was opened
        except BaseException as problem:
            # Opened parts are closed on any error: a process opens a store once, and its next attempt would be
            # rejected.
            _close_parts(env, watch, pages)
            if not isinstance(problem, (lmdb.Error, OSError)):
                raise
            # py-lmdb has no class for this error.
            if "already open in this process" in str(problem):
                raise RefusedError(
                    "SOW-STO-027",
                    "the store is already open in this process",
                    place=str(files.path),
                    hint="read the result of a query completely, or close it, before writing to its topic",
                ) from problem
            # LMDB documents that opening may fail while another process opens or closes at the same instant
            if isinstance(problem, OSError) or attempt == _OPEN_ATTEMPTS - 1 or not _is_transient(problem):
                raise build_store_error(problem, files.path, "open the store") from problem
            time.sleep(_OPEN_PAUSE_SECONDS)
    else:
        raise StorageError("SOW-STO-042", "the store is being replaced repeatedly", place=str(files.path))
    try:
        databases = open_databases(env, pages, write=mode.write)
        # Slots of dead readers keep old pages from being reused: a writer clears them.
        if mode.write:
            env.reader_check()
        identity = read_identity(files, mode.no_lock)
    except BaseException:
        _close_parts(env, watch, pages)
        raise
    handle = Handle(files, env, pages, databases, identity or FileIdentity(0, 0), seam)
    handle.writable = mode.write
    handle.watch = watch
    return handle


def _close_parts(*parts: Any) -> None:
    for part in parts:
        if part is not None:
            part.close()


def _is_table_finished(env: Any) -> bool:
    """Return whether LMDB's lock file names a committed transaction.

    The first process that opens a store creates the table in its lock file, and enters the last transaction at the end.
    If it is killed in between, a process that waits within LMDB adopts the table as it is, with transaction 0, from
    which a writer would continue counting. The gate keeps processes of this program from waiting there; other programs
    do not use the gate. Readers are not affected: LMDB has them read the last transaction then.
    """
    with env.begin() as txn:
        return bool(txn.id())


def _unfinished_error(path: Path) -> StorageError:
    return StorageError(
        "SOW-STO-045",
        "the lock file of the store is incomplete, because its process was killed, and other processes use it",
        place=str(path),
        hint=f"end the processes that have the store open ('fuser {path.name}' lists them), then try again",
    )


def _is_transient(problem: lmdb.Error) -> bool:
    return not isinstance(problem, (lmdb.VersionMismatchError, lmdb.MemoryError))


def open_environment(path: Path, needed: int, mode: OpenMode, seam: Seam, *, locks: bool) -> Any:
    """Call ``lmdb.open`` with the flags of this format; with a smaller map if address space is short."""
    wanted = max(MIN_WRITER_MAP_BYTES, 2 * needed) if mode.write else max(MIN_READER_MAP_BYTES, 2 * needed)
    options: dict[str, Any] = {
        "subdir": False,
        "readonly": not mode.write,
        "metasync": mode.durable,
        "mode": FILE_MODE,
        "max_dbs": MAX_DATABASES,
        "max_readers": MAX_READERS,
        "lock": locks,
    }
    try:
        return seam.call("lmdb.open", lmdb.open, os.fsencode(path), map_size=round_map_size(wanted), **options)
    # Twice the size leaves room to grow; if address space is short, the required size must suffice.
    except (lmdb.MemoryError, MemoryError):
        return seam.call("lmdb.open", lmdb.open, os.fsencode(path), map_size=round_map_size(needed), **options)


def open_databases(env: Any, pages: PageFile, *, write: bool) -> Databases:
    """Open the sub-databases of an existing store. Raises DamageError SOW-STO-010, SOW-STO-023.

    In a writable environment, py-lmdb keeps handles opened in a read transaction only for that transaction, so an
    (empty) write transaction is used there. The writer lock is held then, so it never waits for LMDB's own lock.
    """
    with translate_errors(pages.path, "open the store"):
        txn = begin_proven_transaction(partial(env.begin, write=write), pages, write=write)
        try:
            if not set(DATABASE_NAMES) <= set(txn.names):
                raise DamageError(
                    "SOW-STO-010",
                    "the file is an LMDB file, but not a SOW file: a sub-database is missing",
                    place=str(pages.path),
                )
            found = [_open_database(env, txn, pages, name, write=write) for name in (*DATABASE_NAMES, CHANGES_DATABASE)]
            if write:
                txn.commit()
        finally:
            txn.abort()
    return Databases(*found)


def _open_database(env: Any, txn: ProvenTransaction, pages: PageFile, name: bytes, *, write: bool) -> Any:
    if name not in txn.names:
        return None
    database = txn.open(env, name, create=False) if write else env.open_db(name, create=False)
    pages.names[database] = name
    return database


def create_databases(env: Any, txn: ProvenTransaction) -> Databases:
    """Create the sub-databases of a new store within ``txn``."""
    return Databases(*(txn.open(env, name, create=True) for name in (*DATABASE_NAMES, CHANGES_DATABASE)))

"""Building a store under a temporary name and installing it (``sow-store(5)``, "Replacing a store").

Used by replay, compaction, snapshots and creation. The new store is invisible until :meth:`StoreBuilder.install`; a
builder that dies leaves a file that the next one removes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EXDEV
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import lmdb

from sowctl.directories import FILE_MODE, make_directories, sync_directory
from sowctl.errors import DamageError, RefusedError, VersionError
from sowctl.seam import SEAM, Seam
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.meta import NO_LINEAGE, Definition, StoreMeta, decode_meta
from sowctl.store.opening.access import require_regular_file
from sowctl.store.opening.environment import MAX_DATABASES, MIN_WRITER_MAP_BYTES, create_databases
from sowctl.store.opening.handle import FileIdentity, Handle
from sowctl.store.opening.locks import Gate, StoreFiles, WriterLock, write_gate_inode
from sowctl.store.opening.meta_pages import read_present_meta_record
from sowctl.store.opening.proof.transaction import begin_proven_transaction
from sowctl.store.opening.proof.tree import PageFile
from sowctl.store.write import WriteTxn

# Limits the memory of a build; larger transactions are hardly faster, because appended pages are written once in any
# case.
FLUSH_BYTES = 16 << 20
"""Records are collected up to this size and then appended in one transaction."""
_numbers = count()


class StoreBuilder:
    """A store under construction. Created by :func:`build_store`; keys must be appended in ascending order."""

    def __init__(self, files: StoreFiles, meta: StoreMeta, seam: Seam, command: str) -> None:
        self.files = files
        self.seam = seam
        self.command = command
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._versions: list[tuple[bytes, bytes]] = []
        self._pending = 0
        self._handle: Handle | None = None
        self._meta = meta
        # Checked before anything is created: otherwise only the rename would detect a directory or a device at this
        # path.
        require_regular_file(files.path)
        with translate_errors(files.path, "build a store"):
            make_directories(files.directory, seam)
            _remove_stale(files)
            # The descriptor stays open and locked until the end: it shows other builders that this one is alive.
            self.path, self._guard = _temporary_file(files, seam)
            try:
                self._handle = self._open_file(meta)
            except BaseException:
                self.discard()
                raise

    @property
    def meta(self) -> StoreMeta:
        """Definition and state as of the last flush."""
        return self._meta

    def _open_file(self, meta: StoreMeta | None) -> Handle:
        """Open the file under construction; ``meta`` is that of a new one, None for one with content."""
        # No lock file and no sync per commit: only this process knows the name of the file, and it is synced once,
        # before it gets its real name.
        options: dict[str, Any] = {"subdir": False, "lock": False, "sync": False, "mode": FILE_MODE}
        env = self.seam.call(
            "lmdb.open",
            lmdb.open,
            os.fsencode(self.path),
            map_size=MIN_WRITER_MAP_BYTES,
            max_dbs=MAX_DATABASES,
            **options,
        )
        txn = pages = None
        try:
            pages = PageFile(self.path, env.stat()["psize"], self.seam, place=self.files.path)
            begin = partial(self.seam.call, "lmdb.begin", env.begin, write=True)
            txn = begin_proven_transaction(begin, pages, write=True)
            databases = create_databases(env, txn)
            handle = Handle(self.files, env, pages, databases, FileIdentity(0, 0), self.seam)
            if meta is not None:
                WriteTxn.create(handle, txn, meta)
            else:
                self._meta = WriteTxn(handle, txn).meta
            self.seam.call("lmdb.commit", txn.commit)
        except BaseException:
            if txn is not None:
                with suppress(lmdb.Error):
                    txn.abort()
            if pages is not None:
                pages.close()
            env.close()
            raise
        return handle

    def append_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add records: encoded values with ascending keys, each greater than all before. Raises ValueError."""
        self._keys += keys
        self._values += values
        self._count_pending(sum(map(len, values)))

    def append_versions(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Add versions: pairs of SOW key and value, ascending by key, time, txid. Raises ValueError."""
        self._versions += items
        self._count_pending(sum(len(value) for _, value in items))

    def _count_pending(self, size: int) -> None:
        self._pending += size
        if self._pending >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the collected records and versions to the file."""
        # Cleared first: if the transaction raises, nothing is written a second time.
        keys, values, versions = self._keys, self._values, self._versions
        pending, self._pending = self._pending, 0
        self._keys, self._values, self._versions = [], [], []

        def add(txn: WriteTxn) -> None:
            if keys:
                txn.append_records(keys, values)
            if versions:
                txn.append_versions(versions)

        # 64 bytes per entry: its key, LMDB's node header and its share of a branch page.
        if keys or versions:
            self.run_transaction(add, pending=pending + 64 * (len(keys) + len(versions)))

    def open_tables(self, names: Sequence[str]) -> None:
        """Create additional tables of a derived store, for :meth:`run_transaction`."""
        self.run_transaction(lambda txn: txn.open_tables(names))

    def run_transaction(self, fn: Callable[[WriteTxn], None], *, pending: int = 0) -> None:
        """Run ``fn`` on the unfinished store in a separate transaction (position, sequences, last time)."""
        handle = self._handle
        if handle is None:
            raise ValueError("this store is finished")
        # The map grows with the file instead of being reserved in advance: address space may be limited.
        target = handle.env.info()["last_pgno"] * handle.env.stat()["psize"] + 4 * pending
        while True:
            if handle.read_map_size() < target:
                handle.resize_map(max(target, 2 * handle.read_map_size()))
            try:
                self._commit_transaction(handle, fn)
                return
            # The transaction was undone completely, so it can run again in a map twice as large.
            except lmdb.MapFullError:
                target = 2 * handle.read_map_size()

    def _commit_transaction(self, handle: Handle, fn: Callable[[WriteTxn], None]) -> None:
        txn = handle.begin_transaction(write=True)
        try:
            work = WriteTxn(handle, txn)
            fn(work)
            work.finish()
            with translate_errors(self.files.path, "write a new store"):
                self.seam.call("lmdb.commit", txn.commit)
            self._meta = work.meta
        except BaseException:
            with suppress(lmdb.Error):
                txn.abort()
            raise

    def sync(self) -> None:
        """Sync everything so far to disk, so that little remains to be written at the end. Raises StorageError."""
        self.flush()
        if self._handle is not None:
            with translate_errors(self.files.path, "write a new store"):
                self.seam.call("lmdb.sync", self._handle.env.sync, True)

    def finish(self) -> None:
        """Sync everything to disk and close the file; nothing can be added afterwards."""
        if self._handle is None:
            return
        self.flush()
        with translate_errors(self.files.path, "write a new store"):
            # All content is on disk before the rename: a crash must not leave the store's name on a file with holes.
            self.seam.call("lmdb.sync", self._handle.env.sync, True)
        self._handle.close()
        self._handle = None

    def hand_over_file(self, path: Path) -> None:
        """Finish the file and leave it at ``path``, for :meth:`take_over_file` of another builder. Raises
        StorageError."""
        self.finish()
        with translate_errors(path, "write a new store"):
            self.seam.call("file.rename", os.rename, self.path, path)
        self._release_file()

    def take_over_file(self, path: Path) -> None:
        """Continue with the file that another builder left at ``path``, instead of the empty store of this one.

        The other builder had the same definition, lineage and position. Raises StorageError.
        """
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        with translate_errors(self.files.path, "build a store"):
            fd = self.seam.call("file.open", os.open, path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                # Locked before it gets the name that shows other builders that it is being built.
                fcntl.flock(fd, fcntl.LOCK_EX)
                self.seam.call("file.rename", os.rename, path, self.path)
            except OSError as error:
                os.close(fd)
                if error.errno != EXDEV:
                    raise
                # On another file system the content is copied to this builder's own file, which is already locked.
                shutil.copyfile(path, self.path)
                path.unlink()
            else:
                self._release_file()
                self._guard = fd
        self._handle = self._open_file(None)

    def install(self, *, lock: WriterLock | None = None, wait: float = 0.0, new: bool = False) -> None:
        """Install the file as the store, atomically, for this and all other processes.

        ``lock`` is the store's writer lock if the caller already holds it; otherwise it is acquired within ``wait``
        seconds. ``new`` refuses to replace a store (RefusedError SOW-STO-025). Raises LockedError, StorageError.
        """
        self.finish()
        files, seam = self.files, self.seam
        writer = lock or WriterLock(files, seam, self.command)
        with (
            # Order of locks: writer lock, then gate, as everywhere. The writer lock excludes writers of the old file,
            # the gate processes that open it.
            writer.hold(wait),
            Gate(files, seam, wait).hold(exclusive=True) as gate,
            translate_errors(files.path, "put a new store in place"),
        ):
            if files.path.exists():
                if new:
                    raise RefusedError("SOW-STO-025", "the store already exists", place=str(files.path))
                # The new file keeps the permissions of the old one.
                os.fchmod(self._guard, files.path.stat().st_mode & 0o777)
            # Order of a replacement, each step safe if the process dies after it: 1. rename; the gate still names the
            # old inode, so the next opener removes the lock file (discard_foreign_lock). 2. LMDB's lock file of the old
            # file is removed: its reader slots belong to another file. 3. The directory is synced. 4. The gate names
            # the new inode.
            inode = os.fstat(self._guard).st_ino
            seam.call("file.rename", os.rename, self.path, files.path)
            if files.lock.exists():
                seam.call("file.unlink", os.unlink, files.lock)
            sync_directory(files.directory, seam)
            write_gate_inode(gate, inode, seam)
        self._release_file()

    def discard(self) -> None:
        """Close and remove the unfinished file; does nothing after :meth:`install`."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        if self._guard >= 0:
            # After install() the file has its real name: there is no temporary file left.
            if os.fstat(self._guard).st_nlink and self.path.exists():
                self.path.unlink()
            self._release_file()

    def _release_file(self) -> None:
        guard, self._guard = self._guard, -1
        if guard >= 0:
            os.close(guard)


def _temporary_file(files: StoreFiles, seam: Seam) -> tuple[Path, int]:
    """Create a new file with a unique name, locked as long as its builder lives."""
    while True:
        path = files.path.with_name(f"{files.path.name}.new-{os.getpid()}-{next(_numbers)}")
        # O_EXCL and a name with process id and number: never a file that another builder has begun.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = seam.call("file.open", os.open, path, flags, FILE_MODE)
        except FileExistsError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Between creation and locking, another builder may have removed the file as stale: then begin again.
            if os.fstat(fd).st_nlink:
                return path, fd
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        os.close(fd)


def _list_unfinished(files: StoreFiles) -> list[Path]:
    start = f"{files.path.name}.new-"
    return [entry for entry in files.directory.iterdir() if entry.name.startswith(start)]


def is_being_built(store: str | os.PathLike[str]) -> bool:
    """Return whether a living process is building the replacement of a store."""
    for path in _list_unfinished(StoreFiles.from_path(store)):
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(fd)
    return False


def _remove_stale(files: StoreFiles) -> None:
    """Remove stores under construction whose builder is dead."""
    for path in _list_unfinished(files):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            # A builder holds this lock as long as it lives; acquiring it proves that the builder is dead.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except OSError:
            pass
        finally:
            os.close(fd)


@contextmanager
def build_store(
    path: str | os.PathLike[str],
    definition: Definition,
    *,
    seam: Seam,
    now: int,
    lineage: bytes = NO_LINEAGE,
    applied: int = 0,
    command: str = "sowctl",
    is_copy: bool = False,
) -> Iterator[StoreBuilder]:
    """Build a new store for ``path``, removed at the end of the with statement unless it was installed.

    ``now`` (microseconds) becomes its creation time; unless it ``is_copy`` of the store that it replaces, a time later
    than that of this store. Raises StorageError.
    """
    files = StoreFiles.from_path(path)
    # What was derived from the old store may be wrong if that is damaged, though both have one digest.
    created = now if is_copy else max(now, _read_creation_time(files.path, seam) + 1)
    meta = StoreMeta(definition, lineage=lineage, applied=applied, created=created)
    builder = StoreBuilder(files, meta, seam, command)
    try:
        yield builder
    finally:
        builder.discard()


def _read_creation_time(path: Path, seam: Seam) -> int:
    """The creation time of the store at a path, -1 where there is none, or it cannot be told."""
    record = read_present_meta_record(path, seam)
    try:
        return -1 if record is None else decode_meta(record, str(path)).created
    except (DamageError, VersionError):
        return -1


def create_store(
    path: str | os.PathLike[str],
    definition: Definition,
    *,
    seam: Seam = SEAM,
    now: int,
    lineage: bytes = NO_LINEAGE,
    applied: int = 0,
    lock: WriterLock | None = None,
    lock_wait: float = 0.0,
    command: str = "sowctl",
) -> None:
    """Create an empty store atomically; missing directories are created.

    Raises RefusedError SOW-STO-025 if it exists, LockedError, StorageError.
    """
    # Built aside like any other store: an empty store is complete or does not exist.
    with build_store(
        path, definition, seam=seam, now=now, lineage=lineage, applied=applied, command=command
    ) as builder:
        builder.install(lock=lock, wait=lock_wait, new=True)

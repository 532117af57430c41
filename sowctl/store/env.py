"""A store: opening, snapshots, write transactions (``sow-store(5)``, "How to write").

Called by the engine and by commands that take a path. This module does not depend on keys, messages or journals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import lmdb

from sowctl.errors import RefusedError, SowError, StorageError
from sowctl.seam import SEAM, Seam
from sowctl.store.lmdberrors import build_failed_commit_errors, build_store_error, translate_errors
from sowctl.store.meta import Definition, StoreMeta
from sowctl.store.opening.access import require_regular_file
from sowctl.store.opening.current_handle import CurrentHandle
from sowctl.store.opening.environment import MIN_WRITER_MAP_BYTES, OpenMode
from sowctl.store.opening.handle import Handle
from sowctl.store.opening.locks import StoreFiles, WriterLock
from sowctl.store.snapshot import Snapshot

if TYPE_CHECKING:
    from sowctl.store.write import WriteTxn

T = TypeVar("T")


class Store:
    """An open store: many snapshots, in any thread, and one write at a time. Closed by ``with`` or close()."""

    def __init__(
        self,
        files: StoreFiles,
        mode: OpenMode,
        seam: Seam,
        definition: Definition | None,
        command: str,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self.files = files
        # The writer lock is this program's own: LMDB's does not name its holder and has no time limit for waiting.
        self.lock = WriterLock(files, seam, command, notify)
        self._mode = mode
        self._seam = seam
        self._failure: StorageError | None = None
        self._current = CurrentHandle(files, self.lock, mode, seam)
        try:
            # A first read proves that the file is a store of the right definition before anything else is done with it.
            with self.open_snapshot() as snapshot:
                self._definition = snapshot.meta.definition
                self._check_definition(definition)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        write: bool,
        seam: Seam = SEAM,
        lock_wait: float = 0.0,
        durable: bool = True,
        no_lock: bool = False,
        definition: Definition | None = None,
        command: str = "sowctl",
        notify: Callable[[str], None] | None = None,
    ) -> Store:
        """Open an existing store.

        ``lock_wait``: seconds to wait for locks; ``durable`` True: every commit is synced completely, False: LMDB's
        meta page is not (for topics whose journal is synced first); ``no_lock``: read without any lock, which also
        happens if the lock files cannot be written; ``definition``: the definition that a writer expects (RefusedError
        SOW-STO-024 names both); ``command``: shown to waiting processes; ``notify``: receives a message about a long
        wait. Raises MissingError, DamageError, VersionError, StorageError, LockedError, and RefusedError SOW-STO-070 if
        it is not a regular file.
        """
        if write and no_lock:
            raise ValueError("a store is not written without locks")
        mode = OpenMode(write=write, durable=durable, no_lock=no_lock, lock_wait=lock_wait)
        files = StoreFiles.from_path(path)
        require_regular_file(files.path)  # before a lock file is created beside it
        return cls(files, mode, seam, definition, command, notify)

    @property
    def path(self) -> str:
        """The data file, links followed."""
        return str(self.files.path)

    @property
    def is_unlocked(self) -> bool:
        """True if the store is read without locks, because this process cannot use them."""
        handle = self._current.handle
        return handle is not None and handle.watch is not None

    @property
    def definition(self) -> Definition:
        """The definition in the file."""
        return self._definition

    def _check_definition(self, expected: Definition | None) -> None:
        if not self._mode.write or expected is None or expected == self._definition:
            return
        raise RefusedError(
            "SOW-STO-024",
            f"the store has another definition: {self._definition} in the file, expected: {expected}",
            place=self.path,
            hint="move the file away and rebuild it with sowctl replay, or give the topic another FileName",
            differences=expected.list_differences(self._definition),
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file as soon as its last snapshot ends."""
        self._current.close()

    def open_snapshot(self) -> Snapshot:
        """Begin a read transaction; use it in a ``with`` statement. Raises as :meth:`open` does."""
        return Snapshot(self._current.begin_read)

    def read_meta(self) -> StoreMeta:
        """Return the current definition and state."""
        with self.open_snapshot() as snapshot:
            return snapshot.meta

    def read_file_size(self) -> int:
        """Return the size of the data file in bytes."""
        return self.files.path.stat().st_size

    def read_reader_table(self) -> str:
        """Return LMDB's list of readers: a line of headings, then process, thread and transaction of each."""
        with self._current.mutex, translate_errors(self.files.path, "list readers"):
            return str(self._current.open().env.readers())

    def hold_writer_lock(self, wait: float | None = None) -> AbstractContextManager[None]:
        """Hold the writer lock over several writes (``wait`` seconds; None: the store's ``lock_wait``).

        Raises LockedError SOW-STO-030 that names the holder.
        """
        return self.lock.hold(self._mode.lock_wait if wait is None else wait)

    def write(self, fn: Callable[[WriteTxn], T], *, pending: int = 0) -> T:
        """Run ``fn`` in one transaction, commit it, and return the result of ``fn``. An exception of ``fn`` undoes
        everything.

        ``fn`` may run several times (if the map was too small) and must then do the same. ``pending`` is a hint: the
        number of bytes about to be written. Raises StorageError or DamageError (after a failed commit the message says
        which state the file has, and the store refuses further writes), LockedError, RefusedError SOW-STO-026,
        SOW-STO-028.
        """
        if not self._mode.write:
            raise RefusedError("SOW-STO-026", "the store is opened read-only", place=self.path)
        with self.hold_writer_lock():
            grow = 0
            # At most twice in practice: if the map is too small, the whole transaction is run again in a larger one.
            while True:
                if self._failure is not None:
                    raise self._failure
                handle = self._open_with_room(pending, grow)
                try:
                    return self._commit_transaction(handle, fn)
                except lmdb.MapFullError:
                    grow = 2 * handle.read_map_size()

    def open_tables(self, names: Sequence[str]) -> None:
        """Open additional tables for :meth:`write`, and create missing ones; the writer lock is held."""
        self.write(lambda txn: txn.open_tables(names))

    def _open_with_room(self, pending: int, grow: int) -> Handle:
        """Return the current handle with its map enlarged; ``grow`` is the size that the write requires, 0 for none."""
        with self._current.mutex:
            handle = self._open_for_writing()
            size = self.read_file_size()
            # Copy on write: changed pages are written beside the old ones, so a file may double in size. Four times the
            # pending bytes leave room for half-filled pages and for branch pages.
            target = max(MIN_WRITER_MAP_BYTES, 2 * size, size + 4 * pending, grow)
            # A map must not move while transactions of this process run. Without need it stays; with need (grow)
            # resize_map() raises an error with a hint.
            if handle.read_map_size() >= target or (handle.users and not grow):
                return handle
            try:
                handle.resize_map(target)
                return handle
            except StorageError:
                # A map larger than required failed for lack of address space: the write is tried in the old one.
                if grow:
                    raise
            return self._open_for_writing()

    def _open_for_writing(self) -> Handle:
        # A new handle may belong to another file: its definition is compared again.
        before = self._current.handle
        handle = self._current.open(writing=True)
        if handle is not before:
            with self.open_snapshot() as snapshot:
                found = snapshot.meta.definition
            # The file was replaced meanwhile: if the topic's definition changed with it, this writer must not write to
            # it.
            expected, self._definition = self._definition, found
            self._check_definition(expected)
        return handle

    def _commit_transaction(self, handle: Handle, fn: Callable[[WriteTxn], T]) -> T:
        from sowctl.store.write import WriteTxn

        txn = handle.begin_transaction(write=True)
        try:
            # Read within the transaction, when no other writer can commit: after a failed commit it identifies the old
            # state.
            before = handle.read_last_txnid()
            work = WriteTxn(handle, txn)
            result = fn(work)
            # A transaction that changed nothing is not committed: the file stays unchanged, byte for byte.
            if not work.changed:
                txn.abort()
                return result
            work.finish()
        except BaseException:
            _abort_transaction(txn)
            raise
        try:
            self._seam.call("lmdb.commit", txn.commit)
        except lmdb.MapFullError:
            _abort_transaction(txn)
            raise
        except (lmdb.Error, OSError) as problem:
            _abort_transaction(txn)
            raise self._recover_after_failure(handle, problem, before, "store the transaction") from problem
        return result

    def _recover_after_failure(self, handle: Handle, problem: Exception, before: int, action: str) -> SowError:
        """After a failed commit or sync: close and reopen the file, determine its state, and refuse further writes.

        The kernel marks pages clean whose write-back failed, so a second sync would falsely succeed; only reopening
        helps.
        """
        # LMDB's memory may count the failed transaction as done. After reopening, the meta pages decide.
        cause = build_store_error(problem, self.files.path, action)
        self._current.drop_handle(handle)
        if handle.users:
            state, stored = "the file was not read again, because a snapshot is open", None
        else:
            state, stored = self._find_outcome(before)
        error, self._failure = build_failed_commit_errors(cause, self.files.path, state, stored)
        return error

    def _find_outcome(self, before: int) -> tuple[str, bool | None]:
        try:
            with self.open_snapshot() as snapshot:
                # All records are read: a written meta page does not prove that the pages below it were written.
                for _ in snapshot.scan_records():
                    pass
                shown, newest = snapshot.txnid, self._current.open().read_last_txnid()
        except SowError as trouble:
            return f"and reading the file again failed: {trouble.message}", None
        if shown != newest:
            # LMDB could not undo its write, and other processes have the file open: their lock table still has the
            # previous state, the file's newest meta page the new transaction.
            return "processes that have the file open still read the previous state; others may read the new one", None
        stored = shown > before
        return ("the transaction is in the file" if stored else "the file has the previous state"), stored

    def sync(self) -> None:
        """Sync all commits to disk, including the meta page (before journals are removed).

        Raises StorageError; then the store refuses further writes.
        """
        # Lock order: the writer lock first, then the mutex of the handle, as in write().
        with self.hold_writer_lock(), self._current.mutex:
            if self._failure is not None:
                raise self._failure
            handle = self._open_for_writing()
            try:
                # True forces the sync even if commits are not durable by themselves.
                self._seam.call("lmdb.sync", handle.env.sync, True)
            except (lmdb.Error, OSError) as problem:
                raise self._recover_after_failure(
                    handle, problem, handle.read_last_txnid(), "sync the store"
                ) from problem


def _abort_transaction(txn: Any) -> None:
    with suppress(lmdb.Error):
        txn.abort()

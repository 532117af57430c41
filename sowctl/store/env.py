"""A store as a whole: creating, opening, snapshots, write transactions (``sow-store(5)``, "How to write").

The engine and commands that take a bare path call this. Nothing here knows keys, messages or journals.
"""

from __future__ import annotations

import os
from _thread import RLock  # threading's own; that module takes 0.5 ms of a start
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import lmdb

from sowctl.errors import DamageError, LockedError, RefusedError, SowError, StorageError
from sowctl.plain import replace
from sowctl.seam import SEAM, Seam
from sowctl.store.handle import Handle, current_identity
from sowctl.store.locks import Files, WriterLock
from sowctl.store.meta import NO_LINEAGE, Definition, StoreMeta
from sowctl.store.opening import DEFAULT_MAP, Mode, open_handle
from sowctl.store.read import Snapshot
from sowctl.store.sharing import close_idle, let_go, share
from sowctl.store.trouble import explained, missing, translate

if TYPE_CHECKING:
    from sowctl.store.write import WriteTxn

T = TypeVar("T")


__all__ = ["Snapshot", "Store", "create_store"]


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
    """Make an empty store, complete or not at all; missing directories are made.

    Raises RefusedError SOW-STO-025 when it exists, LockedError, StorageError.
    """
    from sowctl.store.replace import build

    with build(path, definition, seam=seam, now=now, lineage=lineage, applied=applied, command=command) as builder:
        builder.put_in_place(lock=lock, wait=lock_wait, new=True)


class Store:
    """An open store: many snapshots, in several threads too, and one write at a time. Closed by ``with`` or close()."""

    def __init__(self, files: Files, mode: Mode, seam: Seam, definition: Definition | None, command: str) -> None:
        self.files = files
        self.lock = WriterLock(files, seam, command)
        self._mode = mode
        self._seam = seam
        self._mutex = RLock()
        self._failure: StorageError | None = None
        self._handle: Handle | None = self._open_handle(mode.lock_wait)
        self._closed = False
        try:
            with self.snapshot() as snapshot:
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
    ) -> Store:
        """Open an existing store.

        ``lock_wait`` seconds to wait for locks; ``durable`` True: every commit is wholly synced, False: LMDB's meta
        page is not (topics whose journal is synced first); ``no_lock``: read, without any lock, a store that nobody
        writes; ``definition``: what a writer expects (RefusedError SOW-STO-024 names both); ``command``: shown to those
        who wait. Raises MissingError, DamageError, VersionError, StorageError, LockedError.
        """
        if write and no_lock:
            raise ValueError("a store is not written without locks")
        mode = Mode(write=write, durable=durable, no_lock=no_lock, lock_wait=lock_wait)
        return cls(Files.of(path), mode, seam, definition, command)

    @property
    def path(self) -> str:
        """The data file, links followed."""
        return str(self.files.path)

    @property
    def definition(self) -> Definition:
        """Whose records these are."""
        return self._definition

    def _check_definition(self, expected: Definition | None) -> None:
        if not self._mode.write or expected is None or expected == self._definition:
            return
        raise RefusedError(
            "SOW-STO-024",
            f"the store belongs to another definition: the file says {self._definition}; asked for is {expected}",
            place=self.path,
            hint="move the file away and rebuild it with sowctl replay, or give the topic another FileName",
            differences=expected.differences(self._definition),
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file as soon as its last snapshot ends."""
        with self._mutex:
            self._closed = True
            handle, self._handle = self._handle, None
            if handle is not None:
                let_go(handle)

    def _current(self, *, writing: bool = False) -> Handle:
        """The handle of the file that the path shows; a replaced file is opened anew. To write, hold the lock."""
        if self._closed:
            raise ValueError("the store is closed")
        handle = self._handle
        if handle is not None:
            handle.check_process()
            now = current_identity(self.files, self._mode.no_lock)
            if not handle.retired and (now is None or now == handle.identity):
                if handle.writable or not writing:
                    return handle
                if handle.users:
                    raise self._blocked()
            self._handle = None
            let_go(handle)
        handle = self._handle = self._open_again(writing)
        return handle

    def _open_again(self, writing: bool) -> Handle:
        """Readers of a replaced store do not wait for its writer: they open it read-only, a write opens it anew."""
        if not writing and self._mode.write:
            try:
                return self._open_handle(0.0)
            except LockedError:
                close_idle(self.files.path)
                return open_handle(self.files, replace(self._mode, write=False), self._seam)
        return self._open_handle(self._mode.lock_wait)

    def _open_handle(self, wait: float) -> Handle:
        if not self._mode.write:
            return share(self.files, self._mode, self._seam)
        if not self.files.path.exists():
            raise missing(self.files.path)
        with self.lock.held(wait):
            close_idle(self.files.path)
            return open_handle(self.files, self._mode, self._seam)

    def _blocked(self) -> RefusedError:
        return RefusedError(
            "SOW-STO-028",
            "the store must be opened anew while a snapshot of this process is open",
            place=self.path,
            hint="read the result to its end, or close it, before writing",
        )

    def _begin_read(self) -> tuple[Handle, Any]:
        with self._mutex:
            handle = self._current()
            return handle, handle.begin_reading()

    def snapshot(self) -> Snapshot:
        """Begin a read transaction; use it in a ``with`` statement. Raises as :meth:`open` does."""
        return Snapshot(self._begin_read)

    def meta(self) -> StoreMeta:
        """Definition and state as of now."""
        with self.snapshot() as snapshot:
            return snapshot.meta

    def file_size(self) -> int:
        """Bytes of the data file."""
        return self.files.path.stat().st_size

    def writer_lock(self, wait: float | None = None) -> AbstractContextManager[None]:
        """Hold the writer lock over several writes (``wait`` seconds; None: the store's ``lock_wait``).

        Raises LockedError SOW-STO-030 that names the holder.
        """
        return self.lock.held(self._mode.lock_wait if wait is None else wait)

    def write(self, fn: Callable[[WriteTxn], T], *, pending: int = 0) -> T:
        """Run ``fn`` in one transaction and commit it; gives what ``fn`` gives. What ``fn`` raises undoes everything.

        ``fn`` may run several times (the map was too small) and must then do the same. ``pending`` is a hint: the bytes
        about to be written. Raises StorageError or DamageError (after a failed commit it says which state the file
        holds, and the store writes no more), LockedError, RefusedError SOW-STO-026, SOW-STO-028.
        """
        if not self._mode.write:
            raise RefusedError("SOW-STO-026", "the store is opened read-only", place=self.path)
        with self.writer_lock():
            grow = 0
            while True:
                if self._failure is not None:
                    raise self._failure
                handle = self._with_room(pending, grow)
                try:
                    return self._transact(handle, fn)
                except lmdb.MapFullError:
                    grow = 2 * handle.map_size()

    def _with_room(self, pending: int, grow: int) -> Handle:
        """The current handle with its map raised; ``grow`` is the size without which it cannot go on, 0 is none."""
        with self._mutex:
            handle = self._open_for_writing()
            size = self.file_size()
            target = max(DEFAULT_MAP, 2 * size, size + 4 * pending, grow)
            if handle.map_size() >= target or (handle.users and not grow):
                return handle
            try:
                handle.resize(target)
                return handle
            except StorageError:
                if grow:
                    raise
            return self._open_for_writing()

    def _open_for_writing(self) -> Handle:
        before = self._handle
        handle = self._current(writing=True)
        if handle is not before:
            with self.snapshot() as snapshot:
                found = snapshot.meta.definition
            expected, self._definition = self._definition, found
            self._check_definition(expected)
        return handle

    def _transact(self, handle: Handle, fn: Callable[[WriteTxn], T]) -> T:
        from sowctl.store.write import WriteTxn

        txn = handle.begin(write=True)
        try:
            before = handle.last_txnid()
            work = WriteTxn(handle, txn)
            result = fn(work)
            if not work.changed:
                txn.abort()
                return result
            work.finish()
        except BaseException:
            _abort(txn)
            raise
        try:
            self._seam.call("lmdb.commit", txn.commit)
        except lmdb.MapFullError:
            _abort(txn)
            raise
        except (lmdb.Error, OSError) as problem:
            _abort(txn)
            raise self._fail(handle, problem, before, "store the transaction") from problem
        return result

    def _fail(self, handle: Handle, problem: Exception, before: int, action: str) -> SowError:
        """After a failed commit or sync: close, open again, see what is there, and write no more.

        The kernel marks pages clean whose write-back failed, so a second sync would lie; only a fresh start helps.
        """
        cause = translate(problem, self.files.path, action)
        self._handle = None
        let_go(handle)
        if handle.users:
            state, stored = "what the file holds was not looked at: a snapshot is open", None
        else:
            state, stored = self._look(before)
        damaged = isinstance(cause, DamageError)
        kind: type[SowError] = DamageError if damaged else StorageError
        error = kind(
            cause.code if isinstance(cause, kind) else "SOW-STO-042",
            f"{cause.message}; {state}",
            place=self.path,
            hint=cause.hint,
            transaction_stored=stored,
        )
        self._failure = StorageError(
            "SOW-STO-044",
            f"this handle failed before and writes no more: {error.message}",
            place=self.path,
            hint=cause.hint if damaged else "find out why the disk failed, then start again",
        )
        return error

    def _look(self, before: int) -> tuple[str, bool | None]:
        try:
            with self.snapshot() as snapshot:
                for _ in snapshot.scan():
                    pass
            stored = self._current().last_txnid() > before
        except SowError as trouble:
            return f"and reading the file again failed: {trouble.message}", None
        return ("the transaction is in the file" if stored else "the file holds the state before it"), stored

    def sync(self) -> None:
        """Bring everything committed to the disk, meta page included (before journals are removed).

        Raises StorageError; the store writes no more then.
        """
        with self.writer_lock(), self._mutex:
            if self._failure is not None:
                raise self._failure
            handle = self._open_for_writing()
            try:
                self._seam.call("lmdb.sync", handle.env.sync, True)
            except (lmdb.Error, OSError) as problem:
                raise self._fail(handle, problem, handle.last_txnid(), "sync the store") from problem

    def readers(self) -> str:
        """LMDB's table of reader slots, as text; dead readers are cleared first."""
        with self._mutex, explained(self.files.path, "list readers"):
            handle = self._current()
            handle.env.reader_check()
            return str(handle.env.readers())


def _abort(txn: Any) -> None:
    with suppress(lmdb.Error):
        txn.abort()

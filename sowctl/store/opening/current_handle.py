"""The environment of a store's path: opened, shared with other readers, and reopened when the file is replaced.

Called only by :mod:`sowctl.store.env`. LMDB does not notice that a file was replaced by a rename: the inodes are
compared before each use. Specified in ``sow-store(5)``, "How to read" and "Replacing a store".
"""

from __future__ import annotations

from _thread import RLock  # threading's own; that module takes 0.5 ms of a start
from typing import Any

from msgspec.structs import replace

from sowctl.errors import LockedError, RefusedError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import missing_store_error
from sowctl.store.opening.environment import OpenMode, open_handle, require_single_name
from sowctl.store.opening.handle import Handle, read_identity
from sowctl.store.opening.locks import StoreFiles, WriterLock
from sowctl.store.opening.shared_environments import close_unused_environments, release_environment, share_environment


class CurrentHandle:
    """The handle of the current file of a path. ``mutex`` is held while it is read or exchanged.

    ``handle`` is the open one, which may belong to a file that was replaced since; None if there is none.
    """

    def __init__(self, files: StoreFiles, lock: WriterLock, mode: OpenMode, seam: Seam) -> None:
        self.mutex = RLock()
        self._files = files
        self._lock = lock
        self._mode = mode
        self._seam = seam
        self._closed = False
        self.handle: Handle | None = self._open_handle(mode.lock_wait)

    def open(self, *, writing: bool = False) -> Handle:
        """Return the handle of the file that the path shows; reopens a replaced file. For writing, hold the lock."""
        if self._closed:
            raise ValueError("the store is closed")
        handle = self.handle
        if handle is not None:
            handle.check_process()
            now = read_identity(self._files, self._mode.no_lock)
            # Same inodes: still the same store. No file at all: it was removed while open, and its data stays readable.
            if not handle.retired and (now is None or now == handle.identity):
                if writing and now is not None:
                    require_single_name(self._files)
                if handle.writable or not writing:
                    return handle
                # A read-only environment cannot write, and LMDB must not have one file open twice in a process: the
                # readers of this process must end first.
                if handle.users:
                    raise self._open_blocked_error()
            # The file was replaced: snapshots of the old one continue, and the last of them closes it.
            self.drop_handle(handle)
        handle = self.handle = self._open_again(writing)
        return handle

    def _open_again(self, writing: bool) -> Handle:
        """Reopen a replaced store. Readers do not wait for its writer: they open it read-only, and a write reopens
        it."""
        if not writing and self._mode.write:
            try:
                # No waiting: a reader in a writing program must not wait for another writer.
                return self._open_handle(0.0)
            except LockedError:
                close_unused_environments(self._files.path)
                return open_handle(self._files, replace(self._mode, write=False), self._seam)
        return self._open_handle(self._mode.lock_wait)

    def _open_handle(self, wait: float) -> Handle:
        if not self._mode.write:
            return share_environment(self._files, self._mode, self._seam)
        if not self._files.path.exists():
            raise missing_store_error(self._files.path)
        # Under the writer lock no other process of this program writes, so the empty transaction of open_databases does
        # not wait.
        with self._lock.hold(wait):
            close_unused_environments(self._files.path)
            return open_handle(self._files, self._mode, self._seam)

    def _open_blocked_error(self) -> RefusedError:
        return RefusedError(
            "SOW-STO-028",
            "the store must be reopened, but this process has an open snapshot of it",
            place=str(self._files.path),
            hint="read the result completely, or close it, before writing",
        )

    def begin_read(self) -> tuple[Handle, Any]:
        """Return a read transaction in the current file, and its handle, which counts it. Raises as opening does."""
        with self.mutex:
            handle = self.open()
            return handle, handle.begin_read()

    def drop_handle(self, handle: Handle) -> None:
        """Release ``handle``, so that no handle is open."""
        self.handle = None
        release_environment(handle)

    def close(self) -> None:
        """Close the file as soon as its last snapshot ends."""
        with self.mutex:
            self._closed = True
            handle, self.handle = self.handle, None
            if handle is not None:
                release_environment(handle)

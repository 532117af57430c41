"""One open LMDB environment and the rules for using, growing and closing it (``sow-store(5)``).

Created by :mod:`sowctl.store.opening.environment` and the store's ``builder``, used by every module of the store that
has a transaction. A handle knows its files and the number of running transactions of this process, and refuses to work
after a fork.
"""

from __future__ import annotations

import os
from _thread import RLock
from functools import partial
from typing import TYPE_CHECKING, Any

import lmdb
from msgspec import Struct

from sowctl.errors import DamageError, RefusedError, SowError
from sowctl.seam import Seam
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.opening.locks import StoreFiles
from sowctl.store.opening.proof.transaction import ProvenTransaction, begin_proven_transaction

if TYPE_CHECKING:
    from sowctl.store.opening.proof.tree import PageFile
    from sowctl.store.opening.unlocked_watch import StateWatch

# A multiple of the page size of all machines: LMDB rejects a map that ends within a page.
MAP_UNIT_BYTES = 1 << 16


class Databases(Struct, frozen=True):
    """LMDB's handles of the sub-databases."""

    meta: Any
    records: Any
    history: Any
    expiry: Any
    changes: Any = None


class FileIdentity(Struct, frozen=True):
    """The inodes of a handle; if the path shows others, the store was replaced."""

    data: int
    lock: int


class Handle:
    """An open environment. ``users`` counts its running read transactions, ``sharers`` the stores that have it open.

    ``watch`` is set if it is read without locks: then it must verify all data read before the data is used.
    """

    def __init__(
        self, files: StoreFiles, env: Any, pages: PageFile, databases: Databases, identity: FileIdentity, seam: Seam
    ) -> None:
        self.files = files
        self.env = env
        self.pages = pages
        self.databases = databases
        self.identity = identity
        self.seam = seam
        self.writable = False
        self.tables: dict[str, Any] = {}
        """LMDB's handles of additional tables that were opened (``store/tables``)."""
        self.watch: StateWatch | None = None
        self.users = 0
        self.sharers = 1
        self.retired = False
        # Guards `users`, `retired` and closing: the last reader of any thread closes, and none begins in between.
        self._mutex = RLock()
        self.pid = os.getpid()

    def check_process(self) -> None:
        """Refuse to work in a forked child, which does not have LMDB's locks. Raises RefusedError SOW-STO-027."""
        # A child has the parent's reader slot and locks in name only: reading could see overwritten pages, writing
        # could corrupt the file.
        if self.pid != os.getpid():
            raise RefusedError("SOW-STO-027", "a store handle cannot be used after a fork", place=str(self.files.path))

    def begin_transaction(self, *, write: bool) -> ProvenTransaction:
        """Begin a transaction; adapts to a map that another process enlarged. Raises DamageError, StorageError."""
        self.check_process()
        try:
            return begin_proven_transaction(partial(self._begin_unchecked, write), self.pages, write=write)
        except DamageError:
            # Pages that were rewritten meanwhile are not damaged.
            if self.watch is not None:
                self.watch.verify_state(self.read_last_txnid())
            raise

    def _begin_unchecked(self, write: bool) -> Any:
        while True:
            try:
                with translate_errors(self.files.path, "begin a transaction"):
                    return self.seam.call("lmdb.begin", self.env.begin, write=write)
            # Another process made the file larger than this map: 0 requests the current size of the file.
            except lmdb.MapResizedError:
                self.resize_map(0)

    def begin_read(self) -> ProvenTransaction:
        """Begin a read transaction, which counts until :meth:`release_read`. Raises as :meth:`begin_transaction`."""
        with self._mutex:
            # Begun before it is counted: if beginning raises, the count is unchanged.
            txn = self.begin_transaction(write=False)
            self.users += 1
            return txn

    def read_map_size(self) -> int:
        """Return the size of the map in bytes."""
        return int(self.env.info()["map_size"])

    def resize_map(self, size: int) -> None:
        """Set the map's size (0: the size that the file requires).

        Raises RefusedError SOW-STO-028 while a snapshot of this process is open, StorageError SOW-STO-043 without
        enough address space; then the environment is closed, because LMDB leaves it without a map.
        """
        if self.users:
            raise RefusedError(
                "SOW-STO-028",
                "the map must grow, but this process has an open snapshot",
                place=str(self.files.path),
                hint="read the result completely, or close it, before writing",
            )
        try:
            with translate_errors(self.files.path, "enlarge the map"):
                self.seam.call("lmdb.resize", self.env.set_mapsize, round_map_size(size))
        except SowError:
            # set_mapsize unmaps before it maps: after a failure there is no map, and any use would kill the process.
            self.retired = True
            self.close()
            raise

    def read_last_txnid(self) -> int:
        """Return the number of the last committed LMDB transaction."""
        return int(self.env.info()["last_txnid"])

    def release_read(self) -> None:
        """Release one read transaction; the last one closes a retired environment."""
        with self._mutex:
            self.users -= 1
            # Closing while a transaction reads would unmap its pages; so the last reader closes.
            if self.retired and self.users == 0:
                self.close()

    def retire(self) -> None:
        """Close as soon as the last read transaction has ended."""
        with self._mutex:
            self.retired = True
            if self.users == 0:
                self.close()

    def revive(self) -> bool:
        """Cancel closing; return False if it has already happened."""
        with self._mutex:
            if self.env is not None:
                self.retired = False
            return self.env is not None

    def close(self) -> None:
        """Close the environment; in a forked child only drop the reference."""
        env, self.env = self.env, None
        if env is not None and self.pid == os.getpid():
            env.close()
            self.pages.close()
            if self.watch is not None:
                self.watch.close()


def round_map_size(size: int) -> int:
    """Return the smallest map size for ``size`` bytes."""
    return -(-size // MAP_UNIT_BYTES) * MAP_UNIT_BYTES


def read_identity(files: StoreFiles, no_lock: bool) -> FileIdentity | None:
    """Return the inodes that the path shows now; None without a data file."""
    try:
        data = files.path.stat().st_ino
    except FileNotFoundError:
        return None
    if no_lock:
        return FileIdentity(data, 0)
    try:
        return FileIdentity(data, files.lock.stat().st_ino)
    except FileNotFoundError:
        # No lock file: it was removed with a replacement, or the store is read without locks.
        return FileIdentity(data, 0)

"""A bookmark store in a file: remembers acknowledgements in any order and detects duplicates (``sow-bookmark(5)``).

Several processes may share a file, each for its own subscriptions: every change is made under a lock, after reading the
changes of other processes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sowctl.directories import sync_directory
from sowctl.engine.subscriptions.bookmark_stores import filecodec as codec
from sowctl.engine.subscriptions.bookmark_stores.protocol import (
    NOTHING_ACKNOWLEDGED,
    AcknowledgedMessages,
    BookmarkStore,
    PlaceAdvance,
    StoredPlace,
    Subscriber,
    build_lock_path,
)
from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS
from sowctl.errors import StorageError
from sowctl.interrupts import without_interrupts

if TYPE_CHECKING:
    from sowctl.seam import Seam
    from sowctl.values.times import Clock

STORE_FILE_MODE = 0o640


class FileStore(BookmarkStore):
    """The store at ``path``. A missing file is an empty store; the first change creates it.

    Raises StorageError ``SOW-BKM-003``, DamageError ``SOW-BKM-002``, VersionError ``SOW-BKM-004``.
    """

    remembers: ClassVar[bool] = True

    def __init__(self, path: Path, seam: Seam, clock: Clock) -> None:
        self.path = path
        self._seam = seam
        self._clock = clock
        self._state: codec.StoreState = {}
        self._fd: int | None = None
        self._end = 0
        self._failed: StorageError | None = None
        self._refresh_state()

    def list_places(self) -> list[StoredPlace]:
        """Return all positions, ordered by client and subscription id."""
        self._refresh_state()
        return [codec.build_stored_place(who, known) for who, known in sorted(self._state.items())]

    def read_place(self, who: Subscriber) -> StoredPlace | None:
        """Return the position of one subscription."""
        self._refresh_state()
        known = self._state.get(who)
        return None if known is None else codec.build_stored_place(who, known)

    def read_acknowledged(self, who: Subscriber) -> AcknowledgedMessages:
        """Return the messages that are known to have been acknowledged."""
        self._refresh_state()
        known = self._state.get(who)
        return (
            NOTHING_ACKNOWLEDGED if known is None else AcknowledgedMessages(dict(known.latest), frozenset(known.beyond))
        )

    def set_place(self, who: Subscriber, bookmark: str) -> None:
        """Set a position."""
        known = codec.SubscriptionState(bookmark, self._clock())
        self._append_block(codec.pack_put(who, bookmark, known.time), lambda: self._state.update({who: known}))

    def advance_place(self, who: Subscriber, step: PlaceAdvance) -> None:
        """Advance a position."""
        time = self._clock()

        def change() -> None:
            self._state.setdefault(who, codec.SubscriptionState("0", time)).apply_advance(step, time)

        self._append_block(codec.pack_advance(who, step, time), change)

    def remove_place(self, who: Subscriber) -> bool:
        """Remove a subscription."""
        self._refresh_state()
        if who not in self._state:
            return False
        self._append_block(codec.pack_purge(who), lambda: self._state.pop(who, None))
        return True

    def find_lock_file(self, who: Subscriber) -> Path | None:
        """Return the path of the lock file, which is next to the store file."""
        return build_lock_path(self.path, who)

    @property
    def file(self) -> Path | None:
        """The path of the store file."""
        return self.path

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _refresh_state(self) -> None:
        """Read the current content of the file, without a lock."""
        try:
            raw: bytes = self._seam.call("file.read", self.path.read_bytes)
        except FileNotFoundError:
            self._state = {}
            return
        except OSError as error:
            raise self._make_storage_error(error) from error
        self._load_content(raw)

    def _load_content(self, raw: bytes) -> int:
        """Replace the state by a file's content; return the end offset of its complete blocks, 0 without a header."""
        state: codec.StoreState = {}
        end = 0
        if codec.has_header(raw, str(self.path)):
            end = codec.apply_blocks(state, raw, codec.HEADER_BYTES, str(self.path))
        self._state = state
        return end

    def _append_block(self, block: bytes, change: Callable[[], object]) -> None:
        """Write and sync a block, then apply the same ``change`` to the state in memory."""
        if self._failed is not None:
            raise self._failed
        try:
            with without_interrupts(), self._lock_store_file() as fd:
                self._apply_appended(fd)
                # Order: write, sync, then change memory, so that memory never has a position that is not on disk.
                self._write_content(fd, block, self._end)
                self._seam.call("file.sync", os.fsync, fd)
                self._end += len(block)
                change()
                if self._end > SUBSCRIPTION_LIMITS.rewrite_min_bytes:
                    self._rewrite_if_sparse()
        except OSError as error:
            # After a failed sync the content on disk is unknown, and a later sync does not report it: write no more
            # blocks.
            self._failed = self._make_storage_error(error)
            self.close()
            raise self._failed from error

    def _apply_appended(self, fd: int) -> None:
        """Under the lock: apply blocks that other processes appended, truncate an incomplete tail, initialize a new
        file."""
        size = os.fstat(fd).st_size
        # A change by another process makes the file longer, or replaces it (_is_file_current), so an equal length means
        # no change.
        if size == self._end > 0:
            return
        is_first_look = not self._end
        raw: bytes = self._seam.call("file.read", os.pread, fd, size, 0)
        self._end = self._load_content(raw)
        if self._end < size:
            # An incomplete block was never synced, so it was never reported as stored.
            self._seam.call("file.truncate", os.ftruncate, fd, self._end)
        if not self._end:
            content = codec.encode_header()
            self._write_content(fd, content, 0)
            # Sync before the first block: a header torn by a crash is distinguished from another file type by its
            # length.
            self._seam.call("file.sync", os.fsync, fd)
            self._end = len(content)
        if is_first_look:
            # Before the first block: the process that created or renamed the file may not have synced the directory
            # yet, or was killed. A lock does not help, since a process locks a new file only after opening it by its
            # name.
            sync_directory(self.path.parent, self._seam)

    @contextmanager
    def _lock_store_file(self) -> Iterator[int]:
        """Return the locked file; create it if it does not exist. Raises OSError."""
        while True:
            if self._fd is None:
                self._end = 0
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._fd = self._seam.call("file.open", os.open, self.path, flags, STORE_FILE_MODE)
            fd = self._fd
            self._seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX)
            try:
                # The file may have been rewritten while this process waited for the lock: the old file's lock protects
                # nothing.
                if self._is_file_current(fd):
                    yield fd
                    return
            finally:
                # Closing the file, as a rewrite does, has already released the lock.
                if self._fd == fd:
                    fcntl.flock(fd, fcntl.LOCK_UN)
            self.close()

    def _is_file_current(self, fd: int) -> bool:
        try:
            return self.path.stat().st_ino == os.fstat(fd).st_ino
        except FileNotFoundError:
            return False

    def _rewrite_if_sparse(self) -> None:
        """Under the lock: rewrite the file if that makes it less than half as long."""
        content = codec.encode_header() + codec.pack_state(self._state)
        if 2 * len(content) >= self._end:
            return
        temporary = self.path.with_name(f"{self.path.name}.new-{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd: int = self._seam.call("file.open", os.open, temporary, flags, STORE_FILE_MODE)
        try:
            try:
                self._write_content(fd, content, 0)
                self._seam.call("file.sync", os.fsync, fd)
                # The new file keeps the permissions of the old one.
                os.fchmod(fd, self.path.stat().st_mode & 0o777)
            finally:
                os.close(fd)
            # Synced before the rename: the name always refers to the complete old or the complete new file.
            self._seam.call("file.rename", os.rename, temporary, self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        # The old file contains the last block, too. Each writer syncs the directory before its first block in the new
        # file.
        self.close()

    def _write_content(self, fd: int, content: bytes, offset: int) -> None:
        rest = memoryview(content)
        while rest:
            # A full disk may cut a write short without an error; the next attempt reports it.
            written: int = self._seam.call("file.pwrite", os.pwrite, fd, rest, offset)
            if written <= 0:
                raise OSError("nothing was written")
            rest, offset = rest[written:], offset + written

    def _make_storage_error(self, error: OSError) -> StorageError:
        return StorageError(
            "SOW-BKM-003",
            f"cannot use the bookmark store: {error.strerror or error}",
            place=str(self.path),
            hint="the subscription resumes after the last stored position",
        )

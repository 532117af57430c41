"""A bookmark store in a file of its own: out-of-order acknowledgements and duplicates are known (``sow-bookmark(5)``).

Several processes may use one file, each for subscriptions of its own: every change is made under a lock, on what the
others have written before.
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
    """The store at ``path``; a file that is not there is an empty store, and is made by the first change.

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
        """All places, by client and subscription id."""
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
        """Set a place."""
        known = codec.SubscriptionState(bookmark, self._clock())
        self._append_block(codec.pack_put(who, bookmark, known.time), lambda: self._state.update({who: known}))

    def advance_place(self, who: Subscriber, step: PlaceAdvance) -> None:
        """Move a place on."""
        time = self._clock()

        def change() -> None:
            self._state.setdefault(who, codec.SubscriptionState("0", time)).apply_advance(step, time)

        self._append_block(codec.pack_advance(who, step, time), change)

    def remove_place(self, who: Subscriber) -> bool:
        """Forget a subscription."""
        self._refresh_state()
        if who not in self._state:
            return False
        self._append_block(codec.pack_purge(who), lambda: self._state.pop(who, None))
        return True

    def find_lock_file(self, who: Subscriber) -> Path | None:
        """Return the path of the lock file, beside the file."""
        return build_lock_path(self.path, who)

    @property
    def file(self) -> Path | None:
        """Its own."""
        return self.path

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _refresh_state(self) -> None:
        """Take in what the file holds now, without a lock."""
        try:
            raw: bytes = self._seam.call("file.read", self.path.read_bytes)
        except FileNotFoundError:
            self._state = {}
            return
        except OSError as error:
            raise self._make_storage_error(error) from error
        self._load_content(raw)

    def _load_content(self, raw: bytes) -> int:
        """The state of a whole file; returns where its whole blocks end, 0 without a header."""
        state: codec.StoreState = {}
        end = 0
        if codec.has_header(raw, str(self.path)):
            end = codec.apply_blocks(state, raw, codec.HEADER_BYTES, str(self.path))
        self._state = state
        return end

    def _append_block(self, block: bytes, change: Callable[[], object]) -> None:
        """Write a block and sync it; then ``change`` the state in memory alike."""
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
            # What a failed sync has left on disk is not known, and a later sync does not tell: no block may follow.
            self._failed = self._make_storage_error(error)
            self.close()
            raise self._failed from error

    def _apply_appended(self, fd: int) -> None:
        """Under the lock: take in what others have appended, cut off what is not whole at the end, begin a new file."""
        size = os.fstat(fd).st_size
        # A change by another process makes the file longer, or replaces it (_is_file_current), so an equal length means
        # no change.
        if size == self._end > 0:
            return
        is_first_look = not self._end
        raw: bytes = self._seam.call("file.read", os.pread, fd, size, 0)
        self._end = self._load_content(raw)
        if self._end < size:
            # An incomplete block was never synced, so nobody was told that it is stored.
            self._seam.call("file.truncate", os.ftruncate, fd, self._end)
        if not self._end:
            content = codec.encode_header()
            self._write_content(fd, content, 0)
            # Before any block: what a crash leaves of a header is told from a file of another kind by its length.
            self._seam.call("file.sync", os.fsync, fd)
            self._end = len(content)
        if is_first_look:
            # Before any block: the process that made or renamed the file may not have done so yet, or been killed. No
            # lock helps, since a new file is locked by the process that opens it by its name.
            sync_directory(self.path.parent, self._seam)

    @contextmanager
    def _lock_store_file(self) -> Iterator[int]:
        """The file, locked; made if it is not there. Raises OSError."""
        while True:
            if self._fd is None:
                self._end = 0
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._fd = self._seam.call("file.open", os.open, self.path, flags, STORE_FILE_MODE)
            fd = self._fd
            self._seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX)
            try:
                # It may have been written anew while the lock was waited for: the old file's lock guards nothing.
                if self._is_file_current(fd):
                    yield fd
                    return
            finally:
                # Closing the file, as writing it anew does, has let the lock go.
                if self._fd == fd:
                    fcntl.flock(fd, fcntl.LOCK_UN)
            self.close()

    def _is_file_current(self, fd: int) -> bool:
        try:
            return self.path.stat().st_ino == os.fstat(fd).st_ino
        except FileNotFoundError:
            return False

    def _rewrite_if_sparse(self) -> None:
        """Under the lock: write the file anew where that makes it much smaller."""
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
            # Synced before it is renamed: under the name stands the old file or the new one, and never a part.
            self._seam.call("file.rename", os.rename, temporary, self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        # The old file has the last block, too. Every writer syncs the directory before its first block in the new one.
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

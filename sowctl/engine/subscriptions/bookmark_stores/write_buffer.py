"""A write buffer for a bookmark store: of several changes of a position only the last one is written (``behaviour`` 9).

The stored position lags by the buffered changes. After a crash these messages are delivered again; none is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sowctl.engine.subscriptions.bookmark_stores.protocol import (
    AcknowledgedMessages,
    BookmarkStore,
    PlaceAdvance,
    StoredPlace,
    Subscriber,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.identity.bookmarks import Bookmark


class BufferedBookmarkStore(BookmarkStore):
    """Writes to ``store`` after ``count`` changes of a subscription's position, or ``interval`` seconds after the
    first.

    Writes happen only in calls, so :meth:`write_due_places` has to be called after :attr:`seconds_until_due` seconds.
    ``monotonic`` is a monotonic clock in seconds.
    """

    def __init__(self, store: BookmarkStore, count: int, interval: float, monotonic: Callable[[], float]) -> None:
        self.remembers = store.remembers
        self._store = store
        self._count = count
        self._interval = interval
        self._monotonic = monotonic
        self._pending: dict[Subscriber, PlaceAdvance] = {}
        self._changes: dict[Subscriber, int] = {}
        self._since: dict[Subscriber, float] = {}

    @property
    def seconds_until_due(self) -> float | None:
        """Seconds until the next write is due; None without pending changes."""
        return max(0.0, min(self._since.values()) + self._interval - self._monotonic()) if self._since else None

    def write_due_places(self) -> None:
        """Write the changes that are due."""
        now = self._monotonic()
        for who in [who for who, since in self._since.items() if now - since >= self._interval]:
            self._write_place(who)

    def list_places(self) -> list[StoredPlace]:
        """Return all stored positions."""
        return self._store.list_places()

    def read_place(self, who: Subscriber) -> StoredPlace | None:
        """Return the position of one subscription as stored."""
        return self._store.read_place(who)

    def read_acknowledged(self, who: Subscriber) -> AcknowledgedMessages:
        """Return the messages that are stored as acknowledged."""
        return self._store.read_acknowledged(who)

    def set_place(self, who: Subscriber, bookmark: str) -> None:
        """Set a position immediately."""
        self._forget_buffered(who)
        self._store.set_place(who, bookmark)

    def advance_place(self, who: Subscriber, step: PlaceAdvance) -> None:
        """Advance a position, in memory first."""
        before = self._pending.get(who)
        self._pending[who] = step if before is None else _combine_steps(before, step)
        self._changes[who] = self._changes.get(who, 0) + 1
        self._since.setdefault(who, self._monotonic())
        if self._changes[who] >= self._count:
            self._write_place(who)
        else:
            self.write_due_places()

    def remove_place(self, who: Subscriber) -> bool:
        """Remove a subscription immediately."""
        self._forget_buffered(who)
        return self._store.remove_place(who)

    def find_lock_file(self, who: Subscriber) -> Path | None:
        """Return the lock file of the underlying store."""
        return self._store.find_lock_file(who)

    @property
    def file(self) -> Path | None:
        """The file of the underlying store."""
        return self._store.file

    def close(self) -> None:
        """Write pending changes and close the store."""
        try:
            for who in list(self._pending):
                self._write_place(who)
        finally:
            self._store.close()

    def _write_place(self, who: Subscriber) -> None:
        self._store.advance_place(who, self._pending[who])
        # Dropped only after the write: after an error it is written again.
        self._forget_buffered(who)

    def _forget_buffered(self, who: Subscriber) -> None:
        self._pending.pop(who, None)
        self._changes.pop(who, None)
        self._since.pop(who, None)


def _combine_steps(first: PlaceAdvance, second: PlaceAdvance) -> PlaceAdvance:
    """Combine two steps into one."""
    beyond: list[Bookmark] = [*first.beyond, *second.beyond]
    # Sequence numbers of a publisher increase with the log, so those of the second step are higher.
    return PlaceAdvance(second.bookmark or first.bookmark, {**first.passed, **second.passed}, beyond)

"""A store in front of another: of many changes of a place the last one is written, now and then (``behaviour`` 9).

The stored place lags behind by what was not written yet. After a crash that is delivered again; nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sowctl.engine.following.stores.protocol import Advance, BookmarkStore, Memory, StoredPlace, Subscriber

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.identity.bookmarks import Bookmark


class Conflating(BookmarkStore):
    """Writes to ``store`` after ``count`` changes of a subscription's place, or ``interval`` seconds after its first.

    Nothing is written while nothing is told, so :meth:`tick` has to be called when :attr:`due` says so. ``monotonic``
    is a clock in seconds that only goes on.
    """

    def __init__(self, store: BookmarkStore, count: int, interval: float, monotonic: Callable[[], float]) -> None:
        self.remembers = store.remembers
        self._store = store
        self._count = count
        self._interval = interval
        self._monotonic = monotonic
        self._pending: dict[Subscriber, Advance] = {}
        self._changes: dict[Subscriber, int] = {}
        self._since: dict[Subscriber, float] = {}

    @property
    def due(self) -> float | None:
        """Seconds until something has to be written; None where nothing waits."""
        return max(0.0, min(self._since.values()) + self._interval - self._monotonic()) if self._since else None

    def tick(self) -> None:
        """Write what has waited long enough."""
        now = self._monotonic()
        for who in [who for who, since in self._since.items() if now - since >= self._interval]:
            self._write_place(who)

    def rows(self) -> list[StoredPlace]:
        """All places as they are stored."""
        return self._store.rows()

    def get(self, who: Subscriber) -> StoredPlace | None:
        """One place as it is stored."""
        return self._store.get(who)

    def memory(self, who: Subscriber) -> Memory:
        """What is stored as acknowledged."""
        return self._store.memory(who)

    def put(self, who: Subscriber, bookmark: str) -> None:
        """Set a place at once."""
        self._forget_buffered(who)
        self._store.put(who, bookmark)

    def advance(self, who: Subscriber, step: Advance) -> None:
        """Move a place on, in memory first."""
        before = self._pending.get(who)
        self._pending[who] = step if before is None else _combine_steps(before, step)
        self._changes[who] = self._changes.get(who, 0) + 1
        self._since.setdefault(who, self._monotonic())
        if self._changes[who] >= self._count:
            self._write_place(who)
        else:
            self.tick()

    def purge(self, who: Subscriber) -> bool:
        """Forget a subscription at once."""
        self._forget_buffered(who)
        return self._store.purge(who)

    def lock_file(self, who: Subscriber) -> Path | None:
        """As of the store behind."""
        return self._store.lock_file(who)

    @property
    def file(self) -> Path | None:
        """As of the store behind."""
        return self._store.file

    def close(self) -> None:
        """Write what waits, and close the store."""
        try:
            for who in list(self._pending):
                self._write_place(who)
        finally:
            self._store.close()

    def _write_place(self, who: Subscriber) -> None:
        self._store.advance(who, self._pending[who])
        self._forget_buffered(who)

    def _forget_buffered(self, who: Subscriber) -> None:
        self._pending.pop(who, None)
        self._changes.pop(who, None)
        self._since.pop(who, None)


def _combine_steps(first: Advance, second: Advance) -> Advance:
    """Two steps as one."""
    beyond: list[Bookmark] = [*first.beyond, *second.beyond]
    return Advance(second.bookmark or first.bookmark, {**first.passed, **second.passed}, beyond)

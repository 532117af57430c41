"""A change of a queue in progress: its rows, its instant, and its journal entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.queues.settlement import SettlementEntries
from sowctl.store.queue.page import PAGE_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sowctl.config.derived_entries import Queue
    from sowctl.engine.queues.settlement import QueueEntry
    from sowctl.journal.reader import Journal
    from sowctl.store.queue.rows import StateRows


class NeedsJournal(Exception):
    """A change has journal entries, but the journal's lock is not held: the change is restarted with the lock."""


class QueueChange:
    """A change in progress. ``now`` is one reading of the clock, ``owner`` the instance's publisher id, ``random(n)``
    returns n random bytes."""

    def __init__(
        self,
        rows: StateRows,
        log: Journal,
        queue: Queue,
        owner: int,
        now: int,
        random: Callable[[int], bytes],
        *,
        journals: bool,
    ) -> None:
        self.rows = rows
        self.log = log
        self.queue = queue
        self.owner = owner
        self.now = now
        self.entries = SettlementEntries()
        self.alive: frozenset[int] | None = None
        """The live workers, if they were just checked."""
        self._random = random
        self._journals = journals

    def create_tokens(self, count: int) -> range:
        """Return consecutive tokens for ``count`` leases of one page, from a random one on; never 0."""
        first = (int.from_bytes(self._random(7), "big") or 1) << 8
        assert count <= 1 << 8 == PAGE_MESSAGES
        self.rows.state.token = first + count - 1
        return range(first, first + count)

    def add_entry(self, entry: QueueEntry) -> None:
        """Schedule an entry, which is written before this change is committed. Raises NeedsJournal."""
        if not self._journals:
            raise NeedsJournal
        self.entries.add(entry)

    def add_entries(self, entries: SettlementEntries) -> None:
        """Schedule several entries. Raises NeedsJournal."""
        if len(entries) and not self._journals:
            raise NeedsJournal
        self.entries.extend(entries)

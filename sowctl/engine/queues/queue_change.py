"""One change of a queue while it is made: its rows, its instant, and the entries that it will journal."""

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
    """A change has something to journal, and the journal's lock is not held: it is made again with it."""


class QueueChange:
    """One change while it is made. ``now`` is one reading of the clock, ``owner`` the instance's publisher id,
    ``random(n)`` gives n random bytes."""

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
        """The workers that live, where that was just looked up."""
        self._random = random
        self._journals = journals

    def create_tokens(self, count: int) -> range:
        """Return tokens for ``count`` leases of one page, consecutive from a random one on; never 0."""
        first = (int.from_bytes(self._random(7), "big") or 1) << 8
        assert count <= 1 << 8 == PAGE_MESSAGES
        self.rows.state.token = first + count - 1
        return range(first, first + count)

    def add_entry(self, entry: QueueEntry) -> None:
        """Have an entry written before this change is committed. Raises NeedsJournal."""
        if not self._journals:
            raise NeedsJournal
        self.entries.add(entry)

    def add_entries(self, entries: SettlementEntries) -> None:
        """The same for several. Raises NeedsJournal."""
        if len(entries) and not self._journals:
            raise NeedsJournal
        self.entries.extend(entries)

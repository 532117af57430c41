"""Barriers: messages that wait for all before them and hold up all behind them (``behaviour`` 5.4, 11.65; C132).

A barrier is delivered once to each worker that is alive when all before it are acknowledged; where none is, to the next
that asks. It acknowledges itself with the last delivery, and what stands behind it is delivered from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.queues.settlement import QueueEntry, count_settled, find_pending, finish_message, read_bookmark
from sowctl.journal.format import ACK

if TYPE_CHECKING:
    from sowctl.engine.queues.queue_change import QueueChange
    from sowctl.store.queue.page import Page
    from sowctl.store.queue.rows import BookmarkName


class Barriers:
    """The oldest barrier of a queue in one change. ``limit``: messages from this txid on are blocked, None for none."""

    def __init__(self, turn: QueueChange) -> None:
        self._turn = turn
        found = turn.rows.find_first_barrier() if turn.queue.barrier else None
        self.limit = None if found is None else found[0]
        self._row = None if found is None else found[1]

    def take_due_barrier(self, number: int) -> tuple[Page, int, BookmarkName] | None:
        """The barrier, if it is delivered to this holder now: its page, its index there, its bookmark."""
        turn, rows, row = self._turn, self._turn.rows, self._row
        while self.limit is not None and row is not None:
            if rows.find_first_pending() != self.limit:
                return None
            if row.waiting is None:
                row.waiting = sorted(turn.alive if turn.alive is not None else self._list_workers())
            spot = find_pending(rows, self.limit)
            assert spot is not None
            _, page, index = spot
            delivered = number in row.waiting or not (row.waiting or row.delivered)
            if delivered:
                row.waiting = [other for other in row.waiting if other != number]
                row.delivered += 1
            name = read_bookmark(page, index, turn.owner)
            txid = self.limit
            if row.waiting:
                rows.put_barrier(txid, row)
                return (page, index, name) if delivered else None
            entry = QueueEntry(ACK, name)
            turn.add_entry(entry)
            finish_message(rows, spot)
            count_settled(rows, entry, turn.now)
            if delivered:
                page.deliveries[index] += 1
                return page, index, name
            # All that waited for it have ended: it is over, and the next barrier counts.
            rows.flush()
            found = rows.find_first_barrier()
            self.limit, row = found if found is not None else (None, None)
        return None

    def _list_workers(self) -> list[int]:
        return [number for number, holder in self._turn.rows.list_holders().items() if holder.worker]

"""Barriers: messages that wait for all before them and hold up all behind them (``behaviour`` 5.4, 11.65; C132).

A barrier is delivered once to each worker that is alive when all before it are acknowledged; where none is, to the next
that asks. It acknowledges itself with the last delivery, and what stands behind it is delivered from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.queues.settling import QueueEntry, count_end, finish, name_of, spot_of
from sowctl.journal.format import ACK

if TYPE_CHECKING:
    from sowctl.engine.queues.turn import Turn
    from sowctl.store.queue.page import Page
    from sowctl.store.queue.rows import Name


class Barriers:
    """The oldest barrier of a queue in one change. ``limit``: messages from this txid on are blocked, None for none."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        found = turn.rows.first_barrier() if turn.queue.barrier else None
        self.limit = None if found is None else found[0]
        self._row = None if found is None else found[1]

    def due(self, number: int) -> tuple[Page, int, Name] | None:
        """The barrier, if it is delivered to this holder now: its page, its index there, its bookmark."""
        turn, rows, row = self._turn, self._turn.rows, self._row
        while self.limit is not None and row is not None:
            if rows.first_pending() != self.limit:
                return None
            if row.waiting is None:
                row.waiting = sorted(turn.alive if turn.alive is not None else self._workers())
            spot = spot_of(rows, self.limit)
            assert spot is not None
            _, page, index = spot
            delivered = number in row.waiting or not (row.waiting or row.delivered)
            if delivered:
                row.waiting = [other for other in row.waiting if other != number]
                row.delivered += 1
            name = name_of(page, index, turn.owner)
            txid = self.limit
            if row.waiting:
                rows.put_barrier(txid, row)
                return (page, index, name) if delivered else None
            entry = QueueEntry(ACK, name)
            turn.journal(entry)
            finish(rows, spot)
            count_end(rows, entry, turn.now)
            if delivered:
                page.deliveries[index] += 1
                return page, index, name
            # All that waited for it have ended: it is over, and the next barrier counts.
            rows.flush()
            found = rows.first_barrier()
            self.limit, row = found if found is not None else (None, None)
        return None

    def _workers(self) -> list[int]:
        return [number for number, holder in self._turn.rows.holders().items() if holder.worker]

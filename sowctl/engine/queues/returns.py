"""Returning messages: expired leases, ended delays, expired messages (``behaviour`` 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.queues.settlement import (
    MAX_CANCELS_REASON,
    MAX_DELIVERIES_REASON,
    TIME_LIMIT_REASON,
    PageMessage,
    QueueEntry,
    choose_earlier,
    count_settled,
    mark_dead,
    read_bookmark,
    release_lease,
    settle_message,
)
from sowctl.journal.format import EXPIRE
from sowctl.store.queue.page import DELAYED, DONE, LEASED, READY

if TYPE_CHECKING:
    from sowctl.engine.queues.handles import CommandFailure, Outcome
    from sowctl.engine.queues.queue_change import QueueChange

MAX_CHANGE_PAGES = 256
"""Maximum number of pages with due messages per change: many simultaneous expirations must not hold locks for long."""


def apply_due(turn: QueueChange, most: int | None = MAX_CHANGE_PAGES) -> None:
    """Return messages with expired leases, end expired messages and release delayed ones, up to and including now."""
    rows, now = turn.rows, turn.now
    rows.drop_expired_deferrals(now)
    for first in rows.list_alarm_pages(now, most):
        page = rows.load_page(first)
        for index, state in enumerate(page.states):
            if state == DONE:
                continue
            spot = first, page, index
            if 0 < page.expirations[index] <= now:
                # No journal entry: a rebuild computes the same from stamp and clock.
                entry = QueueEntry(EXPIRE, read_bookmark(page, index, turn.owner), TIME_LIMIT_REASON)
                settle_message(rows, spot)
                count_settled(rows, entry, now)
            elif 0 < page.until[index] <= now:
                if state == LEASED:
                    return_message(turn, spot)
                elif state == DELAYED:
                    page.states[index], page.until[index] = READY, 0
        # Alarms are only moved earlier elsewhere; after a pass over the whole page, this one is exact again.
        page.alarm = page.find_next_alarm()
    rows.flush()


def return_holder_leases(turn: QueueChange, holder: int) -> list[Outcome]:
    """Return the leases of a holder that has terminated, and remove it; return ``done`` or the reason of death per
    message."""
    rows = turn.rows
    outcomes: list[Outcome] = []
    rows.verify_leases_of_holder(holder)
    for first in rows.list_lease_pages(holder):
        page = rows.load_page(first)
        for index, who in enumerate(page.holders):
            if who == holder and page.states[index] == LEASED:
                reason = return_message(turn, (first, page, index))
                outcomes.append(reason or "done")  # type: ignore[arg-type]  # the reasons are outcomes
    rows.drop_holder(holder)
    # A barrier must not wait for a worker that has ended: it would block the queue forever.
    barrier = rows.find_first_barrier()
    if barrier is not None and barrier[1].waiting and holder in barrier[1].waiting:
        txid, row = barrier
        assert row.waiting is not None
        row.waiting.remove(holder)
        rows.put_barrier(txid, row)
    rows.flush()
    return outcomes


def return_message(
    turn: QueueChange,
    spot: PageMessage,
    *,
    delay_us: int = 0,
    cancelled: bool = False,
    started: bool = True,
    failure: CommandFailure | None = None,
) -> str | None:
    """Return a leased message; return the reason if it is dead now, else None.

    ``delay_us``: minimum time until it is delivered again. ``started`` False: it was returned unprocessed, so this was
    no delivery. ``failure``: stored with a message that is dead now.
    """
    rows, queue = turn.rows, turn.queue
    _, page, index = spot
    state = rows.state
    if cancelled:
        page.cancels[index] = min(page.cancels[index] + 1, 0xFFFF)
        state.cancelled += 1
    else:
        state.returned += 1
    if not started:
        page.deliveries[index] = max(0, page.deliveries[index] - 1)
    reason = None
    # Reached, not exceeded: with 2, the return of the second delivery ends it (behaviour 11.23, 11.29).
    if cancelled and 0 < queue.max_cancels <= page.cancels[index]:
        reason = MAX_CANCELS_REASON
    elif started and 0 < queue.max_deliveries <= page.deliveries[index]:
        reason = MAX_DELIVERIES_REASON
    if reason is not None:
        entry = QueueEntry(EXPIRE, read_bookmark(page, index, turn.owner), reason)
        turn.add_entry(entry)
        holder = rows.load_holder(page.holders[index])
        mark_dead(rows, spot, reason, turn.now, "" if holder is None else holder.name, failure)
        count_settled(rows, entry, turn.now)
        return reason
    release_lease(rows, spot)
    page.states[index] = READY
    if delay_us > 0:
        page.states[index], page.until[index] = DELAYED, turn.now + delay_us
        page.alarm = choose_earlier(page.alarm, page.until[index])
    return None

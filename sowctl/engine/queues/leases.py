"""Leasing, acknowledging, cancelling, renewing: the operations on single messages (``behaviour`` 5.4, 11.64-11.72).

Every lease has its own token. An operation with a token applies only to that lease, not to a later one of the same
message: a worker that was suspended for longer than its lease can neither finish nor renew that of its successor.
Tokens are random, so this holds even if the state file was lost, or restored from an older copy.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.queues.fairness import LeaseCandidate, compute_share
from sowctl.engine.queues.handles import Lease, MessageHandle, Outcome
from sowctl.engine.queues.returns import return_message
from sowctl.engine.queues.settlement import (
    DEFERRED_REASON,
    FORCED_REASON,
    PageMessage,
    QueueEntry,
    SettlementBatch,
    choose_earlier,
    count_settled,
    find_pending,
    find_txid,
    read_bookmark,
    remove_dead,
    revive_dead,
    settle_message,
)
from sowctl.journal.format import ACK, EXPIRE, REQUEUE
from sowctl.store.queue.page import DELAYED, LEASED, MAX_COUNTER, NEVER_MICROS, READY, Page

if TYPE_CHECKING:
    from sowctl.engine.queues.queue_change import QueueChange
    from sowctl.store.queue.rows import BookmarkName
    from sowctl.store.queue.values import Holder

MAX_ASK_AGE_MICROS = 2_000_000
"""Microseconds for which a holder that got too few messages counts as waiting: it asks again much sooner."""


def lease_messages(turn: QueueChange, number: int, wanted: int) -> list[Lease]:
    """Lease up to ``wanted`` messages to a holder in delivery order, limited by its capacity and by fairness.

    With at-most-once, the lease removes them from the queue: the result is journalled before it is returned.
    """
    rows, queue = turn.rows, turn.queue
    rows.verify_leases_of_holder(number)
    holder = rows.load_holder(number)
    assert holder is not None
    holder.seen = turn.now
    barriers = Barriers(turn)
    if (due := barriers.take_due_barrier(number)) is not None:
        return [_build_barrier_lease(due)]
    free = min(wanted, holder.room - holder.in_flight) if holder.worker else wanted
    taken = _take_ready(turn, number, _compute_fair_count(turn, number, holder, free, barriers.limit), barriers.limit)
    holder.in_flight += len(taken)
    if queue.semantics == "at-most-once":
        ended = SettlementBatch(rows, turn.owner, ACK, "")
        for one in taken:
            spot = find_pending(rows, one.txid)
            assert spot is not None
            ended.add(spot)
        turn.add_entries(ended.entries)
        ended.update_counters(turn.now)
        # For the queue they are processed: there is no lease to acknowledge or renew.
        taken = [replace(one, token=0, until=NEVER_MICROS) for one in taken]
    holder.delivered += len(taken)
    # A holder that got less than requested counts as waiting in the next division (_compute_fair_count).
    holder.asked = 0 if len(taken) >= free else turn.now
    state = rows.state
    state.delivered += len(taken)
    state.open_minute(turn.now).delivered += len(taken)
    if taken:
        state.turn = number
    return taken


def _build_barrier_lease(spot: tuple[Page, int, BookmarkName]) -> Lease:
    page, index, name = spot
    place = page.find_block_place(index)
    at = place.number, place.offset, place.before
    return Lease(
        page.txids[index], name, 0, NEVER_MICROS, page.deliveries[index], page.cancels[index], at, barrier=True
    )


def _compute_fair_count(turn: QueueChange, number: int, holder: Holder, free: int, limit: int | None) -> int:
    """Return how many messages the holder gets."""
    rows, queue = turn.rows, turn.queue
    if free <= 0:
        return 0
    available = rows.state.ready if limit is None else _count_ready_before(turn, limit)
    if queue.max_backlog is not None:
        available = min(available, queue.max_backlog - rows.state.leased)
    if available <= 0:
        return 0
    others = [
        LeaseCandidate(other, one.in_flight, one.room)
        for other, one in sorted(rows.list_holders().items())
        if other != number and one.worker and one.asked and turn.now - one.asked <= MAX_ASK_AGE_MICROS
    ]
    if not others:
        return min(free, available)
    seats = sorted(
        [*others, LeaseCandidate(number, holder.in_flight, holder.in_flight + free)], key=lambda seat: seat.number
    )
    if holder.worker:
        seats = [LeaseCandidate(s.number, s.leased, holder.room) if s.number == number else s for s in seats]
    return min(free, compute_share(queue.fairness, seats, number, available, rows.state.turn))


def _count_ready_before(turn: QueueChange, limit: int) -> int:
    """Return the number of ready messages before a barrier, counting only up to about 10,000."""
    found = 0
    for first in turn.rows.iter_ready_pages_before(limit):
        if found > 10_000:
            break
        page = turn.rows.load_page(first)
        found += sum(1 for txid, state in zip(page.txids, page.states, strict=True) if state == READY and txid < limit)
    return found


def _take_ready(turn: QueueChange, number: int, wanted: int, limit: int | None) -> list[Lease]:
    """Lease the first ``wanted`` ready messages before the txid ``limit``."""
    rows, queue, now = turn.rows, turn.queue, turn.now
    period = queue.lease_period_us
    until = NEVER_MICROS if period is None else now + period
    taken: list[Lease] = []
    if wanted <= 0:
        return taken
    for priority, first in rows.iter_ready_pages():
        # Pages are ordered by priority: a later page may start before the barrier again.
        if limit is not None and first >= limit:
            continue
        page = rows.load_page(first)
        for start, stop in _find_ready_runs(page, priority, limit, wanted - len(taken)):
            taken += _lease_run(turn, page, start, stop, number, until)
        if until != NEVER_MICROS:
            page.alarm = choose_earlier(page.alarm, until)
        if len(taken) == wanted:
            break
    return taken


def _lease_run(turn: QueueChange, page: Page, start: int, stop: int, number: int, until: int) -> Iterable[Lease]:
    """Lease the messages from ``start`` to ``stop`` (exclusive), which are in one block."""
    count = stop - start
    tokens = turn.create_tokens(count)
    page.states[start:stop] = bytes((LEASED,)) * count
    page.holders[start:stop] = array("I", (number,)) * count
    page.tokens[start:stop] = array("Q", tokens)
    page.until[start:stop] = array("q", (until,)) * count
    deliveries = [min(delivered + 1, MAX_COUNTER) for delivered in page.deliveries[start:stop]]
    page.deliveries[start:stop] = array("H", deliveries)
    place = page.find_block_place(start)
    txids = page.txids[start:stop]
    names: Iterable[BookmarkName] = zip(repeat(turn.owner), txids)
    if turn.rows.has_names:
        names = [read_bookmark(page, index, turn.owner) for index in range(start, stop)]
    at = repeat((place.number, place.offset, place.before))
    return map(Lease, txids, names, tokens, repeat(until), deliveries, page.cancels[start:stop], at)


def _find_ready_runs(page: Page, priority: int, limit: int | None, wanted: int) -> Iterator[tuple[int, int]]:
    """Yield the first ``wanted`` ready messages of a priority as runs of indexes (stop exclusive), each within one
    block."""
    states = page.states
    ranked = page.ranked
    ends = [place.start for place in page.places[1:]]
    last = len(states) if limit is None else bisect_left(page.txids, limit)
    start = states.find(READY, 0, last)
    while start >= 0 and wanted:
        stop = start + 1
        if not ranked or page.priorities[start] == priority:
            most = min(last, start + wanted, next((end for end in ends if end > start), last))
            while stop < most and states[stop] == READY and not (ranked and page.priorities[stop] != priority):
                stop += 1
            wanted -= stop - start
            yield start, stop
        start = states.find(READY, stop, last)


class Barriers:
    """The oldest barrier of a queue in one change (``behaviour`` 5.4, 11.65; C132).

    A barrier waits for all messages before it and blocks all after it. When all before it are acknowledged, it is
    delivered once to each live worker; without a live worker, to the next holder that asks. The last delivery
    acknowledges it, and the messages after it are delivered from then on. ``limit``: messages from this txid on are
    blocked, None for none.
    """

    def __init__(self, turn: QueueChange) -> None:
        self._turn = turn
        found = turn.rows.find_first_barrier() if turn.queue.barrier else None
        self.limit = None if found is None else found[0]
        self._row = None if found is None else found[1]

    def take_due_barrier(self, number: int) -> tuple[Page, int, BookmarkName] | None:
        """Return the barrier if it is delivered to this holder now: its page, its index there, its bookmark."""
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
            settle_message(rows, spot)
            count_settled(rows, entry, turn.now)
            if delivered:
                page.deliveries[index] += 1
                return page, index, name
            # All workers that had to receive it have terminated: it is done, and the next barrier applies.
            rows.flush()
            found = rows.find_first_barrier()
            self.limit, row = found if found is not None else (None, None)
        return None

    def _list_workers(self) -> list[int]:
        return [number for number, holder in self._turn.rows.list_holders().items() if holder.worker]


def acknowledge_messages(
    turn: QueueChange, handles: Sequence[MessageHandle], client: int | None, *, expire: bool = False
) -> list[Outcome]:
    """Settle messages; with ``expire`` they are dropped unprocessed. ``client`` is the holder that asks, if known.

    An acknowledgement of a message that is not published yet is remembered (DeferredAckExpiration).
    """
    outcomes: list[Outcome] = []
    ended = SettlementBatch(turn.rows, turn.owner, EXPIRE if expire else ACK, FORCED_REASON if expire else "")
    place = 0
    while place < len(handles):
        handle = handles[place]
        spot, outcome = _find_pending(turn, handle, client)
        count = 1
        if spot is None:
            outcomes.append(outcome if expire or outcome != "unknown" else _acknowledge_absent(turn, handle))
        elif handle.token is None or turn.rows.has_names:
            ended.add(spot)
            outcomes.append("done")
        else:
            # Messages that were leased together are usually acknowledged together, and are consecutive.
            _, page, index = spot
            count = _count_lease_run(handles, place, page, index, turn.owner)
            ended.add_run(page, index, index + count)
            outcomes += ["done"] * count
        place += count
    turn.add_entries(ended.entries)
    ended.update_counters(turn.now)
    return outcomes


def _count_lease_run(handles: Sequence[MessageHandle], place: int, page: Page, index: int, owner: int) -> int:
    """Return the number of consecutive leases from ``index`` on that the handles from ``place`` on name."""
    most = min(len(handles) - place, len(page) - index)
    count = 1
    columns = zip(page.txids[index + 1 :], page.tokens[index + 1 :], page.states[index + 1 :], strict=True)
    for txid, token, state in columns:
        if count == most:
            break
        handle = handles[place + count]
        if handle.token != token or state != LEASED or handle.name != (owner, txid):
            break
        count += 1
    return count


def _acknowledge_absent(turn: QueueChange, handle: MessageHandle) -> Outcome:
    """Return the outcome of acknowledging a message that is not pending: dead, settled before, or not published yet."""
    rows, name = turn.rows, handle.name
    txid = find_txid(rows, turn.owner, name)
    if handle.token is not None:
        return "stale"
    if txid is not None and rows.read_dead_message(txid) is not None:
        turn.add_entry(QueueEntry(ACK, name))
        remove_dead(rows, txid)
        return "done"
    if name[0] == turn.owner and not turn.log.find_highest_sequence(turn.owner):
        past = name[1] <= rows.state.applied
    else:
        # Without `whole`, the message may be among the entries that the state has not read yet.
        past = name[1] <= turn.log.find_highest_sequence(name[0]) and rows.state.whole
    if past:
        return "unknown"
    turn.add_entry(QueueEntry(ACK, name, DEFERRED_REASON))
    rows.put_deferral(name, turn.now + turn.queue.deferred_ack_expiration_us)
    return "deferred"


def cancel_leases(
    turn: QueueChange, handles: Iterable[MessageHandle], client: int | None, *, started: bool = True
) -> list[Outcome]:
    """Return leased messages to the queue; ``started`` False: unprocessed, which counts as no delivery and no
    cancel."""
    outcomes: list[Outcome] = []
    for handle in handles:
        spot, outcome = _find_leased(turn, handle, client)
        if spot is None:
            outcomes.append(outcome)
            continue
        _, page, index = spot
        holder = turn.rows.load_holder(page.holders[index])
        if holder is not None:
            if started:
                holder.cancelled += 1
            else:
                holder.returned += 1
                holder.delivered -= 1
                turn.rows.state.delivered -= 1
        reason = return_message(
            turn, spot, delay_us=handle.delay_us, cancelled=started, started=started, failure=handle.failure
        )
        outcomes.append(reason or "done")  # type: ignore[arg-type]  # the reasons of return_message are outcomes
    return outcomes


def renew_leases(turn: QueueChange, handles: Iterable[MessageHandle], client: int | None) -> list[Outcome]:
    """Extend leases by another LeasePeriod from now on."""
    period = turn.queue.lease_period_us
    until = NEVER_MICROS if period is None else turn.now + period
    outcomes: list[Outcome] = []
    for handle in handles:
        spot, outcome = _find_leased(turn, handle, client)
        if spot is not None:
            _, page, index = spot
            page.until[index] = until
            # If LeasePeriod was reduced, or the clock was set back, the lease ends before the page's alarm.
            if until != NEVER_MICROS:
                page.alarm = choose_earlier(page.alarm, until)
        outcomes.append("done" if spot is not None else outcome)
    return outcomes


def requeue_messages(turn: QueueChange, names: Sequence[BookmarkName]) -> list[Outcome]:
    """Make delayed messages ready, and dead ones pending again with their counters at 0."""
    rows = turn.rows
    outcomes: list[Outcome] = []
    for name in names:
        txid = find_txid(rows, turn.owner, name)
        spot = None if txid is None else find_pending(rows, txid)
        if spot is not None and spot[1].states[spot[2]] == DELAYED:
            spot[1].states[spot[2]], spot[1].until[spot[2]] = READY, 0
            outcomes.append("done")
        elif spot is not None:
            outcomes.append("leased" if spot[1].states[spot[2]] == LEASED else "done")
        elif txid is not None and rows.read_dead_message(txid) is not None:
            turn.add_entry(QueueEntry(REQUEUE, name))
            revive_dead(rows, txid)
            rows.state.requeued += 1
            outcomes.append("done")
        else:
            outcomes.append("unknown")
    return outcomes


def _find_pending(turn: QueueChange, handle: MessageHandle, client: int | None) -> tuple[PageMessage | None, Outcome]:
    """Return the pending message that may be settled; None and the outcome if there is none."""
    rows, name = turn.rows, handle.name
    # The usual bookmark is that of the instance: its number is the txid.
    txid = name[1] if name[0] == turn.owner and not rows.has_names else find_txid(rows, turn.owner, name)
    spot = None if txid is None else find_pending(rows, txid)
    if spot is None:
        return None, "stale" if handle.token is not None else "unknown"
    _, page, index = spot
    if handle.token is not None:
        # The token identifies the lease: it must be the current one.
        if page.states[index] == LEASED and page.tokens[index] == handle.token:
            return spot, "done"
        return None, "stale"
    if page.states[index] == LEASED and turn.queue.leasing == "strict" and page.holders[index] != client:
        return None, "leased"
    return spot, "done"


def _find_leased(turn: QueueChange, handle: MessageHandle, client: int | None) -> tuple[PageMessage | None, Outcome]:
    """Return the leased message of a handle; None and the outcome if there is none."""
    spot, outcome = _find_pending(turn, handle, client)
    if spot is not None and spot[1].states[spot[2]] != LEASED:
        return None, "not leased"
    return spot, outcome


def iterate_pages(turn: QueueChange) -> Iterable[tuple[int, Page]]:
    """Yield all pages in txid order."""
    for first in list(turn.rows.iter_first_txids()):
        yield first, turn.rows.load_page(first)


__all__ = [
    "Lease",
    "MessageHandle",
    "Outcome",
    "acknowledge_messages",
    "cancel_leases",
    "iterate_pages",
    "lease_messages",
    "renew_leases",
    "requeue_messages",
]

"""Reports on the depth, flow and holders of a queue (``behaviour`` 5.4).

Depths come from counters that every change updates, so their cost does not depend on the number of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from sowctl.engine.queues.returns import apply_due
from sowctl.engine.queues.settlement import read_bookmark
from sowctl.identity.bookmarks import Bookmark
from sowctl.store.queue.page import BARRIER, READY
from sowctl.store.queue.values import RATE_MINUTES
from sowctl.values.times import to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from sowctl.engine.queues.queue import OpenQueue
    from sowctl.engine.queues.queue_change import QueueChange


class Depth(Struct):
    """Numbers of messages of a queue by state. ``pending`` includes ready, leased, delayed and blocked ones.

    ``whole`` is false if TargetQueueDepth keeps further messages of the journal out of the state.
    """

    queue: str
    message_type: str
    pending: int = 0
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    blocked: int = 0
    dead: int = 0
    whole: bool = True


class HolderInfo(Struct):
    """A worker, or a client that leases by name. Times in microseconds UTC; ``acknowledged_rate`` per second since it
    started."""

    name: str
    kind: str
    pid: int
    host: str
    started: int
    seen: int
    slots: int
    in_flight: int
    delivered: int
    acknowledged: int
    cancelled: int
    returned: int
    acknowledged_rate: float = 0.0


class QueueInfo(Struct):
    """A queue: definition, depth, counters since its state was created, and holders.

    Rates are per second over the last minutes. ``oldest`` is the time of the oldest pending message, ``blocked_by`` the
    bookmark of the barrier that blocks others, ``waiting_for`` what that barrier waits for. ``elements`` are elements
    of the configuration that have a meaning only between servers, with their values.
    """

    depth: Depth
    kind: str
    underlying: str
    publish_target: str
    semantics: str
    leasing: str
    fairness: str
    recovery_point: str
    file: str
    created: int = 0
    oldest_txid: int | None = None
    oldest: int | None = None
    age_seconds: float | None = None
    blocked_by: str | None = None
    waiting_for: str | None = None
    entered: int = 0
    delivered: int = 0
    acknowledged: int = 0
    cancelled: int = 0
    returned: int = 0
    requeued: int = 0
    expired: dict[str, int] = field(default_factory=dict)
    entered_rate: float = 0.0
    delivered_rate: float = 0.0
    acknowledged_rate: float = 0.0
    holders: list[HolderInfo] = field(default_factory=list)
    elements: dict[str, str] = field(default_factory=dict)

    @property
    def created_at(self) -> datetime:
        """``created`` as a datetime in UTC."""
        return to_datetime(self.created)

    @property
    def oldest_at(self) -> datetime | None:
        """``oldest`` as a datetime in UTC."""
        return None if self.oldest is None else to_datetime(self.oldest)


def compute_depth(queue: OpenQueue) -> Depth:
    """Return the numbers of messages of a queue by state."""
    if not queue.exists:
        return Depth(queue.queue.name, queue.queue.message_type)
    return queue.turns.run_read(_count_depth)


def build_queue_info(queue: OpenQueue) -> QueueInfo:
    """Return the full report on a queue; checks which workers are alive."""
    config = queue.queue
    found = QueueInfo(
        Depth(config.name, config.message_type),
        config.kind,
        config.underlying,
        config.default_publish_target,
        config.semantics,
        config.leasing,
        config.fairness,
        config.recovery_point,
        str(queue.turns.path),
        elements=_list_server_elements(queue),
    )
    if not queue.exists:
        return found
    places: list[tuple[int, tuple[int, int, int]]] = []

    def act(turn: QueueChange) -> None:
        places.clear()
        found.depth = _count_depth(turn)
        _add_flow_figures(turn, found)
        _add_barrier_figures(turn, found)
        oldest = turn.rows.find_first_pending()
        if oldest is not None and (at := turn.rows.find_page(oldest)) is not None:
            place = at[1].find_block_place(at[1].find_index(oldest))
            places.append((oldest, (place.number, place.offset, place.before)))

    queue.turns.run_read(act, look=True)
    for txid, place in places:
        body = queue.message_reader.read_message(txid, place)
        found.oldest_txid = txid
        if body is not None:
            found.oldest = body[1]
            found.age_seconds = max(0, queue.instance.now - body[1]) / 1e6
    return found


def find_oldest_needed_txid(queue: OpenQueue) -> int | None:
    """Return the txid of the oldest message whose payload is still needed: pending in any state, or dead and not
    removed.

    For this queue, journal files that end before it may be removed, including acknowledgements and the entry that
    starts the queue: a rebuilt state starts with the remaining journal. None if all files may be removed. The state is
    first brought up to the end of the journal. Raises LockedError ``SOW-QUE-010``, DamageError ``SOW-QUE-002``: then
    the txid is unknown, and no file may be removed.
    """
    if not queue.exists:
        return None

    def act(turn: QueueChange) -> int | None:
        apply_due(turn, None)
        pending = turn.rows.find_first_pending()
        return min([*([] if pending is None else [pending]), *turn.rows.list_dead_messages()], default=None)

    return queue.turns.run_read(act)


def _list_server_elements(queue: OpenQueue) -> dict[str, str]:
    """Return the elements that only other servers use."""
    config, found = queue.queue, {}
    if config.initial_owner is not None:
        found["InitialOwner"] = config.initial_owner
    if config.kind == "GroupLocalQueue":
        instance = queue.instance.config
        group = instance.group if instance is not None else ""
        found["identity"] = f"{config.name} in {config.group_domain or group}"
    return found


def _count_depth(turn: QueueChange) -> Depth:
    # An ordinary change processes a limited number of pages; a report needs exact numbers.
    apply_due(turn, None)
    state = turn.rows.state
    blocked = _count_blocked(turn)
    return Depth(
        state.name,
        state.message_type,
        state.pending_count,
        state.ready + state.barriers - blocked,
        state.leased,
        state.delayed,
        blocked,
        state.dead,
        state.whole,
    )


def _count_blocked(turn: QueueChange) -> int:
    """Return the number of messages after the first barrier, including waiting barriers. Counts page by page up to
    it."""
    state = turn.rows.state
    barrier = turn.rows.find_first_barrier()
    if barrier is None:
        return 0
    limit = barrier[0]
    if turn.rows.find_first_pending() == limit:
        return state.ready + state.barriers - 1
    free = 0
    for first in turn.rows.iter_ready_pages_before(limit):
        page = turn.rows.load_page(first)
        free += sum(1 for txid, one in zip(page.txids, page.states, strict=True) if one == READY and txid < limit)
    return state.ready + state.barriers - free


def _add_barrier_figures(turn: QueueChange, found: QueueInfo) -> None:
    """Add the blocking barrier to the report, and what it waits for, so that users see why a queue is blocked."""
    barrier = turn.rows.find_first_barrier()
    if barrier is None:
        return
    txid, row = barrier
    at = turn.rows.find_page(txid)
    assert at is not None
    index = at[1].find_index(txid)
    assert at[1].states[index] == BARRIER
    found.blocked_by = str(Bookmark(*read_bookmark(at[1], index, turn.owner)))
    oldest = turn.rows.find_first_pending()
    if oldest is not None and oldest != txid:
        found.waiting_for = f"txid {oldest} and others before it"
        return
    names = turn.rows.list_holders()
    waiting = [names[number].name for number in row.waiting or () if number in names]
    found.waiting_for = f"delivery to {', '.join(waiting)}" if waiting else "the next that asks"


def _add_flow_figures(turn: QueueChange, found: QueueInfo) -> None:
    state = turn.rows.state
    found.created, found.entered, found.delivered = state.created, state.entered, state.delivered
    found.acknowledged, found.cancelled, found.returned = state.acked, state.cancelled, state.returned
    found.requeued, found.expired = state.requeued, dict(state.expired)
    present = turn.now // 60_000_000
    rows = [row for row in state.minutes if row.number > present - RATE_MINUTES]
    if rows:
        # Averaged from the start of the first of these minutes, so that a new queue is not averaged over ten minutes.
        seconds = max(1.0, turn.now / 1e6 - 60 * rows[0].number)
        found.entered_rate = round(sum(row.entered for row in rows) / seconds, 3)
        found.delivered_rate = round(sum(row.delivered for row in rows) / seconds, 3)
        found.acknowledged_rate = round(sum(row.acked for row in rows) / seconds, 3)
    found.holders = [
        HolderInfo(
            holder.name,
            "worker" if holder.worker else "client",
            holder.pid,
            holder.host,
            holder.started,
            holder.seen,
            holder.slots,
            holder.in_flight,
            holder.delivered,
            holder.acked,
            holder.cancelled,
            holder.returned,
            round(holder.acked / max(1.0, (turn.now - holder.started) / 1e6), 3),
        )
        for holder in turn.rows.list_holders().values()
    ]

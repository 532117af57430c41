"""The start of a queue, and rebuilding its state (``behaviour`` 5.4, RecoveryPoint; 11.67).

Pending messages are messages minus acknowledgements, so a state that is missing, or belongs to another configuration or
journal, is rebuilt. Leases and counters are only in the state: those of an older state of the same journal are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.topic_patterns import topic_matches
from sowctl.engine.queues.definition import compute_definition_digest
from sowctl.engine.queues.settlement import choose_earlier, find_pending
from sowctl.errors import SowError
from sowctl.journal.format import BEGIN, QUEUE_OPERATIONS
from sowctl.store.queue.page import DELAYED, DONE, LEASED, READY
from sowctl.store.queue.values import QueueState
from sowctl.values.times import parse_time
from sowctl.values.units import parse_whole_number

if TYPE_CHECKING:
    from sowctl.config.derived_entries import Queue
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.store.queue.rows import StateRows


_MAX_HOLDER_NUMBER = 0x7FFFFFFF
"""Numbers of holders are u32; the upper half is left for counting on."""
DEFINITION_CHANGED = "the definition of the queue has changed"
AHEAD_OF_JOURNAL = "it is ahead of the journal"


class PendingState(Struct, frozen=True):
    """The attributes of a pending message that only the state has."""

    txid: int
    state: int
    deliveries: int
    cancels: int
    holder: int
    token: int
    until: int


def read_proven_end(rows: StateRows, log: Journal) -> int:
    """Return the last txid of the journal, after comparing it with the state, which may prove a later one.

    A change of this state synced its entries before the state was committed, so a crash cannot have removed them.
    Raises DamageError ``SOW-JRN-013`` if they are gone, and what reading the journal raises.
    """
    # In another lineage the same txids are other entries. Entries that were only read (``applied``) prove nothing:
    # readers take no lock, and a writer withdraws entries that it could not sync.
    if not rows.is_new and rows.state.lineage == log.lineage:
        log.note_synced_txid(rows.written_txid)
    return log.read_last_txid()


def explain_stale_state(rows: StateRows, digest: bytes, log: Journal, last: int) -> str | None:
    """Return why the state has to be rebuilt, in words; None if it matches journal and configuration.

    ``digest`` is that of the queue's definition, ``last`` the last txid of the journal.
    """
    if rows.is_new:
        return "the state file is missing"
    state = rows.state
    if state.definition != digest:
        return DEFINITION_CHANGED
    if state.lineage != log.lineage:
        return "it belongs to another journal"
    if state.applied > last:
        return AHEAD_OF_JOURNAL
    return None


def belongs_to_other_copy(rows: StateRows, log: Journal) -> bool:
    """Return whether the state's last block differs from the journal's: two copies have diverged."""
    state = rows.state
    return state.block is not None and not log.has_block(state.block, state.applied)


def find_creation_txid(queue: Queue, log: Journal) -> int | None:
    """Return the txid of the entry that starts a queue whose RecoveryPoint is creation; None without one.

    If earlier files were removed and the entry with them, the queue starts with the remaining journal.
    """
    ref = queue.ref
    worked = False
    for block in log.iter_blocks(topic=ref):
        if ref not in block.topic_refs:
            continue
        columns, own = block.decode_columns(), block.topic_refs.index(ref)
        for place, operation in enumerate(columns.operations):
            if operation in QUEUE_OPERATIONS and columns.topic_indexes[place] == own:
                if operation == BEGIN:
                    return block.first_txid + place
                worked = True
    # A queue writes this entry under its name first. If the queue has the name of its topic, earlier entries may all be
    # messages.
    if log.find_prior_state(ref).last_txid and (worked or queue.name != queue.underlying):
        return log.first_txid - 1
    return None


def find_recovery_txid(instance: Instance, queue: Queue, log: Journal) -> int:
    """Return the txid after which a queue starts whose RecoveryPoint is not creation."""
    from sowctl.engine.topics.log_places import find_log_place

    point = queue.recovery_point.strip()
    if point == "epoch":
        return log.first_txid - 1
    if point == "now":
        return log.read_last_txid()
    if "|" in point or parse_whole_number(point) is not None:
        try:
            place = find_log_place(instance, point)
        except SowError as problem:
            if problem.code != "SOW-ENG-070":
                raise
            if _was_removed(instance, log, point):
                return log.first_txid - 1
            instance.notify(
                f"the RecoveryPoint {point} of queue {queue.name!r} is not in the journals: the queue starts now"
            )
            return log.read_last_txid()
        return log.read_last_txid() if place is None else place.txid
    return _find_txid_before(log, parse_time(point, instance.clock))


def describe_missing_beginning(instance: Instance, queue: Queue, log: Journal) -> str | None:
    """Return a note if the journal itself starts after messages of the queue, because all earlier files were lost.

    Pruned files are different: no file is pruned that a queue needs.
    """
    if not log.begins_lineage:
        return None
    regex = instance.log is not None and instance.log.regex_topics
    past = [
        state.last_txid
        for (name, kind), state in log.read_beginning_state().topic_states.items()
        if kind == queue.message_type and topic_matches(queue.underlying, name, regex)
    ]
    if not any(past):
        return None
    return (
        f"the journal begins at txid {log.first_txid} and no longer has the messages of "
        f"{queue.underlying!r} up to txid {max(past)}: those that were pending are not in queue "
        f"{queue.name!r}"
    )


def _was_removed(instance: Instance, log: Journal, point: str) -> bool:
    """Return whether the entry of a bookmark or txid was in files that were removed; the remaining entries are
    later."""
    from sowctl.identity.bookmarks import parse_bookmark

    if (txid := parse_whole_number(point)) is not None:
        return txid < log.first_txid
    mark = parse_bookmark(point)
    if mark.publisher == instance.publisher_id and not log.find_highest_sequence(mark.publisher):
        return 0 < mark.sequence < log.first_txid
    # A publisher's numbers only increase, so its highest number before the oldest file decides.
    known = log.read_beginning_state().publishers.get(mark.publisher)
    return known is not None and 0 < mark.sequence <= known[1]


def _find_txid_before(log: Journal, since: int) -> int:
    """Return the txid before the first entry at or after an instant."""
    for block in log.iter_blocks():
        if block.header.latest < since:
            continue
        for place, time in enumerate(block.decode_columns().times):
            # Times never decrease within a topic, but may between topics: later entries are included, even if they are
            # older.
            if time >= since:
                return block.first_txid + place - 1
    return log.read_last_txid()


def reset_state(rows: StateRows, queue: Queue, log: Journal, began: int, now: int, *, keep: bool) -> list[PendingState]:
    """Empty the state and start after a txid; return the parts of the old state to keep, for
    :func:`restore_pending_states`.

    Nothing is kept without ``keep``: in another journal the same txids may be other messages, and with a lease on one
    of them its worker could acknowledge a message that it never received.
    """
    kept: list[PendingState] = []
    holders = {}
    state = QueueState(queue.name, queue.message_type, compute_definition_digest(queue), queue.recovery_point, now)
    # Without an old state, holder numbers start from the clock: a worker from before a rebuild keeps its number.
    state.holder = max(0, now // 1_000_000) & _MAX_HOLDER_NUMBER
    if not rows.is_new:
        old = rows.state
        state.token, state.holder = old.token, old.holder
        if keep:
            kept = list(_iterate_pending_states(rows))
        holders = rows.list_holders()
    rows.reset_state(state)
    state.lineage, state.began, state.applied = log.lineage, began, began
    for number, holder in holders.items():
        # Counters start with the state. in_flight is reset, too: restore_pending_states counts the leases that it
        # restores.
        holder.in_flight = holder.delivered = holder.acked = holder.cancelled = holder.returned = 0
        rows.add_holder(number, holder)
    return kept


def _iterate_pending_states(rows: StateRows) -> Iterable[PendingState]:
    for first in list(rows.iter_first_txids()):
        page = rows.load_page(first)
        if not any(page.deliveries) and not any(page.cancels) and not any(page.tokens) and not any(page.until):
            continue
        for index, state in enumerate(page.states):
            if state != DONE and (page.deliveries[index] or page.cancels[index] or state in (LEASED, DELAYED)):
                yield PendingState(
                    page.txids[index],
                    state,
                    page.deliveries[index],
                    page.cancels[index],
                    page.holders[index],
                    page.tokens[index],
                    page.until[index],
                )


def restore_pending_states(rows: StateRows, kept: Iterable[PendingState]) -> None:
    """Restore counters and leases of the messages that are still pending."""
    for one in kept:
        spot = find_pending(rows, one.txid)
        # The journal takes precedence over the old state: the message may be settled, or be a barrier now.
        if spot is None or spot[1].states[spot[2]] != READY:
            continue
        _, page, index = spot
        page.deliveries[index], page.cancels[index] = one.deliveries, one.cancels
        holder = rows.load_holder(one.holder) if one.state == LEASED else None
        if one.state == DELAYED or holder is not None:
            page.states[index], page.until[index] = one.state, one.until
            page.alarm = choose_earlier(page.alarm, one.until)
        if holder is not None:
            page.holders[index], page.tokens[index] = one.holder, one.token
            holder.in_flight += 1
    rows.flush()

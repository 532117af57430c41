"""Settling messages in the state, and the journal entries for it (``behaviour`` 5.4).

The same functions apply own acknowledgements and those read from the journal.
"""

from __future__ import annotations

from array import array
from collections import Counter
from struct import pack
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from sowctl.journal.format import ACK, EXPIRE, REQUEUE, UNKEYED_FLAG
from sowctl.store.queue.page import BARRIER, DONE, LEASED, READY, BlockPlace, Page
from sowctl.store.queue.values import Dead

if TYPE_CHECKING:
    from sowctl.engine.queues.handles import CommandFailure
    from sowctl.journal.entries import EntryBatch
    from sowctl.store.queue.rows import BookmarkName, StateRows
    from sowctl.values.times import Micros
    from sowctl.values.topicref import TopicRef

TIME_LIMIT_REASON, FORCED_REASON, MAX_CANCELS_REASON, MAX_DELIVERIES_REASON, GONE_REASON = (
    "time_limit",
    "forced_expire",
    "max_cancels",
    "max_deliveries",
    "gone",
)
DEAD_REASONS = (MAX_CANCELS_REASON, MAX_DELIVERIES_REASON)
"""Reasons for which a message is kept as dead."""
DEFERRED_REASON = "deferred"
PageMessage: TypeAlias = tuple[int, Page, int]
"""A message: first txid of its page, the page, its index there."""


class QueueEntry(Struct, frozen=True):
    """A journal entry about a message of a queue: operation, bookmark, and the reason or ``deferred``."""

    operation: int
    name: tuple[int, int]
    reason: str = ""


def find_pending(rows: StateRows, txid: int) -> PageMessage | None:
    """Return the pending message with this txid, None without one."""
    found = rows.find_page(txid)
    if found is None:
        return None
    first, page = found
    index = page.find_index(txid)
    return None if index < 0 or page.states[index] == DONE else (first, page, index)


def find_txid(rows: StateRows, owner: int, name: BookmarkName) -> int | None:
    """Return the txid of a message by its bookmark; None for a client's message that the queue does not have.

    ``owner`` is the publisher id of the instance, in whose bookmarks the number is the txid.
    """
    found = rows.find_named_txid(name)
    return name[1] if found is None and name[0] == owner else found


def read_bookmark(page: Page, index: int, owner: int) -> BookmarkName:
    """Return the bookmark of a message."""
    sequence = page.sequences[index]
    return (page.publishers[index], sequence) if sequence else (owner, page.txids[index])


def settle_message(rows: StateRows, spot: PageMessage, *, keep_name: bool = False) -> None:
    """Remove a message from the queue."""
    _, page, index = spot
    release_lease(rows, spot)
    if page.states[index] == BARRIER:
        rows.drop_barrier(page.txids[index])
    page.states[index] = DONE
    if page.sequences[index] and not keep_name:
        rows.drop_name((page.publishers[index], page.sequences[index]))


def release_lease(rows: StateRows, spot: PageMessage) -> None:
    """Release the lease of a message, if any; the caller sets its state."""
    _, page, index = spot
    if page.states[index] == LEASED:
        holder = rows.load_holder(page.holders[index])
        if holder is not None:
            holder.in_flight -= 1
    page.holders[index] = page.tokens[index] = page.until[index] = 0


class SettlementEntries:
    """Entries as columns, in the order of writing: those of a batch differ little."""

    def __init__(self) -> None:
        self.operations = bytearray()
        self.publishers: array[int] = array("Q")
        self.sequences: array[int] = array("Q")
        self.reasons: list[str] = []

    def __len__(self) -> int:
        return len(self.operations)

    def add(self, entry: QueueEntry) -> None:
        """Add one entry."""
        self.operations.append(entry.operation)
        self.publishers.append(entry.name[0])
        self.sequences.append(entry.name[1])
        self.reasons.append(entry.reason)

    def add_run(self, operation: int, publisher: int, sequences: array[int], reason: str) -> None:
        """Add entries that differ only in their sequence numbers."""
        count = len(sequences)
        self.operations += bytes((operation,)) * count
        self.publishers.extend(array("Q", (publisher,)) * count)
        self.sequences.extend(sequences)
        self.reasons += [reason] * count

    def extend(self, other: SettlementEntries) -> None:
        """Append the entries of another batch."""
        self.operations += other.operations
        self.publishers.extend(other.publishers)
        self.sequences.extend(other.sequences)
        self.reasons += other.reasons

    def build_batch(self, queue: TopicRef, time: Micros) -> EntryBatch:
        """Return the entries in the journal's format: the two numbers of a bookmark are stored as key and check
        word."""
        from sowctl.journal.entries import EntryBatch

        count = len(self)
        return EntryBatch(
            topic_refs=[queue],
            payloads=[b""] * count,
            keys=pack(f">{count}Q", *self.publishers),
            checks=pack(f">{count}Q", *self.sequences),
            times=time,
            flags=UNKEYED_FLAG,
            operations=bytes(self.operations),
            correlation_ids=[reason.encode() or None for reason in self.reasons] if any(self.reasons) else None,
        )


class SettlementBatch:
    """Messages that leave the queue together, for one reason: work common to all is done once."""

    def __init__(self, rows: StateRows, owner: int, operation: int, reason: str) -> None:
        self.entries = SettlementEntries()
        self._rows, self._owner, self._operation, self._reason = rows, owner, operation, reason
        self._holders: Counter[int] = Counter()

    def add_run(self, page: Page, start: int, stop: int) -> None:
        """Add the messages from ``start`` to ``stop`` (exclusive), all of them leased and without a client's
        bookmark."""
        count = stop - start
        self._holders.update(page.holders[start:stop])
        self.entries.add_run(self._operation, self._owner, page.txids[start:stop], self._reason)
        page.states[start:stop] = bytes((DONE,)) * count
        page.holders[start:stop] = array("I", (0,)) * count
        page.tokens[start:stop] = array("Q", (0,)) * count
        page.until[start:stop] = array("q", (0,)) * count

    def add(self, spot: PageMessage) -> None:
        """Add one message and settle it."""
        _, page, index = spot
        self.entries.add(QueueEntry(self._operation, read_bookmark(page, index, self._owner), self._reason))
        if page.states[index] == LEASED and not page.sequences[index]:
            # The common case: leased, and without a client's bookmark.
            self._holders[page.holders[index]] += 1
            page.holders[index] = page.tokens[index] = page.until[index] = 0
            page.states[index] = DONE
        else:
            if page.holders[index]:
                # settle_message decrements in_flight; only the acknowledgement is credited here.
                self._credit_holder(page.holders[index], 1)
            settle_message(self._rows, spot)

    def update_counters(self, now: int) -> None:
        """Update the counters, after the last message was added."""
        for number, count in self._holders.items():
            holder = self._rows.load_holder(number)
            if holder is not None:
                holder.in_flight -= count
            self._credit_holder(number, count)
        state, count = self._rows.state, len(self.entries)
        if self._operation == ACK:
            state.acked += count
            state.open_minute(now).acked += count
        elif count:
            state.expired[self._reason] = state.expired.get(self._reason, 0) + count

    def _credit_holder(self, number: int, count: int) -> None:
        holder = self._rows.load_holder(number)
        if holder is not None and self._operation == ACK:
            holder.acked += count


def mark_dead(
    rows: StateRows,
    spot: PageMessage,
    reason: str,
    now: int,
    holder: str = "",
    failure: CommandFailure | None = None,
) -> None:
    """Settle a message as dead and keep it. ``holder`` is its last holder, ``failure`` that of its command."""
    _, page, index = spot
    place = page.find_block_place(index)
    dead = Dead(
        reason,
        page.deliveries[index],
        page.cancels[index],
        now,
        (place.number, place.offset, place.before),
        page.publishers[index],
        page.sequences[index],
        page.expirations[index],
        page.priorities[index],
        holder,
        None if failure is None else failure.exit_status,
        "" if failure is None else failure.stderr,
    )
    # Keeps the bookmark: a dead message can still be requeued or acknowledged by it.
    settle_message(rows, spot, keep_name=True)
    rows.put_dead(page.txids[index], dead)


def remove_dead(rows: StateRows, txid: int) -> bool:
    """Remove a dead message; return whether it existed."""
    dead = rows.read_dead_message(txid)
    if dead is None:
        return False
    rows.drop_dead(txid)
    if dead.sequence:
        rows.drop_name((dead.publisher, dead.sequence))
    return True


def revive_dead(rows: StateRows, txid: int) -> bool:
    """Put a dead message back into the queue with its counters at 0; return whether it existed."""
    dead = rows.read_dead_message(txid)
    if dead is None:
        return False
    rows.drop_dead(txid)
    found = rows.find_page(txid)
    # The page is missing if all of its messages were done, because finished pages are removed.
    if found is not None and (index := found[1].find_index(txid)) >= 0:
        page = found[1]
        page.states[index] = READY
    else:
        if found is not None:
            _split_page(rows, found[1], txid)
        page = rows.create_page(txid)
        page.append_messages(
            array("Q", (txid,)),
            dead.place,
            expirations=(dead.expiration,),
            priorities=(dead.priority,),
            publishers=(dead.publisher,),
            sequences=(dead.sequence,),
        )
        index = 0
    page.deliveries[index] = page.cancels[index] = 0
    page.alarm = choose_earlier(page.alarm, dead.expiration)
    return True


def _split_page(rows: StateRows, page: Page, txid: int) -> None:
    """Split a page so that pages do not overlap: its messages after ``txid`` become a new page."""
    index = sum(1 for one in page.txids if one < txid)
    if index == len(page):
        return
    place = page.find_block_place(index)
    right = rows.create_page(page.txids[index])
    for name in page.__struct_fields__:
        column = getattr(page, name)
        if isinstance(column, array | bytearray):
            setattr(right, name, column[index:])
            setattr(page, name, column[:index])
    right.places = [BlockPlace(0, place.number, place.offset, place.before)] + [
        BlockPlace(one.start - index, one.number, one.offset, one.before) for one in page.places if one.start > index
    ]
    page.places = [one for one in page.places if one.start < index]
    # May be early for one of the halves, which is harmless; a late alarm would extend a lease.
    right.alarm, right.ranked = page.alarm, page.ranked


def choose_earlier(one: int, other: int) -> int:
    """Return the earlier of two instants; 0 stands for none."""
    return min(one, other) if one and other else one or other


def count_settled(rows: StateRows, entry: QueueEntry, now: int) -> None:
    """Count a message that left the queue."""
    state = rows.state
    if entry.operation == ACK:
        state.acked += 1
        state.open_minute(now).acked += 1
    else:
        state.expired[entry.reason] = state.expired.get(entry.reason, 0) + 1


def apply_entry(rows: StateRows, owner: int, entry: QueueEntry, time: int, defer_us: int) -> None:
    """Apply an entry of the journal, unless it is applied already. ``time`` is that of the entry."""
    # Must be idempotent: a change reads its own entries again if others were appended in between (_write_entries).
    txid = find_txid(rows, owner, entry.name)
    if entry.operation == REQUEUE:
        if txid is not None and revive_dead(rows, txid):
            rows.state.requeued += 1
        return
    spot = None if txid is None else find_pending(rows, txid)
    if spot is None:
        if (
            entry.operation == ACK
            and not (txid is not None and remove_dead(rows, txid))
            and entry.reason == DEFERRED_REASON
        ):
            rows.put_deferral(entry.name, time + defer_us)
        return
    if entry.operation == EXPIRE and entry.reason in DEAD_REASONS:
        mark_dead(rows, spot, entry.reason, time)
    else:
        settle_message(rows, spot)
    count_settled(rows, entry, time)

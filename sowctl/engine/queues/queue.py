"""An open queue: the interface for commands and the Python API (``behaviour`` 5.4)."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.queues.change_runner import ChangeRunner
from sowctl.engine.queues.handles import CommandFailure, Lease, MessageHandle, Outcome
from sowctl.engine.queues.message_reader import MessageReader
from sowctl.engine.queues.queue_change import QueueChange
from sowctl.engine.queues.settlement import (
    FORCED_REASON,
    GONE_REASON,
    QueueEntry,
    count_settled,
    find_pending,
    read_bookmark,
    remove_dead,
    settle_message,
)
from sowctl.errors import NegativeError
from sowctl.journal.format import ACK, EXPIRE
from sowctl.store.queue.page import BARRIER, DELAYED, DONE, LEASED, NEVER_MICROS, READY
from sowctl.store.queue.values import Holder, damaged_queue_error
from sowctl.values.display import format_count
from sowctl.values.times import to_datetime, to_expiry_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from sowctl.config.derived_entries import Queue
    from sowctl.engine.instance import Instance
    from sowctl.engine.queues.message_reader import MessageBody
    from sowctl.store.queue.page import Page
    from sowctl.store.queue.rows import BookmarkName

MAX_IDLE_CLIENTS = 100
"""Maximum number of remembered clients without a lease: every lease iterates over all holders."""
STATE_NAMES = {READY: "ready", LEASED: "leased", DELAYED: "delayed", BARRIER: "ready"}


class QueueMessage(Struct, frozen=True):
    """A message of a queue.

    ``state`` is ready, leased, delayed, blocked (after a barrier, or a waiting barrier) or dead; ``token`` and
    ``until`` are those of its lease (0 for none; ``until`` microseconds UTC, None without an end). ``deliveries``
    includes the current one; ``name`` is the bookmark's publisher and sequence. ``timestamp`` and ``expiration`` (its
    expiration in this queue, 0 for never) in microseconds UTC. For a dead message, ``reason`` says why, ``holder`` is
    the last holder, ``exit_status`` and ``stderr`` are those of the worker's command, None and empty if unknown.
    """

    topic: str
    message_type: str
    txid: int
    name: tuple[int, int]
    state: str
    payload: bytes
    timestamp: int
    token: int = 0
    until: int | None = None
    holder: str = ""
    deliveries: int = 0
    cancels: int = 0
    expiration: int = 0
    priority: int = 0
    barrier: bool = False
    reason: str = ""
    correlation_id: str | None = None
    exit_status: int | None = None
    stderr: str = ""

    @property
    def bookmark(self) -> str:
        """The bookmark by which the message is acknowledged."""
        return f"{self.name[0]}|{self.name[1]}|"

    @property
    def published_at(self) -> datetime:
        """``timestamp`` as a datetime in UTC."""
        return to_datetime(self.timestamp)

    @property
    def leased_until(self) -> datetime | None:
        """``until`` as a datetime in UTC; None without a lease that ends."""
        return to_datetime(self.until) if self.until else None

    @property
    def expires_at(self) -> datetime | None:
        """``expiration`` as a datetime in UTC; None is never."""
        return to_expiry_datetime(self.expiration)


class MessageSummary(Struct, frozen=True):
    """A message without its payload, as a change saw it."""

    txid: int
    name: tuple[int, int]
    state: str
    place: tuple[int, int, int]
    token: int = 0
    until: int = 0
    holder: str = ""
    deliveries: int = 0
    cancels: int = 0
    expiration: int = 0
    priority: int = 0
    barrier: bool = False
    reason: str = ""
    exit_status: int | None = None
    stderr: str = ""


class OpenQueue:
    """An open queue. Files are opened on first use and closed by :meth:`close`; not thread-safe."""

    def __init__(self, instance: Instance, queue: Queue) -> None:
        self.instance = instance
        self.queue = queue
        self.turns = ChangeRunner(instance, queue)
        self._bodies: MessageReader | None = None
        # Workers of this process: name, slots, room.
        self._workers: dict[int, tuple[str, int, int]] = {}
        self.next_due = 0
        """The next time at which a message known at the last lease call becomes due, microseconds UTC; 0 for none."""

    def __enter__(self) -> OpenQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        self._bodies = None
        self.turns.close()

    @property
    def exists(self) -> bool:
        """True if there is a journal that can have messages."""
        return self.turns.has_log

    def takes_topic(self, topic: str, message_type: str) -> bool:
        """Return whether messages published to a topic belong to this queue, judging by the names only."""
        return message_type == self.queue.message_type and self.turns.backlog.takes_topic(topic)

    # Leasing; its module is loaded on first use, because reading a queue does not need it

    def lease_for_client(self, count: int, client: str) -> list[QueueMessage]:
        """Lease up to ``count`` messages to a client by name; the lease outlives its process (``behaviour`` 11.64)."""
        from sowctl.engine.queues import leases

        if not self.exists:
            return []
        configured = self.queue.node.find_text("MaxPerSubscriptionBacklog")

        def act(turn: QueueChange) -> list[Lease]:
            number = find_client(turn, client)
            holder = turn.rows.load_holder(number)
            assert holder is not None
            # The default of 1 applies to the slots of workers; a client gets as many as it asks for.
            limit = self.queue.max_per_subscription_backlog - holder.in_flight if configured else count
            return leases.lease_messages(turn, number, min(count, limit))

        return self.read_leased_messages(self.turns.run_change(act, journals=self._journals_leases))

    def lease_for_worker(self, number: int, count: int) -> list[QueueMessage]:
        """Lease up to ``count`` messages to a registered worker."""
        from sowctl.engine.queues import leases

        def act(turn: QueueChange) -> list[Lease]:
            if turn.rows.load_holder(number) is None:
                # The state was rebuilt: the leases of this worker are gone, but it continues.
                turn.rows.add_holder(number, self._add_worker(turn, number, *self._workers[number]))
                turn.rows.state.holder = max(turn.rows.state.holder, number)
            self.next_due = turn.rows.find_next_alarm()
            return leases.lease_messages(turn, number, count)

        return self.read_leased_messages(self.turns.run_change(act, journals=self._journals_leases))

    def acknowledge(self, handles: Iterable[MessageHandle], client: str = "", *, expire: bool = False) -> list[Outcome]:
        """Settle messages; durable on return. ``client`` as for :meth:`lease_for_client`, for strict Leasing."""
        from sowctl.engine.queues import leases

        chosen = list(handles)
        return self.turns.run_change(
            lambda turn: leases.acknowledge_messages(
                turn, chosen, find_client(turn, client, make=False), expire=expire
            ),
            journals=True,
        )

    def cancel(self, handles: Iterable[MessageHandle], client: str = "", *, started: bool = True) -> list[Outcome]:
        """Return leased messages; see :func:`sowctl.engine.queues.leases.cancel_leases`."""
        from sowctl.engine.queues import leases

        chosen = list(handles)
        return self.turns.run_change(
            lambda turn: leases.cancel_leases(turn, chosen, find_client(turn, client, make=False), started=started)
        )

    def renew(self, handles: Iterable[MessageHandle], client: str = "") -> list[Outcome]:
        """Extend leases by another LeasePeriod."""
        from sowctl.engine.queues import leases

        chosen = list(handles)
        return self.turns.run_change(
            lambda turn: leases.renew_leases(turn, chosen, find_client(turn, client, make=False))
        )

    def requeue(self, names: Sequence[BookmarkName]) -> list[Outcome]:
        """Make delayed messages ready, and dead ones pending again."""
        from sowctl.engine.queues import leases

        return self.turns.run_change(lambda turn: leases.requeue_messages(turn, names))

    # Workers

    def register_worker(self, name: str, slots: int, room: int) -> int:
        """Register a worker with ``slots`` slots and ``room`` for messages in flight; return its number."""

        def act(turn: QueueChange) -> int:
            state, presence = turn.rows.state, self.turns.presence
            # No other worker registers now. Files of dead workers are removed here, where no working process waits for
            # it.
            presence.remove_dead_files()
            number = state.holder + 1
            # A worker from before a rebuild of the state may still have this number.
            while not presence.register_worker(number):
                number += 1
            state.holder = number
            turn.rows.add_holder(number, self._add_worker(turn, number, name, slots, room))
            return number

        return self.turns.run_change(act)

    def _add_worker(self, turn: QueueChange, number: int, name: str, slots: int, room: int) -> Holder:
        self._workers[number] = name, slots, room
        return Holder(name, True, os.getpid(), socket.gethostname(), turn.now, turn.now, slots, room)

    def unregister_worker(self, number: int) -> list[Outcome]:
        """Unregister a worker and return its leases to the queue; return the outcome of each message."""
        from sowctl.engine.queues.returns import return_holder_leases

        outcomes = self.turns.run_change(lambda turn: return_holder_leases(turn, number))
        self.turns.presence.unregister_worker(number)
        return outcomes

    # Reading

    def peek(self, count: int | None = None, *, unleased: bool = False, state: str | None = None) -> list[QueueMessage]:
        """Return the first ``count`` messages in delivery order, dead ones last; with ``unleased``, without leased and
        dead ones.

        ``state``: only messages in this state.
        """
        if state is None:
            return list(self.read_messages(self.list_messages(count, unleased=unleased)))
        listed = self.list_dead() if state == "dead" else self.list_messages(unleased=unleased)
        return list(self.read_messages(islice((one for one in listed if one.state == state), count)))

    def list_messages(self, count: int | None = None, *, unleased: bool = False) -> list[MessageSummary]:
        """Return messages as :meth:`peek`, without payloads."""
        if not self.exists:
            return []
        return self.turns.run_read(lambda turn: _list_summaries(turn, count, unleased=unleased))

    def list_dead(self) -> list[MessageSummary]:
        """Return the dead messages, without payloads."""
        if not self.exists:
            return []
        return self.turns.run_read(
            lambda turn: [_build_dead_summary(turn, txid) for txid in turn.rows.list_dead_messages()]
        )

    def read_messages(self, seen: Iterable[MessageSummary]) -> Iterator[QueueMessage]:
        """Yield messages with their payloads from the journal, without pruned ones."""
        for one in seen:
            body = self.message_reader.read_message(one.txid, one.place)
            if body is not None:
                yield self._build_message(one, body)

    def purge(self) -> int:
        """Drop all messages that are not leased; return their number."""

        def act(turn: QueueChange) -> int:
            gone = 0
            for first in list(turn.rows.iter_first_txids()):
                page = turn.rows.load_page(first)
                for index, state in enumerate(page.states):
                    if state in (READY, DELAYED, BARRIER):
                        entry = QueueEntry(EXPIRE, read_bookmark(page, index, turn.owner), FORCED_REASON)
                        turn.add_entry(entry)
                        settle_message(turn.rows, (first, page, index))
                        count_settled(turn.rows, entry, turn.now)
                        gone += 1
            return gone

        return self.turns.run_change(act, journals=True) if self.exists else 0

    def bury(self, txids: Collection[int] | None = None) -> int:
        """Remove dead messages, all or those with these txids; return their number."""

        def act(turn: QueueChange) -> int:
            gone = 0
            for txid, row in turn.rows.list_dead_messages().items():
                if txids is None or txid in txids:
                    name = (row.publisher, row.sequence) if row.sequence else (turn.owner, txid)
                    turn.add_entry(QueueEntry(ACK, name))
                    remove_dead(turn.rows, txid)
                    gone += 1
            return gone

        return self.turns.run_change(act, journals=True) if self.exists else 0

    @contextmanager
    def hold_leases(self, count: int, client: str = "python") -> Iterator[list[QueueMessage]]:
        """Lease messages for a block: they are acknowledged at its end, and cancelled if it raises.

        Raises NegativeError ``SOW-QUE-015`` at the end of a block that took longer than the lease: others may have
        received the messages. Those still leased were acknowledged.
        """
        messages = self.lease_for_client(count, client)
        handles = [build_handle(message) for message in messages if message.token]
        try:
            yield messages
        except BaseException:
            if handles:
                self.cancel(handles, client)
            raise
        if handles:
            outcomes = self.acknowledge(handles, client)
            if lost := sum(outcome != "done" for outcome in outcomes):
                raise NegativeError(
                    "SOW-QUE-015",
                    f"{lost:,} of {format_count(len(outcomes), 'lease')} expired before the block ended",
                    place=self.queue.name,
                    hint="renew the leases in a long block, or increase LeasePeriod; the messages are delivered again",
                    lost=lost,
                )

    @property
    def message_reader(self) -> MessageReader:
        """The reader of payloads."""
        if self._bodies is None:
            self._bodies = MessageReader(self.turns.log)
        return self._bodies

    def read_leased_messages(self, leased: Sequence[Lease]) -> list[QueueMessage]:
        """Return leased messages with their payloads. Messages pruned from the journal leave the queue as ``gone``."""
        found: list[QueueMessage] = []
        gone: list[Lease] = []
        bodies, kind = self.message_reader, self.queue.message_type
        for one in leased:
            body = bodies.read_message(one.txid, one.place)
            if body is None:
                gone.append(one)
                continue
            topic, time, _, payload, correlation = body
            until = None if one.until == NEVER_MICROS else one.until
            found.append(
                QueueMessage(
                    topic,
                    kind,
                    one.txid,
                    one.name,
                    "leased",
                    payload,
                    time,
                    one.token,
                    until,
                    "",
                    one.deliveries,
                    one.cancels,
                    0,
                    0,
                    one.barrier,
                    "",
                    correlation,
                )
            )
        if gone:
            self.turns.run_change(lambda turn: _drop_pruned(turn, gone))
            self.instance.notify(
                f"queue {self.queue.name!r}: {format_count(len(gone), 'message')} dropped: no longer in the journal"
            )
        return found

    @property
    def _journals_leases(self) -> bool:
        # At most once: the lease is also the acknowledgement, and is in the journal before the message is delivered.
        return self.queue.semantics == "at-most-once"

    def _build_message(self, seen: MessageSummary, body: MessageBody) -> QueueMessage:
        topic, time, _, payload, correlation = body
        return QueueMessage(
            topic,
            self.queue.message_type,
            seen.txid,
            seen.name,
            seen.state,
            payload,
            time,
            seen.token,
            None if seen.until in (0, NEVER_MICROS) else seen.until,
            seen.holder,
            seen.deliveries,
            seen.cancels,
            seen.expiration,
            seen.priority,
            seen.barrier,
            seen.reason,
            correlation,
            seen.exit_status,
            seen.stderr,
        )


def build_handle(message: QueueMessage, delay_us: int = 0, failure: CommandFailure | None = None) -> MessageHandle:
    """Return the handle of the lease of a message."""
    return MessageHandle(message.name, message.token, delay_us, failure)


def find_client(turn: QueueChange, name: str, *, make: bool = True) -> int:
    """Return the number of a client that leases by name; 0 for an unknown one if ``make`` is false."""
    for number, holder in turn.rows.list_holders().items():
        if not holder.worker and holder.name == name:
            return number
    if not make:
        return 0
    _forget_clients(turn)
    state = turn.rows.state
    state.holder += 1
    turn.rows.add_holder(state.holder, Holder(name, False, started=turn.now, seen=turn.now))
    return state.holder


def _forget_clients(turn: QueueChange) -> None:
    """If there are too many clients without leases, remove those not seen for the longest time."""
    idle = [
        (holder.seen, number)
        for number, holder in turn.rows.list_holders().items()
        if not holder.worker and not holder.in_flight
    ]
    for _, number in sorted(idle)[: max(0, len(idle) - MAX_IDLE_CLIENTS + 1)]:
        turn.rows.drop_holder(number)


def _drop_pruned(turn: QueueChange, gone: Iterable[Lease]) -> None:
    for one in gone:
        spot = find_pending(turn.rows, one.txid)
        if spot is not None:
            settle_message(turn.rows, spot)
            count_settled(turn.rows, QueueEntry(EXPIRE, one.name, GONE_REASON), turn.now)


def _list_summaries(turn: QueueChange, count: int | None, *, unleased: bool) -> list[MessageSummary]:
    rows = turn.rows
    names = {number: holder.name for number, holder in rows.list_holders().items()}
    barrier = rows.find_first_barrier()
    limit = None if barrier is None else barrier[0]
    found: list[MessageSummary] = []
    ranked = bool(turn.queue.priority)
    for first in rows.iter_first_txids():
        # Without priorities pages are in delivery order, so the requested messages come first.
        if count is not None and not ranked and len(found) >= count:
            return found[:count]
        page = rows.load_page(first)
        for index, state in enumerate(page.states):
            if state != DONE and not (unleased and state == LEASED):
                found.append(_build_summary(turn, page, index, limit, names))
    if ranked:
        found.sort(key=lambda one: (-one.priority, one.txid))
    if not unleased:
        found += [_build_dead_summary(turn, txid) for txid in rows.list_dead_messages()]
    return found if count is None else found[:count]


def _build_summary(
    turn: QueueChange, page: Page, index: int, limit: int | None, names: dict[int, str]
) -> MessageSummary:
    state, txid = page.states[index], page.txids[index]
    word = STATE_NAMES[state]
    if limit is not None and state in (READY, BARRIER) and txid >= limit:
        word = "ready" if txid == limit and turn.rows.find_first_pending() == limit else "blocked"
    if state == LEASED and page.holders[index] not in names:
        raise damaged_queue_error(f"txid {txid} is leased to an unknown holder", turn.rows.place)
    place = page.find_block_place(index)
    return MessageSummary(
        txid,
        read_bookmark(page, index, turn.owner),
        word,
        (place.number, place.offset, place.before),
        page.tokens[index],
        page.until[index],
        names.get(page.holders[index], ""),
        page.deliveries[index],
        page.cancels[index],
        page.expirations[index],
        page.priorities[index],
        state == BARRIER,
    )


def _build_dead_summary(turn: QueueChange, txid: int) -> MessageSummary:
    dead = turn.rows.read_dead_message(txid)
    assert dead is not None
    name = (dead.publisher, dead.sequence) if dead.sequence else (turn.owner, txid)
    return MessageSummary(
        txid,
        name,
        "dead",
        dead.place,
        holder=dead.holder,
        deliveries=dead.deliveries,
        cancels=dead.cancels,
        expiration=dead.expiration,
        priority=dead.priority,
        reason=dead.reason,
        exit_status=dead.exit_status,
        stderr=dead.stderr,
    )

"""An opened queue: what the commands and the Python API call (``behaviour`` 5.4)."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.queues.bodies import Bodies
from sowctl.engine.queues.handles import Lease, MessageHandle, Outcome
from sowctl.engine.queues.settling import FORCED, GONE, QueueEntry, bury, count_end, finish, name_of, spot_of
from sowctl.engine.queues.turn import Turn
from sowctl.engine.queues.turns import Turns
from sowctl.errors import NegativeError
from sowctl.journal.format import ACK, EXPIRE
from sowctl.store.queue.page import BARRIER, DELAYED, DONE, LEASED, NEVER_MICROS, READY
from sowctl.store.queue.values import Holder, damaged

if TYPE_CHECKING:
    from sowctl.config.derived import Queue
    from sowctl.engine.instance import Instance
    from sowctl.engine.queues.bodies import Body
    from sowctl.store.queue.page import Page
    from sowctl.store.queue.rows import Name

MOST_CLIENTS = 100
"""Clients without a lease that are remembered: every lease goes through all holders."""
STATES = {READY: "ready", LEASED: "leased", DELAYED: "delayed", BARRIER: "ready"}


class QueueMessage(Struct, frozen=True):
    """A message of a queue.

    ``state`` is ready, leased, delayed, blocked (behind a barrier, or a barrier that waits) or dead; ``token`` and
    ``until`` those of its lease (0 for none; ``until`` microseconds UTC, None without an end). ``deliveries`` count the
    present one; ``name`` is the bookmark's publisher and sequence. ``timestamp`` and ``expiration`` in microseconds
    UTC, the latter 0 for never: its end in this queue.
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

    @property
    def bookmark(self) -> str:
        """What acknowledgements name it by."""
        return f"{self.name[0]}|{self.name[1]}|"


class SeenMessage(Struct, frozen=True):
    """A message as a change saw it, without its payload."""

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


class OpenQueue:
    """A queue, opened. Files open with the first use and are closed by :meth:`close`; not for several threads."""

    def __init__(self, instance: Instance, queue: Queue) -> None:
        self.instance = instance
        self.queue = queue
        self.turns = Turns(instance, queue)
        self._bodies: Bodies | None = None
        # Workers of this process: name, slots, room.
        self._workers: dict[int, tuple[str, int, int]] = {}
        self.next_due = 0
        """When something of what there was at the last :meth:`lease_to` falls due, microseconds UTC; 0 for nothing."""

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
        """Whether there is a journal that messages can be in."""
        return self.turns.has_log

    def takes(self, topic: str, message_type: str) -> bool:
        """Whether messages that are published to a topic come into this queue, as far as their names say."""
        return message_type == self.queue.message_type and self.turns.backlog.is_taken(topic)

    # Leasing; its module is loaded when it is used, as a look at a queue needs none of it

    def lease(self, count: int, client: str) -> list[QueueMessage]:
        """Lease up to ``count`` messages to a client by name, as its process need not live on (``behaviour`` 11.64)."""
        from sowctl.engine.queues import leases

        if not self.exists:
            return []
        configured = self.queue.node.value("MaxPerSubscriptionBacklog")

        def act(turn: Turn) -> list[Lease]:
            number = client_of(turn, client)
            holder = turn.rows.holder(number)
            assert holder is not None
            # The default of 1 holds for the slots of workers; a client asks for as many as it wants.
            limit = self.queue.max_per_subscription_backlog - holder.in_flight if configured else count
            return leases.lease(turn, number, min(count, limit))

        return self.messages(self.turns.make(act, journals=self._journals))

    def lease_to(self, number: int, count: int) -> list[QueueMessage]:
        """Lease up to ``count`` messages to a worker that entered."""
        from sowctl.engine.queues import leases

        def act(turn: Turn) -> list[Lease]:
            if turn.rows.holder(number) is None:
                # The state was made anew; what was leased to this worker is no more, but it lives on.
                turn.rows.add_holder(number, self._entered(turn, number, *self._workers[number]))
                turn.rows.state.holder = max(turn.rows.state.holder, number)
            self.next_due = turn.rows.next_alarm()
            return leases.lease(turn, number, count)

        return self.messages(self.turns.make(act, journals=self._journals))

    def acknowledge(self, handles: Iterable[MessageHandle], client: str = "", *, expire: bool = False) -> list[Outcome]:
        """Finish messages; durable when this returns. ``client`` as for :meth:`lease`, where Leasing is strict."""
        from sowctl.engine.queues import leases

        chosen = list(handles)
        return self.turns.make(
            lambda turn: leases.acknowledge(turn, chosen, client_of(turn, client, make=False), expire=expire),
            journals=True,
        )

    def cancel(self, handles: Iterable[MessageHandle], client: str = "", *, started: bool = True) -> list[Outcome]:
        """Return leased messages; see :func:`sowctl.engine.queues.leases.cancel`."""
        from sowctl.engine.queues import leases

        chosen = list(handles)
        return self.turns.make(
            lambda turn: leases.cancel(turn, chosen, client_of(turn, client, make=False), started=started)
        )

    def renew(self, handles: Iterable[MessageHandle], client: str = "") -> list[Outcome]:
        """Let leases last for another LeasePeriod."""
        from sowctl.engine.queues import leases

        chosen = list(handles)
        return self.turns.make(lambda turn: leases.renew(turn, chosen, client_of(turn, client, make=False)))

    def requeue(self, names: Sequence[Name]) -> list[Outcome]:
        """Delayed messages become ready, dead ones pending again."""
        from sowctl.engine.queues import leases

        return self.turns.make(lambda turn: leases.requeue(turn, names))

    # Workers

    def enter(self, name: str, slots: int, room: int) -> int:
        """Become a worker with so many ``slots``, with ``room`` for so many messages in flight; returns its number."""

        def act(turn: Turn) -> int:
            state, presence = turn.rows.state, self.turns.presence
            # Nobody else enters now. What workers left is cleared away here, where it holds up none at work.
            presence.sweep()
            number = state.holder + 1
            # A worker of before the state was made anew may still have it.
            while not presence.enter(number):
                number += 1
            state.holder = number
            turn.rows.add_holder(number, self._entered(turn, number, name, slots, room))
            return number

        return self.turns.make(act)

    def _entered(self, turn: Turn, number: int, name: str, slots: int, room: int) -> Holder:
        self._workers[number] = name, slots, room
        return Holder(name, True, os.getpid(), socket.gethostname(), turn.now, turn.now, slots, room)

    def leave(self, number: int) -> None:
        """End a worker: what it still has returns to the queue."""
        from sowctl.engine.queues.returning import return_leases

        self.turns.make(lambda turn: return_leases(turn, number))
        self.turns.presence.leave(number)

    # Looking

    def peek(self, count: int | None = None, *, unleased: bool = False) -> list[QueueMessage]:
        """The first ``count`` messages in the order of delivery; dead ones last; with ``unleased`` only what is not."""
        return list(self.bodies_of(self.seen(count, unleased=unleased)))

    def seen(self, count: int | None = None, *, unleased: bool = False) -> list[SeenMessage]:
        """As :meth:`peek`, without payloads."""
        if not self.exists:
            return []
        return self.turns.look(lambda turn: _seen(turn, count, unleased=unleased))

    def dead(self) -> list[SeenMessage]:
        """The dead messages, without payloads."""
        if not self.exists:
            return []
        return self.turns.look(lambda turn: [_dead_one(turn, txid) for txid in turn.rows.dead()])

    def bodies_of(self, seen: Iterable[SeenMessage]) -> Iterator[QueueMessage]:
        """Messages with what the journal has of them; those that were pruned are left out."""
        for one in seen:
            body = self.bodies.of(one.txid, one.place)
            if body is not None:
                yield self._message(one, body)

    def purge(self) -> int:
        """Drop every message that is not leased; how many."""

        def act(turn: Turn) -> int:
            gone = 0
            for first in list(turn.rows.firsts()):
                page = turn.rows.page(first)
                for index, state in enumerate(page.states):
                    if state in (READY, DELAYED, BARRIER):
                        entry = QueueEntry(EXPIRE, name_of(page, index, turn.owner), FORCED)
                        turn.journal(entry)
                        finish(turn.rows, (first, page, index))
                        count_end(turn.rows, entry, turn.now)
                        gone += 1
            return gone

        return self.turns.make(act, journals=True) if self.exists else 0

    def bury(self, txids: Collection[int] | None = None) -> int:
        """Forget dead messages, all or those with these txids; how many."""

        def act(turn: Turn) -> int:
            gone = 0
            for txid, row in turn.rows.dead().items():
                if txids is None or txid in txids:
                    name = (row.publisher, row.sequence) if row.sequence else (turn.owner, txid)
                    turn.journal(QueueEntry(ACK, name))
                    bury(turn.rows, txid)
                    gone += 1
            return gone

        return self.turns.make(act, journals=True) if self.exists else 0

    @contextmanager
    def leased(self, count: int, client: str = "python") -> Iterator[list[QueueMessage]]:
        """Lease messages for a block: they are acknowledged at its end, and cancelled if it raises.

        Raises NegativeError ``SOW-QUE-015`` at the end of a block that took longer than the lease: others may have got
        the messages. What is still leased was acknowledged.
        """
        messages = self.lease(count, client)
        handles = [handle_of(message) for message in messages if message.token]
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
                    f"the leases of {lost} of {len(outcomes)} messages expired before the block ended",
                    place=self.queue.name,
                    hint="renew the leases in a long block, or increase LeasePeriod; the messages are delivered again",
                    lost=lost,
                )

    @property
    def bodies(self) -> Bodies:
        """Reads payloads."""
        if self._bodies is None:
            self._bodies = Bodies(self.turns.log)
        return self._bodies

    def messages(self, leased: Sequence[Lease]) -> list[QueueMessage]:
        """Leased messages with their payloads. What was pruned from the journal leaves the queue as ``gone``."""
        found: list[QueueMessage] = []
        gone: list[Lease] = []
        bodies, kind = self.bodies, self.queue.message_type
        for one in leased:
            body = bodies.of(one.txid, one.place)
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
            self.turns.make(lambda turn: _drop_gone(turn, gone))
            self.instance.notify(
                f"queue {self.queue.name!r}: {len(gone)} messages were dropped, because the journal no longer has them"
            )
        return found

    @property
    def _journals(self) -> bool:
        return self.queue.semantics == "at-most-once"

    def _message(self, seen: SeenMessage, body: Body) -> QueueMessage:
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
        )


def handle_of(message: QueueMessage, delay_us: int = 0) -> MessageHandle:
    """What names the lease of a message."""
    return MessageHandle(message.name, message.token, delay_us)


def client_of(turn: Turn, name: str, *, make: bool = True) -> int:
    """The number of a client that leases by hand, 0 where it never did and ``make`` is false."""
    for number, holder in turn.rows.holders().items():
        if not holder.worker and holder.name == name:
            return number
    if not make:
        return 0
    _forget_clients(turn)
    state = turn.rows.state
    state.holder += 1
    turn.rows.add_holder(state.holder, Holder(name, False, started=turn.now, seen=turn.now))
    return state.holder


def _forget_clients(turn: Turn) -> None:
    """Forget clients that have nothing, those first that were seen longest ago, where there are very many names."""
    idle = [
        (holder.seen, number)
        for number, holder in turn.rows.holders().items()
        if not holder.worker and not holder.in_flight
    ]
    for _, number in sorted(idle)[: max(0, len(idle) - MOST_CLIENTS + 1)]:
        turn.rows.drop_holder(number)


def _drop_gone(turn: Turn, gone: Iterable[Lease]) -> None:
    for one in gone:
        spot = spot_of(turn.rows, one.txid)
        if spot is not None:
            finish(turn.rows, spot)
            count_end(turn.rows, QueueEntry(EXPIRE, one.name, GONE), turn.now)


def _seen(turn: Turn, count: int | None, *, unleased: bool) -> list[SeenMessage]:
    rows = turn.rows
    names = {number: holder.name for number, holder in rows.holders().items()}
    barrier = rows.first_barrier()
    limit = None if barrier is None else barrier[0]
    found: list[SeenMessage] = []
    ranked = bool(turn.queue.priority)
    for first in rows.firsts():
        # Without priorities pages are in the order of delivery, and what is asked for is at the beginning.
        if count is not None and not ranked and len(found) >= count:
            return found[:count]
        page = rows.page(first)
        for index, state in enumerate(page.states):
            if state != DONE and not (unleased and state == LEASED):
                found.append(_one(turn, page, index, limit, names))
    if ranked:
        found.sort(key=lambda one: (-one.priority, one.txid))
    if not unleased:
        found += [_dead_one(turn, txid) for txid in rows.dead()]
    return found if count is None else found[:count]


def _one(turn: Turn, page: Page, index: int, limit: int | None, names: dict[int, str]) -> SeenMessage:
    state, txid = page.states[index], page.txids[index]
    word = STATES[state]
    if limit is not None and state in (READY, BARRIER) and txid >= limit:
        word = "ready" if txid == limit and turn.rows.first_pending() == limit else "blocked"
    if state == LEASED and page.holders[index] not in names:
        raise damaged(f"txid {txid} is leased to an unknown holder", turn.rows.place)
    place = page.place_of(index)
    return SeenMessage(
        txid,
        name_of(page, index, turn.owner),
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


def _dead_one(turn: Turn, txid: int) -> SeenMessage:
    dead = turn.rows.dead_one(txid)
    assert dead is not None
    name = (dead.publisher, dead.sequence) if dead.sequence else (turn.owner, txid)
    return SeenMessage(
        txid,
        name,
        "dead",
        dead.place,
        deliveries=dead.deliveries,
        cancels=dead.cancels,
        expiration=dead.expiration,
        priority=dead.priority,
        reason=dead.reason,
    )

"""Conflated subscriptions: per key at most one message in each interval (``behaviour`` 4.5).

The first message of a key starts an interval. A later message replaces it, a later delta is merged into it. The result
is delivered at the end of the interval, with bookmark and timestamp of the first message. Intervals are measured by the
times of the messages, so a replay conflates as the live subscription did. An out-of-focus event has the body that the
subscriber received last; records that came and went within an interval cause no event.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.subscriptions.events import Delivery, EventBatch, EventCommand, EventReason
from sowctl.engine.subscriptions.held_values import HeldValues
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.messages.base import KeyExtractor, MessageType
    from sowctl.values.paths import Path
    from sowctl.values.times import Micros

ConflationKey = tuple[str, str, bytes]
"""Topic, message type, and the key that distinguishes its messages."""


class PendingEvent(DescribedStruct):
    """The pending event of one key, held back until its interval ends. Bookmark, txid and time are those of the first
    message.
    """

    command: EventCommand
    reason: EventReason | None
    name: str | None
    payload: bytes
    txid: int
    time: Micros
    publisher: int | None
    sequence: int | None
    correlation: str | None
    logical: str | None
    kind: MessageType
    topic: str
    sound: bool


class Conflation:
    """Holds messages back. ``interval`` in microseconds; ``paths`` are the fields that form the key, none for the SOW
    key; ``oof``: out-of-focus events are delivered, so delivered messages are remembered."""

    def __init__(self, interval: Micros, paths: Sequence[Path] = (), *, oof: bool = False) -> None:
        self._interval = interval
        self._paths = tuple(paths)
        self._readers: dict[str, KeyExtractor] = {}
        self._pending: dict[ConflationKey, PendingEvent] = {}
        self._ends: list[tuple[Micros, int, ConflationKey]] = []
        self._count = 0
        # Intervals start in the order of events, so that positions never go back.
        self._time: Micros = 0
        self._delivered = HeldValues() if oof else None

    @property
    def next_due_time(self) -> Micros | None:
        """End of the next interval; None without pending events."""
        return self._ends[0][0] if self._ends else None

    @property
    def lowest_held_txid(self) -> int | None:
        """The lowest txid of a pending event."""
        return min((one.txid for one in self._pending.values() if one.txid), default=None)

    def hold_delivery(self, delivery: Delivery) -> Iterator[Delivery]:
        """Hold back a delivery; yield pending events that are due before its events, at their times.

        Initial records and events without a record pass through.
        """
        if not isinstance(delivery, EventBatch) or delivery.command == "sow":
            yield delivery
            if isinstance(delivery, EventBatch):
                self.note_records(delivery)
            return
        for place, key in enumerate(self._make_conflation_keys(delivery)):
            # A record that enters a page has its own time, which is before the message that moved the page.
            self._time = max(self._time, delivery.times[place])
            # A message exactly at the end of an interval still belongs to it (decision 42).
            yield from self.flush(self._time - 1)
            self._hold_events(key, delivery, place)

    def note_records(self, events: EventBatch) -> None:
        """Remember records as held by the subscriber."""
        if self._delivered is not None:
            for key, payload in zip(self._make_conflation_keys(events), events.payloads, strict=True):
                self._note_payload(key, payload)

    def flush(self, now: Micros | None) -> Iterator[Delivery]:
        """Yield the events that are due at an instant; None: all pending events."""
        while self._ends and (now is None or self._ends[0][0] <= now):
            _, _, key = heapq.heappop(self._ends)
            found = self._pending.pop(key, None)
            if found is None:
                continue
            if self._delivered is not None:
                known = self._delivered.get(_flatten_key(key))
                if found.command == "oof":
                    if known is None:
                        continue  # the subscriber never heard of it
                    found.payload = known
                    self._delivered.drop(_flatten_key(key))
                else:
                    whole = found.payload
                    if found.command == "delta_publish" and known is not None:
                        whole = found.kind.merge_delta(known, found.payload, set_nulls=True)
                    self._note_payload(key, whole)
            yield _make_pending_event(found)

    def close(self) -> None:
        """Release the remembered messages."""
        if self._delivered is not None:
            self._delivered.close()

    def _hold_events(self, key: ConflationKey, events: EventBatch, place: int) -> None:
        payload = events.payloads[place]
        before = self._pending.get(key)
        if before is None:
            self._pending[key] = PendingEvent(
                events.command,
                events.reason,
                events.names[place],
                payload,
                events.txids[place],
                events.times[place],
                None if events.publishers is None else events.publishers[place],
                None if events.sequences is None else events.sequences[place],
                None if events.correlations is None else events.correlations[place],
                None if events.logical is None else events.logical[place],
                events.kind,
                events.topic,
                events.sound,
            )
            self._count += 1
            heapq.heappush(self._ends, (self._time + self._interval, self._count, key))
            return
        if events.command == "delta_publish" and before.command != "oof":
            # A delta merged into a complete message gives a complete message, merged into a delta it gives a delta.
            payload = events.kind.merge_delta(before.payload, payload, set_nulls=True)
        else:
            before.command = events.command
        before.payload, before.reason, before.sound = payload, events.reason, events.sound
        # Conflation fields may combine messages of several records or logical topics: report the message's own key.
        before.name = events.names[place]
        before.logical = None if events.logical is None else events.logical[place]
        before.correlation = None if events.correlations is None else events.correlations[place]

    def _note_payload(self, key: ConflationKey, payload: bytes) -> None:
        if self._delivered is not None:
            self._delivered.put(_flatten_key(key), payload)

    def _make_conflation_keys(self, events: EventBatch) -> list[ConflationKey]:
        front = events.topic, events.kind.name
        if not self._paths:
            return [(*front, (name or "").encode()) for name in events.names]
        reader = self._readers.get(events.kind.name)
        if reader is None:
            reader = self._readers[events.kind.name] = events.kind.build_key_extractor(self._paths)
        texts, _ = reader(events.payloads)
        return [(*front, _join_texts(row)) for row in texts]


def _join_texts(texts: Sequence[bytes | None]) -> bytes:
    """Join texts with their lengths, so that different rows give different bytes."""
    return b"".join(b"-" if text is None else b"%d:%b" % (len(text), text) for text in texts)


def _flatten_key(key: ConflationKey) -> bytes:
    return _join_texts([key[0].encode(), key[1].encode(), key[2]])


def _make_pending_event(found: PendingEvent) -> EventBatch:
    return EventBatch(
        found.command,
        found.topic,
        found.kind,
        [found.name],
        [found.txid],
        [found.time],
        [found.payload],
        None if found.publisher is None else [found.publisher],
        None if found.sequence is None else [found.sequence],
        None if found.correlation is None else [found.correlation],
        None if found.logical is None else [found.logical],
        found.reason,
        sound=found.sound,
    )

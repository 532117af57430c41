"""Feeds with out-of-focus events, or with the changed fields of records only (``behaviour`` 4.2, 4.3).

A :class:`FocusFeed` remembers the records that a subscriber holds (:mod:`sowctl.engine.subscriptions.held_values`). A
record leaves by a deletion, by expiration, or by a message that no longer matches the filter; the events of the first
two have the last body, those of the third the new one. A record expires at its instant, before an entry of the same
instant, and without an entry: the event has no bookmark and moves no position (decisions 57, 58).

A subscription without initial records may request the same events as ``sow_delete``: it continues for a consumer that
holds the records of an earlier run. If the journal no longer has the state before the start, the first change of a key
may concern a record that the consumer holds: a removal is reported, without a body.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.sources.source import MatchedPairs, Source
from sowctl.engine.subscriptions.events import Delivery, EventCommand, EventReason
from sowctl.engine.subscriptions.feeds.delta import PathNames, compute_delta
from sowctl.engine.subscriptions.feeds.feed import DeliveredFinder, Feed
from sowctl.engine.subscriptions.held_values import HeldValues
from sowctl.engine.subscriptions.interest import is_queue
from sowctl.engine.topics.expiration import can_expire
from sowctl.store.codec import TOMBSTONE_FLAG, extract_payloads, read_expiration, read_stamps

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.changes import TopicChanges
    from sowctl.engine.subscriptions.interest import Interest

MIN_STALE_EXPIRATIONS = 1000
"""Number of possibly stale expirations, in addition to one per record, above which they are pruned."""


class FocusEvent(NamedTuple):
    """One pending event: its command, record and stamps. ``place`` is None for an event without an entry."""

    command: EventCommand
    reason: EventReason | None
    key: bytes
    value: bytes
    payload: bytes | None
    txid: int
    time: int
    place: int | None


class FocusFeed(Feed):
    """A feed that knows the records that its subscriber holds."""

    def __init__(self, instance: Instance, wanted: Interest) -> None:
        super().__init__(instance, wanted)
        options = wanted.options
        self._oof = (options.oof or options.deletes) and not is_queue(wanted.config)
        self._removal: EventCommand = "sow_delete" if options.deletes else "oof"
        # Keys seen so far if the state before the first change is unknown; otherwise None.
        self._met: set[bytes] | None = None
        self._delta = options.delta
        self._empties = not options.no_empties
        keys = options.send_keys or self._empties
        self._keys: tuple[PathNames, ...] = tuple(path.names for path in wanted.config.keys) if keys else ()
        self._held = HeldValues()
        self._ends: list[tuple[int, bytes]] = []
        self._mortal = can_expire(wanted.config.expiration)

    @property
    def next_due_time(self) -> int | None:
        """Time of the next expiration."""
        return self._ends[0][0] if self._ends else None

    @property
    def held_keys(self) -> Iterable[bytes]:
        """The keys that the subscriber holds."""
        return self._held

    def deliver_records(
        self, source: Source | None, *, shown: bool, told: DeliveredFinder | None = None
    ) -> Iterator[Delivery]:
        """Deliver the matching records; all of them are known afterwards, including those that are not shown."""
        if source is None:
            return
        if shown:
            yield from super().deliver_records(source, shown=True, told=told)
        else:
            for _ in self._find_matching(source):
                pass

    def _find_matching(self, source: Source) -> Iterator[MatchedPairs]:
        # Sorting may read everything twice: storing the same values again changes nothing.
        for keys, values in super()._find_matching(source):
            for key, value in zip(keys, values, strict=True):
                self._hold_record(key, value)
            yield keys, values

    def deliver_changes(self, changes: TopicChanges) -> Iterator[Delivery]:
        """Yield the events that changes cause, and update the records that the subscriber holds."""
        matching = self._find_matching_places(changes)
        self._preload_changes(changes, matching)
        yield from self._group_deliveries(self._build_focus_events(changes, matching), changes)

    def begin_unknown(self) -> None:
        """Start with an unknown state, instead of :meth:`deliver_records`."""
        self._met = set()

    def skip_changes(self, changes: TopicChanges) -> None:
        """Update the records that the subscriber holds by changes that it has received before."""
        for _ in self.deliver_changes(changes):
            pass

    def deliver_expired(self, now: int) -> Iterator[Delivery]:
        """Yield the events of expired records."""
        yield from self._group_deliveries(self._expire_at(now), None)

    def close(self) -> None:
        """Release the held records."""
        self._held.close()

    def _preload_changes(self, changes: TopicChanges, matching: frozenset[int]) -> None:
        """Precompute for all changes together whatever is cheaper in one batch."""

    def _build_focus_events(self, changes: TopicChanges, matching: frozenset[int]) -> list[FocusEvent]:
        """Return the events of the changes, change by change."""
        rows: list[FocusEvent] = []
        for place, (key, value) in enumerate(zip(changes.keys, changes.values, strict=True)):
            txid, time = read_stamps(value)
            # An expiration before the change is reported before the change.
            if self._ends and self._ends[0][0] <= time:
                rows += self._expire_at(time)
            rows += self._process_change(key, value, txid, time, place, matches=place in matching)
        return rows

    def _process_change(
        self, key: bytes, value: bytes, txid: int, time: int, place: int, *, matches: bool
    ) -> Sequence[FocusEvent]:
        """Return the events of one change, and update the held records."""
        gone = bool(value[0] & TOMBSTONE_FLAG)
        is_unknown = self._met is not None and key not in self._met
        if self._met is not None:
            self._met.add(key)
        if gone or not matches:
            if key not in self._held:
                if not is_unknown:
                    return ()
                reason: EventReason = "deleted" if gone else "match"
                return (FocusEvent(self._removal, reason, key, value, None, txid, time, place),)
            # A deletion has no body: its event has the last one.
            last = self._held.get(key) if gone and self._oof else value
            self._drop_record(key)
            return self._process_removal("deleted" if gone else "match", key, last or value, txid, time, place)
        # A delta is relative to the message delivered before.
        told = self._told_keys is None or key in self._told_keys
        before = self._held.get(key) if self._delta and told else None
        self._hold_record(key, value)
        return self._process_publish(key, value, before, txid, time, place)

    def _process_publish(
        self, key: bytes, value: bytes, before: bytes | None, txid: int, time: int, place: int | None
    ) -> Sequence[FocusEvent]:
        """Return the event of a message: the message, or for a delta subscriber its difference to ``before``."""
        if before is not None:
            old, new = self._select_fields(extract_payloads((before, value)))
            delta = compute_delta(self.wanted.kind, old, new, self._keys, empty=self._empties)
            if delta is not None:
                return (FocusEvent("delta_publish", None, key, value, delta, txid, time, place),) if delta else ()
        return (
            FocusEvent(
                "publish", None, key, value, self._select_fields(extract_payloads((value,)))[0], txid, time, place
            ),
        )

    def _process_removal(
        self, reason: EventReason, key: bytes, value: bytes, txid: int, time: int, place: int | None
    ) -> Sequence[FocusEvent]:
        """Return the event of a record that has left."""
        if not self._oof:
            return ()
        return (
            FocusEvent(
                self._removal,
                reason,
                key,
                value,
                self._select_fields(extract_payloads((value,)))[0],
                txid,
                time,
                place,
            ),
        )

    def _drop_record(self, key: bytes) -> None:
        self._held.drop(key)

    def _hold_record(self, key: bytes, value: bytes) -> None:
        self._held.put(key, value)
        if self._mortal and (end := read_expiration(value)):
            heapq.heappush(self._ends, (end, key))
            if len(self._ends) > 2 * len(self._held) + MIN_STALE_EXPIRATIONS:
                self._prune_expirations()

    def _prune_expirations(self) -> None:
        """Remove stale expirations: a record that is published again has another one."""
        latest = {key: end for end, key in self._ends if key in self._held}
        found = [(read_expiration(value), key) for key in latest if (value := self._held.get(key)) is not None]
        self._ends = [(end, key) for end, key in found if end]
        heapq.heapify(self._ends)

    def _expire_at(self, time: int) -> list[FocusEvent]:
        """Return the events of records that have expired at an instant, in order of expiration."""
        rows: list[FocusEvent] = []
        while self._ends and self._ends[0][0] <= time:
            end, key = heapq.heappop(self._ends)
            value = self._held.get(key)
            # The record was published again with another lifetime, or removed.
            if value is None or read_expiration(value) != end:
                continue
            self._drop_record(key)
            rows += self._process_removal("expired", key, value, 0, end, None)
        return rows

    def _find_matching_places(self, changes: TopicChanges) -> frozenset[int]:
        """Return the indexes of changes that publish a matching message."""
        published = [place for place, value in enumerate(changes.values) if not value[0] & TOMBSTONE_FLAG]
        if self._meant is not None:
            takes = self._meant
            published = [at for at in published if takes(([changes.keys[at]], [changes.values[at]]))[0]]
        if not self.wanted.matcher.is_selective or not published:
            return frozenset(published)
        chosen = changes.select(published)
        return frozenset(published[at] for at in self.wanted.matcher.find_matches(chosen.keys, chosen.values))

    def _group_deliveries(self, rows: Sequence[FocusEvent], changes: TopicChanges | None) -> Iterator[Delivery]:
        """Yield rows as events, one batch per run of rows of one kind."""
        for (command, reason, _, unknown), some in groupby(rows, key=_get_event_kind):
            run = list(some)
            if command != self._removal:
                self._note_keys(row.key for row in run)
            events = self._make_feed_events(
                command,
                [row.key for row in run],
                [row.value for row in run],
                [row.payload or b"" for row in run],
                reason,
            )
            events.unknown = unknown
            events.txids = [row.txid for row in run]
            events.times = [row.time for row in run]
            places = [row.place for row in run if row.place is not None]
            if places and changes is not None and changes.publishers is not None and changes.sequences is not None:
                events.publishers = [changes.publishers[place] for place in places]
                events.sequences = [changes.sequences[place] for place in places]
            yield events


def _get_event_kind(row: FocusEvent) -> tuple[EventCommand, EventReason | None, bool, bool]:
    return row.command, row.reason, row.place is None, row.payload is None

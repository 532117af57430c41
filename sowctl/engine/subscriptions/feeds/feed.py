"""The feed of one topic of a subscription: first the matching records, then their changes, as events.

:class:`Feed` delivers every matching message and remembers nothing, so its memory is constant. Feeds that have to know
the records of the subscriber (out-of-focus events, deltas, pages) extend it. Created and driven by
:mod:`sowctl.engine.subscriptions.subscription`. Specified in ``behaviour`` 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.options import QueryOptions
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.scan import filter_runs, open_access
from sowctl.engine.sources.logical_topics import build_logical_filter
from sowctl.engine.sources.source import MatchedPairs, Pairs, Source, build_bare_runs
from sowctl.engine.subscriptions.events import (
    Delivery,
    EventBatch,
    EventCommand,
    EventReason,
    build_events,
    combine_flags,
)
from sowctl.store.codec import TOMBSTONE_FLAG, extract_payloads

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.records import RecordBatch
    from sowctl.engine.subscriptions.changes import TopicChanges
    from sowctl.engine.subscriptions.interest import Interest

DeliveredFinder = Callable[[Sequence[bytes], Sequence[bytes]], Collection[int]]
"""Returns the indexes of the records of a batch that have been delivered."""


class Feed:
    """Delivers every matching message as it is published."""

    def __init__(self, instance: Instance, wanted: Interest) -> None:
        self.wanted = wanted
        self._instance = instance
        self._meant = build_logical_filter(wanted.config.logical) if wanted.config.logical is not None else None
        options = wanted.options
        # With a limit on the first records, not all matching records have been delivered: the keys of those that have.
        self._told_keys: set[bytes] | None = set() if options.top_n is not None and options.skip_n is None else None

    @property
    def next_due_time(self) -> int | None:
        """Time of the next event without a journal entry, microseconds UTC; None if there is none."""
        return None

    def preload_records(self, source: Source | None) -> None:
        """Read the state that :meth:`find_held_places` requires."""

    def deliver_records(
        self, source: Source | None, *, shown: bool, told: DeliveredFinder | None = None
    ) -> Iterator[Delivery]:
        """Deliver the matching records of the start state; ``shown``: the subscriber has asked for them.

        ``told``: returns the records that a replaced subscription has delivered; these are skipped. Without ``shown``,
        rows are read only if the feed has to know them.
        """
        if source is None or not shown:
            return
        for batch in self._order_rows(lambda: self._note_told_records(self._find_matching(source), told), source):
            yield from self._report_records(batch.keys, batch.values, told)

    def find_result_places(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Collection[int]:
        """Return the indexes of those records of the current state that are in the result."""
        places = self.wanted.find_followed_places(keys, values)
        takes = self._meant
        return places if takes is None else [at for at in places if takes(([keys[at]], [values[at]]))[0]]

    def find_held_places(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Collection[int]:
        """Return the indexes of those records of the current state that the subscriber holds."""
        places, known = self.find_result_places(keys, values), self._told_keys
        return places if known is None else [place for place in places if keys[place] in known]

    def read_result(self, source: Source) -> Iterator[MatchedPairs]:
        """Yield all records of the current state in the result; ``source`` may include other logical topics, too."""
        for keys, values in Feed._find_matching(self, source):
            yield (keys, values) if self._meant is None else self._meant((keys, list(values)))

    def read_held_events(self, source: Source) -> Iterator[EventBatch]:
        """Yield the records that the subscriber holds as events, for callers that track deliveries."""
        known = self._told_keys
        for keys, values in self.read_result(source):
            if known is not None:
                places = [place for place, key in enumerate(keys) if key in known]
                keys, values = [keys[place] for place in places], [values[place] for place in places]
            if keys:
                yield self._make_feed_events("sow", keys, values)

    def deliver_removed(self, source: Source | None, before: Feed) -> Iterator[Delivery]:
        """Yield out-of-focus events, if asked for, of records that ``before`` holds and this feed does not."""
        if source is None or not self.wanted.options.oof:
            return
        for keys, values in before.read_result(source):
            stays = frozenset(self.find_result_places(keys, values))
            gone = [place for place in range(len(keys)) if place not in stays]
            if gone:
                yield self._make_feed_events(
                    "oof", [keys[at] for at in gone], [values[at] for at in gone], reason="match"
                )

    def deliver_changes(self, changes: TopicChanges) -> Iterator[Delivery]:
        """Yield the events that one batch of changes causes."""
        wanted = self._filter_matching(changes)
        if not self.wanted.options.sow and combine_flags(changes.values) & TOMBSTONE_FLAG:
            # A copy of the records that is maintained from these events would keep deleted records.
            self._instance.notify_once(
                "deletions of a subscription", "deletions are not printed; --deletes prints them, and expirations"
            )
        if len(wanted):
            self._note_keys(wanted.keys)
            events = self._make_feed_events("publish", wanted.keys, wanted.values)
            events.publishers, events.sequences = wanted.publishers, wanted.sequences
            yield events

    def begin_unknown(self) -> None:
        """Start with an unknown state, instead of :meth:`deliver_records`."""

    def skip_changes(self, changes: TopicChanges) -> None:
        """Apply changes that the subscriber has received before."""

    def deliver_expired(self, now: int) -> Iterator[Delivery]:
        """Yield the events that time alone causes."""
        return iter(())

    def close(self) -> None:
        """Release the held state."""

    @property
    def held_keys(self) -> Iterable[bytes]:
        """The keys that the subscriber is known to hold; none if the feed does not keep them."""
        return ()

    def _report_records(
        self, keys: Sequence[bytes], values: Sequence[bytes], told: DeliveredFinder | None
    ) -> Iterator[Delivery]:
        if told is not None:
            known = frozenset(told(keys, values))
            places = [place for place in range(len(keys)) if place not in known]
            keys, values = [keys[place] for place in places], [values[place] for place in places]
        if keys:
            self._note_keys(keys)
            events = self._make_feed_events("sow", keys, values)
            events.batch_size, events.query_id = self.wanted.options.batch_size, self.wanted.options.query_id
            yield events

    def _note_keys(self, keys: Iterable[bytes]) -> None:
        """Note the records with these keys as delivered."""
        if self._told_keys is not None:
            self._told_keys.update(keys)

    def _note_told_records(self, found: Iterable[MatchedPairs], told: DeliveredFinder | None) -> Iterator[MatchedPairs]:
        """Yield all of ``found``; note those that were delivered before."""
        for keys, values in found:
            if told is not None and self._told_keys is not None:
                self._note_keys(keys[place] for place in told(keys, values))
            yield keys, values

    def _make_feed_events(
        self,
        command: EventCommand,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        payload: Sequence[bytes] | None = None,
        reason: EventReason | None = None,
    ) -> EventBatch:
        """Return events of stored values; ``payload`` are their bodies if these differ from the values' own."""
        bodies = self._select_fields(extract_payloads(values)) if payload is None else payload
        wanted = self.wanted
        events = build_events(
            command, wanted.label, wanted.kind, keys, values, bodies, key_mode=wanted.config.key_mode, reason=reason
        )
        if wanted.config.derived is not None:
            # Messages of a queue name their source topics, but the followed topic is the queue.
            events.logical = None
        return events

    def _select_fields(self, found: Sequence[bytes]) -> Sequence[bytes]:
        select = self.wanted.select
        return found if select is None else list(map(select, found))

    def _filter_published(self, changes: TopicChanges) -> TopicChanges:
        """Return the changes that publish a message, of the requested logical topics."""
        if combine_flags(changes.values) & TOMBSTONE_FLAG:
            changes = changes.select([at for at, value in enumerate(changes.values) if not value[0] & TOMBSTONE_FLAG])
        if self._meant is None or not len(changes):
            return changes
        takes = self._meant
        return changes.select([at for at, pair in enumerate(_iterate_changes(changes)) if takes(pair)[0]])

    def _filter_matching(self, changes: TopicChanges) -> TopicChanges:
        published = self._filter_published(changes)
        if not len(published) or not self.wanted.matcher.is_selective:
            return published
        return published.select(self.wanted.matcher.find_matches(published.keys, published.values))

    def _find_matching(self, source: Source) -> Iterator[MatchedPairs]:
        """Yield the matching records in key order, using indexes if available."""
        matcher, stored = self.wanted.matcher, source.stored_source
        if self.wanted.sow_keys is not None:
            found = source.find_records(sorted(self.wanted.sow_keys))
            return filter_runs(build_bare_runs((found,)), matcher, QueryStatistics(source.topic, source.message_type))
        way = open_access(self._instance, stored, matcher) if stored is not None and matcher.is_selective else None
        if way is not None:
            return way.read_matching(QUERY_LIMITS.decode_batch_records)
        counts = QueryStatistics(source.topic, source.message_type)
        return filter_runs(
            build_bare_runs(source.read_batches(QUERY_LIMITS.read_batch_records)),
            matcher,
            counts,
            QUERY_LIMITS.decode_batch_records,
        )

    def _order_rows(self, found: Callable[[], Iterator[MatchedPairs]], source: Source) -> Iterator[RecordBatch]:
        """Yield the rows of the initial query: in its order, at most top_n."""
        from sowctl.engine.search.sorter import sort_records

        wanted = self.wanted
        skip, most = wanted.options.skip_n or 0, wanted.options.top_n
        if wanted.order:
            options = QueryOptions(skip_n=wanted.options.skip_n, batch_size=QUERY_LIMITS.read_batch_records)

            def anew(_):  # type: ignore[no-untyped-def]
                yield source, found()

            yield from sort_records(anew, self._instance, options, wanted.order, None if most is None else most + skip)
            return
        from sowctl.engine.records import build_record_batch

        # Read to the end even after the limit: a feed that remembers has to see all matching records.
        for keys, values in found():
            passed = min(skip, len(keys))
            skip -= passed
            end = len(keys) if most is None else min(len(keys), passed + most)
            if most is not None:
                most -= end - passed
            if end > passed:
                whole = end - passed == len(keys)
                yield build_record_batch(
                    wanted.label,
                    wanted.kind,
                    keys if whole else keys[passed:end],
                    values if whole else values[passed:end],
                )


def _iterate_changes(changes: TopicChanges) -> Iterator[Pairs]:
    for key, value in zip(changes.keys, changes.values, strict=True):
        yield [key], [value]

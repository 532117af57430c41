"""A subscription: the records of its topics at one instant, then all their changes, in order.

:class:`Subscription` drives the other modules of this package: it opens the states (:mod:`topic_states`), passes
changes of journals and stores (:mod:`journal_tail`, :mod:`storetail`, :mod:`derived_rows`) to one feed per topic
(:mod:`feed`), and waits (:mod:`waker`). While it waits, it holds no transaction of any store. Specified in
``behaviour`` 4.1 and sow-events(5).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sowctl.engine.subscriptions.changes import iterate_block_changes
from sowctl.engine.subscriptions.events import Delivery, Event, EventBatch, EventCommand, MarkerEvent
from sowctl.engine.subscriptions.followed_topics import (
    FollowedTopic,
    build_conflation,
    build_followed_topics,
    build_replay,
)
from sowctl.engine.subscriptions.interest import compile_interests, is_page
from sowctl.engine.subscriptions.journal_tail import ENTRIES_PRUNED, JournalTail
from sowctl.engine.subscriptions.new_topics import NewTopics
from sowctl.engine.subscriptions.topic_states import TopicStates, open_topic_states
from sowctl.engine.subscriptions.waker import Waker
from sowctl.errors import MissingError, UsageError, convert_memory_errors
from sowctl.identity.bookmarks import Bookmark
from sowctl.journal.fileset import REMOVED_FILE_CODE
from sowctl.journal.reader import MAX_REREADS
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.engine.sources.source import Source
    from sowctl.engine.subscriptions.control import ControlLine
    from sowctl.engine.subscriptions.feeds.feed import Feed
    from sowctl.engine.subscriptions.replay import Replay
    from sowctl.engine.topics.targets import NewTopicResolver
    from sowctl.values.topicref import TopicRef

MIN_WAIT_SECONDS = 0.005
"""Minimum seconds to wait after an event without a change: a writer within a group writes again soon."""
ChangeStamp = tuple[Any, ...]


@convert_memory_errors
class Subscription:
    """Iterate for events, or over :meth:`deliveries` for batches. Close it, for example with a ``with`` statement.

    ``txid``: everything in the journal up to it has been delivered. :meth:`cancel` ends it, also from another thread.
    """

    def __init__(
        self,
        instance: Instance,
        topics: Sequence[TopicConfig],
        options: SubscribeOptions,
        *,
        inputs: Collection[int] = (),
        output: int | None = None,
        direct: bool = False,
        joining: NewTopicResolver | None = None,
    ) -> None:
        """``inputs`` end a wait when they are readable, ``output`` when its reader has closed it.

        ``direct``: events are delivered while the stores they are read from are open. This is for callers that write to
        none of these stores meanwhile; otherwise events are delivered after the stores are closed. ``joining``: finds
        topics that are added later.
        """
        self.txid = 0
        self.options = options
        self._instance = instance
        self._topics = tuple(topics)
        self._inputs, self._output, self._direct = inputs, output, direct
        self._followed = build_followed_topics(instance, compile_interests(instance, topics, options))
        self._newcomers = NewTopics(instance, joining)
        self._conflation = build_conflation(options)
        self._replay = build_replay(instance, self._topics, options)
        self._tail = JournalTail(instance)
        self._waker: Waker | None = None
        self._begun = self._cancelled = self._paused = False
        self._until: int | None = None
        # Without records, top_n is a number of messages if a bookmark defines their start (decision 60).
        limits = (options.most, None if self._replay is None or options.sow else options.top_n)
        self._left = min((limit for limit in limits if limit is not None), default=None)
        self._ends = None if options.lasting is None else time.monotonic() + options.lasting
        self._told, self._told_txid = time.monotonic(), 0
        self._seen: ChangeStamp = ()

    def __repr__(self) -> str:
        names = ", ".join(topic.label for topic in self._topics)
        state = "ended" if self.finished else f"at txid {self.txid}" if self._begun else "not started"
        return f"<subscription to {names}: {state}>"

    # iterating

    def __iter__(self) -> Iterator[Event]:
        for delivery in self.deliveries():
            yield from delivery

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events without blocking the loop: a separate thread waits for them."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        deliveries = self.deliveries()
        # One thread, because a generator cannot be resumed by two threads at once.
        with ThreadPoolExecutor(1, "subscription") as waiting:
            try:
                loop = asyncio.get_running_loop()
                while (delivery := await loop.run_in_executor(waiting, next, deliveries, None)) is not None:
                    for event in delivery:
                        yield event
            finally:
                # The thread may wait for the next change, and leaving this block waits for the thread.
                self.cancel()

    def deliveries(self) -> Generator[Delivery]:
        """Yield all deliveries until the subscription ends by its options or is cancelled."""
        while not self._cancelled:
            yield from self.ready()
            if self.finished:
                return
            self.wait()

    def ready(self) -> Generator[Delivery]:
        """Yield the deliveries that are available now, without waiting."""
        if not self._begun:
            self._begun = True
            yield from self._spool_if_needed(self._conflate_news(self._deliver_start()))
        if self._paused or self._cancelled:
            return
        replay = self._replay
        if replay is None or replay.pause_seconds is None:
            # Made before reading: a change during the read makes the next stamp differ, which ends the next wait
            # immediately.
            self._seen = self._make_change_stamp()

        def news() -> Generator[Delivery]:
            return self._conflate_news(self._read_news(self._until))

        yield from self._limit_deliveries(news() if replay is None else replay.deliver_paced(news))
        if self._left == 0:
            return
        if replay is not None and replay.pause_seconds is None:
            yield from self._deliver_completed(replay)
        yield from self._deliver_progress()

    @property
    def finished(self) -> bool:
        """True if the subscription has ended by its options, or was cancelled."""
        if self._cancelled or self._left == 0 or (self._replay is not None and self._replay.is_over):
            return True
        if self._until is not None and self._tail.txid >= self._until:
            return True
        return self._ends is not None and time.monotonic() >= self._ends

    @property
    def settled(self) -> bool:
        """True if everything read from the journal is delivered: nothing waits for its time or was cut off by a
        limit."""
        waits = self._left == 0 or (self._replay is not None and self._replay.pause_seconds is not None)
        return not waits and (self._conflation is None or self._conflation.lowest_held_txid is None)

    @property
    def bookmark(self) -> str | None:
        """The bookmark up to which all events were delivered. None without a journal."""
        held = None if self._conflation is None else self._conflation.lowest_held_txid
        txid = self.txid if held is None else min(self.txid, held - 1)
        return str(Bookmark(self._instance.publisher_id, txid)) if self._tail.exists else None

    # ending

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cancel(self) -> None:
        """End the iteration, and a wait immediately."""
        self._cancelled = True
        if self._waker is not None:
            self._waker.wake()

    def close(self) -> None:
        """Close all files."""
        self._cancelled = True
        for one in self._followed.values():
            one.feed.close()
        if self._conflation is not None:
            self._conflation.close()
        if self._replay is not None:
            self._replay.close()
        self._tail.close()
        if self._waker is not None:
            self._waker.close()
            self._waker = None

    # waiting

    def wait(self) -> frozenset[int]:
        """Wait for possible changes or the end of the subscription's time; return the inputs that are readable."""
        if self._cancelled:
            return frozenset()
        waker = self._get_waker()
        if self._replay is not None and self._replay.pause_seconds is not None:
            # A paced replay holds the journal open within a block: its end must not be read meanwhile.
            return waker.wait(self._compute_max_wait())
        if self._make_change_stamp() != self._seen and not self._paused:
            return frozenset()
        longest = self._compute_max_wait()
        until = None if longest is None else time.monotonic() + longest
        while True:
            ready = waker.wait(None if until is None else until - time.monotonic())
            if ready or self._cancelled or self._paused:
                return ready
            if self._make_change_stamp() != self._seen:
                if waker.note_change_found():
                    self._instance.notify_once(
                        "events of files", "file change notifications are not available here: polling instead"
                    )
                return ready
            if waker.has_events:
                if not waker.looked:
                    time.sleep(MIN_WAIT_SECONDS)
                return ready
            # Without file events, 40 polls per second find nothing: the loop does nothing else for them.
            if until is not None and time.monotonic() >= until:
                return ready

    def forget_input(self, number: int) -> None:
        """Remove an input at its end, so that it ends no wait any more."""
        self._get_waker().forget_input(number)

    def _compute_max_wait(self) -> float | None:
        """Return the seconds until something is due even without a change."""
        now = time.monotonic()
        limits = [] if self._ends is None else [self._ends - now]
        if self._paused:
            # Events due meanwhile are delivered after the pause: waking for them would loop.
            return min(limits, default=None)
        if self.options.progress_every is not None:
            limits.append(self._told + self.options.progress_every - now)
        if self._replay is not None and self._begun:
            limits += [at for at in (self._replay.pause_seconds, self._replay.seconds_until_end) if at is not None]
        dues = [one.feed.next_due_time for one in self._followed.values()]
        if self._conflation is not None:
            dues.append(self._conflation.next_due_time)
        due = min((at for at in dues if at is not None), default=None)
        if due is not None:
            limits.append(max((due - self._instance.now) / MICROS_PER_SECOND, MIN_WAIT_SECONDS))
        stamp = self._make_change_stamp()
        pauses = [one.rows.compute_pause(stamp) for one in self._followed.values() if one.rows is not None]
        limits += [max(pause, MIN_WAIT_SECONDS) for pause in pauses if pause is not None]
        return min(limits) if limits else None

    def _make_change_stamp(self) -> ChangeStamp:
        """Return a value that differs after a change of any source."""
        stores = [one.store.change_stamp for one in self._followed.values() if one.store is not None]
        return (
            self._tail.read_end_txid(),
            *stores,
            *(one.rows.change_stamp for one in self._followed.values() if one.rows is not None),
        )

    def _get_waker(self) -> Waker:
        if self._waker is None:
            self._waker = Waker(self._list_directories(), self._inputs, self._output, events=self.options.events)
        return self._waker

    def _list_directories(self) -> list[Path]:
        log = self._instance.log
        logged = any(one.store is None for one in self._followed.values())
        found = [log.directory] if log is not None and logged else []
        files = [path for one in self._followed.values() for path in one.store_files]
        found += [path.parent for path in files]
        return found

    # delivering

    def _limit_deliveries(self, deliveries: Iterable[Delivery]) -> Generator[Delivery]:
        """Yield deliveries up to the number of messages at which the subscription ends; initial records do not
        count."""
        for delivery in deliveries:
            if self._left is not None and isinstance(delivery, EventBatch) and delivery.command != "sow":
                delivery = delivery.take_first(self._left)
                self._left -= len(delivery)
            yield delivery
            if self._left == 0:
                return

    def _spool_if_needed(self, deliveries: Generator[Delivery]) -> Iterator[Delivery]:
        """Yield deliveries, spooled if the caller may write to the stores between events."""
        if self._direct:
            return deliveries
        from sowctl.engine.subscriptions.spool import spool_deliveries

        return spool_deliveries(deliveries)

    def _deliver_start(self) -> Generator[Delivery]:
        """Yield the records at the instant where the subscription starts."""
        # Watch before reading: changes while the records are delivered are then announced.
        self._get_waker()
        last = None
        with closing(self._open_start_states()) as together:
            self.txid = self._told_txid = together.txid
            for delivery in self._deliver_records(together):
                if last is not None:
                    yield last
                last = delivery
        # Close the stores before the last event: the consumer may write to them in this process after it.
        if last is not None:
            yield last

    def _open_start_states(self) -> TopicStates:
        """Return the start states; position the tail after them.

        Raises MissingError ``SOW-FOL-001`` and ``SOW-JRN-063`` if files are removed faster than they are read.
        """
        looks = MAX_REREADS
        while True:
            try:
                return self._find_start_states()
            except MissingError as error:
                # Files with entries after the states were removed before the tail was positioned. Nothing has been
                # delivered yet: states read now include those entries, so the subscription starts at a later instant.
                looks -= 1
                if error.code not in (ENTRIES_PRUNED, REMOVED_FILE_CODE) or not looks:
                    raise

    def _find_start_states(self) -> TopicStates:
        replay, sow = self._replay, self.options.sow
        if replay is not None and sow and not replay.has_past_states:
            # Behaviour 11.61: there is no past state to start from.
            self._instance.notify("without History, the current records are used, and the subscription starts now")
            replay = self._replay = None
        if replay is None:
            together = self._open_with_new_topics(self._followed, self._newcomers, self.options)
            self._topics = _list_topic_configs(self._followed)
            try:
                self._tail.start_after(together.txid)
            except BaseException:
                together.close()
                raise
            self._until = together.txid if self.options.until_now else None
            return together
        together, self._until = replay.open_start_states(self._tail, sow=sow, until_now=self.options.until_now)
        return together

    def _open_with_new_topics(
        self, followed: dict[TopicRef, FollowedTopic], newcomers: NewTopics, options: SubscribeOptions
    ) -> TopicStates:
        """Return the states of ``followed``, after adding new topics that have entries up to there."""
        while True:
            together = self._open_states(followed)
            try:
                # Listed after the instant: the first entry of any topic unknown here is after it, and is found there.
                new = newcomers.resolve_refs(self._tail.list_topics(), followed, options)
            except BaseException:
                together.close()
                raise
            if not new:
                return together
            together.close()
            followed.update(new)

    def _open_states(self, followed: Mapping[TopicRef, FollowedTopic]) -> TopicStates:
        plain = [one.feed.wanted.config for one in followed.values() if one.rows is None]
        together = open_topic_states(self._instance, plain, self._tail)
        try:
            for place, one in enumerate(followed.values()):
                if one.rows is not None:
                    source = one.rows.open()
                    together.sources.insert(place, source)
                    together.held.enter_context(closing(source))
        except BaseException:
            together.close()
            raise
        return together

    def _deliver_records(
        self, together: TopicStates, before: Mapping[TopicRef, Feed] | None = None
    ) -> Generator[Delivery]:
        """Yield the group of each topic; ``before``: the replaced feeds, so that only differences to them are
        delivered."""
        replacing, before = before is not None, before or {}
        for (ref, one), source in zip(self._followed.items(), together.sources, strict=True):
            feed, old = one.feed, before.get(ref)
            if one.rows is not None and source is not None:
                one.rows.start_after(source)
            if one.store is not None:
                stored = None if source is None else source.base_source.stored_source
                one.store.start_after(None if stored is None else stored.snapshot)
            if ref in together.unknown:
                feed.begin_unknown()
            feed.preload_records(source)
            shown = self.options.sow
            if shown:
                yield self._make_control_event("group_begin", one)
            if old is not None and shown:
                yield from feed.deliver_removed(source, old)
            yield from feed.deliver_records(source, shown=shown, told=None if old is None else old.find_held_places)
            if replacing and self._conflation is not None and source is not None:
                # The subscriber holds all of it, whether delivered now or before.
                for events in feed.read_held_events(source):
                    self._conflation.note_records(events)
            if shown:
                yield self._make_control_event("group_end", one)

    def _make_control_event(self, command: EventCommand, one: FollowedTopic) -> MarkerEvent:
        config = one.feed.wanted.config
        logged = one.store is None and one.rows is None
        txid = self.txid if logged else one.store.applied if one.store is not None else None
        bookmark = str(Bookmark(self._instance.publisher_id, self.txid)) if logged else None
        return MarkerEvent(
            command, config.label, config.message_type, bookmark, txid, self._instance.now, self.options.query_id
        )

    def _read_news(
        self, until: int | None, states: Mapping[TopicRef, Source | None] | None = None, now: int | None = None
    ) -> Generator[Delivery]:
        """Yield changes up to the txid ``until``, the states ``states``, and expirations up to ``now`` (default: the
        present)."""
        followed = self._followed
        logged = {ref: one.feed.wanted for ref, one in followed.items() if one.store is None and one.rows is None}
        replay = self._replay
        for block in self._tail.read_blocks(until):
            if new := self._newcomers.resolve_refs(block.topic_refs, followed, self.options):
                followed.update(new)
                self._topics += tuple(one.feed.wanted.config for one in new.values())
                logged |= {ref: one.feed.wanted for ref, one in new.items()}
            if replay is not None and (end := replay.find_end_txid(block, logged)) is not None:
                until, replay.is_over = end, True
            if any(topic in followed for topic in block.topic_refs):
                owner = self._instance.publisher_id
                for changes in iterate_block_changes(block, logged, owner, self._tail.txid, until):
                    feed = followed[changes.topic].feed
                    skipped = 0 if replay is None else replay.count_skipped(changes)
                    if skipped:
                        # Times never decrease within a topic, so changes older than the start come first.
                        feed.skip_changes(changes.select(range(skipped)))
                        changes = changes.select(range(skipped, len(changes)))
                    if len(changes):
                        yield from feed.deliver_changes(changes)
            # Advanced after the events of the block: `bookmark` must not be ahead of the delivered events.
            self.txid = block.last_txid if until is None else min(block.last_txid, until)
            if replay is not None and replay.is_over:
                return
        self.txid = max(self.txid, self._tail.txid)
        for ref, one in followed.items():
            found = None
            state = None if states is None else states.get(ref)
            if one.store is not None:
                held = one.feed.held_keys
                stored = None if state is None else state.base_source.stored_source
                found = (
                    one.store.poll_changes(held)
                    if stored is None
                    else one.store.read_changes_until(stored.snapshot, held)
                )
            elif one.rows is not None:
                found = one.rows.poll_changes(self._seen) if state is None else one.rows.read_changes_until(state)
            if found is not None and len(found := found.select(one.feed.wanted.find_followed_keys(found.keys))):
                yield from one.feed.deliver_changes(found)
        now = self._instance.now if now is None else now
        for one in followed.values():
            due = one.feed.next_due_time
            if due is not None and due <= now:
                yield from one.feed.deliver_expired(now)

    def _conflate_news(self, news: Generator[Delivery]) -> Generator[Delivery]:
        conflation = self._conflation
        if conflation is None:
            yield from news
            return
        for delivery in news:
            yield from conflation.hold_delivery(delivery)
        # With until_now, pending events are delivered at the end even if their intervals have not ended.
        drained = self._until is not None and self._tail.txid >= self._until
        yield from conflation.flush(None if drained else self._instance.now)

    def _deliver_completed(self, replay: Replay) -> Generator[Delivery]:
        """Report once that all entries from before the start of the subscription are replayed, or that its range is
        over."""
        if replay.seconds_until_end == 0.0:
            replay.is_over = True
        if not replay.completed and (self.txid >= replay.past.caught_up or self.finished):
            replay.completed = True
            yield MarkerEvent("completed", bookmark=self.bookmark, txid=self.txid, timestamp=self._instance.now)

    def _deliver_progress(self) -> Generator[Delivery]:
        every = self.options.progress_every
        if every is None or time.monotonic() - self._told < every:
            return
        self._told = time.monotonic()
        if self.txid != self._told_txid:
            self._told_txid = self.txid
            yield MarkerEvent("progress", bookmark=self.bookmark, txid=self.txid, timestamp=self._instance.now)

    # replacing

    def control(
        self,
        control: ControlLine,
        found: Callable[[str], Sequence[TopicConfig]],
        joining: Callable[[str], NewTopicResolver | None] = lambda target: None,
    ) -> Generator[Delivery]:
        """Execute a control line; ``found`` returns the topics of a target, ``joining`` finds those added later.

        Raises UsageError without a change.
        """
        from sowctl.engine.subscriptions.control import apply_replace_line

        if control.command == "stop":
            self._cancelled = True
        elif control.command in ("pause", "resume"):
            self._paused = control.command == "pause"
        elif control.topic is None:
            yield from self.replace(apply_replace_line(self.options, control))
        else:
            options = apply_replace_line(self.options, control)
            yield from self.replace(options, found(control.topic), joining(control.topic))

    def replace(
        self,
        options: SubscribeOptions,
        topics: Sequence[TopicConfig] | None = None,
        joining: NewTopicResolver | None = None,
    ) -> Generator[Delivery]:
        """Continue with other options or topics (``behaviour`` 4.1, decision 55); yield only the differences.

        Everything up to the instant of the change is delivered as before. Raises UsageError for invalid options,
        without a change.
        """
        if self._replay is not None and not self._replay.completed:
            hint = "wait for the event completed"
            raise UsageError("SOW-FOL-025", "a subscription cannot be replaced while it is replaying", hint=hint)
        newcomers = self._newcomers if topics is None else NewTopics(self._instance, joining)
        topics = self._topics if topics is None else tuple(topics)
        # Compiled before anything changes, so that invalid options leave the subscription as it was.
        wanted = compile_interests(self._instance, topics, options)
        if self.options.projection is not None:
            hint = "end this subscription and start another"
            raise UsageError("SOW-FOL-009", "an aggregated subscription cannot be replaced", hint=hint)
        if is_page(self.options) and topics != self._topics:
            raise UsageError(
                "SOW-FOL-009", "the topic of a page cannot be replaced", hint="end this subscription and start another"
            )
        if not self._begun:
            self._begun = True
            yield from self._spool_if_needed(self._conflate_news(self._deliver_start()))
        new = build_followed_topics(self._instance, wanted)
        yield from self._spool_if_needed(self._limit_deliveries(self._replace_checked(options, new, newcomers)))

    def _replace_checked(
        self, options: SubscribeOptions, new: dict[TopicRef, FollowedTopic], newcomers: NewTopics
    ) -> Generator[Delivery]:
        """Run :meth:`replace` with checked options."""
        old = self._followed
        with closing(self._open_with_new_topics(new, newcomers, options)) as together:
            # The old subscription ends at the instant where the new one starts: of the log, of stores, and of the
            # clock. Otherwise both would report expirations in between.
            states = dict(zip(new, together.sources, strict=True))
            yield from self._conflate_news(self._read_news(together.txid, states, together.now))
            if self._conflation is not None:
                yield from self._conflation.flush(None)
                self._conflation.close()
            self._followed, self.options, self._topics = new, options, _list_topic_configs(new)
            self._newcomers = newcomers
            self._conflation = build_conflation(options)
            # The states of the new feeds include all entries up to this txid, so the tail must start after it.
            self._tail.start_after(together.txid)
            self.txid = together.txid
            feeds = {ref: one.feed for ref, one in old.items() if ref in new}
            last = None
            # The differences are delivered immediately, like initial records.
            for delivery in self._deliver_records(together, feeds):
                if last is not None:
                    yield last
                last = delivery
        if last is not None:
            yield last
        for one in old.values():
            one.feed.close()


def _list_topic_configs(followed: Mapping[TopicRef, FollowedTopic]) -> tuple[TopicConfig, ...]:
    return tuple(one.feed.wanted.config for one in followed.values())

"""The replay of a subscription with a bookmark: its entries, its pace, and its end.

:class:`~sowctl.engine.subscriptions.subscription.Subscription` drives it: it asks for the start states, calls
:meth:`Replay.count_skipped` for changes of the journal, and yields the deliveries of :meth:`Replay.deliver_paced`.
Specified in ``behaviour`` 4.6.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter
from typing import TYPE_CHECKING

from sowctl.engine.subscriptions.bookmarks import NOW, BookmarkRange, RangeBound, parse_bookmark_range
from sowctl.engine.subscriptions.events import Delivery, EventBatch
from sowctl.engine.subscriptions.pace import ReplayPace, parse_rate
from sowctl.engine.subscriptions.replay_start import (
    ReplayStart,
    find_replay_start,
    open_replay_states,
    open_states_before,
)
from sowctl.engine.subscriptions.spans import NotFoundPolicy
from sowctl.engine.subscriptions.topic_states import TopicStates
from sowctl.errors import UsageError
from sowctl.store.codec import read_all_stamps
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.engine.subscriptions.changes import TopicChanges
    from sowctl.engine.subscriptions.journal_tail import JournalTail
    from sowctl.journal.block import Block
    from sowctl.values.topicref import TopicRef

END_GRACE_SECONDS = 1.0
"""Seconds after an end in the future: a writer reads the clock first, and writes its entries a moment later."""


class Replay:
    """One replay. ``is_over``: the end of a range is reached; ``completed``: all entries from before the start of the
    subscription are delivered.

    Raises UsageError for an invalid bookmark, policy or rate.
    """

    past: ReplayStart

    def __init__(
        self,
        instance: Instance,
        topics: Sequence[TopicConfig],
        options: SubscribeOptions,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        assert options.bookmark is not None
        self.is_over = self.completed = False
        self._instance = instance
        self._topics = topics
        self._wanted = parse_bookmark_range(options.bookmark, instance.clock)
        if self._wanted.is_recent:
            raise UsageError(
                "SOW-FOL-022",
                "'recent' is the position in a bookmark store, but no store is given",
                hint="give a bookmark store, or start at 0 or 0|1|",
            )
        if self._wanted == BookmarkRange(RangeBound((NOW,))) and not options.sow and options.top_n is not None:
            raise UsageError(
                "SOW-FOL-024",
                "top_n without records is a number of replayed messages, but a replay from now on has none",
                hint="start earlier, or use --max",
            )
        self._deletes = options.deletes
        self._not_found = parse_not_found_policy(options.bookmark_not_found)
        rate = None if options.rate is None else parse_rate(options.rate)
        self._pace = None if rate is None else ReplayPace(rate, options.rate_max_gap, monotonic)
        self._monotonic = monotonic
        self._source: Iterator[Delivery] | None = None
        self._rest: EventBatch | None = None
        self._resume = 0.0

    @property
    def has_past_states(self) -> bool:
        """True if there are past states to start from: without History only the current state is available."""
        return any(topic.history is not None for topic in self._topics)

    def open_start_states(self, tail: JournalTail, *, sow: bool, until_now: bool) -> tuple[TopicStates, int | None]:
        """Return the start states, with ``sow``, and the txid of the last entry, if any; position ``tail`` after the
        states.

        Without ``sow``, but with the option ``deletes``: the states after the last entry that is not replayed.
        ``until_now``: stop at the current end of the journal. Raises as ``find_replay_start`` and
        ``open_replay_states`` of ``replay_start``.
        """
        self.past = past = find_replay_start(self._instance, self._topics, self._wanted, self._not_found, states=sow)
        until = past.span.until
        if until_now:
            until = past.caught_up if until is None else min(until, past.caught_up)
        if not sow and not self._deletes:
            tail.start_after(past.span.after)
            return TopicStates(past.span.after, self._instance.now, [None] * len(self._topics), ExitStack()), until
        if sow:
            together, after = open_replay_states(self._instance, self._topics, past)
        else:
            together, after = open_states_before(self._instance, self._topics, past.span.after), past.span.after
        with ExitStack() as held:
            # Closed here only if start_after raises; otherwise by the caller.
            held.callback(together.close)
            tail.start_after(after)
            held.pop_all()
        return together, until

    def count_skipped(self, changes: TopicChanges) -> int:
        """Return the number of first changes that are before the replay: its start may be a time."""
        since = self.past.span.since
        return bisect_left(read_all_stamps(changes.values), since, key=itemgetter(1)) if since else 0

    def find_end_txid(self, block: Block, refs: Collection[TopicRef]) -> int | None:
        """Return the txid with which the replay ends if it ends within a block, because its end is a time."""
        before = self.past.span.before
        if before is None or block.header.latest < before:
            return None
        for entry in block.iter_entries():
            if entry.time >= before and entry.topic in refs:
                return entry.txid - 1
        return None

    @property
    def seconds_until_end(self) -> float | None:
        """Seconds until the clock passes the end, None without an end time."""
        before = self.past.span.before
        return (
            None if before is None else max((before - self._instance.now) / MICROS_PER_SECOND + END_GRACE_SECONDS, 0.0)
        )

    @property
    def pause_seconds(self) -> float | None:
        """Seconds until the next message is due; None if no message waits."""
        return None if self._source is None else max(self._resume - self._monotonic(), 0.0)

    def deliver_paced(self, news: Callable[[], Iterator[Delivery]]) -> Iterator[Delivery]:
        """Yield the deliveries that are due. ``news`` is called for more when all previous deliveries were yielded.

        Iteration of the journal pauses while a message waits for its time, so the journal must not be read elsewhere
        meanwhile.
        """
        pace = self._pace
        if pace is None or self.completed:
            yield from news()
            return
        if self._source is None:
            self._source = news()
        elif self._monotonic() < self._resume:
            return
        if self._rest is not None:
            # The first of them was waiting, and is due now.
            yield self._rest.slice_events(0, 1)
            rest, self._rest = self._rest.slice_events(1, None), None
            if self._must_wait(pace, rest):
                yield from self._release_due(pace, rest)
                return
            if len(rest):
                yield rest
        for delivery in self._source:
            if not isinstance(delivery, EventBatch) or delivery.command == "sow":
                yield delivery
            elif self._must_wait(pace, delivery):
                yield from self._release_due(pace, delivery)
                return
            else:
                yield delivery
        self._source = None

    def _must_wait(self, pace: ReplayPace, events: EventBatch) -> bool:
        """Return whether one of the events has to wait."""
        self._count, pause = pace.count_ready(events.times, [len(payload) for payload in events.payloads])
        self._resume = self._monotonic() + pause
        return pause > 0

    def _release_due(self, pace: ReplayPace, events: EventBatch) -> Iterator[Delivery]:
        """Yield the events before the one that has to wait, and keep the rest."""
        self._rest = events.slice_events(self._count, None)
        if self._count:
            yield events.slice_events(0, self._count)

    def close(self) -> None:
        """Release pending deliveries."""
        self._source = self._rest = None


def parse_not_found_policy(text: str | None) -> NotFoundPolicy | None:
    """Parse the policy for a bookmark that the journals do not hold. Raises UsageError ``SOW-FOL-023``."""
    try:
        return None if text is None else NotFoundPolicy(text.strip().lower())
    except ValueError:
        words = f"{text!r} is not a policy for unknown bookmarks"
        raise UsageError("SOW-FOL-023", words, hint="use fail, epoch or now") from None

"""The replaying part of a subscription with a bookmark: which entries belong to it, how fast they go, where it ends.

:class:`~sowctl.engine.following.subscription.Subscription` drives it: it asks for the beginning, lets changes of the
journal through :meth:`Replay.taken`, and hands out deliveries as :meth:`Replay.paced` gives them. Ruled by
``behaviour`` 4.6.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sowctl.engine.following.bookmarks import NOW, Side, Wanted, parse
from sowctl.engine.following.events import Delivery, Events
from sowctl.engine.following.historical import Past, find_past, open_past
from sowctl.engine.following.instant import Together
from sowctl.engine.following.pacing import ReplayPace, parse_rate
from sowctl.engine.following.spans import NotFound
from sowctl.errors import UsageError
from sowctl.store.codec import all_stamps
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.following.changes import Changes
    from sowctl.engine.following.tail import Tail
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.journal.block import Block
    from sowctl.journal.format import Topic

END_GRACE_SECONDS = 1.0
"""Seconds behind an end in the future: a writer has taken its time before, and writes its entries a moment later."""


class Replay:
    """One replay. ``is_over``: the end of a range is reached; ``completed``: everything from before it began is told.

    Raises UsageError for what is no bookmark, no policy and no rate.
    """

    past: Past

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
        self._wanted = parse(options.bookmark, instance.clock)
        if self._wanted.is_recent:
            raise UsageError(
                "SOW-FOL-022",
                "'recent' is the position in a bookmark store, but no store is given",
                hint="give a bookmark store, or start at 0 or 0|1|",
            )
        if self._wanted == Wanted(Side((NOW,))) and not options.sow and options.top_n is not None:
            raise UsageError(
                "SOW-FOL-024",
                "top_n without records is a number of replayed messages, but a replay from now on has none",
                hint="start earlier, or use --max",
            )
        self._not_found = policy_of(options.bookmark_not_found)
        rate = None if options.rate is None else parse_rate(options.rate)
        self._pace = None if rate is None else ReplayPace(rate, options.rate_max_gap, monotonic)
        self._monotonic = monotonic
        self._source: Iterator[Delivery] | None = None
        self._rest: Events | None = None
        self._resume = 0.0

    @property
    def with_states(self) -> bool:
        """Whether there is a past to begin with: without History a state is that of now, and so is its beginning."""
        return any(topic.history is not None for topic in self._topics)

    def begin(self, tail: Tail, *, sow: bool, until_now: bool) -> tuple[Together, int | None]:
        """The states to begin with, with ``sow``, and the txid of the last entry, if any; ``tail`` stands behind them.

        ``until_now``: nothing behind what is there now. Raises as ``find_past`` and ``open_past`` of ``historical``.
        """
        self.past = past = find_past(self._instance, self._topics, self._wanted, self._not_found, states=sow)
        until = past.span.until
        if until_now:
            until = past.caught_up if until is None else min(until, past.caught_up)
        if not sow:
            tail.begin(past.span.after)
            return Together(past.span.after, self._instance.now, [None] * len(self._topics), ExitStack()), until
        together, after = open_past(self._instance, self._topics, past)
        with ExitStack() as held:
            held.callback(together.close)
            tail.begin(after)
            held.pop_all()
        return together, until

    def taken(self, changes: Changes) -> Changes:
        """Those of the changes that belong to the replay: its beginning may be a time."""
        since = self.past.span.since
        if not since:
            return changes
        times = [at for _, at in all_stamps(changes.values)]
        return changes if min(times) >= since else changes.chosen([at for at, one in enumerate(times) if one >= since])

    def end_in(self, block: Block, topics: Collection[Topic]) -> int | None:
        """The txid with which the replay ends, if it does within a block, because it ends at a time."""
        before = self.past.span.before
        if before is None or block.header.latest < before:
            return None
        for entry in block.entries():
            if entry.time >= before and entry.topic in topics:
                return entry.txid - 1
        return None

    @property
    def ends_in(self) -> float | None:
        """Seconds until the clock has passed the end, None without an end in time."""
        before = self.past.span.before
        return (
            None if before is None else max((before - self._instance.now) / MICROS_PER_SECOND + END_GRACE_SECONDS, 0.0)
        )

    @property
    def pause(self) -> float | None:
        """Seconds until the next message is to go; None where none is held back."""
        return None if self._source is None else max(self._resume - self._monotonic(), 0.0)

    def paced(self, news: Callable[[], Iterator[Delivery]]) -> Iterator[Delivery]:
        """What may go now. ``news`` is asked for more when everything before it has gone.

        It stays where it is while a message waits for its time, so nothing else may read the journal meanwhile.
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
            # The first of them was waiting, and its time has come.
            yield self._rest.part(0, 1)
            rest, self._rest = self._rest.part(1, None), None
            if self._must_wait(pace, rest):
                yield from self._release_due(pace, rest)
                return
            if len(rest):
                yield rest
        for delivery in self._source:
            if not isinstance(delivery, Events) or delivery.command == "sow":
                yield delivery
            elif self._must_wait(pace, delivery):
                yield from self._release_due(pace, delivery)
                return
            else:
                yield delivery
        self._source = None

    def _must_wait(self, pace: ReplayPace, events: Events) -> bool:
        """Whether one of the events has to wait."""
        self._count, pause = pace.ready(events.times, [len(payload) for payload in events.payloads])
        self._resume = self._monotonic() + pause
        return pause > 0

    def _release_due(self, pace: ReplayPace, events: Events) -> Iterator[Delivery]:
        """What goes before the one that has to wait; the rest is kept."""
        self._rest = events.part(self._count, None)
        if self._count:
            yield events.part(0, self._count)

    def close(self) -> None:
        """Let go of what is held back."""
        self._source = self._rest = None


def policy_of(text: str | None) -> NotFound | None:
    """What is done about a bookmark that is not there. Raises UsageError ``SOW-FOL-023``."""
    try:
        return None if text is None else NotFound(text.strip().lower())
    except ValueError:
        words = f"{text!r} is not a policy for unknown bookmarks"
        raise UsageError("SOW-FOL-023", words, hint="use fail, epoch or now") from None

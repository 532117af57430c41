"""A subscription: the records of its topics at one instant, then everything that happens to them, in order.

:class:`Subscription` drives the rest of the room: it opens the states (:mod:`instant`), hands what the journal brings
(:mod:`tail`) to one feed for each topic (:mod:`feed`), and waits (:mod:`waking`). While it waits it holds no
transaction of any store. Ruled by ``behaviour`` 4.1 and sow-events(5).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sowctl.engine.following.changes import changes_of
from sowctl.engine.following.events import Delivery, Event, Events, Sign
from sowctl.engine.following.feed import Feed, Wanted
from sowctl.engine.following.instant import open_together
from sowctl.engine.following.tail import Tail
from sowctl.engine.following.waking import Waker
from sowctl.identity.bookmarks import Bookmark
from sowctl.values.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions

SHORTEST = 0.005
"""Seconds to wait at least where an event brought nothing new: a writer in the middle of a group writes again soon."""


class Subscription:
    """Iterate for events, or over :meth:`deliveries` for many at a time. Close it; a ``with`` statement does.

    ``txid``: everything up to it has been handed out. It may be ended from another thread with :meth:`cancel`.
    """

    def __init__(
        self,
        instance: Instance,
        wanted: Sequence[Wanted],
        options: SubscribeOptions,
        output: int | None = None,
    ) -> None:
        """``output``: the descriptor of a pipe to which events go; a wait ends when its reader has gone."""
        self._instance = instance
        self._options = options
        self._feeds = {one.ref: _feed(instance, one, options) for one in wanted}
        self._labels = {one.ref: one for one in wanted}
        self._unkeyed = frozenset(one.ref for one in wanted if not one.keyed)
        self._tail = Tail(instance)
        self._output = output
        self._waker: Waker | None = None
        self._begun = False
        self._cancelled = False
        self._until: int | None = None
        self._left = options.most
        self._ends = None if options.lasting is None else time.monotonic() + options.lasting
        self._told = time.monotonic()
        self._told_txid = 0
        self.txid = 0

    def __iter__(self) -> Iterator[Event]:
        for delivery in self.deliveries():
            yield from delivery

    def deliveries(self) -> Generator[Delivery]:
        """Everything, as it comes, until the subscription ends by its options or is cancelled."""
        while not self._cancelled:
            yield from self.ready()
            if self.finished:
                return
            self.wait()

    def ready(self) -> Generator[Delivery]:
        """What there is to hand out now, without waiting."""
        if not self._begun:
            yield from self._begin()
        for delivery in self._news():
            if self._left is not None and isinstance(delivery, Events):
                delivery = delivery.first(self._left)
                self._left -= len(delivery)
            yield delivery
            if self._left == 0:
                return
        yield from self._progress()

    @property
    def bookmark(self) -> str:
        """Where the subscription stands: all events up to there were handed out."""
        return str(Bookmark(self._instance.publisher, self.txid))

    def cancel(self) -> None:
        """Let the iteration end, at the latest when the next change comes or within a second."""
        self._cancelled = True

    def close(self) -> None:
        """Let go of all files."""
        self._cancelled = True
        for feed in self._feeds.values():
            feed.close()
        self._tail.close()
        if self._waker is not None:
            self._waker.close()
            self._waker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> Generator[Delivery]:
        """The records at the instant where following begins."""
        self._begun = True
        # Watched before anything is read: what happens while the records go out is announced.
        self._waker = Waker(self._directories(), output=self._output, events=self._options.events)
        topics = [one.config for one in self._labels.values()]
        with closing(open_together(self._instance, topics, self._tail, self._instance.now)) as together:
            self._tail.begin(together.txid)
            self.txid = self._told_txid = together.txid
            self._until = together.txid if self._options.until_now else None
            for feed, source in zip(self._feeds.values(), together.sources, strict=True):
                sign = self._sign_maker(feed.wanted)
                if self._options.sow:
                    yield sign("group_begin")
                for delivery in feed.load(source, shown=self._options.sow):
                    if isinstance(delivery, Events):
                        delivery.query_id = self._options.query_id
                    yield delivery
                if self._options.sow:
                    yield sign("group_end")

    def _sign_maker(self, wanted: Wanted) -> Callable[..., Sign]:
        def sign(command: str) -> Sign:
            return Sign(
                command,  # type: ignore[arg-type]
                wanted.label,
                wanted.config.message_type,
                self.bookmark,
                self.txid,
                self._instance.now,
                self._options.query_id,
            )

        return sign

    def _news(self) -> Generator[Delivery]:
        """What journal and clock bring."""
        for block in self._tail.blocks(self._until):
            if any(topic in self._feeds for topic in block.topics):
                found = changes_of(
                    block, list(self._feeds), self._instance.publisher, self._tail.txid, self._until, self._unkeyed
                )
                for changes in found:
                    yield from self._feeds[changes.topic].take(changes)
            self.txid = block.last_txid if self._until is None else min(block.last_txid, self._until)
        self.txid = max(self.txid, self._tail.txid)
        now = self._instance.now
        for feed in self._feeds.values():
            due = feed.due
            if due is not None and due <= now:
                yield from feed.expire(now)

    def _progress(self) -> Generator[Delivery]:
        every = self._options.progress_every
        if every is None or time.monotonic() - self._told < every:
            return
        self._told = time.monotonic()
        if self.txid != self._told_txid:
            self._told_txid = self.txid
            yield Sign("progress", bookmark=self.bookmark, txid=self.txid, timestamp=self._instance.now)

    @property
    def finished(self) -> bool:
        """Whether it has come to its end by its options, or was cancelled."""
        if self._cancelled or self._left == 0:
            return True
        if self._until is not None and self._tail.txid >= self._until:
            return True
        return self._ends is not None and time.monotonic() >= self._ends

    def wait(self) -> None:
        """Wait until there may be something new, or the subscription's time is over."""
        assert self._waker is not None
        before = self._tail.end()
        if before > self.txid:
            return
        limits = [] if self._ends is None else [self._ends - time.monotonic()]
        if self._options.progress_every is not None:
            limits.append(self._told + self._options.progress_every - time.monotonic())
        due = min((feed.due for feed in self._feeds.values() if feed.due is not None), default=None)
        if due is not None:
            limits.append(max((due - self._instance.now) / SECOND, SHORTEST))
        self._waker.wait(min(limits) if limits else None)
        if self._tail.end() > before:
            if self._waker.found():
                self._instance.notify_once(
                    "events of files", "changes of files are not announced here: they are looked for instead"
                )
        else:
            time.sleep(SHORTEST)

    def _directories(self) -> list[Path]:
        log = self._instance.log
        return [] if log is None else [log.directory]


def _feed(instance: Instance, wanted: Wanted, options: SubscribeOptions) -> Feed:
    """The feed that remembers as much as the options need."""
    if wanted.top_n is not None and wanted.skip_n is not None:
        from sowctl.engine.following.page import PageFeed

        return PageFeed(instance, wanted, options)
    if options.oof or options.delta:
        from sowctl.engine.following.focus import FocusFeed

        return FocusFeed(instance, wanted, options)
    return Feed(instance, wanted)

"""A subscription of a program and its place in a store: events in, acknowledgements back.

The command line does the same with lines (``cli/commands/bodies/places.py``); what the place then is, :mod:`progress`
says for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sowctl.engine.following.events import Delivery, Event, Events
from sowctl.engine.following.spans import is_last_of
from sowctl.engine.following.stores.claim import Claim
from sowctl.engine.following.stores.conflating import Conflating
from sowctl.engine.following.stores.progress import ByConsumer
from sowctl.identity.bookmarks import Bookmark

if TYPE_CHECKING:
    from sowctl.engine.following.stores.protocol import BookmarkStore, Subscriber
    from sowctl.engine.following.subscription import Subscription
    from sowctl.engine.instance import Instance


class SubscriptionPlace:
    """Where one subscription goes on. Use it in a ``with`` statement: what is acknowledged is stored at its end, too.

    ``every``: seconds between two writes, 0 for every acknowledgement. After a crash what was not stored comes again.
    Raises LockedError ``SOW-BKM-010`` (exit 11) where another run has the place: it is that of one run at a time.
    """

    def __init__(
        self,
        store: BookmarkStore,
        who: Subscriber,
        instance: Instance,
        every: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._who = who
        # Taken before the place is read: another run may be moving it.
        self._claim = Claim(store, who, instance)
        self._store = Conflating(store, 1 << 62, every, monotonic)
        self._progress = ByConsumer(self._store, who, instance.publisher)
        self._instance = instance
        self._last: tuple[Bookmark, int] | None = None

    def __repr__(self) -> str:
        return f"<position of {self._who.client!r}, {self._who.sub_id!r}: {self.recent}>"

    @property
    def recent(self) -> str:
        """The bookmark to subscribe with: ``0`` for a subscription that the store does not know."""
        return self._progress.recent

    def events(self, subscription: Subscription) -> Iterator[Event]:
        """The events of a subscription that was begun at :attr:`recent`, without what was acknowledged before."""
        while not subscription.finished:
            for delivery in subscription.ready():
                yield from self._expand_delivery(delivery)
            if subscription.settled:
                self._progress.reached(subscription.txid)
            elif subscription.finished and self._last is not None and is_last_of(self._instance, *self._last):
                # It has ended behind a message: more with the same bookmark would have come otherwise.
                self._progress.reached(subscription.txid)
            self._store_place()
            if not subscription.finished:
                subscription.wait()

    def acknowledge(self, event: Event) -> bool:
        """One event has been processed; the order does not matter. False for one that is not waited for."""
        # An event without a message tells a position, which may have the bookmark of the last message.
        return event.bookmark is not None and event.data is not None and self._acknowledge_bookmark(event.bookmark)

    def close(self) -> None:
        """Store what is acknowledged, and leave the place to others."""
        try:
            self._progress.close()
        finally:
            self._claim.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _expand_delivery(self, delivery: Delivery) -> Iterator[Event]:
        progress = self._progress
        if not isinstance(delivery, Events):
            if delivery.txid is not None and delivery.bookmark is not None and delivery.command != "group_begin":
                # Where nothing follows the last message, its own bookmark says the same, and programs look for it.
                progress.reached(delivery.txid, move=self._last is None or self._last[1] != delivery.txid)
        elif delivery.publishers is not None and delivery.sequences is not None:
            places = progress.fresh(delivery.publishers, delivery.sequences)
            delivery = delivery if places is None else delivery.chosen(places)
            if delivery.publishers and delivery.sequences:
                progress.delivered(delivery.publishers, delivery.sequences)
                self._last = Bookmark(delivery.publishers[-1], delivery.sequences[-1]), delivery.txids[-1]
        yield from delivery

    def _acknowledge_bookmark(self, bookmark: str) -> bool:
        found = self._progress.acknowledge(bookmark)
        self._store_place()
        return found

    def _store_place(self) -> None:
        self._progress.commit()
        self._store.tick()

"""A subscription of a program and its position in a store: events in, acknowledgements back.

The command line does the same with lines (``cli/commands/bodies/places.py``);
:mod:`~sowctl.engine.subscriptions.bookmark_stores.progress` computes the position for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sowctl.engine.subscriptions.bookmark_stores.place_lock import PlaceLock
from sowctl.engine.subscriptions.bookmark_stores.progress import ConsumerProgress
from sowctl.engine.subscriptions.bookmark_stores.write_buffer import BufferedBookmarkStore
from sowctl.engine.subscriptions.events import Delivery, Event, EventBatch
from sowctl.engine.subscriptions.spans import is_last_entry
from sowctl.identity.bookmarks import Bookmark

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore, Subscriber
    from sowctl.engine.subscriptions.subscription import Subscription


class SubscriptionPlace:
    """The position of one subscription in a bookmark store. Use it in a ``with`` statement, whose end stores
    acknowledged messages, too.

    ``every``: seconds between two writes, 0 for every acknowledgement. After a crash, events whose acknowledgement was
    not stored are delivered again. Raises LockedError ``SOW-BKM-010`` (exit 11) if another run holds the position: only
    one run at a time may use it.
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
        self._claim = PlaceLock(store, who, instance)
        self._store = BufferedBookmarkStore(store, 1 << 62, every, monotonic)
        self._progress = ConsumerProgress(self._store, who, instance.publisher_id)
        self._instance = instance
        self._last: tuple[Bookmark, int] | None = None

    def __repr__(self) -> str:
        return f"<position of {self._who.client!r}, {self._who.sub_id!r}: {self.recent}>"

    @property
    def recent(self) -> str:
        """The bookmark to subscribe with: ``0`` for a subscription that the store does not know."""
        return self._progress.resume_bookmark

    def events(self, subscription: Subscription) -> Iterator[Event]:
        """Yield the events of a subscription that started at :attr:`recent`, without those acknowledged before."""
        while not subscription.finished:
            for delivery in subscription.ready():
                yield from self._expand_delivery(delivery)
            if subscription.settled:
                self._progress.note_reached(subscription.txid)
            elif subscription.finished and self._last is not None and is_last_entry(self._instance, *self._last):
                # It ended after a message: any further message with the same bookmark would have been delivered before.
                self._progress.note_reached(subscription.txid)
            self._store_place()
            if not subscription.finished:
                subscription.wait()

    def acknowledge(self, event: Event) -> bool:
        """Acknowledge one processed event; the order does not matter. Return False for an event that is not pending."""
        # An event without a message reports a position, which may have the bookmark of the last message.
        return event.bookmark is not None and event.data is not None and self._acknowledge_bookmark(event.bookmark)

    def close(self) -> None:
        """Store acknowledged messages and release the position."""
        try:
            # Stored before the lock is released: the next run starts at the stored position.
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
        if not isinstance(delivery, EventBatch):
            if delivery.txid is not None and delivery.bookmark is not None and delivery.command != "group_begin":
                # If no message follows the last one, its own bookmark is an equal position, and programs look for it.
                progress.note_reached(delivery.txid, move=self._last is None or self._last[1] != delivery.txid)
        elif delivery.publishers is not None and delivery.sequences is not None:
            places = progress.find_unacknowledged(delivery.publishers, delivery.sequences)
            delivery = delivery if places is None else delivery.select(places)
            if delivery.publishers and delivery.sequences:
                progress.note_delivered(delivery.publishers, delivery.sequences)
                self._last = Bookmark(delivery.publishers[-1], delivery.sequences[-1]), delivery.txids[-1]
        yield from delivery

    def _acknowledge_bookmark(self, bookmark: str) -> bool:
        found = self._progress.acknowledge(bookmark)
        self._store_place()
        return found

    def _store_place(self) -> None:
        self._progress.commit()
        self._store.write_due_places()

"""How ``sowctl subscribe`` keeps its place in a bookmark store: behind what was printed, or acknowledged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.following.events import Delivery, Events
from sowctl.engine.following.spans import is_last_of
from sowctl.errors import UsageError
from sowctl.identity.bookmarks import Bookmark

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.config.model import TopicConfig
    from sowctl.engine.following.stores.conflating import Conflating
    from sowctl.engine.following.stores.progress import SubscriptionProgress
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.engine.verbs.subscribe import Subscription

EVERY = 1.0
"""Seconds between two writes of a place, unless something else is asked for."""
FOR_EVER = float("inf")


class PlaceOptions(Struct, frozen=True):
    """What the options say of it."""

    store: str | None
    store_config: str | None
    client: str | None
    sub_id: str | None
    commit: bool
    ack: bool
    every: str | None


class Places:
    """The place of one subscription, moved on by what happens to the output."""

    def __init__(
        self, instance: Instance, progress: SubscriptionProgress, store: Conflating, *, acknowledged: bool, commit: bool
    ) -> None:
        self.acknowledged = acknowledged
        self._instance = instance
        self._last: tuple[Bookmark, int] | None = None
        self._progress = progress
        self._store = store
        self._commit = commit
        self._looked = time.monotonic()

    @property
    def waits(self) -> bool:
        """Whether messages were printed and are not acknowledged."""
        from sowctl.engine.following.stores.progress import ByConsumer

        return isinstance(self._progress, ByConsumer) and self._progress.open > 0

    def fresh(self, delivery: Delivery) -> Delivery:
        """Without the messages that were acknowledged in an earlier run, where the store knows them."""
        if isinstance(delivery, Events) and delivery.publishers is not None and delivery.sequences is not None:
            places = self._progress.fresh(delivery.publishers, delivery.sequences)
            if places is not None:
                return delivery.chosen(places)
        return delivery

    def written(self, delivery: Delivery) -> bool:
        """It was written, though it may not have left this process; whether it is time to see to that."""
        if isinstance(delivery, Events):
            # Records of the beginning, and what no entry of the log caused, have no place in it.
            if delivery.publishers and delivery.sequences:
                self._progress.delivered(delivery.publishers, delivery.sequences)
                self._last = Bookmark(delivery.publishers[-1], delivery.sequences[-1]), delivery.txids[-1]
        elif delivery.txid is not None and delivery.bookmark is not None and delivery.command != "group_begin":
            # Where nothing follows the last message, its own bookmark says the same, and programs look for it.
            self._progress.reached(delivery.txid, move=self._last is None or self._last[1] != delivery.txid)
        return self._commit and time.monotonic() - self._looked >= EVERY

    def flushed(self) -> None:
        """Everything that was written has left this process."""
        self._looked = time.monotonic()
        self._progress.flushed()
        if self._commit:
            self._progress.commit()

    def settled(self, subscription: Subscription) -> None:
        """The output is flushed, and there is nothing more to print at the moment."""
        if subscription.settled:
            self._progress.reached(subscription.txid)
        elif subscription.finished and self._last is not None and is_last_of(self._instance, *self._last):
            # It has ended behind a message: more with the same bookmark would have come otherwise.
            self._progress.reached(subscription.txid)
        self.flushed()
        self._store.tick()

    def acknowledge(self, line: bytes) -> None:
        """What one line of the consumer says. Raises UsageError ``SOW-IDN-001``."""
        from sowctl.engine.following.stores.progress import ByConsumer

        assert isinstance(self._progress, ByConsumer)
        self._progress.acknowledge(line.decode("utf-8", "replace"))
        self._progress.commit()

    def close(self) -> None:
        """Store what is acknowledged."""
        if self._commit:
            self._progress.commit()
        self._store.close()


@contextmanager
def kept(
    invocation: Invocation,
    instance: Instance,
    keeping: PlaceOptions,
    topics: Sequence[TopicConfig],
    target: str,
    asked: SubscribeOptions,
) -> Iterator[tuple[SubscribeOptions, Places | None]]:
    """The options with the place that the store has, and what keeps it; when it ends, the place is stored.

    Raises UsageError ``SOW-CLI-033`` for options that do not go together, ``SOW-BKM-009`` for a store that is followed
    itself, LockedError ``SOW-BKM-010`` where another run has the place, and what opening the store raises.
    """
    _check(keeping)
    if keeping.store is None:
        yield asked, None
        return
    from sowctl.engine.api import RowVerbs
    from sowctl.engine.following.bookmarks import parse
    from sowctl.engine.following.stores.claim import claimed
    from sowctl.engine.following.stores.conflating import Conflating
    from sowctl.engine.following.stores.opening import open_store
    from sowctl.engine.following.stores.progress import ByConsumer, ByFlush
    from sowctl.engine.following.stores.protocol import Subscriber

    if keeping.store_config is None and any(topic.label == keeping.store for topic in topics):
        raise UsageError(
            "SOW-BKM-009",
            f"{keeping.store!r} is in the subscription, so each stored position would be a new message",
            hint="subscribe to other topics, or store positions elsewhere",
        )
    of = instance if keeping.store_config is None else invocation.open_other(Path(keeping.store_config))
    # One without an id gets one that it has again the next time.
    sub_id = keeping.sub_id or " ".join(filter(None, (target, asked.filter)))
    who = Subscriber(keeping.client or "", sub_id)
    count, interval = _every(keeping.every)
    found = open_store(of, keeping.store, RowVerbs())
    # Without --commit a place is read and stays where it is, however many read it.
    with claimed(found, [who] if keeping.commit else [], instance):
        store = Conflating(found, count, interval, time.monotonic)
        progress = (ByConsumer if keeping.ack else ByFlush)(store, who, instance.publisher)
        if asked.bookmark is None or parse(asked.bookmark, instance.clock).is_recent:
            asked = replace(asked, bookmark=progress.recent)
        assert asked.bookmark is not None
        progress.until(parse(asked.bookmark, instance.clock))
        places = Places(instance, progress, store, acknowledged=keeping.ack, commit=keeping.commit)
        try:
            yield asked, places
        finally:
            # What an interrupt or an error has left in the output's buffer goes out first; where it cannot, it does
            # not count as printed.
            with suppress(OSError):
                invocation.streams.stdout.flush()
                progress.flushed()
            places.close()


def _check(keeping: PlaceOptions) -> None:
    wrong = None
    if keeping.store is None and (keeping.client or keeping.sub_id or keeping.store_config or keeping.commit):
        wrong = "no bookmark store is given", "add --store"
    elif (keeping.ack or keeping.every is not None) and not keeping.commit:
        wrong = "no position is stored", "add --commit"
    if wrong is not None:
        raise UsageError("SOW-CLI-033", wrong[0], hint=wrong[1])


def _every(text: str | None) -> tuple[int, float]:
    """How many moves, or how many seconds, may pass between two writes. Raises UsageError ``SOW-CLI-022``."""
    from sowctl.cli.words.when import seconds
    from sowctl.values.units import whole_number

    most = 1 << 62
    if text is None:
        return most, EVERY
    if (count := whole_number(text)) is not None:
        return max(count, 1), FOR_EVER
    return most, seconds("--commit-every", text) or 0.0

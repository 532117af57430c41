"""The stored position of ``sowctl subscribe`` in a bookmark store: after the printed messages, or after the
acknowledged ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.subscriptions.events import Delivery, EventBatch
from sowctl.engine.subscriptions.spans import is_last_entry
from sowctl.errors import UsageError
from sowctl.identity.bookmarks import Bookmark

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.cli.parsing.place_options import PlaceOptions
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import SubscribeOptions
    from sowctl.engine.subscriptions.bookmark_stores.progress import SubscriptionProgress
    from sowctl.engine.subscriptions.bookmark_stores.write_buffer import BufferedBookmarkStore
    from sowctl.engine.verbs.subscribe import Subscription

UNLIMITED_SECONDS = float("inf")


class PlaceLimits(Struct):
    """Intervals of stored positions; tests set other values."""

    commit_interval_seconds: float = 1.0
    """Seconds between two writes of a position, unless --commit-every is given."""


PLACE_LIMITS = PlaceLimits()


class PlaceTracker:
    """The position of one subscription, advanced as messages are printed or acknowledged."""

    def __init__(
        self,
        instance: Instance,
        progress: SubscriptionProgress,
        store: BufferedBookmarkStore,
        *,
        acknowledged: bool,
        commit: bool,
    ) -> None:
        self.acknowledged = acknowledged
        self._instance = instance
        self._last: tuple[Bookmark, int] | None = None
        self._progress = progress
        self._store = store
        self._commit = commit
        self._looked = time.monotonic()

    @property
    def has_unacknowledged(self) -> bool:
        """True if printed messages have not been acknowledged yet."""
        from sowctl.engine.subscriptions.bookmark_stores.progress import ConsumerProgress

        return isinstance(self._progress, ConsumerProgress) and self._progress.open_messages > 0

    def drop_acknowledged(self, delivery: Delivery) -> Delivery:
        """Return ``delivery`` without the messages acknowledged in an earlier run, if the store knows them."""
        if isinstance(delivery, EventBatch) and delivery.publishers is not None and delivery.sequences is not None:
            places = self._progress.find_unacknowledged(delivery.publishers, delivery.sequences)
            if places is not None:
                return delivery.select(places)
        return delivery

    def note_written(self, delivery: Delivery) -> None:
        """Note that a delivery was written, perhaps not flushed yet."""
        if isinstance(delivery, EventBatch):
            # Records of the initial state, and messages without a journal entry, have no position in the log.
            if delivery.publishers and delivery.sequences:
                self._progress.note_delivered(delivery.publishers, delivery.sequences)
                self._last = Bookmark(delivery.publishers[-1], delivery.sequences[-1]), delivery.txids[-1]
        elif delivery.txid is not None and delivery.bookmark is not None and delivery.command != "group_begin":
            # If nothing follows the last message, its own bookmark is the same position, and programs look for it.
            self._progress.note_reached(delivery.txid, move=self._last is None or self._last[1] != delivery.txid)

    def note_flushed(self, *, commits: bool = False) -> None:
        """Note that everything written has been flushed; store the position at intervals, or with ``commits`` now."""
        self._progress.note_flushed()
        now = time.monotonic()
        if self._commit and (commits or now - self._looked >= PLACE_LIMITS.commit_interval_seconds):
            self._looked = now
            self._progress.commit()

    def note_idle(self, subscription: Subscription) -> None:
        """Note that the output is flushed, and that no further messages are available at the moment."""
        if subscription.settled:
            self._progress.note_reached(subscription.txid)
        elif subscription.finished and self._last is not None and is_last_entry(self._instance, *self._last):
            # The subscription ended after a message: it would have printed further ones with the same bookmark.
            self._progress.note_reached(subscription.txid)
        self.note_flushed(commits=True)
        self._store.write_due_places()

    def note_exported(self, txid: int) -> None:
        """Note that everything up to ``txid`` is in a complete file."""
        self._progress.note_reached(txid, move=True)
        self.note_flushed(commits=True)

    def acknowledge(self, line: bytes) -> None:
        """Process the acknowledgement in one line of the consumer. Raises UsageError ``SOW-IDN-001``."""
        from sowctl.engine.subscriptions.bookmark_stores.progress import ConsumerProgress

        assert isinstance(self._progress, ConsumerProgress)
        self._progress.acknowledge(line.decode("utf-8", "replace"))
        self._progress.commit()

    def close(self) -> None:
        """Store the acknowledged position."""
        if self._commit:
            self._progress.commit()
        self._store.close()


@contextmanager
def hold_place(
    invocation: Invocation,
    instance: Instance,
    keeping: PlaceOptions,
    topics: Sequence[TopicConfig],
    target: str,
    asked: SubscribeOptions,
) -> Iterator[tuple[SubscribeOptions, PlaceTracker | None]]:
    """Yield the options with the stored position, and its tracker; store the position at the end.

    Raises UsageError ``SOW-CLI-033`` for conflicting options, ``SOW-BKM-009`` for a bookmark store that is itself
    followed, LockedError ``SOW-BKM-010`` if another run holds the position, and the errors of opening the store.
    """
    _check_options(keeping)
    if keeping.store is None:
        yield asked, None
        return
    from sowctl.engine.api import RowVerbs
    from sowctl.engine.subscriptions.bookmark_stores.place_lock import hold_place_locks
    from sowctl.engine.subscriptions.bookmark_stores.progress import ConsumerProgress, FlushProgress
    from sowctl.engine.subscriptions.bookmark_stores.protocol import Subscriber
    from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store
    from sowctl.engine.subscriptions.bookmark_stores.write_buffer import BufferedBookmarkStore
    from sowctl.engine.subscriptions.bookmarks import parse_bookmark_range

    if keeping.store_config is None and any(topic.label == keeping.store for topic in topics):
        raise UsageError(
            "SOW-BKM-009",
            f"{keeping.store!r} is in the subscription, so each stored position would be a new message",
            hint="subscribe to other topics, or store positions elsewhere",
        )
    of = instance if keeping.store_config is None else invocation.open_other_instance(Path(keeping.store_config))
    # A subscription without an id gets one that is the same in the next run.
    sub_id = keeping.sub_id or " ".join(filter(None, (target, asked.filter)))
    who = Subscriber(keeping.client or "", sub_id)
    count, interval = _parse_commit_interval(keeping.commit_every)
    found = open_bookmark_store(of, keeping.store, RowVerbs())
    # Without --commit a position is only read, by any number of readers.
    with hold_place_locks(found, [who] if keeping.commit else [], instance):
        store = BufferedBookmarkStore(found, count, interval, time.monotonic)
        progress = (ConsumerProgress if keeping.ack else FlushProgress)(store, who, instance.publisher_id)
        if asked.bookmark is None or parse_bookmark_range(asked.bookmark, instance.clock).is_recent:
            asked = replace(asked, bookmark=progress.resume_bookmark)
        assert asked.bookmark is not None
        progress.set_range(parse_bookmark_range(asked.bookmark, instance.clock))
        places = PlaceTracker(instance, progress, store, acknowledged=keeping.ack, commit=keeping.commit)
        try:
            yield asked, places
        finally:
            # Output left in the buffer by an interrupt or an error is flushed first; if that fails, it does not count
            # as printed.
            with suppress(OSError):
                invocation.streams.stdout.flush()
                progress.note_flushed()
            places.close()


def _check_options(keeping: PlaceOptions) -> None:
    wrong = None
    if keeping.store is None and (keeping.client or keeping.sub_id or keeping.store_config or keeping.commit):
        wrong = "no bookmark store is given", "add --store"
    elif (keeping.ack or keeping.commit_every is not None) and not keeping.commit:
        wrong = "no position is stored", "add --commit"
    if wrong is not None:
        raise UsageError("SOW-CLI-033", wrong[0], hint=wrong[1])


def _parse_commit_interval(text: str | None) -> tuple[int, float]:
    """Parse the number of moves, or of seconds, that may pass between two writes. Raises UsageError ``SOW-CLI-022``."""
    from sowctl.cli.parsing.option_values import parse_interval
    from sowctl.values.units import parse_whole_number

    most = 1 << 62
    if text is None:
        return most, PLACE_LIMITS.commit_interval_seconds
    if (count := parse_whole_number(text)) is not None:
        return max(count, 1), UNLIMITED_SECONDS
    return most, parse_interval("--commit-every", text) or 0.0

"""Following a view or conflated topic: its rows are recomputed when its sources have changed, and compared.

Only changed rows are reported: a message that leaves a row unchanged causes no event. Rows are opened with
``views.openers``, as for every reader, so a view is followed as it is queried. Its events have no bookmarks, because a
view has no journal entries. Called by :mod:`sowctl.engine.subscriptions.subscription`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.config.derived_entries import ConflatedTopic
from sowctl.config.model import TopicConfig
from sowctl.engine.fold.blocks import encode_tombstone
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.subscriptions.changes import TopicChanges
from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS
from sowctl.engine.subscriptions.storetail import read_file_stamp
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.instant import find_entry, list_topic_refs
from sowctl.engine.views.openers import open_target
from sowctl.store.codec import KEY_CHECK_SLICE, extract_payloads, read_stamps
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source

CHECKS_PER_INTERVAL = 4
"""Number of checks of a conflated topic's rows per interval of the topic."""


class DerivedRows:
    """The last seen rows of a derived topic, as digests of their messages.

    Rows change with their sources. They change with time alone if records of a source expire, or at the intervals of a
    conflated topic. ``stores`` are the files of sources without a journal.
    """

    def __init__(self, instance: Instance, topic: TopicConfig) -> None:
        assert topic.derived is not None
        self.topic = topic
        self._instance = instance
        self._known: dict[bytes, int] = {}
        self._rest = self._looked = 0.0
        self._stamp: object = None
        sources = [find_entry(instance, ref) for ref in list_topic_refs(instance, topic.derived)]
        topics = [source for source in sources if isinstance(source, TopicConfig)]
        self.stores = [one.file for one in topics if not one.journalled and one.file is not None]
        recheck = SUBSCRIPTION_LIMITS.min_recheck_seconds
        self._every = recheck if any(can_expire(one.expiration) for one in topics) else None
        if isinstance(topic.derived, ConflatedTopic):
            self._every = min(recheck, topic.derived.interval_us / MICROS_PER_SECOND / CHECKS_PER_INTERVAL)

    def open(self) -> Source:
        """Return the current rows; the caller closes the source."""
        return open_target(self._instance, Target(topic=self.topic), None)

    def start_after(self, source: Source) -> None:
        """Use these rows as the state after which changes are reported."""
        self._known = {key: hash(payload) for key, payload in _iterate_records(source)}
        self._looked = time.monotonic()

    @property
    def change_stamp(self) -> tuple[object, ...]:
        """The inodes, times and sizes of source stores without a journal; they differ after a change."""
        return tuple(read_file_stamp(path) for path in self.stores)

    def compute_pause(self, stamp: object) -> float | None:
        """Return the seconds until the rows are recomputed; None if no source has changed and time alone changes
        nothing.

        ``stamp``: a value that differs after a change of a source.
        """
        now = time.monotonic()
        if stamp != self._stamp:
            return max(0.0, self._rest - now)
        return None if self._every is None else max(0.0, self._rest - now, self._looked + self._every - now)

    def poll_changes(self, stamp: object) -> TopicChanges | None:
        """Return the changes since the last check, None without changes."""
        if self.compute_pause(stamp) != 0.0:
            return None
        # The stamp was made before the rows are read, so a change in between makes the next stamp differ.
        self._stamp = stamp
        self._looked = begun = time.monotonic()
        with closing(self.open()) as source:
            found = self.read_changes_until(source)
        self._rest = time.monotonic() + SUBSCRIPTION_LIMITS.refresh_rest_factor * (time.monotonic() - begun)
        return found

    def read_changes_until(self, source: Source) -> TopicChanges | None:
        """Return the changes up to these rows, None without changes."""
        keys: list[bytes] = []
        values: list[bytes] = []
        gone = set(self._known)
        latest = (0, 0)
        for some, stored in source.read_batches(QUERY_LIMITS.read_batch_records):
            for key, value, payload in zip(some, stored, extract_payloads(stored), strict=True):
                gone.discard(key)
                latest = max(latest, read_stamps(value))
                # 64 bits, salted per process: these values must not be stored.
                digest = hash(payload)
                if self._known.get(key) != digest:
                    self._known[key] = digest
                    keys.append(key)
                    values.append(value)
        for key in sorted(gone):
            del self._known[key]
            keys.append(key)
            values.append(
                encode_tombstone(
                    key, bytes(KEY_CHECK_SLICE.stop - KEY_CHECK_SLICE.start), latest[0], self._instance.now
                )
            )
        return TopicChanges(self.topic.ref, keys, values, at_once=True) if keys else None


def _iterate_records(source: Source) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in source.read_batches(QUERY_LIMITS.read_batch_records):
        yield from zip(keys, extract_payloads(values), strict=True)

"""A view or conflated topic as it is followed: its rows are computed when its sources have changed, and compared.

What changed is told, what did not is not: a message that leaves a row as it was is no event. Rows come from the door of
all readers (``views.opening``), so a view is followed as it is queried. Its events have no bookmarks, because nothing
of it stands in a journal. Called by :mod:`sowctl.engine.following.subscription`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.config.derived import ConflatedTopic
from sowctl.config.model import TopicConfig
from sowctl.engine.fold.blocks import tombstone
from sowctl.engine.following.changes import Changes
from sowctl.engine.following.storetail import stamp_of
from sowctl.engine.search import figures
from sowctl.engine.topics.expiration import expires
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.moment import entry_of, refs_of
from sowctl.engine.views.opening import open_target
from sowctl.store.codec import KEY_CHECK_SLICE, payloads, stamps
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source

MIN_RECHECK_SECONDS = 1.0
"""Seconds between two looks at rows that may change without any entry."""
LOOKS_PER_INTERVAL = 4
"""Of a conflated topic's interval, the part after which its rows are looked at."""
REFRESH_REST_FACTOR = 4
"""A view is computed anew behind a pause of so many times what that takes: it leaves most of a processor to others."""


class DerivedRows:
    """The rows of a derived topic as they were last seen, by digests of their messages.

    They may change with their sources; and with time alone where a source's records expire, or in the intervals of a
    conflated topic. ``stores`` are the files of sources without a journal.
    """

    def __init__(self, instance: Instance, topic: TopicConfig) -> None:
        assert topic.derived is not None
        self.topic = topic
        self._instance = instance
        self._known: dict[bytes, int] = {}
        self._rest = self._looked = 0.0
        self._stamp: object = None
        sources = [entry_of(instance, ref) for ref in refs_of(instance, topic.derived)]
        topics = [source for source in sources if isinstance(source, TopicConfig)]
        self.stores = [one.file for one in topics if not one.journalled and one.file is not None]
        self._every = MIN_RECHECK_SECONDS if any(expires(one.expiration) for one in topics) else None
        if isinstance(topic.derived, ConflatedTopic):
            self._every = min(MIN_RECHECK_SECONDS, topic.derived.interval_us / MICROS_PER_SECOND / LOOKS_PER_INTERVAL)

    def open(self) -> Source:
        """The rows now; to be closed."""
        return open_target(self._instance, Target(topic=self.topic), None)

    def begin(self, source: Source) -> None:
        """What comes behind these rows is new."""
        self._known = {key: hash(payload) for key, payload in _iterate_records(source)}
        self._looked = time.monotonic()

    @property
    def stamp(self) -> tuple[object, ...]:
        """What is different when a source without a journal has changed."""
        return tuple(stamp_of(path) for path in self.stores)

    def pause(self, stamp: object) -> float | None:
        """Seconds until the rows are worth computing again; None where nothing has changed, and time changes nothing.

        ``stamp``: what is different when a source has changed.
        """
        now = time.monotonic()
        if stamp != self._stamp:
            return max(0.0, self._rest - now)
        return None if self._every is None else max(0.0, self._rest - now, self._looked + self._every - now)

    def poll(self, stamp: object) -> Changes | None:
        """What has changed since."""
        if self.pause(stamp) != 0.0:
            return None
        self._stamp = stamp
        self._looked = begun = time.monotonic()
        with closing(self.open()) as source:
            found = self.upto(source)
        self._rest = time.monotonic() + REFRESH_REST_FACTOR * (time.monotonic() - begun)
        return found

    def upto(self, source: Source) -> Changes | None:
        """What has changed up to these rows."""
        keys: list[bytes] = []
        values: list[bytes] = []
        gone = set(self._known)
        latest = (0, 0)
        for some, stored in source.batches(figures.READ):
            for key, value, payload in zip(some, stored, payloads(stored), strict=True):
                gone.discard(key)
                latest = max(latest, stamps(value))
                digest = hash(payload)
                if self._known.get(key) != digest:
                    self._known[key] = digest
                    keys.append(key)
                    values.append(value)
        for key in sorted(gone):
            del self._known[key]
            keys.append(key)
            values.append(
                tombstone(key, bytes(KEY_CHECK_SLICE.stop - KEY_CHECK_SLICE.start), latest[0], self._instance.now)
            )
        return Changes((self.topic.name, self.topic.message_type), keys, values, at_once=True) if keys else None


def _iterate_records(source: Source) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in source.batches(figures.READ):
        yield from zip(keys, payloads(values), strict=True)

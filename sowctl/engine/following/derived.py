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

from sowctl.engine.fold.blocks import tombstone
from sowctl.engine.following.changes import Changes
from sowctl.engine.search import figures
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.opening import open_target
from sowctl.store.codec import CHECK, payloads, stamps

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source

REST = 4
"""A view is computed anew behind a pause of so many times what that takes: it leaves most of a processor to others."""


class Rows:
    """The rows of a derived topic as they were last seen, by digests of their messages."""

    def __init__(self, instance: Instance, topic: TopicConfig) -> None:
        self.topic = topic
        self._instance = instance
        self._known: dict[bytes, int] = {}
        self._rest = 0.0

    def open(self) -> Source:
        """The rows now; to be closed."""
        return open_target(self._instance, Target(topic=self.topic), None)

    def begin(self, source: Source) -> None:
        """What comes behind these rows is new."""
        self._known = {key: hash(payload) for key, payload in _each(source)}

    @property
    def rests(self) -> float:
        """Seconds until the rows are worth computing again."""
        return max(0.0, self._rest - time.monotonic())

    def poll(self) -> Changes | None:
        """What has changed since."""
        if self.rests:
            return None
        begun = time.monotonic()
        with closing(self.open()) as source:
            found = self.upto(source)
        self._rest = time.monotonic() + REST * (time.monotonic() - begun)
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
            values.append(tombstone(key, bytes(CHECK.stop - CHECK.start), latest[0], self._instance.now))
        return Changes((self.topic.name, self.topic.message_type), keys, values) if keys else None


def _each(source: Source) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in source.batches(figures.READ):
        yield from zip(keys, payloads(values), strict=True)

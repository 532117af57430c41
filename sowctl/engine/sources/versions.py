"""The retained versions of a topic's records, as a source: what was current at an instant, and every key's timeline.

Called by :mod:`sowctl.engine.sources.past` for topics with History, and by whoever reads all versions. What the journal
holds behind the store has its place among them. Ruled by ``sow-store(5)``, History, and ``semantics`` 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.sources.source import Pairs, Source
from sowctl.engine.topics.positions import naming_replay
from sowctl.engine.topics.retention import Version, as_of, extend, retention, version_of

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.store.meta import Definition


class VersionsSource(Source):
    """The versions that were current at ``at``; ``updates`` are the changes behind the store, per key."""

    def __init__(self, base: CurrentSource, topic: TopicConfig | None, at: int) -> None:
        self.topic, self.message_type, self.meta = base.topic, base.message_type, base.meta
        self._base, self._at = base, at
        self._config = topic
        self._rule = retention(topic.history) if topic is not None else None
        self._updates: dict[bytes, list[bytes]] = {}
        if base.overlay is not None:
            for key, value in base.overlay.changes or ():
                self._updates.setdefault(key, []).append(value)

    @property
    def definition(self) -> Definition:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        return self.meta.definition

    def part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """The records of the instant from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        keys: list[bytes] = []
        values: list[bytes] = []
        with naming_replay(self._config):
            for key, versions in self.timelines(size, start, stop):
                chosen = as_of(versions, self._at)
                if chosen is not None:
                    keys.append(key)
                    values.append(chosen.value)
                    if len(keys) >= size:
                        yield keys, values
                        keys, values = [], []
        if keys:
            yield keys, values

    def lookup(self, keys: Sequence[bytes]) -> Pairs:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        snapshot = self._base.snapshot
        found = []
        for key in sorted(set(keys)):
            stored = [value for _, _, value in snapshot.versions(key)]
            stored += snapshot.get_many([key]).values()
            chosen = as_of(self._grown(key, stored), self._at)
            if chosen is not None:
                found.append((key, chosen.value))
        return [key for key, _ in found], [value for _, value in found]

    def timeline(self, key: bytes) -> list[Version]:
        """All versions of a key, oldest first, the current one last."""
        snapshot = self._base.snapshot
        stored = [value for _, _, value in snapshot.versions(key)]
        return self._grown(key, stored + list(snapshot.get_many([key]).values()))

    def close(self) -> None:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        self._base.close()

    def _grown(self, key: bytes, stored: list[bytes]) -> list[Version]:
        versions = [version_of(value) for value in stored]
        updates = self._updates.get(key)
        return extend(versions, updates, self._rule) if updates and self._rule is not None else versions

    def timelines(
        self, size: int, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, list[Version]]]:
        """Every key from ``start`` to below ``stop`` with its versions, in key order."""
        snapshot = self._base.snapshot
        stored = grouped(snapshot.scan_history(start, stop, size), snapshot.scan(start, stop, size))
        low, high = start or b"", stop or bytes((255,)) * 9
        fresh = iter(sorted(key for key in self._updates if low <= key < high))
        waiting = next(fresh, None)
        for key, values in stored:
            while waiting is not None and waiting < key:
                yield waiting, self._grown(waiting, [])
                waiting = next(fresh, None)
            if waiting == key:
                waiting = next(fresh, None)
            yield key, self._grown(key, values)
        while waiting is not None:
            yield waiting, self._grown(waiting, [])
            waiting = next(fresh, None)


def grouped(versions: Iterator[Pairs], records: Iterator[Pairs]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Versions and current record of every key, oldest first, in key order."""
    older = ((key[:8], value) for keys, values in versions for key, value in zip(keys, values, strict=True))
    current = ((key, value) for keys, values in records for key, value in zip(keys, values, strict=True))
    old, now = next(older, None), next(current, None)
    while old is not None or now is not None:
        key = min(pair[0] for pair in (old, now) if pair is not None)
        values = []
        while old is not None and old[0] == key:
            values.append(old[1])
            old = next(older, None)
        if now is not None and now[0] == key:
            values.append(now[1])
            now = next(current, None)
        yield key, values

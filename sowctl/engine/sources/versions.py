"""The retained versions of a topic's records, as a source: the versions current at an instant, and every key's
timeline.

Called by :mod:`sowctl.engine.sources.past` for topics with History, and by readers of all versions: ``versions``,
digests, jobs. Includes the journal's changes after the store's position. Specified in ``sow-store(5)``, History, and
``behaviour`` 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.merge_layers import AllChanges
from sowctl.engine.sources.merge import group_by_key
from sowctl.engine.sources.source import Pairs, Source
from sowctl.engine.topics.positions import add_replay_hint
from sowctl.engine.topics.retention import Version, build_retention, decode_version, extend_versions, find_version_at
from sowctl.store.codec import extract_sow_key
from sowctl.values.times import find_last_txid

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.store.meta import Definition


class VersionsSource(Source):
    """The versions that were current at ``at``, including those from changes after the store's position."""

    def __init__(self, base: CurrentSource, topic: TopicConfig | None, at: int) -> None:
        self.topic, self.message_type, self.meta = base.topic, base.message_type, base.meta
        self._base, self._at = base, at
        self._config = topic
        self._rule = build_retention(topic.history) if topic is not None else None
        # All changes, not only the newest of each key: one in between may have been current at the instant.
        follows = base.memtable is not None and base.memtable.changes is not None
        self._updates = base.memtable.list_layers() if base.memtable is not None and follows else None

    @property
    def definition(self) -> Definition:
        """Message type and keys of the records, as the store defines them."""
        return self.meta.definition

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield the records of the instant from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        keys: list[bytes] = []
        values: list[bytes] = []
        with add_replay_hint(self._config):
            # The current version is determined from stored versions and journalled changes together: a change after the
            # store's position may have replaced a record before the instant.
            for key, versions in self.iterate_timelines(size, start, stop):
                chosen = find_version_at(versions, self._at)
                if chosen is not None:
                    keys.append(key)
                    values.append(chosen.value)
                    if len(keys) >= size:
                        yield keys, values
                        keys, values = [], []
        if keys:
            yield keys, values

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return the visible records of ``keys``, in key order."""
        snapshot = self._base.snapshot
        found = []
        for key in sorted(set(keys)):
            stored = [value for _, _, value in snapshot.read_versions(key)]
            stored += snapshot.read_values([key]).values()
            chosen = find_version_at(self._extend_timeline(stored, self._list_key_updates(key)), self._at)
            if chosen is not None:
                found.append((key, chosen.value))
        return [key for key, _ in found], [value for _, value in found]

    def read_timeline(self, key: bytes) -> list[Version]:
        """Return all versions of a key, oldest first, the current one last."""
        snapshot = self._base.snapshot
        stored = [value for _, _, value in snapshot.read_versions(key)]
        return self._extend_timeline(stored + list(snapshot.read_values([key]).values()), self._list_key_updates(key))

    def lacks_versions(self, keys: Sequence[bytes] | None = None) -> bool:
        """Return whether versions that the state after an entry may need were dropped because of the topic's
        Granularity.

        Of ``keys``, or of all. Never for the state at a time, which is defined by the retained versions.
        """
        last = find_last_txid(self._at)
        if last is None:
            return False
        if keys is not None:
            timelines = (self.read_timeline(key) for key in keys)
        else:
            timelines = (versions for _, versions in self.iterate_timelines(FOLD_LIMITS.version_batch_entries))
        chosen = (find_version_at(versions, self._at) for versions in timelines)
        return any(version is not None and version.lossy and version.txid < last for version in chosen)

    def close(self) -> None:
        """Close the snapshot."""
        self._base.close()

    def _list_key_updates(self, key: bytes) -> list[bytes]:
        return self._updates.read_key_changes(key) if self._updates is not None else []

    def _extend_timeline(self, stored: list[bytes], updates: list[bytes]) -> list[Version]:
        versions = [decode_version(value) for value in stored]
        # The rule that a writer will apply to these entries, at their own times: a reader sees the versions that the
        # store will have.
        return extend_versions(versions, updates, self._rule) if updates and self._rule is not None else versions

    def iterate_timelines(
        self, size: int, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, list[Version]]]:
        """Yield every key from ``start`` to below ``stop`` with its versions, in key order."""
        snapshot = self._base.snapshot
        # A history key is the SOW key, then time and txid: its first eight bytes group the versions of a key.
        history = _flatten_batches(snapshot.scan_history(start, stop, size))
        older = ((extract_sow_key(key), value) for key, value in history)
        stored = group_by_key(older, _flatten_batches(snapshot.scan_records(start, stop, size)))
        if self._updates is None:
            yield from ((key, self._extend_timeline(values, [])) for key, values in stored)
            return
        # Keys that only the journal has must be included, too. Each key has at most one pair of the store, followed by
        # at most one of the changes.
        before = ((key, (values, list[bytes]())) for key, values in stored)
        behind = ((key, (list[bytes](), values)) for key, values in self._read_changes_by_key(size, start, stop))
        for key, found in group_by_key(before, behind):
            yield key, self._extend_timeline(found[0][0], found[-1][1])

    def _read_changes_by_key(
        self, size: int, start: bytes | None, stop: bytes | None
    ) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yield all changes after the store's position by key, in key order."""
        assert self._updates is not None
        for _, window in AllChanges(self._updates, size, start, stop).read_upto(None):
            yield from sorted(window.items())


def _flatten_batches(batches: Iterator[Pairs]) -> Iterator[tuple[bytes, bytes]]:
    return (row for batch in batches for row in zip(*batch, strict=True))

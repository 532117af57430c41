"""Changes of a topic in time order: every publish, deletion and expiry in its journal.

A conflated topic depends on the times of changes of its source. Journals contain these times, so its state at any
instant can be computed from them. Called by :mod:`sowctl.engine.views.conflation.source_changes` and
:mod:`sowctl.engine.views.conflation.conflation_store`. Ruled by ``behaviour`` 11.42 to 11.44: a publish is a change
even if the message is equal; a record expires at its expiration time, before an entry of the same time (11.58).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sowctl.engine.fold.blocks import read_entry_values
from sowctl.engine.sources.recovery import find_recovery_start, has_all_entries
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.errors import MissingError
from sowctl.store.codec import TOMBSTONE_FLAG, read_expiration, read_stamps

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance


class KeyChange(NamedTuple):
    """A change: time (microseconds UTC), key, and the new stored value; None if the record is removed."""

    time: int
    key: bytes
    value: bytes | None


class LogStretch(NamedTuple):
    """A range of the log and of time: entries after the txid ``after`` and up to ``until`` (None: to the end), and
    changes up to the instant ``at``, inclusive."""

    after: int
    until: int | None
    at: int


def iterate_topic_changes(
    instance: Instance, topic: TopicConfig, stretch: LogStretch, living: Mapping[bytes, int] | None = None
) -> Iterator[KeyChange]:
    """Yield the changes of a journalled topic in time order.

    ``living``: the expirations of the records that existed at the txid ``after``, None to start at the beginning of the
    topic. Raises MissingError ``SOW-ENG-050`` if older journals are missing, and the errors of reading the journal.
    """
    if not has_log(instance):
        return
    ref = topic.ref
    lifetimes = _Lifetimes(living or {}) if can_expire(topic.expiration) else None
    with open_log(instance, whole=True) as log:
        after = stretch.after
        if living is None:
            # The state of a transient topic begins after its RecoveryPoint.
            after = max(after, 0 if topic.file is not None else find_recovery_start(topic, log, instance))
        # The caller may consume entries slowly, and files may be pruned in the meantime.
        log.require_files_after(after)
        if not has_all_entries(topic, log, after):
            raise MissingError(
                "SOW-ENG-050",
                f"past changes of topic {topic.name!r} are unknown: older journals were removed",
                hint="restore the older journal files, there or in the archive; a state saved by sowctl "
                "conflate requires only later entries",
                topic=topic.name,
            )
        for block in log.iter_blocks(after=after, until=stretch.until, topic=ref):
            found = read_entry_values(block, ref, after=after, until=stretch.until, at=stretch.at)
            for key, value in zip(*found, strict=True):
                time = read_stamps(value)[1]
                gone = bool(value[0] & TOMBSTONE_FLAG)
                if lifetimes is not None:
                    yield from lifetimes.expire_until(time)
                    expiration = 0 if gone else read_expiration(value)
                    # A message may be published with an expiration in the past. It expires at the time of its entry,
                    # because times of changes must not decrease.
                    lifetimes.put(key, expiration and max(expiration, time))
                yield KeyChange(time, key, None if gone else value)
    if lifetimes is not None:
        yield from lifetimes.expire_until(stretch.at)


class _Lifetimes:
    """The expirations of the records of a topic: a heap, in which only the latest item of each key is valid."""

    def __init__(self, living: Mapping[bytes, int]) -> None:
        self._last = {key: at for key, at in living.items() if at}
        self._heap = [(at, key) for key, at in self._last.items()]
        heapq.heapify(self._heap)

    def put(self, key: bytes, expiration: int) -> None:
        """Set the expiration of a published record; 0 if it has none or is deleted."""
        if expiration:
            self._last[key] = expiration
            heapq.heappush(self._heap, (expiration, key))
        else:
            self._last.pop(key, None)

    def expire_until(self, time: int) -> Iterator[KeyChange]:
        """Yield the removal of records that expire up to an instant, inclusive."""
        while self._heap and self._heap[0][0] <= time:
            at, key = heapq.heappop(self._heap)
            # Skip outdated items: the record was published again or deleted since.
            if self._last.get(key) == at:
                del self._last[key]
                yield KeyChange(at, key, None)

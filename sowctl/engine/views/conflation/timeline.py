"""Changes of a topic in the order of time: every publish, deletion and expiry in its journal.

A conflated topic depends on when its source changed, and journals carry times: so its state at any instant follows from
them. Called by :mod:`sowctl.engine.views.conflation.conflated_source`, for itself and for what lies below it. Ruled by
``behaviour`` 11.42 to 11.44: a publish is a change even where nothing is different, an expiry happens at its instant,
and before an entry of the same instant (11.58).
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
    """One change: when (microseconds UTC), of which key, and the stored value since then; None where it is gone."""

    time: int
    key: bytes
    value: bytes | None


class LogStretch(NamedTuple):
    """A stretch of the log and of time: entries behind the txid ``after`` and not behind ``until`` (None: to the end),
    and what happened up to the instant ``at``, inclusive."""

    after: int
    until: int | None
    at: int


def iterate_topic_changes(
    instance: Instance, topic: TopicConfig, stretch: LogStretch, living: Mapping[bytes, int] | None = None
) -> Iterator[KeyChange]:
    """The changes of a journalled topic, in the order of time.

    ``living``: the expirations of the records that there were behind the txid ``after``, None for the beginning of the
    topic. Raises MissingError ``SOW-ENG-050`` where older journals are gone, and what reading the journal raises.
    """
    if not has_log(instance):
        return
    ref = topic.ref
    lifetimes = _Lifetimes(living or {}) if can_expire(topic.expiration) else None
    with open_log(instance, whole=True) as log:
        after = stretch.after
        if living is None:
            # Every state of a transient topic begins behind its RecoveryPoint.
            after = max(after, 0 if topic.file is not None else find_recovery_start(topic, log, instance))
        # The entries are handed out one by one, for as long as the caller likes: files may be pruned meanwhile.
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
                    # A message may come with an expiration that is over: it is there for the instant of its entry, and
                    # times of changes never decrease.
                    lifetimes.put(key, expiration and max(expiration, time))
                yield KeyChange(time, key, None if gone else value)
    if lifetimes is not None:
        yield from lifetimes.expire_until(stretch.at)


class _Lifetimes:
    """When the records of a topic expire: a heap of expirations, of which only the last one of each key holds."""

    def __init__(self, living: Mapping[bytes, int]) -> None:
        self._last = {key: at for key, at in living.items() if at}
        self._heap = [(at, key) for key, at in self._last.items()]
        heapq.heapify(self._heap)

    def put(self, key: bytes, expiration: int) -> None:
        """A record was published, with its expiration, or deleted: 0 for none."""
        if expiration:
            self._last[key] = expiration
            heapq.heappush(self._heap, (expiration, key))
        else:
            self._last.pop(key, None)

    def expire_until(self, time: int) -> Iterator[KeyChange]:
        """The records that expire up to an instant, inclusive."""
        while self._heap and self._heap[0][0] <= time:
            at, key = heapq.heappop(self._heap)
            # Published anew or deleted since, the record that this entry was for is no longer there.
            if self._last.get(key) == at:
                del self._last[key]
                yield KeyChange(at, key, None)

"""The rule of conflation: converts the changes of a source to those of a conflated topic, per key (``behaviour`` 5.3).

The first change of a key opens its interval, later ones replace the pending value, and the latest is output at the end
of the interval. A change exactly at the end still belongs to the interval. A message deleted before its first output is
never output, and a change after that opens a new interval (11.42, 11.43).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sowctl.engine.views.conflation.timeline import KeyChange


class PendingKey(NamedTuple):
    """The pending value of a key, output at the end of its interval; None for a deletion. ``opened``: time of the first
    change of the interval."""

    opened: int
    value: bytes | None


class LateError(Exception):
    """Raised if a change arrives too late to be applied at its time."""


class TopicConflation:
    """The keys of a conflated topic with an interval (microseconds), and their pending values.

    Continues from a previous state: ``pending`` values; ``shown``: whether a key has a visible message; ``ended``: when
    the last intervals of keys ended, if changes of that time may still arrive.
    """

    def __init__(
        self,
        interval: int,
        shown: Callable[[bytes], bool] | None = None,
        pending: dict[bytes, PendingKey] | None = None,
        ended: dict[bytes, int] | None = None,
    ) -> None:
        self.pending = {} if pending is None else pending
        self.ended = {} if ended is None else ended
        self._interval = interval
        self._before = shown
        # Whether keys output since the start have a visible message.
        self._since: dict[bytes, bool] = {}
        self._ends = [(one.opened + interval, key) for key, one in self.pending.items()]
        heapq.heapify(self._ends)

    def conflate_changes(self, changes: Iterable[KeyChange], at: int) -> Iterator[KeyChange]:
        """Yield the conflated topic's changes in time order, from those of its source up to an instant, inclusive.

        Raises LateError for a change earlier than the one that opened its interval.
        """
        for change in changes:
            # Intervals that end at this time stay open, because the change belongs to them.
            yield from self._release_due(change.time)
            end = self.ended.get(change.key)
            if end is not None and end >= change.time:
                # It was journalled after that output was computed, but belongs to it.
                yield from self._output(end, change.key, change.value)
            else:
                self._take(change)
        yield from self._release_due(at + 1)

    def _take(self, change: KeyChange) -> None:
        known = self.pending.get(change.key)
        if known is not None:
            if change.time < known.opened:
                raise LateError
            self.pending[change.key] = PendingKey(known.opened, change.value)
        elif change.value is not None or self._is_shown(change.key):
            self.pending[change.key] = PendingKey(change.time, change.value)
            heapq.heappush(self._ends, (change.time + self._interval, change.key))

    def _release_due(self, before: int) -> Iterator[KeyChange]:
        """Yield the outputs and deletions of intervals that ended before an instant."""
        while self._ends and self._ends[0][0] < before:
            end, key = heapq.heappop(self._ends)
            self.ended[key] = end
            yield from self._output(end, key, self.pending.pop(key).value)

    def _output(self, end: int, key: bytes, value: bytes | None) -> Iterator[KeyChange]:
        # No output for a key deleted before its first output.
        if value is not None or self._is_shown(key):
            self._since[key] = value is not None
            yield KeyChange(end, key, value)

    def _is_shown(self, key: bytes) -> bool:
        known = self._since.get(key)
        if known is None:
            return self._before is not None and self._before(key)
        return known

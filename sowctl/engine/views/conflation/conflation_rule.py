"""The rule of conflation, key by key: from the changes of a source to those of a conflated topic (``behaviour`` 5.3).

The first change of a key opens its interval, later ones replace what is pending, and at the end of the interval the
latest is shown. A change at the end itself still belongs to the interval. What was deleted before it was ever shown is
never shown, and a change behind that opens a new interval (11.42, 11.43).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sowctl.engine.views.conflation.timeline import KeyChange


class PendingKey(NamedTuple):
    """Value that a key will show at the end of its interval, None for none; ``opened``: the first change.
    ``opened``: the first change.
    """

    opened: int
    value: bytes | None


class LateError(Exception):
    """A change of a time that is over cannot be put in its place any more."""


class TopicConflation:
    """The keys of a conflated topic with an interval (microseconds), and what is pending of them.

    It goes on from ``pending`` and from the keys of which ``shown`` says that there is something to see; ``ended`` says
    when their last intervals ended, as far as changes of that time may still come.
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
        # What became of keys since the beginning.
        self._since: dict[bytes, bool] = {}
        self._ends = [(one.opened + interval, key) for key, one in self.pending.items()]
        heapq.heapify(self._ends)

    def conflate_changes(self, changes: Iterable[KeyChange], at: int) -> Iterator[KeyChange]:
        """The conflated topic's changes, in the order of time, from those of its source up to an instant, inclusive.

        Raises LateError for a change before one that opened an interval.
        """
        for change in changes:
            # Ends at the instant itself wait: this change belongs to them.
            yield from self._release_due(change.time)
            end = self.ended.get(change.key)
            if end is not None and end >= change.time:
                # It was in the journal only after that output; the output holds it all the same.
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
        """Yield what is shown, or is gone, at the ends of intervals before an instant."""
        while self._ends and self._ends[0][0] < before:
            end, key = heapq.heappop(self._ends)
            self.ended[key] = end
            yield from self._output(end, key, self.pending.pop(key).value)

    def _output(self, end: int, key: bytes, value: bytes | None) -> Iterator[KeyChange]:
        # Never shown, and gone again: silent.
        if value is not None or self._is_shown(key):
            self._since[key] = value is not None
            yield KeyChange(end, key, value)

    def _is_shown(self, key: bytes) -> bool:
        known = self._since.get(key)
        if known is None:
            return self._before is not None and self._before(key)
        return known

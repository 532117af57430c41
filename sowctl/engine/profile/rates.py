"""Counts of published messages in each interval, by topic and by client.

Only the columns of blocks are read, and of blocks outside of the range not even these. Where there are too many
intervals to be told apart, they become twice as long, until they are not.

Called by the verb ``stats``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from sowctl.journal.format import NO_PUBLISHER, PUBLISH

if TYPE_CHECKING:
    from sowctl.journal.block import Block

MINUTE_MICROS = 60_000_000
"""Microseconds."""
MAX_INTERVALS = 10_000
"""Intervals from the first message to the last: a week of minutes."""
MAX_ASKED_INTERVALS = 1_000_000
"""Intervals where their length was asked for, or where only a person sees them: two years of minutes."""
MAX_CELLS = 10_000_000
"""Intervals of all topics and clients together, which the report holds one by one; each may have a week of minutes."""
MAX_COUNTS = 500_000
"""Intervals with messages, of all topics and clients together."""


class RateSeries(Struct, frozen=True):
    """The messages of a topic and a client (None: without a name) per interval, from the first one of all series on."""

    topic: str
    message_type: str
    client: str | None
    messages: int
    counts: list[int]


class RatesReport(Struct, frozen=True):
    """All series, the one with the most messages first. ``begin`` is the start of the first interval, None where there
    are no messages, ``interval`` its length, both in microseconds; ``wanted`` is the length that was asked for."""

    begin: int | None
    interval: int
    wanted: int
    messages: int
    series: list[RateSeries]


class RateCounter:
    """Counts messages by topic, client and interval."""

    def __init__(self, interval: int = MINUTE_MICROS, most: int = MAX_INTERVALS, counts: int = MAX_COUNTS) -> None:
        self._wanted = self._interval = interval
        self._most = most
        self._most_counts = counts
        self._found: dict[tuple[str, str, str | None], dict[int, int]] = {}

    def count_entries(self, block: Block, places: Iterable[int]) -> None:
        """Count those entries of a block that are messages."""
        columns = block.decode_numpy_columns()
        chosen = np.fromiter(places, np.int64)
        chosen = chosen[columns.operations[chosen] == PUBLISH]
        if not len(chosen):
            return
        slots = columns.times[chosen].astype(np.int64) // self._interval
        pairs = columns.topic_indexes[chosen].astype(np.int64) << 16 | columns.publishers[chosen]
        rows, counts = np.unique(np.stack((pairs, slots)), axis=1, return_counts=True)
        for pair, slot, count in zip(*rows.tolist(), counts.tolist(), strict=True):
            topic, who = block.topic_refs[pair >> 16], pair & NO_PUBLISHER
            client = None if who == NO_PUBLISHER else block.publishers[who][1]
            of = self._found.setdefault((*topic, client), {})
            of[slot] = of.get(slot, 0) + count
        while self._exceeds_limits():
            self._double_interval()

    def _exceeds_limits(self) -> bool:
        ends = [slot for of in self._found.values() for slot in (min(of), max(of))]
        total = sum(map(len, self._found.values()))
        # Series as many as that keep what they have: no interval is long enough to make them fewer.
        most = min(self._most, max(MAX_INTERVALS, MAX_CELLS // len(self._found)))
        return max(ends) - min(ends) >= most or (total > self._most_counts and total > len(self._found))

    def _double_interval(self) -> None:
        self._interval *= 2
        for of in self._found.values():
            merged: dict[int, int] = {}
            for slot, count in of.items():
                merged[slot // 2] = merged.get(slot // 2, 0) + count
            of.clear()
            of.update(merged)

    def build_report(self) -> RatesReport:
        """Build the report of what was counted."""
        slots = [slot for of in self._found.values() for slot in of]
        if not slots:
            return RatesReport(None, self._interval, self._wanted, 0, [])
        first, last = min(slots), max(slots)
        series = [
            RateSeries(topic, kind, client, sum(of.values()), [of.get(slot, 0) for slot in range(first, last + 1)])
            for (topic, kind, client), of in self._found.items()
        ]
        series.sort(key=lambda one: -one.messages)
        total = sum(one.messages for one in series)
        return RatesReport(first * self._interval, self._interval, self._wanted, total, series)

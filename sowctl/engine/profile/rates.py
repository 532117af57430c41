"""Number and bytes of published messages per interval, by topic and by client.

Only the columns of blocks are read, and only of blocks within the range. If there are too many intervals, their length
is doubled until there are not.

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
"""Microseconds per minute."""
MAX_INTERVALS = 10_000
"""Intervals from the first message to the last: a week of minutes."""
MAX_ASKED_INTERVALS = 1_000_000
"""The limit if the interval was specified, or if the output is only for people: two years of minutes."""
MAX_CELLS = 10_000_000
"""Intervals of all topics and clients together in a report; each topic and client may have a week of minutes."""
MAX_COUNTS = 500_000
"""Intervals with messages, of all topics and clients together."""


class RateSeries(Struct, frozen=True):
    """The messages of a topic and a client (None: without a name, or all of them) per interval, starting at the first
    interval of all series; ``sizes`` are the bytes of their payloads, as published. ``rates``: messages and bytes per
    second, averaged over the intervals with messages."""

    topic: str
    message_type: str
    client: str | None
    messages: int
    counts: list[int]
    bytes: int
    sizes: list[int]
    rates: tuple[float, float]


class RatesReport(Struct, frozen=True):
    """All series: topics by bytes in descending order, and clients of a topic likewise. ``begin`` is the start of the
    first interval, None without messages, ``interval`` its length, both in microseconds; ``wanted`` is the requested
    length."""

    begin: int | None
    interval: int
    wanted: int
    messages: int
    series: list[RateSeries]


class RateCounter:
    """Counts messages by topic, client and interval; with ``by_topic``, those of all clients together."""

    def __init__(
        self,
        interval: int = MINUTE_MICROS,
        most: int = MAX_INTERVALS,
        counts: int = MAX_COUNTS,
        *,
        by_topic: bool = False,
    ) -> None:
        self._by_topic = by_topic
        self._wanted = self._interval = interval
        self._most = most
        self._most_counts = counts
        # Number of messages and their bytes per slot.
        self._found: dict[tuple[str, str, str | None], dict[int, tuple[int, int]]] = {}

    def count_entries(self, block: Block, places: Iterable[int]) -> None:
        """Count those entries of a block that are messages."""
        columns = block.decode_numpy_columns()
        chosen = np.fromiter(places, np.int64)
        chosen = chosen[columns.operations[chosen] == PUBLISH]
        if not len(chosen):
            return
        slots = columns.times[chosen].astype(np.int64) // self._interval
        pairs = columns.topic_indexes[chosen].astype(np.int64) << 16 | columns.publisher_indexes[chosen]
        if self._by_topic:
            pairs |= NO_PUBLISHER
        rows, inverse, counts = np.unique(np.stack((pairs, slots)), axis=1, return_inverse=True, return_counts=True)
        sizes = np.zeros(len(counts), np.int64)
        np.add.at(sizes, inverse.reshape(-1), columns.lengths[chosen].astype(np.int64))
        for pair, slot, count, size in zip(*rows.tolist(), counts.tolist(), sizes.tolist(), strict=True):
            topic, who = block.topic_refs[pair >> 16], pair & NO_PUBLISHER
            client = None if who == NO_PUBLISHER else block.publishers[who][1]
            of = self._found.setdefault((*topic, client), {})
            _add_to_slot(of, slot, count, size)
        while self._exceeds_limits():
            self._double_interval()

    def _exceeds_limits(self) -> bool:
        ends = [slot for of in self._found.values() for slot in (min(of), max(of))]
        total = sum(map(len, self._found.values()))
        # With a single interval per series, longer intervals cannot reduce their number.
        most = min(self._most, max(MAX_INTERVALS, MAX_CELLS // len(self._found)))
        return max(ends) - min(ends) >= most or (total > self._most_counts and total > len(self._found))

    def _double_interval(self) -> None:
        self._interval *= 2
        for of in self._found.values():
            merged: dict[int, tuple[int, int]] = {}
            for slot, (count, size) in of.items():
                _add_to_slot(merged, slot // 2, count, size)
            of.clear()
            of.update(merged)

    def build_report(self) -> RatesReport:
        """Return the report of the counts."""
        slots = [slot for of in self._found.values() for slot in of]
        if not slots:
            return RatesReport(None, self._interval, self._wanted, 0, [])
        first, last = min(slots), max(slots)
        series = [self._build_series(key, of, range(first, last + 1)) for key, of in self._found.items()]
        by_topic: dict[tuple[str, str], int] = {}
        for one in series:
            ref = one.topic, one.message_type
            by_topic[ref] = by_topic.get(ref, 0) + one.bytes
        series.sort(key=lambda one: (-by_topic[one.topic, one.message_type], one.topic, one.message_type, -one.bytes))
        total = sum(one.messages for one in series)
        return RatesReport(first * self._interval, self._interval, self._wanted, total, series)

    def _build_series(
        self, key: tuple[str, str, str | None], of: dict[int, tuple[int, int]], slots: range
    ) -> RateSeries:
        topic, kind, client = key
        none = 0, 0
        rows = [of.get(slot, none) for slot in slots]
        messages, size = (sum(one[at] for one in of.values()) for at in (0, 1))
        seconds = len(of) * self._interval / 1_000_000
        return RateSeries(
            topic,
            kind,
            client,
            messages,
            [count for count, _ in rows],
            size,
            [size for _, size in rows],
            (messages / seconds, size / seconds),
        )


def _add_to_slot(of: dict[int, tuple[int, int]], slot: int, count: int, size: int) -> None:
    before = of.get(slot, (0, 0))
    of[slot] = before[0] + count, before[1] + size

"""Bounds of the entries to read from a journal, as set by options (sowctl-spark(7), FILTERS).

Filters that Spark could push down are not used as bounds. Spark 4.3 plans a scan with the first filters that it pushes
down, and keeps that plan for the result of ``load()``. A union, a self-join or a view that is queried twice would then
read with the bounds of another scan and miss rows, without notice to the data source. Spark always applies its own
filters itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace


class NumberRange(Struct, frozen=True):
    """Range of integers from ``low`` to ``high``, both inclusive; None means unbounded."""

    low: int | None = None
    high: int | None = None

    def intersect(self, low: int | None, high: int | None) -> NumberRange:
        """Return the intersection with the range from ``low`` to ``high``."""
        lows = [one for one in (self.low, low) if one is not None]
        highs = [one for one in (self.high, high) if one is not None]
        return NumberRange(max(lows, default=None), min(highs, default=None))

    @property
    def is_empty(self) -> bool:
        """True if the range contains no number."""
        return self.low is not None and self.high is not None and self.low > self.high


class ReadBounds(Struct, frozen=True):
    """Bounds of a read. Times are in microseconds UTC; None for names means any."""

    txids: NumberRange = field(default_factory=NumberRange)
    times: NumberRange = field(default_factory=NumberRange)
    topic_names: frozenset[str] | None = None
    operations: frozenset[str] | None = None

    def restrict_txids(self, low: int | None, high: int | None) -> ReadBounds:
        """Restrict the bounds to the txids from ``low`` to ``high``."""
        return replace(self, txids=self.txids.intersect(low, high))

    def restrict_names(self, name: str, words: Iterable[str]) -> ReadBounds:
        """Restrict the bounds to these ``topic_names`` or ``operations``."""
        known = getattr(self, name)
        wanted = frozenset(words)
        wanted = wanted if known is None else known & wanted
        return replace(self, topic_names=wanted) if name == "topic_names" else replace(self, operations=wanted)

    @property
    def is_empty(self) -> bool:
        """True if no entry can match."""
        return (
            self.topic_names == frozenset()
            or self.operations == frozenset()
            or self.txids.is_empty
            or self.times.is_empty
        )

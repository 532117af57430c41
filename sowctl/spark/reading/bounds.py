"""Bounds on which entries of a journal have to be read, as options say them (sowctl-spark(7), FILTERS).

Filters that Spark offers to push down are no bounds here. Spark 4.3 plans a pushed scan where the filters arrive, and
keeps that plan with what ``load()`` returned: a union, a self-join, a view that is queried twice would read with the
bounds of another scan and miss rows, and no data source is told. Spark applies its own filters itself, always.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace


class NumberRange(Struct, frozen=True):
    """Whole numbers from ``low`` to ``high``, both inclusive; None is no bound."""

    low: int | None = None
    high: int | None = None

    def intersect(self, low: int | None, high: int | None) -> NumberRange:
        """Return the range of the numbers that lie in both."""
        lows = [one for one in (self.low, low) if one is not None]
        highs = [one for one in (self.high, high) if one is not None]
        return NumberRange(max(lows, default=None), min(highs, default=None))

    @property
    def is_empty(self) -> bool:
        """True where no number lies in the range."""
        return self.low is not None and self.high is not None and self.low > self.high


class ReadBounds(Struct, frozen=True):
    """Bounds of a reading. Times in microseconds UTC; names None: any."""

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
        """True where nothing can match."""
        return (
            self.topic_names == frozenset()
            or self.operations == frozenset()
            or self.txids.is_empty
            or self.times.is_empty
        )

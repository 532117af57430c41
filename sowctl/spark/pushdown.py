"""Filters that Spark hands down, as bounds on what has to be read (sowctl-spark(7), FILTERS).

Only columns of the record's own stamps count. Bounds leave out what cannot match and never more, and every filter goes
back to Spark, which applies it again. Spark 4.3 uses the bounds of one scan for others of the same DataFrame, which is
why push-down has to be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sowctl.values.times import EPOCH

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_RANGED = {"_sow_key": "keys", "_txid": "txids", "_timestamp": "times"}
_NAMED = {"_topic": "topics", "_operation": "operations"}


@dataclass(frozen=True)
class Range:
    """Whole numbers from ``low`` to ``high``, both inclusive; None is no bound."""

    low: int | None = None
    high: int | None = None

    def narrowed(self, low: int | None, high: int | None) -> Range:
        """What lies in both."""
        lows = [one for one in (self.low, low) if one is not None]
        highs = [one for one in (self.high, high) if one is not None]
        return Range(max(lows, default=None), min(highs, default=None))

    @property
    def empty(self) -> bool:
        """Whether nothing lies in it."""
        return self.low is not None and self.high is not None and self.low > self.high

    @property
    def open(self) -> bool:
        """Whether everything lies in it."""
        return self.low is None and self.high is None


@dataclass(frozen=True)
class Bounds:
    """What a reading may be limited to. Times in microseconds UTC; names None: any."""

    keys: Range = field(default_factory=Range)
    txids: Range = field(default_factory=Range)
    times: Range = field(default_factory=Range)
    topics: frozenset[str] | None = None
    operations: frozenset[str] | None = None

    def narrowed(self, name: str, low: int | None, high: int | None) -> Bounds:
        """With another range for ``keys``, ``txids`` or ``times``."""
        return replace(self, **{name: getattr(self, name).narrowed(low, high)})

    def among(self, name: str, words: Iterable[str]) -> Bounds:
        """With only these ``topics`` or ``operations``."""
        known = getattr(self, name)
        wanted = frozenset(words)
        wanted = wanted if known is None else known & wanted
        return replace(self, topics=wanted) if name == "topics" else replace(self, operations=wanted)

    @property
    def empty(self) -> bool:
        """Whether nothing can match."""
        nobody = self.topics == frozenset() or self.operations == frozenset()
        return nobody or self.keys.empty or self.txids.empty or self.times.empty


def bounds_of(filters: Iterable[Filter], bounds: Bounds) -> Bounds:
    """``bounds`` narrowed by what the filters say together."""
    for one in filters:
        bounds = _narrowed(one, bounds)
    return bounds


def _narrowed(one: Filter, bounds: Bounds) -> Bounds:
    from pyspark.sql import datasource as d

    column = ".".join(getattr(one, "attribute", ()))
    value = getattr(one, "value", None)
    if column in _NAMED:
        if isinstance(one, d.EqualTo | d.EqualNullSafe) and isinstance(value, str):
            return bounds.among(_NAMED[column], [value])
        if isinstance(one, d.In) and all(isinstance(word, str) for word in value or ()):
            return bounds.among(_NAMED[column], value or ())
        return bounds
    if column not in _RANGED:
        return bounds
    name = _RANGED[column]
    if isinstance(one, d.In):
        numbers = [_number(word) for word in value or ()]
        if numbers and None not in numbers:
            return bounds.narrowed(name, min(numbers), max(numbers))  # type: ignore[type-var]
        return bounds
    number = _number(value)
    if number is None:
        return bounds
    if isinstance(one, d.EqualTo | d.EqualNullSafe):
        return bounds.narrowed(name, number, number)
    # a literal that is no whole number was rounded: bounds must not lose the one beside it
    if isinstance(one, d.GreaterThan | d.GreaterThanOrEqual):
        return bounds.narrowed(name, number, None)
    if isinstance(one, d.LessThan | d.LessThanOrEqual):
        return bounds.narrowed(name, None, number + 1)
    return bounds


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.astimezone()  # Spark's literals without a zone are local times
        micros: int = (value - EPOCH) // timedelta(microseconds=1)
        return micros
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal) and value.is_finite():
        return int(value // 1)
    return None

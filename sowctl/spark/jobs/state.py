"""The state of a topic, now or at an instant, in parts that tasks read apart (for the jobs).

How an instant is answered is the engine's decision (``engine.asof``): from the store where nothing has changed since,
from retained versions, or by folding the journals, which is done on Spark. All parts together are the records in key
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.sources.current import open_current
from sowctl.engine.sources.logical import chosen
from sowctl.engine.sources.past import way_at
from sowctl.engine.sources.source import Pairs
from sowctl.engine.topics.expiration import expires, is_expired
from sowctl.spark.jobs.folding import fold
from sowctl.spark.jobs.pairfiles import read_pairs
from sowctl.spark.origin import Origin
from sowctl.spark.reading.positions import Position, open_planned, plan_position, ranged
from sowctl.store.codec import expiration_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.config.model import Expiration, Logical, TopicConfig
    from sowctl.engine.instance import Instance

RECORDS_PER_PART = 100_000
READ = 1000
KEYS = 1 << 64


@dataclass(frozen=True, slots=True)
class RangePart:
    """The records of a key range, read from the store (and the journal behind it)."""

    origin: Origin
    position: Position | None
    at: int | None
    low: int
    high: int

    def pairs(self) -> Iterator[Pairs]:
        """Keys and stored values in key order. Raises what reading raises, LockedError where the topic has moved."""
        low = self.low.to_bytes(8, "big") if self.low else None
        high = self.high.to_bytes(8, "big") if self.high < KEYS else None
        with closing(open_planned(self.origin, self.position, self.at)) as source:
            yield from ranged(source, self.origin, READ, low, high)


@dataclass(frozen=True, slots=True)
class FoldedPart:
    """The records of a key range in a file that a fold has left; without those that had expired by ``at``.

    ``logical`` says which logical topics of a Pattern topic are meant.
    """

    path: str
    expiration: Expiration
    at: int
    logical: Logical | None = None

    def pairs(self) -> Iterator[Pairs]:
        """Keys and stored values in key order."""
        choose = chosen(self.logical) if self.logical is not None else None
        for keys, values in read_pairs(Path(self.path)):
            if choose is not None:
                keys, values = choose((keys, values))
            if expires(self.expiration):
                kept = [p for p, v in enumerate(values) if not is_expired(self.expiration, expiration_of(v), self.at)]
                keys, values = [keys[place] for place in kept], [values[place] for place in kept]
            if keys:
                yield keys, values


Part = RangePart | FoldedPart


def parts_of(
    spark: SparkSession, instance: Instance, topic: TopicConfig, at: int | None, directory: Path
) -> Sequence[Part]:
    """The state of ``topic`` at an instant (microseconds UTC; None: now) in parts; ``directory`` is a staging one.

    Raises what reading the present or the past raises.
    """
    now = instance.now
    if at is None or topic.history is not None:
        return _ranges(instance, topic, at, now)
    with ExitStack() as held:
        whole = topic.whole
        with closing(open_current(instance, whole, now=min(at, now))) as current:
            way = way_at(instance, whole, current, at, held)
        if way is None and whole.file is not None and whole.file.exists():
            return _ranges(instance, topic, None, min(at, now))
        if way is None or not way.reaches:
            return _ranges(instance, topic, at, now)
        until = way.log.last_txid()
        result = fold(spark, way.log, [whole], directory, after=way.after, until=until, at=at)
    files = [str(directory / one.records) for one in result.files[0]]
    return [FoldedPart(file, topic.expiration, at, topic.logical) for file in files]


def _ranges(instance: Instance, topic: TopicConfig, at: int | None, now: int) -> Sequence[Part]:
    origin = Origin(instance.config, topic, None, None, now)
    position = plan_position(origin)
    count = 1
    if position is not None and (at is None or topic.history is not None):
        count = position.records // RECORDS_PER_PART + 1
    steps = [KEYS * step // count for step in range(count + 1)]
    return [RangePart(origin, position, at, low, high) for low, high in pairwise(steps)]

"""The state of a topic, now or at an instant, in parts that tasks read apart (for the jobs).

How an instant is answered is decided by :func:`sowctl.engine.sources.past.way_at`: from the store where nothing has
changed since, from retained versions, or by folding the journals, which is done on Spark. All parts together are the
records in key order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.described import DescribedStruct
from sowctl.engine.sources.logical import chosen
from sowctl.engine.sources.past import Means, way_at
from sowctl.engine.sources.source import Pairs
from sowctl.engine.topics.expiration import expires, unexpired
from sowctl.identity.keyspace import bounds
from sowctl.spark.jobs.folding import fold
from sowctl.spark.jobs.pairfiles import read_pairs
from sowctl.spark.origin import Origin
from sowctl.spark.reading.positions import PlannedState, open_planned, plan_position, ranged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.config.model import Expiration, Logical, TopicConfig
    from sowctl.engine.instance import Instance

RECORDS_PER_PART = 100_000
READ = 1000


class RangePart(Struct, frozen=True):
    """The records of a key range, read from the store (and the journal behind it)."""

    origin: Origin
    position: PlannedState | None
    at: int | None
    low: bytes | None
    high: bytes | None

    def pairs(self) -> Iterator[Pairs]:
        """Keys and stored values in key order. Raises what reading raises, LockedError where the topic has moved."""
        with closing(open_planned(self.origin, self.position, self.at)) as source:
            yield from ranged(source, self.origin, READ, self.low, self.high)


class FoldedPart(DescribedStruct, frozen=True):
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
                kept = unexpired(values, self.at)
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
    if at is None:
        return _ranges(instance, topic, None, now, several=True)
    with ExitStack() as held:
        # The same decision that a query in one process makes, so that both show the same state or the same refusal.
        way = way_at(instance, topic.whole, at, held)
        # The present store shows the state at that instant, so nothing has to be folded.
        if way.means is Means.PRESENT and way.current.path is not None:
            return _ranges(instance, topic, None, way.clock, several=True)
        if way.means is not Means.FOLD:
            # tasks open the state at the instant themselves; where each would have to make it first, there is but one
            return _ranges(instance, topic, at, now, several=way.means is Means.VERSIONS)
        assert way.log is not None
        # Fixed here, so that all tasks fold the same entries.
        until = way.log.last_txid()
        result = fold(spark, way.log, [topic.whole], directory, after=way.after, until=until, at=way.at)
    files = [str(directory / one.records) for one in result.files[0]]
    # The files hold whole Pattern topics, and records that had expired: each part leaves out what is not meant when it
    # is read.
    return [FoldedPart(file, topic.expiration, way.clock, topic.logical) for file in files]


def _ranges(instance: Instance, topic: TopicConfig, at: int | None, now: int, *, several: bool) -> Sequence[Part]:
    origin = Origin(instance.config, topic, None, None, now)
    position = plan_position(origin)
    count = position.records // RECORDS_PER_PART + 1 if position is not None and several else 1
    return [RangePart(origin, position, at, low, high) for low, high in bounds(count)]

"""The distributed fold: highest txid per key wins, over pieces of the journals (README, principle 1).

Map tasks fold a stretch of the journal each and cut what is left by ranges of the key space; Spark's shuffle brings the
runs of one range together, as few large values rather than as rows; reduce tasks fold those, sort them by key and
leave sorted files in the staging directory. Memory: a stretch in a map task, a range in a reduce task. Called by the
jobs that rebuild stores and that answer for an instant; the runs themselves are of :mod:`sowctl.spark.jobs.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from pyspark.accumulators import AccumulatorParam

from sowctl.described import DescribedStruct
from sowctl.engine.topics.retention import Retention, extend, retention, value_of
from sowctl.identity.keyspace import last_of_each, shares
from sowctl.journal.stretch import cut, spans
from sowctl.spark.errors import translated
from sowctl.spark.jobs.pairfiles import in_parts, write_pairs
from sowctl.spark.jobs.runs import Run, RunFacts, entries_of, sorted_latest, stream, timelines
from sowctl.spark.jobs.tasks import attempt, carried_iterator, describe
from sowctl.spark.origin import Origin
from sowctl.spark.reading.journalplan import PlannedStretch, open_journal, origin_of, partition_bytes

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.journal.block import Block, Gap
    from sowctl.journal.blockcodec import BlockHeader
    from sowctl.journal.reader import Journal
    from sowctl.journal.stretch import Segment, Span

LEAST_BYTES = 1 << 20
"""Stored bytes of journal that are worth a map task of their own, where processors would have no work."""
HANDFUL_BYTES = 32 << 20
"""Messages and numbers that a map task folds at a time."""
SAMPLES = 8
"""Files of which a block is looked at to know how much there is to be folded."""
BUCKET_BYTES = 64 << 20
"""Values of one reduce task, about."""


class Folded(NamedTuple):
    """A file of sorted records (and, of a topic with History, another of versions) that a reduce task left."""

    topic: int
    bucket: int
    records: str
    versions: str
    entries: int
    payload_bytes: int


class FoldPlan(DescribedStruct, frozen=True):
    """What to fold: topics in order, entries behind a txid, up to another and not later than ``at``; ``buckets`` per
    topic. ``origin`` is the journal's."""

    origin: Origin
    topics: tuple[tuple[str, str], ...]
    rules: tuple[Retention | None, ...]
    after: int
    until: int
    at: int | None
    buckets: int
    directory: str


class FoldResult(Struct, frozen=True):
    """The files by topic, in key order; per topic entries folded, time and txid of the last one; tasks that ran."""

    files: tuple[tuple[Folded, ...], ...]
    entries: tuple[int, ...]
    latest: tuple[int, ...]
    last_txid: tuple[int, ...]
    partitions: int


def fold(
    spark: SparkSession,
    log: Journal,
    topics: Sequence[TopicConfig],
    directory: Path,
    *,
    after: int = 0,
    until: int,
    at: int | None,
) -> FoldResult:
    """Fold the entries of ``topics`` behind ``after``, up to ``until`` and ``at``; sorted files in ``directory``."""
    parallel = spark.sparkContext.defaultParallelism
    segments = log.segments()
    after = max(after, segments[0].first_txid - 1)
    wanted = spans(segments, after, min(until, segments[-1].last_txid), log.near)
    stored = sum(span.size for span in wanted)
    stretches = [
        PlannedStretch(after, until, parts) for parts in cut(wanted, partition_bytes(stored, 2 * parallel, LEAST_BYTES))
    ]
    # What the reduce tasks will hold.
    size = volume(wanted, log.sample)
    told = spark.sparkContext.accumulator([], _Gaps())
    plan = FoldPlan(
        origin_of(log, 0),
        tuple((topic.name, topic.message_type) for topic in topics),
        tuple(retention(topic.history) for topic in topics),
        after,
        until,
        at,
        max(parallel if size > BUCKET_BYTES // 8 else 1, -(-size // BUCKET_BYTES)),
        str(directory),
    )
    if not stretches:
        empty = (0,) * len(topics)
        return FoldResult(((),) * len(topics), empty, empty, empty, 0)
    describe(spark, "fold " + ", ".join(topic.name for topic in topics))
    # One task per stretch. What leaves it is folded already: without History only the last entry of each key travels.
    mapped = spark.sparkContext.parallelize(stretches, len(stretches)).mapPartitions(_Mapper(plan, told))
    numbers = plan.buckets * len(topics)
    with translated():
        found = mapped.partitionBy(numbers, int).mapPartitionsWithIndex(_Reducer(plan)).collect()
    # Each once, in their order: a task that ran twice has told its gaps twice.
    for gap in sorted(set(told.value), key=attrgetter("first_txid")):
        log.on_gap(gap)
    return _result(plan, found, len(stretches) + numbers)


def volume(wanted: Sequence[Span], sample: Callable[[Segment], BlockHeader | None]) -> int:
    """About how many bytes the entries of these files take in memory: payloads, and 96 bytes for each besides.

    A few blocks of the files tell how much more that is than what is stored.
    """
    step = max(1, len(wanted) // SAMPLES)
    stored = raw = 0
    for span in wanted[step // 2 :: step]:
        header = sample(span.segment)
        if header is not None and header.count:
            stored += header.size
            raw += header.payloads_raw + 96 * header.count
    total = sum(span.size for span in wanted)
    return total * raw // stored if stored else total


def _result(plan: FoldPlan, found: list[Any], partitions: int) -> FoldResult:
    files: list[list[Folded]] = [[] for _ in plan.topics]
    entries, latest, last = ([0] * len(plan.topics) for _ in range(3))
    for folded, facts in found:
        topic = folded.topic
        files[topic].append(folded)
        entries[topic] += facts.entries
        latest[topic] = max(latest[topic], facts.latest)
        last[topic] = max(last[topic], facts.last_txid)
    # Buckets are ranges of the key space, so their files one after the other are in key order.
    ordered = tuple(tuple(sorted(row, key=lambda one: one.bucket)) for row in files)
    return FoldResult(ordered, tuple(entries), tuple(latest), tuple(last), partitions)


class _Gaps(AccumulatorParam[Any]):
    """Adds up the gaps that tasks have come upon."""

    def zero(self, value: list[Gap]) -> list[Gap]:
        """None."""
        return []

    def addInPlace(self, value1: list[Gap], value2: list[Gap]) -> list[Gap]:  # noqa: N802 - Spark's name
        """Those of both."""
        return value1 + value2


class _Mapper:
    def __init__(self, plan: FoldPlan, told: Accumulator[Any]) -> None:
        self.plan = plan
        self.told = told

    def __call__(self, stretches: Iterable[PlannedStretch]) -> Iterator[tuple[int, Run]]:
        return carried_iterator(run for stretch in stretches for run in self.runs(stretch))

    def runs(self, stretch: PlannedStretch) -> Iterator[tuple[int, Run]]:
        """The runs of a stretch, some blocks at a time."""
        with open_journal(self.plan.origin, reaching=stretch.until) as log:
            log.on_gap = lambda gap: self.told.add([gap])
            for blocks in _handfuls(stretch.blocks(log, self.plan.after, self.plan.until)):
                yield from self.folded(blocks)

    def folded(self, blocks: list[Block]) -> Iterator[tuple[int, Run]]:
        """Every bucket of every topic that some blocks have entries of, with its run."""
        import numpy as np
        import pyarrow as pa

        plan = self.plan
        for number, (ref, rule) in enumerate(zip(plan.topics, plan.rules, strict=True)):
            taken = (entries_of(block, ref, plan.after, plan.until, plan.at) for block in blocks)
            batches = [found for found in taken if found is not None]
            if not batches:
                continue
            table = pa.Table.from_batches(batches).combine_chunks()
            keys = table["key"].to_numpy()
            # The counts of these blocks travel with their first run only, so that the sum counts each entry once.
            facts = RunFacts(len(keys), table["time"][-1].as_py(), table["txid"][-1].as_py())
            # A topic with History needs every version; all others need the last entry of each key.
            chosen = last_of_each(keys) if rule is None else np.arange(len(keys))
            for bucket, places in shares(keys[chosen], plan.buckets):
                run = stream(table.take(pa.array(chosen[places])))
                yield number * plan.buckets + bucket, Run(blocks[0].first_txid, facts, run)
                facts = RunFacts(0, facts.latest, facts.last_txid)


def _handfuls(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Blocks in their order, so many together as are worth folding at once, and not more than memory has room for."""
    found: list[Block] = []
    size = 0
    for block in blocks:
        found.append(block)
        size += block.header.payloads_raw + 96 * len(block)
        if size >= HANDFUL_BYTES:
            yield found
            found, size = [], 0
    if found:
        yield found


class _Reducer:
    def __init__(self, plan: FoldPlan) -> None:
        self.plan = plan

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[Folded, RunFacts]]:
        return carried_iterator(self.folded(index, [run for _, run in runs]))

    def folded(self, index: int, runs: list[Run]) -> Iterator[tuple[Folded, RunFacts]]:
        """The file of one bucket; nothing where no run came."""
        plan = self.plan
        if not runs:
            return
        # The shuffle gives runs in any order. Stretches do not overlap, so by their first txid all entries come in txid
        # order.
        runs.sort(key=attrgetter("first_txid"))
        facts = RunFacts(
            sum(run.facts.entries for run in runs),
            max(run.facts.latest for run in runs),
            max(run.facts.last_txid for run in runs),
        )
        topic, bucket = divmod(index, plan.buckets)
        rule = plan.rules[topic]
        # The attempt is part of the name: a task that Spark runs twice must not write into the file of the other.
        name = f"fold-{topic}-{bucket}-{attempt()}"
        directory = Path(plan.directory)
        if rule is None:
            count, size = write_pairs(directory / name, sorted_latest(runs))
            yield Folded(topic, bucket, name, "", count, size), facts
            return
        versions: list[tuple[bytes, bytes]] = []
        records: list[tuple[bytes, bytes]] = []
        for key, updates in timelines(runs):
            kept = extend([], updates, rule)
            current = kept[-1]
            # A deleted key has no record, so its last entry, the tombstone, stands among the versions.
            versions += [(key, value_of(key, one)) for one in (kept if current.tombstone else kept[:-1])]
            if not current.tombstone:
                records.append((key, current.value))
        count, size = write_pairs(directory / name, in_parts(records))
        write_pairs(directory / f"{name}-v", in_parts(versions))
        yield Folded(topic, bucket, name, f"{name}-v", count, size), facts

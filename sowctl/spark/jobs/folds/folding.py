"""The distributed fold: highest txid per key wins, over pieces of the journals (principle 1).

Map tasks fold a stretch of the journal each, some blocks at a time, and cut what is left by ranges of the key space;
Spark's shuffle brings the runs of one range together, as few large values rather than as rows; reduce tasks fold those
and sort them by key. A journal that is large beyond what one shuffle should be asked to do is folded in two
(:mod:`sowctl.spark.jobs.folds.foldshape`), and a range that is larger than memory part by part
(:mod:`sowctl.spark.jobs.folds.spooling`). Memory: 32 MiB in a map task, a part of a range in a reduce task. Called by
the jobs that rebuild stores, which take sorted files, and by those that answer for an instant, which take the records
as they come; the runs themselves are of :mod:`sowctl.spark.jobs.folds.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from sowctl.described import DescribedStruct
from sowctl.engine.sources.source import Pairs
from sowctl.engine.topics.retention import Retention, extend, retention, value_of
from sowctl.identity.keyspace import last_of_each, shares
from sowctl.journal.stretch import spans
from sowctl.remote.place import Place
from sowctl.spark.errors import translated
from sowctl.spark.jobs.folds.foldshape import MAPS, FoldShape, shaped
from sowctl.spark.jobs.folds.pairfiles import PairFile, in_parts, write_pairs
from sowctl.spark.jobs.folds.runs import Run, RunFacts, entries_of, latest, sorted_latest, stream, timelines
from sowctl.spark.jobs.folds.sampling import TxidMarks, TxidSet, choose, marks_of, noted, noting, winners_in
from sowctl.spark.jobs.folds.spooling import RunSpool
from sowctl.spark.jobs.tasks import attempt, carried_iterator, describe, gaps_of, tell_gaps
from sowctl.spark.origin import Origin
from sowctl.spark.reading.journalplan import PlannedStretch, in_partitions, open_journal, origin_of, partition_bytes

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD, Accumulator
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
R = TypeVar("R")


class Folded(NamedTuple):
    """A file of sorted records that a reduce task left, and another: of versions where the topic keeps History, else of
    the txids of the records."""

    topic: int
    bucket: int
    records: str
    versions: str
    txids: str
    entries: int
    payload_bytes: int


class FoldPlan(DescribedStruct, frozen=True):
    """What to fold: topics in order, entries behind a txid, up to another and not later than ``at``; and how it is laid
    out. ``origin`` is the journal's."""

    origin: Origin
    topics: tuple[tuple[str, str], ...]
    rules: tuple[Retention | None, ...]
    after: int
    until: int
    at: int | None
    shape: FoldShape


class FoldResult(DescribedStruct, frozen=True):
    """The files by topic, in key order; per topic entries folded, time and txid of the last one; tasks that ran; the
    txids of the records whose keys are to be looked at."""

    files: tuple[tuple[Folded, ...], ...]
    entries: tuple[int, ...]
    latest: tuple[int, ...]
    last_txid: tuple[int, ...]
    partitions: int
    sample: TxidSet

    @property
    def bytes(self) -> int:
        """Bytes of the values of all records."""
        return sum(one.payload_bytes for files in self.files for one in files)


class Fold(DescribedStruct):
    """A fold that has been planned: nothing is read before one of its results is asked for, and the journal's part of
    the work is done once, however many of them are. ``runs`` are those of one bucket in each partition."""

    plan: FoldPlan
    runs: RDD[Any] | None
    on_gap: Callable[[Gap], None]
    told: Accumulator[Any] | None = None
    marks: Accumulator[Any] | None = None

    @property
    def topics(self) -> int:
        """How many topics are folded."""
        return len(self.plan.topics)

    def files(self, directory: Place) -> FoldResult:
        """Sorted files of records, and of versions, that the reduce tasks leave in ``directory``; and which records a
        replay would look at, where the fold is ``marked``."""
        files: list[list[Folded]] = [[] for _ in self.plan.topics]
        entries, newest, last = ([0] * self.topics for _ in range(3))
        if self.runs is not None:
            with translated():
                found = self.runs.mapPartitionsWithIndex(_Reducer(self.plan, directory)).collect()
            for folded, facts in found:
                topic = folded.topic
                files[topic].append(folded)
                entries[topic] += facts.entries
                newest[topic] = max(newest[topic], facts.latest)
                last[topic] = max(last[topic], facts.last_txid)
        self.tell()
        # Buckets are ranges of the key space, so their files one after the other are in key order.
        ordered = tuple(tuple(sorted(row, key=lambda one: one.bucket)) for row in files)
        tasks = self.plan.shape.tasks if self.runs is not None else 0
        sample = self._sample(ordered, directory)
        return FoldResult(ordered, tuple(entries), tuple(newest), tuple(last), tasks, sample)

    def _sample(self, files: Sequence[Sequence[Folded]], directory: Place) -> TxidSet:
        """The txids of the records that a replay looks at; none where no task has told of them."""
        first, last = self.plan.after + 1, self.plan.until
        sample = TxidSet(first, last)
        told = self.marks.value if self.marks is not None else []
        for topic, (rule, row) in enumerate(zip(self.plan.rules, files, strict=True)):
            marked = sample if rule is not None else TxidSet(first, last)
            for marks in told:
                if marks.topic == topic:
                    marked.add(marks.txids())
            # Noted entries are looked at if they are records in the end; of blocks, what is left of them says which.
            if rule is None and self.marks is not None:
                winners = TxidSet(first, last)
                for txids in winners_in(directory / one.txids for one in row):
                    winners.add(txids)
                choose(sample, marked, winners)
        return sample

    def records(self, made: Callable[[Pairs], R]) -> RDD[R] | None:
        """What is ``made`` of the records of the one topic, on the executors, in key order within and between
        partitions; None where nothing was folded. No file is left of them."""
        assert self.topics == 1
        return None if self.runs is None else self.runs.mapPartitionsWithIndex(_Handing(self.plan, made))

    def tell(self) -> None:
        """Name the gaps that tasks have come upon."""
        if self.told is not None:
            tell_gaps(self.told, self.on_gap)


def fold(
    spark: SparkSession,
    log: Journal,
    topics: Sequence[TopicConfig],
    *,
    after: int = 0,
    until: int,
    at: int | None,
    seen: bool = True,
    marked: bool = False,
) -> Fold:
    """Fold the entries of ``topics`` behind ``after``, up to ``until`` and ``at``. ``seen``: executors see the files of
    the journal that lie here; else they read the archive at its URL, and this process what is here alone. ``marked``:
    tasks tell what it takes to know which records a replay would look at, for :meth:`Fold.files`."""
    plan, stretches = planned(spark, log, topics, after, until, at, None if seen else log.archived)
    if not stretches:
        return Fold(plan, None, log.on_gap)
    describe(spark, "fold " + ", ".join(topic.name for topic in topics))
    told, marks = gaps_of(spark), marks_of(spark) if marked else None
    own: list[tuple[int, Run]] = []
    if not seen:
        here = _Mapper(plan, told, marks)
        mine = [one for one in stretches if not all(log.archived(part.number) for part in one.parts)]
        own = [run for stretch in mine for run in here.runs(stretch)]
        stretches = [one for one in stretches if one not in mine]
        # Of a path that executors do not see, another file may lie there: they are not told of it.
        plan = replace(plan, origin=replace(plan.origin, path=log.archive or log.directory, archive=None))
    if not stretches and not own:
        # All files lie here, and none of them has an entry of these topics: there are no runs to shuffle.
        return Fold(plan, None, log.on_gap, told)
    runs = _shuffled(spark, plan, stretches, _Mapper(plan, told, marks), own)
    return Fold(plan, runs, log.on_gap, told, marks)


def planned(
    spark: SparkSession,
    log: Journal,
    topics: Sequence[TopicConfig],
    after: int,
    until: int,
    at: int | None,
    apart: Callable[[int], object] | None = None,
) -> tuple[FoldPlan, list[PlannedStretch]]:
    """The plan of a fold of ``topics`` behind ``after``, up to ``until`` and ``at``, and what each map task reads;
    ``apart`` as in :func:`layout`."""
    segments = log.segments()
    after, until = max(after, segments[0].first_txid - 1), min(until, segments[-1].last_txid)
    stretches, shape = layout(log, segments, after, until, spark.sparkContext.defaultParallelism, apart)
    plan = FoldPlan(
        origin_of(log, 0),
        tuple((topic.name, topic.message_type) for topic in topics),
        tuple(retention(topic.history) for topic in topics),
        after,
        until,
        at,
        shape,
    )
    return plan, stretches


class Looks(Protocol):
    """The looks into files that a plan may take; a journal's."""

    def near(self, segment: Segment, txid: int) -> tuple[int, int]:
        """About where in a file a txid lies."""
        ...

    def sample(self, segment: Segment) -> BlockHeader | None:
        """The header of some block."""
        ...


def layout(
    log: Looks,
    segments: Sequence[Segment],
    after: int,
    until: int,
    parallel: int,
    apart: Callable[[int], object] | None = None,
) -> tuple[list[PlannedStretch], FoldShape]:
    """What each map task reads of these files, and how the rest is laid out, on so many processors. ``apart`` says by
    number which files no task reads together with the others."""
    wanted = spans(segments, after, until, log.near)
    stored = sum(span.size for span in wanted)
    size = max(partition_bytes(stored, 2 * parallel, LEAST_BYTES), -(-stored // MAPS))
    # Files apart come first: an archive has the oldest ones. Cut by themselves, no task reads both kinds.
    kinds = [list(some) for _, some in groupby(wanted, lambda span: apart is not None and apart(span.segment.number))]
    stretches = [one for some in kinds for one in in_partitions(some, after, until, size)]
    return stretches, shaped(max(1, len(stretches)), volume(wanted, log.sample), parallel)


def _shuffled(
    spark: SparkSession,
    plan: FoldPlan,
    stretches: Sequence[PlannedStretch],
    mapper: _Mapper,
    own: Sequence[tuple[int, Run]],
) -> RDD[Any]:
    """The runs of each bucket in a partition, ``own`` among them. What leaves a map task is folded already: without
    History only the last entry of each key travels."""
    context, shape = spark.sparkContext, plan.shape
    size = -(-len(stretches) // shape.slices) or 1
    found = [
        context.parallelize(some, len(some)).mapPartitions(mapper)
        for some in (stretches[start : start + size] for start in range(0, len(stretches), size))
    ]
    if own:
        found.append(context.parallelize(own, min(len(own), max(2, context.defaultParallelism))))
    if shape.slices > 1:
        combiner = _Combiner(plan)
        found = [some.partitionBy(shape.coarse, int).mapPartitionsWithIndex(combiner) for some in found]
    return (found[0] if len(found) == 1 else context.union(found)).partitionBy(shape.buckets, int)


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


class _Mapper:
    def __init__(self, plan: FoldPlan, told: Accumulator[Any], marks: Accumulator[Any] | None) -> None:
        self.plan = plan
        self.told = told
        self.marks = marks

    def __call__(self, stretches: Iterable[PlannedStretch]) -> Iterator[tuple[int, Run]]:
        return carried_iterator(run for stretch in stretches for run in self.runs(stretch))

    def runs(self, stretch: PlannedStretch) -> Iterator[tuple[int, Run]]:
        """The runs of a stretch, some blocks at a time."""
        with open_journal(self.plan.origin, task=stretch) as log:
            log.on_gap = lambda gap: self.told.add([gap])
            for blocks in _handfuls(stretch.blocks(log, self.plan.after, self.plan.until)):
                yield from self.folded(blocks)

    def folded(self, blocks: list[Block]) -> Iterator[tuple[int, Run]]:
        """Every range of keys that some blocks have entries in, with the run of each topic."""
        import numpy as np
        import pyarrow as pa

        plan = self.plan
        buckets = plan.shape.buckets if plan.shape.slices == 1 else plan.shape.coarse
        for number, (ref, rule) in enumerate(zip(plan.topics, plan.rules, strict=True)):
            taken = (entries_of(block, ref, plan.after, plan.until, plan.at) for block in blocks)
            batches = [found for found in taken if found is not None]
            if not batches:
                continue
            if self.marks is not None:
                # The first entry of a block stands for its beginning: what is left of the block is not before it.
                some = [batch["txid"].to_numpy() for batch in batches]
                some = [txids[:1] if rule is None else noted(txids) for txids in some]
                self.marks.add([TxidMarks.of(number, np.concatenate(some))])
            table = pa.Table.from_batches(batches).combine_chunks()
            keys = table["key"].to_numpy()
            # The counts of these blocks travel with their first run only, so that the sum counts each entry once.
            facts = RunFacts(len(keys), table["time"][-1].as_py(), table["txid"][-1].as_py())
            # A topic with History needs every version; all others need the last entry of each key.
            chosen = last_of_each(keys) if rule is None else np.arange(len(keys))
            for bucket, places in shares(keys[chosen], buckets):
                run = stream(table.take(pa.array(chosen[places])))
                yield bucket, Run(blocks[0].first_txid, facts, run, number)
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


class _Gathered:
    """The runs of one partition of a shuffle, and what is known of each topic's."""

    def __init__(self, spool: RunSpool, runs: Iterable[tuple[int, Run]]) -> None:
        self.facts: dict[int, RunFacts] = {}
        self.first: dict[int, int] = {}
        for _, run in runs:
            known, one = self.facts.get(run.topic), run.facts
            if known is not None:
                one = RunFacts(
                    known.entries + one.entries, max(known.latest, one.latest), max(known.last_txid, one.last_txid)
                )
            self.facts[run.topic] = one
            self.first[run.topic] = min(self.first.get(run.topic, run.first_txid), run.first_txid)
            spool.add(run)


class _Combiner:
    """Between two shuffles: what the tasks of one slice have left of a range of keys, folded."""

    def __init__(self, plan: FoldPlan) -> None:
        self.plan = plan

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[int, Run]]:
        return carried_iterator(self.folded(index, runs))

    def folded(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[int, Run]]:
        """The runs of all buckets in the range."""
        import pyarrow as pa

        shape = self.plan.shape
        parts = shape.coarse_parts
        with RunSpool(index * parts, parts, shape.coarse * parts) as spool:
            found = _Gathered(spool, runs)
            for topic, facts in found.facts.items():
                for _, table in spool.parts(topic):
                    some = latest(table) if self.plan.rules[topic] is None else table
                    for bucket, places in shares(some["key"].to_numpy(), shape.buckets):
                        yield bucket, Run(found.first[topic], facts, stream(some.take(pa.array(places))), topic)
                        facts = RunFacts(0, facts.latest, facts.last_txid)


class _Reducer:
    """The end of a fold whose records are left in files."""

    def __init__(self, plan: FoldPlan, directory: Place) -> None:
        self.plan = plan
        self.directory = directory

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[Folded, RunFacts]]:
        return carried_iterator(self.folded(index, runs))

    def folded(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[Folded, RunFacts]]:
        """The files of one bucket: of every topic of which runs came."""
        shape = self.plan.shape
        with RunSpool(index * shape.parts, shape.parts, shape.buckets * shape.parts) as spool:
            found = _Gathered(spool, runs)
            for topic, facts in found.facts.items():
                # The attempt is part of the name: a task that Spark runs twice must not write into the file of the
                # other.
                name = f"fold-{topic}-{index}-{attempt()}"
                place, rule = self.directory / name, self.plan.rules[topic]
                tables = (table for _, table in spool.parts(topic))
                if rule is None:
                    with PairFile(self.directory / f"{name}-t") as txids:
                        records_left = chain.from_iterable(map(sorted_latest, tables))
                        count, size = write_pairs(place, noting(records_left, txids))
                    yield Folded(topic, index, name, "", f"{name}-t", count, size), facts
                    continue
                with PairFile(place) as records, PairFile(self.directory / f"{name}-v") as versions:
                    for table in tables:
                        _retained(table, rule, records, versions)
                yield Folded(topic, index, name, f"{name}-v", "", records.count, records.size), facts


def _retained(table: pyarrow.Table, rule: Retention, records: PairFile, versions: PairFile) -> None:
    """Write the records of a part, and the versions that a topic with History keeps of its keys."""
    older: list[tuple[bytes, bytes]] = []
    present: list[tuple[bytes, bytes]] = []
    for key, updates in timelines(table):
        kept = extend([], updates, rule)
        current = kept[-1]
        # A deleted key has no record, so its last entry, the tombstone, stands among the versions.
        older += [(key, value_of(key, one)) for one in (kept if current.tombstone else kept[:-1])]
        if not current.tombstone:
            present.append((key, current.value))
    for file, pairs in ((records, present), (versions, older)):
        for part in in_parts(pairs):
            file.add(part)


class _Handing(Generic[R]):
    """The end of a fold whose records go on to what reads them."""

    def __init__(self, plan: FoldPlan, made: Callable[[Pairs], R]) -> None:
        self.plan = plan
        self.made = made

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[R]:
        return carried_iterator(self.folded(index, runs))

    def folded(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[R]:
        """The records of one bucket."""
        shape = self.plan.shape
        with RunSpool(index * shape.parts, shape.parts, shape.buckets * shape.parts) as spool:
            _Gathered(spool, runs)
            for _, table in spool.parts(0):
                yield from map(self.made, sorted_latest(table))

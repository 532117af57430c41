"""The distributed fold: the entry with the highest txid per key, over parts of the journals (principle 1).

Each map task folds a stretch of the journal, some blocks at a time, and cuts the remaining entries by ranges of the key
space. Spark shuffles these runs by range, as a few large values instead of rows. Reduce tasks fold the runs of a range
and sort them by key. A journal too large for a single shuffle is folded with two
(:mod:`sowctl.spark.jobs.folds.fold_layout`), and a range larger than memory part by part
(:mod:`sowctl.spark.jobs.folds.run_spool`). Memory: 32 MiB in a map task, a part of a range in a reduce task. Called by
the job that rebuilds stores, which reads sorted files, and by jobs that read the state at an instant, which may also
process the records without files. Runs are defined in :mod:`sowctl.spark.jobs.folds.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from sowctl.engine.fold.last_per_key import retain_versions
from sowctl.engine.sources.source import Pairs
from sowctl.engine.topics.retention import Retention, build_retention
from sowctl.identity.keyspace import find_last_occurrences, iterate_parts
from sowctl.journal.stretch import find_spans
from sowctl.remote.place import Place
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs.folds.fold_layout import MAX_MAP_TASKS, FoldLayout, choose_layout
from sowctl.spark.jobs.folds.key_sample import (
    TxidMarks,
    TxidSet,
    choose_sample,
    create_mark_accumulator,
    read_winners,
    record_txids,
    select_history_txids,
)
from sowctl.spark.jobs.folds.run_spool import RunSpool
from sowctl.spark.jobs.folds.runs import (
    Run,
    RunFacts,
    build_entry_batch,
    encode_stream,
    iterate_latest,
    iterate_timelines,
    select_latest,
)
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.progress import Work, WorkCounter, create_work_counter
from sowctl.spark.jobs.tasks import (
    carry_iterator,
    create_gap_accumulator,
    describe_stages,
    format_attempt_name,
    report_gaps,
)
from sowctl.spark.origin import Origin
from sowctl.spark.pairfiles import PairFile, split_pairs, write_pairs
from sowctl.spark.reading.journalplan import (
    PlannedStretch,
    build_origin,
    compute_partition_bytes,
    open_journal,
    split_partitions,
)
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD, Accumulator
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.journal.block import Block, Gap
    from sowctl.journal.blockcodec import BlockHeader
    from sowctl.journal.reader import Journal
    from sowctl.journal.stretch import Segment, Span
    from sowctl.values.topicref import TopicRef

MAX_SAMPLED_FILES = 8
"""Maximum files of which a block is sampled to estimate the size of the entries."""
R = TypeVar("R")


class FoldedFile(NamedTuple):
    """A file of sorted records that a reduce task has written, and a second file: of versions if the topic has History,
    otherwise of the txids of the records."""

    topic: int
    bucket: int
    records: str
    versions: str
    txids: str
    entries: int
    payload_bytes: int


class FoldPlan(DescribedStruct, frozen=True):
    """Plan of a fold: its topics in order, its layout, and the range of entries: txids above ``after`` and up to
    ``until``, not later than ``at``. ``origin`` is the origin of the journal."""

    origin: Origin
    topic_refs: tuple[TopicRef, ...]
    rules: tuple[Retention | None, ...]
    after: int
    until: int
    at: int | None
    shape: FoldLayout


class FoldResult(DescribedStruct, frozen=True):
    """Result of a fold: per topic the files in key order, the number of entries folded, and time and txid of the last
    one; the number of tasks; the txids of the records whose keys are to be checked."""

    files: tuple[tuple[FoldedFile, ...], ...]
    entries: tuple[int, ...]
    latest: tuple[int, ...]
    last_txid: tuple[int, ...]
    partitions: int
    sample: TxidSet

    @property
    def bytes(self) -> int:
        """Bytes of the stored values of all records."""
        return sum(one.payload_bytes for files in self.files for one in files)


class Fold(DescribedStruct):
    """A planned fold. Executors read the journal when a result is first requested, and only once, because Spark keeps
    the output of the shuffle. Each partition of ``runs`` has the runs of one bucket."""

    plan: FoldPlan
    runs: RDD[Any] | None
    on_gap: Callable[[Gap], None]
    told: Accumulator[Any] | None = None
    marks: Accumulator[Any] | None = None

    @property
    def topic_count(self) -> int:
        """Number of topics in the fold."""
        return len(self.plan.topic_refs)

    def write_files(self, directory: Place) -> FoldResult:
        """Write sorted files of records, and of versions, to ``directory``, by the reduce tasks. If the fold is
        ``marked``, the result also has the sample of records that a replay would check."""
        files: list[list[FoldedFile]] = [[] for _ in self.plan.topic_refs]
        entries, newest, last = ([0] * self.topic_count for _ in range(3))
        if self.runs is not None:
            with translate_errors():
                # Spark returns the result of one attempt per task, so files of other attempts are not in the result.
                found = self.runs.mapPartitionsWithIndex(_Reducer(self.plan, directory)).collect()
            for folded, facts in found:
                topic = folded.topic
                files[topic].append(folded)
                entries[topic] += facts.entries
                newest[topic] = max(newest[topic], facts.latest)
                last[topic] = max(last[topic], facts.last_txid)
        self.report_gaps()
        # Buckets are ranges of the key space, so files sorted by bucket are in key order.
        ordered = tuple(tuple(sorted(row, key=lambda one: one.bucket)) for row in files)
        tasks = self.plan.shape.task_count if self.runs is not None else 0
        sample = self._sample(ordered, directory)
        return FoldResult(ordered, tuple(entries), tuple(newest), tuple(last), tasks, sample)

    def _sample(self, files: Sequence[Sequence[FoldedFile]], directory: Place) -> TxidSet:
        """Return the txids of the records that a replay would check; none without marks of tasks."""
        first, last = self.plan.after + 1, self.plan.until
        sample = TxidSet(first, last)
        told = self.marks.value if self.marks is not None else []
        for topic, (rule, row) in enumerate(zip(self.plan.rules, files, strict=True)):
            marked = sample if rule is not None else TxidSet(first, last)
            for marks in told:
                if marks.topic == topic:
                    marked.add(marks.to_array())
            # With History, noted entries are checked if they become records. Otherwise the sample of each block depends
            # on which of its entries become records.
            if rule is None and self.marks is not None:
                winners = TxidSet(first, last)
                for txids in read_winners(directory / one.txids for one in row):
                    winners.add(txids)
                choose_sample(sample, marked, winners)
        return sample

    def map_records(self, made: Callable[[Pairs], R]) -> RDD[R] | None:
        """Map batches of the topic's records with ``made`` on executors, in key order in and across partitions, without
        writing files. None if the topic has no entries to fold."""
        assert self.topic_count == 1
        return None if self.runs is None else self.runs.mapPartitionsWithIndex(_RecordMapper(self.plan, made))

    def report_gaps(self) -> None:
        """Report the gaps that tasks have found."""
        if self.told is not None:
            report_gaps(self.told, self.on_gap)


def prepare_fold(
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
    """Plan a fold of the entries of ``topics`` above the txid ``after``, up to ``until`` and ``at``.

    ``seen``: executors see the journal's local files. Otherwise they read the archive at its URL, and this process
    immediately reads the files that are not archived. ``marked``: tasks report the txids from which
    :meth:`Fold.write_files` selects the records that a replay would check.
    """
    plan, stretches = plan_fold(spark, log, topics, after, until, at, None if seen else log.find_archived_file)
    if not stretches:
        return Fold(plan, None, log.on_gap)
    describe_stages(spark, "fold " + ", ".join(topic.name for topic in topics))
    told, marks = create_gap_accumulator(spark), create_mark_accumulator(spark) if marked else None
    counter = create_work_counter(_measure_table)
    own: list[tuple[int, Run]] = []
    if not seen:
        here = _Mapper(plan, told, marks)
        mine = [one for one in stretches if not all(log.find_archived_file(part.number) for part in one.parts)]
        own = [run for stretch in mine for run in here.iterate_runs(stretch)]
        stretches = [one for one in stretches if one not in mine]
        # Executors do not get the path of the journal directory, because on their machines it may contain other files.
        plan = replace(plan, origin=replace(plan.origin, path=log.archive or log.directory, archive=None))
    if not stretches and not own:
        # All files are local, and none has an entry of these topics, so there are no runs to shuffle.
        return Fold(plan, None, log.on_gap, told)
    runs = _shuffle_runs(spark, plan, stretches, _Mapper(plan, told, marks, counter), own)
    return Fold(plan, runs, log.on_gap, told, marks)


def plan_fold(
    spark: SparkSession,
    log: Journal,
    topics: Sequence[TopicConfig],
    after: int,
    until: int,
    at: int | None,
    apart: Callable[[int], object] | None = None,
) -> tuple[FoldPlan, list[PlannedStretch]]:
    """Return the plan of a fold of ``topics`` above ``after``, up to ``until`` and ``at``, and the stretch of each map
    task. ``apart`` as in :func:`plan_fold_tasks`."""
    segments = log.list_segments()
    after, until = max(after, segments[0].first_txid - 1), min(until, segments[-1].last_txid)
    stretches, shape = plan_fold_tasks(log, segments, after, until, spark.sparkContext.defaultParallelism, apart)
    plan = FoldPlan(
        build_origin(log, 0),
        tuple(topic.ref for topic in topics),
        tuple(build_retention(topic.history) for topic in topics),
        after,
        until,
        at,
        shape,
    )
    return plan, stretches


class JournalLookup(Protocol):
    """The methods of a journal that a plan uses to look into files."""

    def locate_txid(self, segment: Segment, txid: int) -> tuple[int, int]:
        """Return the approximate position of a txid in a file."""
        ...

    def sample_header(self, segment: Segment) -> BlockHeader | None:
        """Return the header of one block of a file."""
        ...


def plan_fold_tasks(
    log: JournalLookup,
    segments: Sequence[Segment],
    after: int,
    until: int,
    parallel: int,
    apart: Callable[[int], object] | None = None,
) -> tuple[list[PlannedStretch], FoldLayout]:
    """Plan the stretches that map tasks read of these files, and the layout of the fold, on ``parallel`` processors.

    A task reads either files for which ``apart`` returns a true value for their number, or others, not both.
    """
    wanted = find_spans(segments, after, until, log.locate_txid)
    stored = sum(span.size for span in wanted)
    size = max(compute_partition_bytes(stored, 2 * parallel, JOB_LIMITS.min_task_bytes), -(-stored // MAX_MAP_TASKS))
    # Each group of neighbours of the same kind is split separately. The archive has the oldest files, so files of one
    # kind are adjacent.
    kinds = [list(some) for _, some in groupby(wanted, lambda span: apart is not None and apart(span.segment.number))]
    stretches = [one for some in kinds for one in split_partitions(some, after, until, size)]
    return stretches, choose_layout(max(1, len(stretches)), estimate_entry_bytes(wanted, log.sample_header), parallel)


def _shuffle_runs(
    spark: SparkSession,
    plan: FoldPlan,
    stretches: Sequence[PlannedStretch],
    mapper: _Mapper,
    own: Sequence[tuple[int, Run]],
) -> RDD[Any]:
    """Shuffle the runs of map tasks, and ``own``, to one partition per bucket. Map tasks have already folded their
    entries: without History, only the last entry of each key is shuffled."""
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


def estimate_entry_bytes(wanted: Sequence[Span], sample: Callable[[Segment], BlockHeader | None]) -> int:
    """Estimate the memory in bytes that the entries of these files need: payloads, and 96 bytes per entry.

    The ratio to the stored size is estimated from a few blocks.
    """
    step = max(1, len(wanted) // MAX_SAMPLED_FILES)
    stored = raw = 0
    for span in wanted[step // 2 :: step]:
        header = sample(span.segment)
        if header is not None and header.count:
            stored += header.size
            raw += header.payloads_raw + 96 * header.count
    total = sum(span.size for span in wanted)
    return total * raw // stored if stored else total


def _measure_table(table: pyarrow.Table) -> Work:
    import pyarrow.compute as pc

    return table.num_rows, pc.sum(pc.binary_length(table["payload"])).as_py() or 0


class _Mapper:
    def __init__(
        self,
        plan: FoldPlan,
        told: Accumulator[Any],
        marks: Accumulator[Any] | None,
        counter: WorkCounter[pyarrow.Table] | None = None,
    ) -> None:
        self.plan = plan
        self.told = told
        self.marks = marks
        self.counter = counter

    def __call__(self, stretches: Iterable[PlannedStretch]) -> Iterator[tuple[int, Run]]:
        return carry_iterator(run for stretch in stretches for run in self.iterate_runs(stretch))

    def iterate_runs(self, stretch: PlannedStretch) -> Iterator[tuple[int, Run]]:
        """Yield the runs of a stretch, folding some blocks at a time."""
        with open_journal(self.plan.origin, task=stretch) as log:
            log.on_gap = lambda gap: self.told.add([gap])
            for blocks in _batch_blocks(stretch.read_blocks(log, self.plan.after, self.plan.until)):
                yield from self.fold_blocks(blocks)

    def fold_blocks(self, blocks: list[Block]) -> Iterator[tuple[int, Run]]:
        """Fold blocks; yields, for each topic, every range of keys that has entries, with its run."""
        import numpy as np
        import pyarrow as pa

        plan = self.plan
        buckets = plan.shape.buckets if plan.shape.slices == 1 else plan.shape.coarse
        for number, (ref, rule) in enumerate(zip(plan.topic_refs, plan.rules, strict=True)):
            taken = (build_entry_batch(block, ref, plan.after, plan.until, plan.at) for block in blocks)
            batches = [found for found in taken if found is not None]
            if not batches:
                continue
            if self.marks is not None:
                # The first entry marks the start of a block: all records of the block have this txid or a higher one.
                some = [batch["txid"].to_numpy() for batch in batches]
                some = [txids[:1] if rule is None else select_history_txids(txids) for txids in some]
                self.marks.add([TxidMarks.from_array(number, np.concatenate(some))])
            table = pa.Table.from_batches(batches).combine_chunks()
            if self.counter is not None:
                self.counter.add(table)
            keys = table["key"].to_numpy()
            # Only the first run contains the count of these blocks, so that the sum counts each entry once.
            facts = RunFacts(len(keys), table["time"][-1].as_py(), table["txid"][-1].as_py())
            # A topic with History needs every version; all others need the last entry of each key.
            chosen = find_last_occurrences(keys) if rule is None else np.arange(len(keys))
            for bucket, places in iterate_parts(keys[chosen], buckets):
                run = encode_stream(table.take(pa.array(chosen[places])))
                yield bucket, Run(blocks[0].first_txid, facts, run, number)
                facts = RunFacts(0, facts.latest, facts.last_txid)


def _batch_blocks(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield batches of consecutive blocks, each as large as a task folds at a time (``fold_batch_bytes``)."""
    found: list[Block] = []
    size = 0
    for block in blocks:
        found.append(block)
        size += block.header.payloads_raw + 96 * len(block)
        if size >= JOB_LIMITS.fold_batch_bytes:
            yield found
            found, size = [], 0
    if found:
        yield found


class _PartitionRuns:
    """Adds the runs of one partition of a shuffle to a spool; collects facts and first txid of each topic."""

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
    """Folds the runs of one slice in a range of keys, between the two shuffles."""

    def __init__(self, plan: FoldPlan) -> None:
        self.plan = plan

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[int, Run]]:
        return carry_iterator(self.combine_runs(index, runs))

    def combine_runs(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[int, Run]]:
        """Yield the runs of all buckets in the range."""
        import pyarrow as pa

        shape = self.plan.shape
        parts = shape.coarse_parts
        with RunSpool(index * parts, parts, shape.coarse * parts) as spool:
            found = _PartitionRuns(spool, runs)
            for topic, facts in found.facts.items():
                for _, table in spool.read_parts(topic):
                    some = select_latest(table) if self.plan.rules[topic] is None else table
                    for bucket, places in iterate_parts(some["key"].to_numpy(), shape.buckets):
                        # As in a map task, only the first run contains the counts.
                        yield bucket, Run(found.first[topic], facts, encode_stream(some.take(pa.array(places))), topic)
                        facts = RunFacts(0, facts.latest, facts.last_txid)


class _Reducer:
    """The reduce task of a fold that writes records to files."""

    def __init__(self, plan: FoldPlan, directory: Place) -> None:
        self.plan = plan
        self.directory = directory

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[FoldedFile, RunFacts]]:
        return carry_iterator(self.reduce_runs(index, runs))

    def reduce_runs(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[FoldedFile, RunFacts]]:
        """Write the files of one bucket, for every topic with runs."""
        shape = self.plan.shape
        with RunSpool(index * shape.parts, shape.parts, shape.buckets * shape.parts) as spool:
            found = _PartitionRuns(spool, runs)
            for topic, facts in found.facts.items():
                # The name contains the attempt, because Spark may run a task twice, and both write files.
                name = f"fold-{topic}-{index}-{format_attempt_name()}"
                place, rule = self.directory / name, self.plan.rules[topic]
                tables = (table for _, table in spool.read_parts(topic))
                if rule is None:
                    with PairFile(self.directory / f"{name}-t") as txids:
                        records_left = chain.from_iterable(map(iterate_latest, tables))
                        count, size = write_pairs(place, record_txids(records_left, txids))
                    yield FoldedFile(topic, index, name, "", f"{name}-t", count, size), facts
                    continue
                with PairFile(place) as records, PairFile(self.directory / f"{name}-v") as versions:
                    for table in tables:
                        _write_retained(table, rule, records, versions)
                yield FoldedFile(topic, index, name, f"{name}-v", "", records.count, records.size), facts


def _write_retained(table: pyarrow.Table, rule: Retention, records: PairFile, versions: PairFile) -> None:
    """Write the records of a part, and the versions that a topic with History retains."""
    left = retain_versions(iterate_timelines(table), rule)
    for part in split_pairs(list(zip(left.keys, left.values, strict=True)), JOB_LIMITS.part_pairs):
        records.add(part)
    for part in split_pairs(left.versions, JOB_LIMITS.part_pairs):
        versions.add(part)


class _RecordMapper(Generic[R]):
    """The reduce task of a fold that passes records on without files."""

    def __init__(self, plan: FoldPlan, made: Callable[[Pairs], R]) -> None:
        self.plan = plan
        self.made = made

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[R]:
        return carry_iterator(self.map_runs(index, runs))

    def map_runs(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[R]:
        """Yield the records of one bucket, in batches mapped with ``made``."""
        shape = self.plan.shape
        with RunSpool(index * shape.parts, shape.parts, shape.buckets * shape.parts) as spool:
            _PartitionRuns(spool, runs)
            for _, table in spool.read_parts(0):
                yield from map(self.made, iterate_latest(table))

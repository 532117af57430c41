"""rebuild: stores from journals, folded on Spark and put in place by the driver (``sowctl-pipeline-rebuild(1)``).

The fold is distributed; refusals, the place of the new store and what was appended meanwhile are replay's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.fold.blocks import EntrySpan
from sowctl.engine.fold.journal_fold import RecordCheck, append_sorted
from sowctl.engine.fold.rebuild import RebuildResult, RecordCheckFactory, assemble_store
from sowctl.engine.options import ReplayOptions
from sowctl.engine.topics.positions import build_definition, open_log
from sowctl.engine.verbs.replay import replay_topics
from sowctl.errors import RefusedError, UsageError
from sowctl.remote.place import Place, parse_place
from sowctl.spark.jobs.folds.distributed_fold import FoldResult, prepare_fold
from sowctl.spark.jobs.folds.key_sample import KeySampler
from sowctl.spark.jobs.folds.two_pass_fold import TwoPassFold, can_gather, gather_records
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.tasks import format_attempt_name, run_tasks
from sowctl.spark.jobs.visibility import require_visibility
from sowctl.spark.jvm.masters import is_local
from sowctl.spark.origin import Origin
from sowctl.spark.pairfiles import build_missing_error, read_pairs
from sowctl.spark.reading.journalplan import warn_unsplittable
from sowctl.store.builder import build_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.journal.writer import JournalWriter
    from sowctl.store.builder import StoreBuilder
    from sowctl.values.topicref import TopicRef

DEFAULT_OPTIONS = ReplayOptions()


def rebuild(
    spark: SparkSession,
    instance: Instance,
    topics: Sequence[TopicConfig],
    options: ReplayOptions = DEFAULT_OPTIONS,
    *,
    staging_directory: Place | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> JobReport:
    """Build the stores of ``topics`` anew from the journals, in one pass over them, and put them in place.

    ``options`` are replay's: ``into`` builds them elsewhere, ``until`` needs that, ``force`` as there. Topics that no
    journal records, and those without a file unless ``into`` is given, are passed over. Raises what replay raises.
    """
    if options.verify or options.dry_run:
        raise UsageError(
            "SOW-SPK-062", "a rebuild on Spark has neither --verify nor a dry run", hint="use sowctl replay"
        )
    started = monotonic()
    # One that is named twice is worked on once.
    topics = list(dict.fromkeys(topics))
    # A topic that is not journalled has nothing to be rebuilt from, and a transient one no store to be rebuilt.
    wanted = [topic for topic in topics if topic.journalled and (topic.file is not None or options.into is not None)]
    report = JobReport("rebuild", tuple(topic.name for topic in topics), options.into)
    chosen = replace(options, rebuild=True)
    if not wanted:
        report.details["topics"] = [asdict(one) for one in replay_topics(instance, topics, chosen)]
        return report
    # Refusals come before Spark has read anything: the dry run checks all that replay would.
    replay_topics(instance, wanted, replace(chosen, dry_run=True))
    directory = parse_place(options.journal) if options.journal is not None else None
    with hold_staging_area(instance, wanted[0], directory=staging_directory) as area:
        seen = require_visibility(spark, instance, area.place).journal
        with open_log(instance, directory=directory, whole=True) as log:
            last = log.read_last_txid()
            # The end is fixed before the fold: entries that are written meanwhile belong to no task.
            until = min(last, options.until_txid) if options.until_txid is not None else last
            warn_unsplittable(instance, log)
            result: FoldResult | TwoPassFold
            here = area.shared is None and is_local(spark.sparkContext.master or "")
            # Tasks of a gathering read parts of each other's files, anywhere in them: that takes a file system.
            if area.shared is None and can_gather(log, wanted, until):
                result = gather_records(spark, log, wanted, area.directory, until=until, at=options.until_time)
            else:
                folded = prepare_fold(spark, log, wanted, until=until, at=options.until_time, seen=seen, marked=True)
                result = folded.write_files(area.place)
            # Tasks write files of LMDB on this machine alone, where they can be mapped. A single store is written where
            # it is to lie.
            made: Sequence[str] = ()
            if here and len(wanted) > 1 and result.bytes > JOB_LIMITS.min_separate_bytes:
                origin = Origin(instance.config, None, None, None, instance.now)
                filler = _Filler(origin, tuple(wanted), result, area.directory, log.lineage, until)
                made = run_tasks(spark, range(len(wanted)), filler, what="fill the stores")
        places = {topic.ref: place for place, topic in enumerate(wanted)}
        put = _FoldedStores(result, places, area.place, EntrySpan(0, until, options.until_time), made)
        # Locks, checks and the exchange of files are replay's own; only the folding comes from Spark.
        told = replay_topics(instance, topics, chosen, fold=put)
    report.details["topics"] = [asdict(one) for one in told]
    report.read = sum(result.entries)
    report.records = sum(one.records for one in told)
    report.bytes = result.bytes
    report.partitions = result.partitions + len(made)
    report.seconds = monotonic() - started
    return report


class _FoldedStores:
    """Puts the folded records of topics into new stores: a :class:`sowctl.engine.verbs.replay.StoreRebuild`.

    ``places``: the number of each topic in ``result``, of which the files lie in ``directory``; ``span``: the entries
    that were folded; ``made``: the file of each topic that a task has filled already, or an empty text.
    """

    def __init__(
        self,
        result: FoldResult | TwoPassFold,
        places: dict[TopicRef, int],
        directory: Place,
        span: EntrySpan,
        made: Sequence[str],
    ) -> None:
        self._result, self._places, self._directory = result, places, directory
        self._span, self._made = span, made

    def __call__(
        self,
        instance: Instance,
        log: Journal,
        topics: list[TopicConfig],
        *,
        until: int | None = None,
        at: int | None = None,
        writer: JournalWriter | None = None,
        check_of: RecordCheckFactory | None = None,
    ) -> list[RebuildResult]:
        """Fill and place the stores. ``until`` and ``at`` are those of the span."""
        # Replay says that records are looked at. Here they come in another order, of which the same ones are picked,
        # by this process: what the types of messages are read from may lie on its machine alone.
        picked = partial(KeySampler, instance, sample=self._result.sample) if check_of is not None else None
        return [
            assemble_store(
                instance,
                log,
                topic,
                self._span,
                writer=writer,
                fill=partial(self._fill, self._places[topic.ref]),
                check_of=picked,
            )
            for topic in topics
        ]

    def _fill(self, place: int, builder: StoreBuilder, check: RecordCheck | None) -> tuple[int, int, int]:
        result = self._result
        if self._made and self._made[place]:
            # The task that filled it has made the same check of its records.
            path = Path(self._made[place])
            if not path.exists():
                raise build_missing_error(path)
            builder.take_over_file(path)
        else:
            _append(builder, check, result, place, self._directory)
        return result.entries[place], result.latest[place], result.last_txid[place]


class _Filler:
    """Puts the records of a topic into a file of LMDB beside the staged ones, as a task: so several are at once.

    Where their keys are refused there is no file: the driver fills the store itself, and so says it topic by topic.
    """

    def __init__(
        self,
        origin: Origin,
        topics: tuple[TopicConfig, ...],
        result: FoldResult | TwoPassFold,
        directory: Path,
        lineage: bytes,
        end: int,
    ) -> None:
        self.origin, self.topics, self.result = origin, topics, result
        self.directory, self.lineage, self.end = directory, lineage, end

    def __call__(self, place: int) -> str:
        instance, topic = self.origin.build_instance(), self.topics[place]
        assert instance.config is not None
        path = self.directory / f"store-{place}-{format_attempt_name()}"
        with build_store(
            path,
            build_definition(instance.config.name, topic),
            seam=instance.seam,
            now=instance.now,
            lineage=self.lineage,
            applied=self.end,
            command=instance.holder,
        ) as builder:
            check = KeySampler(instance, topic, self.result.sample)
            _append(builder, check, self.result, place, self.directory)
            try:
                check.finish()
            except RefusedError:
                # The topics before this one are to be put in place, as a replay would have done.
                return ""
            builder.hand_over_file(path)
        return str(path)


def _append(
    builder: StoreBuilder, check: RecordCheck | None, result: FoldResult | TwoPassFold, place: int, directory: Place
) -> None:
    """The folded records of a topic, and versions, in key order, as the builder wants them."""
    if isinstance(result, TwoPassFold):
        pairs = result.read_records(place)
        append_sorted(builder, pairs if check is None else check.watch_parts(pairs))
        return
    for one in result.files[place]:
        pairs = read_pairs(directory / one.records)
        append_sorted(builder, pairs if check is None else check.watch_parts(pairs))
        if one.versions:
            for keys, values in read_pairs(directory / one.versions):
                builder.append_versions(list(zip(keys, values, strict=True)))

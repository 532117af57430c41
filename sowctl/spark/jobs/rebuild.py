"""rebuild: build stores from journals, folded on Spark and installed by the driver (``sowctl-pipeline-rebuild(1)``).

Only the fold is distributed. Replay does the rest: it checks the request, installs the new stores, and applies entries
that were appended during the fold.
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
    """Rebuild the stores of ``topics`` from the journals, and install them.

    ``options`` are those of replay: ``into`` builds the stores elsewhere, and is required for ``until``. Topics without
    a journal are skipped, and without ``into`` those that have no file. Raises UsageError ``SOW-SPK-062``, and what
    replay raises.
    """
    if options.verify or options.dry_run:
        raise UsageError(
            "SOW-SPK-062", "a rebuild on Spark has neither --verify nor a dry run", hint="use sowctl replay"
        )
    started = monotonic()
    # Process a topic that is named twice only once.
    topics = list(dict.fromkeys(topics))
    # A topic without a journal has no source for a rebuild, and a transient one has no store.
    wanted = [topic for topic in topics if topic.journalled and (topic.file is not None or options.into is not None)]
    report = JobReport("rebuild", tuple(topic.name for topic in topics), options.into)
    chosen = replace(options, rebuild=True)
    if not wanted:
        report.details["topics"] = [asdict(one) for one in replay_topics(instance, topics, chosen)]
        return report
    # A dry run makes all checks of replay, so that errors are raised before Spark reads anything.
    replay_topics(instance, wanted, replace(chosen, dry_run=True))
    directory = parse_place(options.journal) if options.journal is not None else None
    with hold_staging_area(instance, wanted[0], directory=staging_directory) as area:
        seen = require_visibility(spark, instance, area.place).journal
        with open_log(instance, directory=directory, whole=True) as log:
            last = log.read_last_txid()
            # The end is fixed before the fold, so that no task reads entries written during it.
            until = min(last, options.until_txid) if options.until_txid is not None else last
            warn_unsplittable(instance, log)
            result: FoldResult | TwoPassFold
            here = area.shared is None and is_local(spark.sparkContext.master or "")
            # In the two-pass fold, tasks and driver seek in files of other tasks, which requires a file system.
            if area.shared is None and can_gather(log, wanted, until):
                result = gather_records(spark, log, wanted, area.directory, until=until, at=options.until_time)
            else:
                folded = prepare_fold(spark, log, wanted, until=until, at=options.until_time, seen=seen, marked=True)
                result = folded.write_files(area.place)
            # Tasks write LMDB files only on this machine, because the files are memory-mapped. A single store is
            # written directly to its final location.
            made: Sequence[str] = ()
            if here and len(wanted) > 1 and result.bytes > JOB_LIMITS.min_separate_bytes:
                origin = Origin(instance.config, None, None, None, instance.now)
                filler = _Filler(origin, tuple(wanted), result, area.directory, log.lineage, until)
                made = run_tasks(spark, range(len(wanted)), filler, what="fill the stores")
        places = {topic.ref: place for place, topic in enumerate(wanted)}
        put = _FoldedStores(result, places, area.place, EntrySpan(0, until, options.until_time), made)
        # Replay takes the locks, checks and replaces the files; only the fold runs on Spark.
        told = replay_topics(instance, topics, chosen, fold=put)
    report.details["topics"] = [asdict(one) for one in told]
    report.read = sum(result.entries)
    report.records = sum(one.records for one in told)
    report.bytes = result.bytes
    report.partitions = result.partitions + len(made)
    report.seconds = monotonic() - started
    return report


class _FoldedStores:
    """Writes the folded records of topics to new stores: a :class:`sowctl.engine.verbs.replay.StoreRebuild`.

    ``places``: the index of each topic in ``result``, whose files are in ``directory``; ``span``: the folded entries;
    ``made``: by topic, the store file that a task has filled, or an empty string.
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
        """Fill and install the stores. ``until`` and ``at`` are those of the span."""
        # Replay requests a check of records. Here they arrive in another order, so a sampler selects the records that
        # replay would check. It runs in this process, because files of message types may exist only on this machine.
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
            # The task that filled the file has already checked its records.
            path = Path(self._made[place])
            if not path.exists():
                raise build_missing_error(path)
            builder.take_over_file(path)
        else:
            _append(builder, check, result, place, self._directory)
        return result.entries[place], result.latest[place], result.last_txid[place]


class _Filler:
    """Writes the records of a topic to an LMDB file in the staging directory; topics are separate, parallel tasks.

    Returns an empty string if the check rejects the keys. The driver then fills the store itself, and raises the error
    when it reaches that topic.
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
                # Not raised here: as in a replay, the topics before this one are installed first.
                return ""
            builder.hand_over_file(path)
        return str(path)


def _append(
    builder: StoreBuilder, check: RecordCheck | None, result: FoldResult | TwoPassFold, place: int, directory: Place
) -> None:
    """Append the folded records of a topic, and their versions, to the builder in key order."""
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

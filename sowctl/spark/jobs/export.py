"""export: write topics, or a range of the journal, as data sets (``sowctl-pipeline-export(1)``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.maintenance.journal_search.entries import EntryRecord, JournalEntries
from sowctl.errors import ConfigError, UsageError
from sowctl.journal.format import OPERATIONS
from sowctl.output.ndjson import encode_values
from sowctl.spark.jobs.outputs.datasets import build_text_columns, format_column_name, write_rows
from sowctl.spark.jobs.outputs.delivery import discard_if_failed, remove_data_set
from sowctl.spark.jobs.outputs.output_spec import Output, WriteTotals
from sowctl.spark.jobs.outputs.topics import write_topic
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.tasks import TaskRows, create_gap_accumulator, report_gaps
from sowctl.spark.jobs.visibility import require_visibility
from sowctl.spark.origin import Origin
from sowctl.spark.reading.journalplan import PlannedStretch, open_journal, plan_stretches
from sowctl.values.paths import parse_path
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    import pyarrow
    from pyspark import Accumulator
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.entries import Entry
    from sowctl.remote.place import Place
    from sowctl.spark.reading.journalreader import JournalReader
    from sowctl.values.paths import Path as FieldPath


class ExportSelection(Struct, frozen=True):
    """Selection of journal entries by topics (empty: all), txids and times (microseconds UTC); bounds are inclusive."""

    topic_refs: tuple[TopicRef, ...] = ()
    from_txid: int = 1
    to_txid: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    logical: tuple[tuple[str, str, str], ...] = ()
    """Topic, type and logical topic: for topics in this list, only these logical topics are selected."""

    @property
    def filtered_topics(self) -> tuple[TopicRef, ...]:
        """The topics of which only some logical topics are selected."""
        return tuple(dict.fromkeys(TopicRef(name, kind) for name, kind, _ in self.logical))

    def with_topics(self, topics: Sequence[TopicConfig]) -> ExportSelection:
        """Return a copy with the same bounds for other topics, or logical topics."""
        refs = tuple(dict.fromkeys(topic.ref for topic in topics))
        # A Pattern topic that is named itself includes all its logical topics, also those that are named in addition.
        whole = {topic.ref for topic in topics if topic.logical is None}
        logical = tuple(
            (*topic.ref, topic.logical_name)
            for topic in topics
            if topic.logical_name is not None and topic.ref not in whole
        )
        return replace(self, topic_refs=refs, logical=logical)

    def includes_entry(self, entry: Entry) -> bool:
        """Return whether an entry belongs to the selection."""
        return (
            (not self.topic_refs or entry.topic in self.topic_refs)
            and (entry.topic not in self.filtered_topics or (*entry.topic, _logical(entry)) in self.logical)
            and entry.txid >= self.from_txid
            and (self.to_txid is None or entry.txid <= self.to_txid)
            and (self.from_time is None or entry.time >= self.from_time)
            and (self.to_time is None or entry.time <= self.to_time)
        )


def export(
    spark: SparkSession,
    instance: Instance,
    topics: Sequence[TopicConfig],
    output: Output,
    *,
    staging_directory: Place | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> JobReport:
    """Write the current records of ``topics``. Several topics are written to subdirectories ``_topic=NAME``.

    Raises what reading raises, RefusedError ``SOW-SPK-064`` if the output exists, and UsageError.
    """
    started = monotonic()
    output.check()
    report = JobReport("export", tuple(topic.label for topic in topics), output.label)
    if output.kind == "sow" and len(topics) != 1:
        raise UsageError("SOW-SPK-065", "a .sow file has the records of one topic", hint="export the topics one by one")
    if output.table_name is not None and len(topics) != 1:
        raise UsageError("SOW-SPK-065", "a table has the records of one topic", hint="export the topics one by one")
    several = len(topics) > 1
    with ExitStack() as undo:
        if several:
            undo.enter_context(discard_if_failed(spark, output))
        for topic in topics:
            place = replace(output, path=output.join_path(f"_topic={_escape_name(topic.label)}")) if several else output
            # The format may follow from the suffix of the output, which the directories of topics do not have.
            place = replace(place, format=output.kind)
            with hold_staging_area(instance, topic, directory=staging_directory) as area:
                seen = require_visibility(spark, instance, area.place)
                written = write_topic(spark, instance, topic, None, place, area.place, seen)
            if several and not output.force:
                # If a later topic fails, remove the topics already written: an export is complete or absent.
                undo.push(partial(_remove_if_failed, spark, place))
            _count(report, written)
    report.details["format"] = output.kind
    report.seconds = monotonic() - started
    return report


def _remove_if_failed(spark: SparkSession, output: Output, kind: type[BaseException] | None, *_: object) -> None:
    if kind is not None:
        remove_data_set(spark, output)


def export_journal(
    spark: SparkSession,
    instance: Instance,
    entries: ExportSelection,
    output: Output,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> JobReport:
    """Write journal entries as envelopes, one per line, or with the columns of the data source ``sow-journal``.

    ``output.partition_by`` may name columns, such as ``_topic``, and, in exports of one topic, fields of its messages.
    Raises the same errors as :func:`export`.
    """
    started = monotonic()
    output.check()
    if output.kind == "sow":
        raise UsageError(
            "SOW-SPK-065", "a .sow file has records, not journal entries", hint="use sowctl pipeline snapshot"
        )
    require_visibility(spark, instance)
    origin = Origin(instance.config, None, None, None, instance.now)
    told = create_gap_accumulator(spark)
    lines = output.kind == "ndjson"
    rows = _lines(spark, origin, entries, told) if lines else _columns(spark, origin, entries, output)
    written = write_rows(rows, output, f"export {output.label}")
    report_gaps(told, lambda gap: instance.notify_once(f"gap {gap.path}@{gap.offset}", gap.note))
    names = tuple(dict.fromkeys(name for name, _ in entries.topic_refs))
    report = JobReport("export", names, output.label)
    _count(report, written)
    report.details["format"] = output.kind
    report.seconds = monotonic() - started
    return report


def _logical(entry: Entry) -> str:
    return (entry.logical_topic or b"").decode("utf-8", "replace")


LINE_COLUMNS = "_payload_bytes BIGINT, value BINARY, _topic STRING, _operation STRING"


def _count(report: JobReport, written: WriteTotals) -> None:
    report.records += written.records
    report.read = report.records
    report.bytes += written.bytes
    report.partitions += written.partitions


def _escape_name(name: str) -> str:
    """Return a topic's name escaped for use as a directory name."""
    from urllib.parse import quote

    # A slash in the name would create nested directories.
    return quote(name, safe=" ")


def _lines(spark: SparkSession, origin: Origin, entries: ExportSelection, told: Accumulator[Any]) -> TaskRows[Any]:
    """Return the entries as envelopes, one per line."""
    from sowctl.engine.topics.positions import open_log

    # The end is fixed here, so that no task reads entries written during the export.
    with open_log(origin.build_instance(), whole=True) as log:
        parts = plan_stretches(log, entries.from_txid - 1, entries.to_txid, None)
    return TaskRows(spark, parts, _Lines(origin, entries, told), LINE_COLUMNS)


class _Lines:
    """Encodes the entries of a stretch as lines, on an executor."""

    def __init__(self, origin: Origin, entries: ExportSelection, told: Accumulator[Any]) -> None:
        self.origin = origin
        self.entries = entries
        self.told = told

    def __call__(self, part: PlannedStretch) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        instance = self.origin.build_instance()
        with open_journal(self.origin, task=part) as log:
            log.on_gap = lambda gap: self.told.add([gap])
            for block in part.read_blocks(log, 0, part.until):
                rows = [_line(instance, entry) for entry in block.iter_entries() if self.entries.includes_entry(entry)]
                if rows:
                    sizes, lines, names, operations = zip(*rows, strict=True)
                    columns = [pa.array(sizes, pa.int64()), pa.array(lines, pa.binary()), pa.array(names)]
                    yield pa.RecordBatch.from_arrays(
                        [*columns, pa.array(operations)], ["_payload_bytes", "value", "_topic", "_operation"]
                    )


def _line(instance: Instance, entry: Entry) -> tuple[int, bytes, str, str]:
    name, message_type = entry.topic
    try:
        kind = instance.find_message_type(message_type)
    except ConfigError:
        # A journal outlives its configuration: messages of a removed type are exported as bytes.
        kind = instance.find_message_type("binary")
    batch = JournalEntries(name, message_type, kind, [EntryRecord(entry, instance.publisher_id, data=True)])
    return len(entry.payload), encode_values(batch, meta=True)[0], name, OPERATIONS[entry.operation]


def _columns(spark: SparkSession, origin: Origin, entries: ExportSelection, output: Output) -> TaskRows[Any]:
    """Return the entries with the columns of the data source."""
    from pyspark.sql.types import StructType

    from sowctl.spark.reading.bounds import NumberRange
    from sowctl.spark.reading.journalbatches import JournalQuery
    from sowctl.spark.reading.journalreader import JournalReader
    from sowctl.spark.schema import JOURNAL_COLUMNS, build_ddl

    paths = tuple(parse_path(text) for text in output.partition_by if text.startswith("/"))
    name, kind = entries.topic_refs[0] if len(entries.topic_refs) == 1 else (None, None)
    # Reading fields requires the message type of a single topic.
    if paths and kind is None:
        raise UsageError("SOW-SPK-065", "partitions by field require a single topic", hint="name one topic")
    # All columns, including those that the data source omits by default, so that an export loses no data.
    columns = build_ddl(JOURNAL_COLUMNS, tuple(JOURNAL_COLUMNS), None)
    txids, times = NumberRange(entries.from_txid, entries.to_txid), NumberRange(entries.from_time, entries.to_time)
    query = JournalQuery(origin, name, kind, txids=txids, times=times)
    reader = JournalReader(query, cast(StructType, StructType.fromDDL(columns)))
    made = f"_payload_bytes BIGINT, {columns}" + "".join(f", `{format_column_name(path)}` STRING" for path in paths)
    return TaskRows(spark, reader.partitions(), _Columns(reader, entries, paths), made)


class _Columns:
    """Reads the entries of a partition and adds payload sizes and partition columns, on an executor."""

    def __init__(self, reader: JournalReader, entries: ExportSelection, paths: tuple[FieldPath, ...]) -> None:
        self.reader = reader
        self.entries = entries
        self.paths = paths

    def __call__(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = None
        if self.paths and self.reader.query.message_type is not None:
            kind = self.reader.query.origin.build_instance().find_message_type(self.reader.query.message_type)
            texts = kind.build_key_extractor(self.paths)
        for batch in self.reader.read(partition):
            batch = _select_entries(batch, self.entries)
            payload = batch.column("payload")
            sizes = pc.fill_null(pc.binary_length(payload), 0).cast(pa.int64())
            columns, names = [sizes, *batch.columns], ["_payload_bytes", *batch.schema.names]
            if texts is not None:
                columns += build_text_columns(texts, payload, len(self.paths))
                names += map(format_column_name, self.paths)
            yield pa.RecordBatch.from_arrays(columns, names)


def _select_entries(batch: pyarrow.RecordBatch, entries: ExportSelection) -> pyarrow.RecordBatch:
    """Return the entries of the selected topics and logical topics. A reader filters only by a single topic."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def of(name: str, kind: str) -> pyarrow.Array:
        return pc.and_(pc.equal(batch.column("_topic"), name), pc.equal(batch.column("_message_type"), kind))

    wanted = []
    if len(entries.topic_refs) > 1:
        wanted.append(reduce(pc.or_, [of(*ref) for ref in entries.topic_refs]))
    for ref in entries.filtered_topics:
        meant = pa.array([one[2] for one in entries.logical if one[:2] == ref], pa.string())
        wanted.append(pc.or_(pc.invert(of(*ref)), pc.is_in(batch.column("_logical_topic"), meant)))
    return batch.filter(reduce(pc.and_, wanted)) if wanted else batch

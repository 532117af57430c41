"""stream: journal entries as they are committed, to a data set, to a function, or into another topic
(``sowctl-pipeline-stream(1)``).

Every batch is written exactly once: Spark's checkpoint says which entries were read, the data set's log or the topic's
journal which were written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct

from sowctl.errors import ConfigError, UsageError
from sowctl.remote.place import RemotePath
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.outputs.datasets import build_text_columns, format_column_name, freeze_instance
from sowctl.spark.jobs.outputs.lakes import is_table, require_lake
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.tasks import map_batches
from sowctl.spark.reading.initial_state import build_state_error
from sowctl.structs import DescribedStruct
from sowctl.values.paths import parse_path

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.values.paths import Path as FieldPath


class Progress(Struct, frozen=True):
    """Progress of a stream: what it has dealt with since it began, and its distance to its journal's end.

    Of the entries that were ``read``, ``records`` were written, with ``bytes`` of payload. ``behind`` are the entries
    of the journal, of all topics, that no batch has read yet, ``bytes_behind`` their bytes as stored.
    """

    batches: int = 0
    read: int = 0
    records: int = 0
    bytes: int = 0
    behind: int = 0
    bytes_behind: int = 0


class StreamEntry(NamedTuple):
    """An entry that is shown. A deletion has no payload; ``topic`` is the logical one where there is one, ``sow_key``
    None of a topic without keys."""

    operation: str
    payload: bytes | None
    txid: int
    topic: str
    sow_key: int | None


Show = Callable[[list[StreamEntry]], None]
"""Takes entries, some at a time, in txid order."""
SHOW_PARTITION_SIZE = "4MB"
"""About how much of the journal, as stored, the driver holds at once to show it: a partition."""
POLL_INTERVAL_SECONDS = 0.2
"""Seconds between two looks at how far it is; Spark takes fractions, whatever it declares."""
START_PAUSE_SECONDS = 10.0
"""Seconds before a query is started a second time, and twice as many before the third: a load of the machine that made
Spark lose patience has not ended a moment later."""
MAX_START_ATTEMPTS = 3
"""How often a query is started before its end is an error, where that was Spark's impatience."""
LATE_START_TEXT = "failed to connect back"
"""Of Spark's words where the Python process of a source took more than ten seconds to start, on a busy machine."""
METRIC_NAME = "sowctl"
"""The name of what is counted while a batch is written."""
STREAM_COLUMNS = (
    "payload,_operation,_sow_key,_txid,_timestamp,_expiration,_topic,_logical_topic,_user_key,_correlation_id"
)


class StreamOptions(DescribedStruct, frozen=True):
    """Options of a stream: its source, its bounds and its target. Exactly one of ``output`` (a directory of files),
    ``into`` and ``show``.

    ``format`` is parquet, delta or iceberg; ``partition_by`` are columns, ``_date`` (the day of ``_timestamp``) among
    them, and, of one topic, paths of fields, whose values make directories of the output.

    ``checkpoint`` is where the stream remembers how far it has come; needed but for ``show``. ``client`` names the
    publisher of ``into``. ``available_now``: end when what is there now has been dealt with. ``start`` is where a
    stream without a checkpoint begins: ``earliest``, ``latest`` (behind what is there), or ``state`` (with the records
    of the topic). ``max_entries`` and ``max_bytes`` (such as ``64MB`` of the journal as stored) bound a batch (None: as
    the data source does), with ``split_groups`` within groups, too; ``interval`` (such as ``5 seconds``) is the time
    between two.
    """

    checkpoint: str | None = None
    output: str | None = None
    into: TopicConfig | None = None
    client: str | None = None
    show: Show | None = None
    operation: str = "all"
    available_now: bool = False
    start: str = "earliest"
    max_entries: int | None = None
    max_bytes: str | None = None
    split_groups: bool = False
    interval: str | None = None
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()


def stream(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig | None,
    options: StreamOptions,
    *,
    stop: Callable[[], bool] = bool,
    tell: Callable[[Progress], None] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> JobReport:
    """Follow the journal's entries of ``topic`` (None: of all) until ``stop`` says so, or what is there is dealt with.

    ``tell`` is called with how far it is, at the beginning and whenever Spark has reported a batch; ``pause`` waits for
    some seconds before a query is started again.

    Raises UsageError ``SOW-SPK-068``, ConfigError without a TransactionLog, and what reading and writing raise.
    """
    started = monotonic()
    _check(instance, topic, options)
    require_lake(spark, options.format)
    if topic is not None and topic.logical_name is not None:
        from pyspark.sql import functions as f

        # The journal has the entries under the Pattern topic; the logical one is a column.
        frame = _read(spark, instance, topic, options).where(f.col("_logical_topic") == topic.logical_name)
    else:
        frame = _read(spark, instance, topic, options)
    counts = _EntryForwarder(options.show) if options.show is not None else None
    seen = _Totals(tell)
    for more in reversed(range(MAX_START_ATTEMPTS)):
        query = _write(frame, instance, topic, options, counts)
        try:
            _follow(query, seen, stop)
            break
        except Exception as error:
            # What writes knows its place by the checkpoint; what is shown must not be shown twice.
            if not more or LATE_START_TEXT not in str(error) or (counts is not None and counts.read_totals() != (0, 0)):
                raise
        _wait_before_start(START_PAUSE_SECONDS * (MAX_START_ATTEMPTS - more), stop, pause)
    names = (topic.label,) if topic is not None else ()
    report = JobReport("stream", names, options.output or (options.into.name if options.into is not None else None))
    report.read = seen.read
    report.records, report.bytes = counts.read_totals() if counts is not None else (seen.records, seen.bytes)
    report.partitions = seen.batches
    report.details = {"batches": seen.batches, "behind": seen.behind, "bytes_behind": seen.bytes_behind}
    report.seconds = monotonic() - started
    return report


def _wait_before_start(seconds: float, stop: Callable[[], bool], pause: Callable[[float], object]) -> None:
    """Wait, in pieces, so that a request to stop is seen by the query that is started next."""
    while seconds > 0 and not stop():
        pause(POLL_INTERVAL_SECONDS)
        seconds -= POLL_INTERVAL_SECONDS


def _follow(query: StreamingQuery, seen: _Totals, stop: Callable[[], bool]) -> None:
    """Wait for the end of a query, or until ``stop`` says so. Raises what ended it."""
    try:
        with translate_errors():
            # Waiting in pieces, so that a request to stop is seen and progress is counted before Spark forgets it.
            while not query.awaitTermination(cast(int, POLL_INTERVAL_SECONDS)):
                seen.add_progress(query)
                if stop():
                    query.stop()
                    break
    finally:
        if query.isActive:
            query.stop()
    # Counted once more: the last batches may have been reported since the last check.
    seen.add_progress(query)


def _check(instance: Instance, topic: TopicConfig | None, options: StreamOptions) -> None:
    sinks = [one for one in (options.output, options.into, options.show) if one is not None]
    if len(sinks) != 1:
        raise UsageError(
            "SOW-SPK-068",
            "a stream requires exactly one destination",
            hint="give an output, a topic, or standard output",
        )
    if instance.log is None or instance.config is None:
        raise ConfigError("SOW-ENG-020", "this configuration has no TransactionLog")
    if options.checkpoint is None and options.show is None:
        raise UsageError("SOW-SPK-068", "a stream that writes requires a checkpoint directory", hint="--checkpoint")
    if options.output is None and (options.partition_by or options.format != "parquet"):
        raise UsageError("SOW-SPK-068", "format and partitions require an output", hint="add --output DIR")
    # Fields are read by the message type of one topic.
    if topic is None and any(text.startswith("/") for text in options.partition_by):
        raise UsageError("SOW-SPK-065", "partitions by field require a single topic", hint="name one topic")
    for text in options.partition_by:
        if not text.startswith("/") and text not in ("_date", *STREAM_COLUMNS.split(",")[1:]):
            hint = "use a path such as /region, _date, or " + ", ".join(STREAM_COLUMNS.split(",")[1:])
            raise UsageError("SOW-SPK-065", f"unknown partition column {text!r}", hint=hint)
    # A stream into the topic that it follows would feed itself without end.
    if options.into is not None and (topic is None or topic == options.into):
        raise UsageError(
            "SOW-SPK-068",
            "a stream that publishes requires a source topic other than its destination",
            hint="name the source topic",
        )
    if options.start == "state" and topic is None:
        raise build_state_error("it follows all topics", "name one topic")
    if options.start == "state" and options.operation == "delete":
        raise build_state_error("it has only deletions", "process all operations, or start with the entries")
    # The journal keeps a sequence per publisher; only by its name a batch that is repeated can be recognised.
    if options.into is not None and options.client is None:
        raise UsageError("SOW-SPK-068", "a stream that publishes requires a client name", hint="add --client NAME")


def _read(spark: SparkSession, instance: Instance, topic: TopicConfig | None, options: StreamOptions) -> DataFrame:
    assert instance.log is not None
    assert instance.config is not None
    reader = spark.readStream.format("sow-journal")
    if options.start == "state":
        # The records are in the store, of which a directory of journal files knows nothing.
        reader = reader.option("config", str(instance.config.path)).option("root", str(instance.config.root))
    else:
        reader = reader.option("path", str(instance.log.directory)).option("instance", instance.config.name)
    if instance.log.archive_directory is not None:
        archive = instance.log.archive_directory
        reader = reader.option("archive", archive.url if isinstance(archive, RemotePath) else str(archive))
    reader = reader.option("columns", STREAM_COLUMNS).option("start", options.start)
    reader = reader.option("operation", _operation(topic, options))
    if topic is not None:
        reader = reader.option("topic", topic.name).option("messageType", topic.message_type)
    if options.max_entries is not None:
        reader = reader.option("maxEntries", str(options.max_entries))
    if options.max_bytes is not None:
        reader = reader.option("maxBytesPerTrigger", options.max_bytes)
    if options.split_groups:
        reader = reader.option("splitGroups", "true")
    if options.show is not None:
        reader = reader.option("partitionBytes", SHOW_PARTITION_SIZE)
    return reader.load()


def _operation(topic: TopicConfig | None, options: StreamOptions) -> str:
    """Deletions go to another topic only where its keys are the same: they name nothing but a key."""
    into = options.into
    if into is None or topic is None or options.operation != "all":
        return options.operation
    same = (into.key_mode, into.key_domain, into.keys) == (topic.key_mode, topic.key_domain, topic.keys)
    return "all" if same else "publish"


def _write(
    frame: DataFrame,
    instance: Instance,
    topic: TopicConfig | None,
    options: StreamOptions,
    showing: _EntryForwarder | None,
) -> StreamingQuery:
    from pyspark.sql import functions as f

    writer: DataStreamWriter
    names = [format_column_name(parse_path(text)) if text.startswith("/") else text for text in options.partition_by]
    if topic is not None and (paths := tuple(parse_path(one) for one in options.partition_by if one.startswith("/"))):
        types = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields)
        made = types + "".join(f", `{format_column_name(path)}` STRING" for path in paths)
        frame = map_batches(frame, _FieldColumns(freeze_instance(instance), topic.message_type, paths), made)
    if "_date" in names:
        frame = frame.withColumn("_date", f.to_date("_timestamp"))
    if showing is None:
        # Counted while the batch is written: a second pass over the data only to count would double the work.
        size = f.coalesce(f.sum(f.length("payload")), f.lit(0))
        frame = frame.observe(METRIC_NAME, f.count(f.lit(1)).alias("records"), size.alias("bytes"))
    if options.into is not None:
        assert instance.config is not None
        assert options.client is not None
        chosen = ["payload", "_operation", "_sow_key", "_user_key", "_correlation_id"]
        writer = frame.select(*chosen).writeStream.format("sow").queryName(options.client)
        given = {
            "config": str(instance.config.path),
            "root": str(instance.config.root),
            "topic": options.into.name,
            "messageType": options.into.message_type,
            "queryName": options.client,
        }
        for name, value in given.items():
            writer = writer.option(name, value)
    elif showing is not None:
        writer = frame.writeStream.foreachBatch(showing)
    else:
        writer = frame.writeStream.format(options.format).partitionBy(*names)
        if not is_table(options.format, str(options.output)):
            writer = writer.option("path", options.output)
    if options.checkpoint is not None:
        writer = writer.option("checkpointLocation", options.checkpoint)
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    elif options.interval is not None:
        writer = writer.trigger(processingTime=options.interval)
    writer = writer.outputMode("append")
    with translate_errors():
        if options.output is not None and is_table(options.format, options.output):
            return writer.toTable(options.output)
        return writer.start()


class _FieldColumns:
    """Adds the texts of some fields of the messages as columns, on an executor."""

    def __init__(self, instance: Instance, message_type: str, paths: tuple[FieldPath, ...]) -> None:
        self.instance = instance
        self.message_type = message_type
        self.paths = paths

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        texts = self.instance.find_message_type(self.message_type).build_key_extractor(self.paths)
        for batch in batches:
            more = build_text_columns(texts, batch.column("payload"), len(self.paths))
            names = [*batch.schema.names, *map(format_column_name, self.paths)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *more], names)


class _EntryForwarder:
    """Hands every batch on, on the driver."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._records = self._bytes = 0

    def read_totals(self) -> tuple[int, int]:
        """Return how many entries and bytes of payload were handed on."""
        return self._records, self._bytes

    def __call__(self, batch: DataFrame, number: int) -> None:
        # partitions are stretches of the journal in their order; to sort them would read them twice, and the iterator
        # holds one of them at a time
        columns = "_operation", "payload", "_txid", "coalesce(_logical_topic, _topic)", "_sow_key"
        rows = batch.selectExpr(*columns).toLocalIterator()
        while some := list(islice(rows, JOB_LIMITS.show_batch_rows)):
            found = [
                StreamEntry(
                    operation,
                    None if payload is None else bytes(payload),
                    txid,
                    topic,
                    None if key is None else int(key),
                )
                for operation, payload, txid, topic, key in some
            ]
            self._show(found)
            self._records += len(found)
            self._bytes += sum(len(one.payload or b"") for one in found)


class _Totals:
    """Totals of all batches, counted from Spark's progress, of which it keeps the last hundred."""

    def __init__(self, tell: Callable[[Progress], None] | None = None) -> None:
        self.batches = self.read = self.records = self.bytes = 0
        self.behind = self.bytes_behind = 0
        self._last = -1
        self._tell = tell
        self._told: Progress | None = None
        self._say()

    def add_progress(self, query: StreamingQuery) -> None:
        """Count the batches since the last call, those that had something; entries and bytes as Spark observed them."""
        newest = query.lastProgress
        if newest is None:
            return
        self._lag(newest)
        # Progress is reported many times for one batch; each counts once.
        if int(newest["batchId"]) > self._last:
            for one in query.recentProgress:
                # an idle query reports the number that its next batch will have, without rows
                if one["numInputRows"] and int(one["batchId"]) > self._last:
                    self._count(one)
        self._say()

    def _count(self, one: Any) -> None:
        self._last = int(one["batchId"])
        self.batches += 1
        self.read += int(one["numInputRows"])
        observed: Any = one["observedMetrics"].get(METRIC_NAME)
        if observed is not None:
            self.records += int(observed["records"])
            self.bytes += int(observed["bytes"])

    def _lag(self, newest: Any) -> None:
        """Read the distance to the journal's end as the source reported it when the newest batch was planned."""
        for source in newest["sources"]:
            try:
                said = json.loads(source["latestOffset"] or "null")
                self.behind, self.bytes_behind = int(said["entriesBehind"]), int(said["bytesBehind"])
            except (TypeError, ValueError, KeyError):
                # Nothing was said where there is no journal yet.
                continue

    def _say(self) -> None:
        now = Progress(self.batches, self.read, self.records, self.bytes, self.behind, self.bytes_behind)
        if self._tell is not None and now != self._told:
            self._told = now
            self._tell(now)

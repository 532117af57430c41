"""stream: follow the journal and write its entries to a data set, a function or another topic
(``sowctl-pipeline-stream(1)``).

Every batch is written exactly once: Spark's checkpoint records which entries were read; the data set's log, or the
topic's journal, records which were written.
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
    """Progress of a stream since its start, and its lag.

    Of the entries ``read``, ``records`` were written, with ``bytes`` of payload. ``behind`` counts the journal's
    entries, of all topics, that no batch has read yet, ``bytes_behind`` their stored bytes.
    """

    batches: int = 0
    read: int = 0
    records: int = 0
    bytes: int = 0
    behind: int = 0
    bytes_behind: int = 0


class StreamEntry(NamedTuple):
    """An entry to show. A deletion has no payload. ``topic`` is the logical topic if it exists; ``sow_key`` is None for
    a topic without keys."""

    operation: str
    payload: bytes | None
    txid: int
    topic: str
    sow_key: int | None


Show = Callable[[list[StreamEntry]], None]
"""Receives batches of entries, in txid order."""
SHOW_PARTITION_SIZE = "4MB"
"""Size of partitions, in stored bytes of the journal, for showing: the driver holds one partition at a time."""
POLL_INTERVAL_SECONDS = 0.2
"""Seconds between two checks of a query's progress. Spark accepts fractions, although it declares an int."""
START_PAUSE_SECONDS = 10.0
"""Seconds before the second start of a query, doubled before the third. High load that made Spark time out does not end
immediately."""
MAX_START_ATTEMPTS = 3
"""Maximum starts of a query that fails because Spark timed out."""
LATE_START_TEXT = "failed to connect back"
"""Part of Spark's error if the Python process of a source took more than ten seconds to start, on a busy machine."""
METRIC_NAME = "sowctl"
"""Name of the metrics observed while a batch is written."""
STREAM_COLUMNS = (
    "payload,_operation,_sow_key,_txid,_timestamp,_expiration,_topic,_logical_topic,_user_key,_correlation_id"
)


class StreamOptions(DescribedStruct, frozen=True):
    """Options of a stream: its source, its bounds and its destination. Exactly one of ``output`` (a directory, or a
    table), ``into`` and ``show`` is set.

    ``format`` is parquet, delta or iceberg. ``partition_by`` names columns, including ``_date`` (the day of
    ``_timestamp``), and, for a single topic, paths of fields; their values determine the directories of the output.

    ``checkpoint`` is the directory of the stream's position; required except with ``show``. ``client`` names the
    publisher of ``into``. ``available_now``: stop when all entries that exist at the start are processed. ``start``
    applies without a checkpoint: ``earliest``, ``latest`` (only new entries), or ``state`` (the topic's records first).
    ``max_entries`` and ``max_bytes`` (stored bytes of the journal, such as ``64MB``) limit a batch; None uses the
    default of the data source. With ``split_groups``, batches may end within a group. ``interval`` is the time between
    batches, such as ``5 seconds``.
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
    """Follow the journal's entries of ``topic`` (None: all) until ``stop`` returns True, or with ``available_now`` all
    entries are processed.

    ``tell`` is called with the progress at the start and when Spark's report of a batch changes it; ``pause`` sleeps
    for a number of seconds before a query is restarted.

    Raises UsageError ``SOW-SPK-068``, ConfigError without a TransactionLog, and what reading and writing raise.
    """
    started = monotonic()
    _check(instance, topic, options)
    require_lake(spark, options.format)
    if topic is not None and topic.logical_name is not None:
        from pyspark.sql import functions as f

        # The journal records entries under the Pattern topic, with the logical topic as a column.
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
            # A query that writes continues at its checkpoint, but entries already shown must not be shown again.
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
    """Wait in short steps until the time has passed or ``stop`` returns True; :func:`_follow` then stops the query."""
    while seconds > 0 and not stop():
        pause(POLL_INTERVAL_SECONDS)
        seconds -= POLL_INTERVAL_SECONDS


def _follow(query: StreamingQuery, seen: _Totals, stop: Callable[[], bool]) -> None:
    """Wait until a query ends, or stop it when ``stop`` returns True. Raises the error that ended it."""
    try:
        with translate_errors():
            # Wait in short steps, to notice a request to stop, and to count progress before Spark discards it.
            while not query.awaitTermination(cast(int, POLL_INTERVAL_SECONDS)):
                seen.add_progress(query)
                if stop():
                    query.stop()
                    break
    finally:
        if query.isActive:
            query.stop()
    # Count once more, because batches may have been reported since the last check.
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
    # Reading fields requires the message type of a single topic.
    if topic is None and any(text.startswith("/") for text in options.partition_by):
        raise UsageError("SOW-SPK-065", "partitions by field require a single topic", hint="name one topic")
    for text in options.partition_by:
        if not text.startswith("/") and text not in ("_date", *STREAM_COLUMNS.split(",")[1:]):
            hint = "use a path such as /region, _date, or " + ", ".join(STREAM_COLUMNS.split(",")[1:])
            raise UsageError("SOW-SPK-065", f"unknown partition column {text!r}", hint=hint)
    # A stream into its own source topic would never end.
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
    # The journal stores a sequence number per publisher; repeated batches are recognized only by publisher name.
    if options.into is not None and options.client is None:
        raise UsageError("SOW-SPK-068", "a stream that publishes requires a client name", hint="add --client NAME")


def _read(spark: SparkSession, instance: Instance, topic: TopicConfig | None, options: StreamOptions) -> DataFrame:
    assert instance.log is not None
    assert instance.config is not None
    reader = spark.readStream.format("sow-journal")
    if options.start == "state":
        # The records are in the store, which cannot be found from the journal directory.
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
    """Return the operations to read. Deletions are published to another topic only if it has the same keys, because
    they contain only a key."""
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
        # Counted while the batch is written; a separate count would read the data twice.
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
    """Adds the texts of fields of the messages as columns, on an executor."""

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
    """Passes the entries of every batch to ``show``, on the driver."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._records = self._bytes = 0

    def read_totals(self) -> tuple[int, int]:
        """Return the number of entries shown, and their payload bytes."""
        return self._records, self._bytes

    def __call__(self, batch: DataFrame, number: int) -> None:
        # Partitions are stretches of the journal in order, so no sort is needed; it would read them twice. The iterator
        # holds one partition at a time.
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
    """Totals of all batches, counted from Spark's progress reports; Spark retains the last hundred."""

    def __init__(self, tell: Callable[[Progress], None] | None = None) -> None:
        self.batches = self.read = self.records = self.bytes = 0
        self.behind = self.bytes_behind = 0
        self._last = -1
        self._tell = tell
        self._told: Progress | None = None
        self._say()

    def add_progress(self, query: StreamingQuery) -> None:
        """Count the non-empty batches since the last call; entries and bytes are as observed by Spark."""
        newest = query.lastProgress
        if newest is None:
            return
        self._lag(newest)
        # Spark may report a batch several times; count each once.
        if int(newest["batchId"]) > self._last:
            for one in query.recentProgress:
                # An idle query reports the id of its next batch, with no rows.
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
        """Read the lag that the source reported when the newest batch was planned."""
        for source in newest["sources"]:
            try:
                said = json.loads(source["latestOffset"] or "null")
                self.behind, self.bytes_behind = int(said["entriesBehind"]), int(said["bytesBehind"])
            except (TypeError, ValueError, KeyError):
                # The source reports no lag until a journal exists.
                continue

    def _say(self) -> None:
        now = Progress(self.batches, self.read, self.records, self.bytes, self.behind, self.bytes_behind)
        if self._tell is not None and now != self._told:
            self._told = now
            self._tell(now)

"""The data sources ``sow`` and ``sow-journal``, which build readers and writers from options (sowctl-spark(7)).

Spark creates these objects in its Python processes from the options of one read or write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from msgspec.structs import replace
from pyspark.sql.datasource import DataSource

from sowctl.arrow.evolution import build_distinct_ddl, merge_ddl
from sowctl.arrow.inference import SampledView, infer_fields
from sowctl.engine.topics.log_places import parse_moment
from sowctl.errors import UsageError
from sowctl.spark.catalog import format_mark_column, is_new_table, merge_table_options, select_table_options
from sowctl.spark.errors import CarriedError, carry_errors
from sowctl.spark.options import AUTOMATIC_PIN, PAYLOAD_OPTIONS, PLACE_OPTIONS, Options, split_paths
from sowctl.spark.origin import find_config, find_journal, find_origin
from sowctl.spark.reading.bounds import NumberRange
from sowctl.spark.reading.journalplan import require_entries
from sowctl.spark.reading.malformed_messages import MODE_OPTIONS, parse_malformed_rule
from sowctl.spark.reading.multi_reader import combine_readers
from sowctl.spark.samecode import SameCode
from sowctl.spark.schema import (
    CHANGE_COLUMNS,
    INFERRED_COMMENT,
    INSTANTS_COLUMNS,
    JOURNAL_COLUMNS,
    MERGED_COMMENT,
    STORE_COLUMNS,
    add_corrupt_column,
    build_ddl,
    read_payload_schema,
    require_mergeable,
)
from sowctl.values.times import build_fixed_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from sowctl.spark.reading.journalbatches import JournalQuery
    from sowctl.spark.reading.journalstream import JournalStreamReader
    from sowctl.spark.reading.storereader import StoreQuery
    from sowctl.spark.writing.writers import BatchWriter, StreamWriter, WriteRequest

OTHER_SOURCE_CODE = "SOW-SPK-167"
"""The code of errors for operations that only the other source supports."""
DEFAULT_SAMPLE_MESSAGES = 300_000
"""Default of option ``samples``, the number of messages from which a schema is inferred: 7 us each, in one process."""
STORE_OPTIONS = (*PLACE_OPTIONS, "archive", *PAYLOAD_OPTIONS, *MODE_OPTIONS, "at", "filter", "numPartitions", "pin")
WRITE_OPTIONS = (
    *PLACE_OPTIONS,
    "operation",
    "onError",
    "maxErrors",
    "expiration",
    "allowNullKey",
    "allowVolatile",
    "deltaNull",
    "updateOnly",
    "stamps",
    "staging",
    "rejects",
    "report",
)
READ_FORM_OPTIONS = (*PAYLOAD_OPTIONS, *MODE_OPTIONS, "numPartitions")
"""Options that control how messages are read, but not which."""
READ_BOUND_OPTIONS = ("at", "filter", "pin")
JOURNAL_OPTIONS = (
    *PLACE_OPTIONS,
    "archive",
    *PAYLOAD_OPTIONS,
    *MODE_OPTIONS,
    "changes",
    "operation",
    "filter",
    "fromTxid",
    "toTxid",
    "fromTime",
    "toTime",
    "partitionBytes",
)
STREAM_OPTIONS = ("start", "maxEntries", "maxBytesPerTrigger", "splitGroups", "failOnDataLoss")
"""Options of a journal that is read as a stream: start, size of batches, and handling of data loss."""
OPTION_OWNERS = (
    dict.fromkeys(JOURNAL_OPTIONS, "reading sow-journal")
    | dict.fromkeys(STREAM_OPTIONS, "reading sow-journal as a stream (spark.readStream)")
    | dict.fromkeys(STORE_OPTIONS, "reading sow")
    | dict.fromkeys(WRITE_OPTIONS, "writing to sow")
)
"""The read or write that each option belongs to, for the hints of errors."""


class SowSource(SameCode, DataSource):
    """Data source of the records of a topic, view, conflated topic or queue, now or at an instant."""

    @classmethod
    def name(cls) -> str:
        """``sow``."""
        return "sow"

    def schema(self) -> str:
        """Return the columns as DDL; a struct without a declared schema is inferred from the messages."""
        from sowctl.spark.reading.storereader import sample_records

        with carry_errors():
            return _schema(self, STORE_COLUMNS, (STORE_OPTIONS, WRITE_OPTIONS), _store_query, sample_records)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from sowctl.spark.reading.storereader import StoreReader

        with carry_errors():
            return combine_readers([StoreReader(_store_query(one), schema) for one in self._read_options(schema)])

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch; Spark's modes are ``append`` and ``overwrite``."""
        from sowctl.spark.writing.writers import BatchWriter

        with carry_errors():
            return BatchWriter(_write_request(self._write_options(schema), overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a stream; output mode ``complete`` replaces the topic with every batch."""
        from sowctl.spark.writing.writers import StreamWriter

        with carry_errors():
            options = self._write_options(schema)
            name = options.read_text("queryName")
            if name is None:
                raise UsageError(
                    "SOW-SPK-033",
                    "option queryName is missing: a stream publishes with this client name",
                    hint="with the same queryName and checkpointLocation, a repeated batch is published only once",
                )
            return StreamWriter(_write_request(options, overwrite=overwrite, client=name), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader whose first call raises UsageError ``SOW-SPK-167``: a store has no entries to stream."""
        return _stream_or_refusal(_refuse_stream)

    def _read_options(self, schema: StructType) -> list[Options]:
        given, table = merge_table_options(self.name(), self.options, schema)
        # A table may have options for writing, which a reader ignores.
        passed = WRITE_OPTIONS if table else ()
        found = [Options(self.name(), one, STORE_OPTIONS, passed, OPTION_OWNERS) for one in split_paths(given)]
        require_mergeable(found[0], schema)
        return found

    def _write_options(self, schema: StructType) -> Options:
        given, _ = merge_table_options(self.name(), self.options, schema)
        bounds = {name.lower(): name for name in READ_BOUND_OPTIONS}
        if found := [bounds[name] for name in map(str.lower, given) if name in bounds]:
            raise UsageError(
                "SOW-SPK-110",
                f"option {found[0]} selects a part of the topic, so rows cannot be written",
                hint="remove it, or INSERT into a table or view without the option",
            )
        # A table or view may have options for reading messages, which a writer ignores.
        return Options(self.name(), given, WRITE_OPTIONS, READ_FORM_OPTIONS, OPTION_OWNERS)


class JournalSource(SameCode, DataSource):
    """Data source of the entries of a journal, for batches and streams."""

    @classmethod
    def name(cls) -> str:
        """``sow-journal``."""
        return "sow-journal"

    def schema(self) -> str:
        """Return the columns as DDL; a struct without a declared schema is inferred from the messages."""
        from sowctl.spark.reading.journalreader import sample_messages

        with carry_errors():
            # At this point it is not known whether Spark reads a batch or a stream.
            known = (*JOURNAL_OPTIONS, *STREAM_OPTIONS)
            return _schema(self, JOURNAL_COLUMNS, (known, ()), _build_known_query, sample_messages)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from sowctl.spark.reading.journalreader import JournalReader

        with carry_errors():
            readers: list[DataSourceReader] = []
            for options in self._read_options(schema):
                query = _journal_query(options)
                # Checked here, so that a missing topic is reported once and before any task starts.
                require_entries(query.origin, query.topic, query.message_type)
                _require_records(query)
                readers.append(JournalReader(query, schema))
            return combine_readers(readers)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream; errors in the options are raised by its first method call."""
        return _stream_or_refusal(lambda: self._stream_reader(schema))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raise UsageError ``SOW-SPK-167``: only publishing adds entries."""
        with carry_errors():
            _refuse_rows()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 - Spark's name
        """Raise UsageError ``SOW-SPK-167``, as :meth:`writer`."""
        with carry_errors():
            _refuse_rows()

    def _stream_reader(self, schema: StructType) -> JournalStreamReader:
        from sowctl.spark.reading.journalstream import (
            MAX_BATCH_ENTRIES,
            START_CHOICES,
            JournalStreamReader,
            StreamLimits,
        )

        options, *more = self._read_options(schema, streaming=True)
        if more:
            raise UsageError("SOW-SPK-097", "a stream reads one journal", hint="start one stream per path")
        start = options.read_choice("start", START_CHOICES, "earliest")
        if start == "state" and options.read_text("topic") is None:
            raise UsageError("SOW-SPK-013", "start=state requires a topic", hint="add option topic")
        most_bytes = options.read_size("maxBytesPerTrigger")
        # With maxBytesPerTrigger, the default limit of entries does not apply: the user has limited the batch already.
        most = options.read_number("maxEntries", MAX_BATCH_ENTRIES if most_bytes is None else None, 1)
        split = options.read_flag("splitGroups")
        pace = StreamLimits(start, most, options.read_flag("failOnDataLoss", True), most_bytes, split)
        return JournalStreamReader(_build_known_query(options), pace, schema)

    def _read_options(self, schema: StructType, *, streaming: bool = False) -> list[Options]:
        given, table = merge_table_options(self.name(), self.options, schema)
        known = (*JOURNAL_OPTIONS, *STREAM_OPTIONS) if streaming else JOURNAL_OPTIONS
        # A table may have options for streams, which a batch ignores.
        passed = STREAM_OPTIONS if table else ()
        found = [Options(self.name(), one, known, passed, OPTION_OWNERS) for one in split_paths(given)]
        require_mergeable(found[0], schema)
        return found


def _stream_or_refusal(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return the reader that ``make`` builds, or one whose first method call raises the error of ``make``.

    Spark's runner stops the reader in any case. If building it failed, the runner would report an unbound variable
    instead of the error.
    """
    from sowctl.spark.reading.journalstream import RefusedStream

    try:
        with carry_errors():
            return make()
    except CarriedError as error:
        return RefusedStream(str(error))


def _refuse_stream() -> NoReturn:
    raise UsageError(
        OTHER_SOURCE_CODE,
        "the data source sow does not support streams",
        hint="use readStream.format('sow-journal') for the entries of a topic, with changes=true "
        "for changes of records",
    )


def _refuse_rows() -> NoReturn:
    raise UsageError(
        OTHER_SOURCE_CODE,
        "the data source sow-journal does not support writing",
        hint="write with format('sow'), config and topic, which publishes the rows",
    )


SOURCES = (SowSource, JournalSource)
"""The data sources that a session registers."""
Query = TypeVar("Query")


def _schema(
    source: DataSource,
    columns: Mapping[str, str],
    known: tuple[tuple[str, ...], tuple[str, ...]],
    query: Callable[[Options], Query],
    sample: Callable[[Query, int | None], Iterator[SampledView]],
) -> str:
    """Return the columns of a source as DDL.

    ``known`` are the options for reading, and the additional options of a table. ``sample`` yields messages of a
    ``query``, from which undeclared fields are inferred.
    """
    given, table = dict(source.options), None
    if new := is_new_table(given):
        given = select_table_options(given)
        table = format_mark_column(source.name(), given)
    found = [
        Options(source.name(), one, known[0], known[1] if new else (), OPTION_OWNERS) for one in split_paths(given)
    ]
    options = found[0]
    payload, comment = read_payload_schema(options), None
    if payload == "" or (payload is not None and options.read_flag("mergeSchema")):
        count = _samples(options)
        messages = chain.from_iterable(sample(query(one), count) for one in found)
        seen = infer_fields(messages if count is None else islice(messages, count))
        # A declared type may be narrower than the values, so only a fully inferred schema is marked as inferred.
        payload, comment = (
            (merge_ddl(payload, seen.build_members()), MERGED_COMMENT)
            if payload
            else (build_distinct_ddl(seen), INFERRED_COMMENT)
        )
    elif new:
        # When a table is created, reject it if it could never be read.
        query(options)
    if "changes" in known[0] and options.read_flag("changes"):
        columns = CHANGE_COLUMNS
    if "at" in known[0] and len(options.read_words("at") or ()) > 1:
        columns = INSTANTS_COLUMNS
    return build_ddl(_columns(options, columns), options.read_words("columns"), payload, comment=comment, table=table)


def _columns(options: Options, columns: Mapping[str, str]) -> Mapping[str, str]:
    """Return the columns that may be selected, including that of malformed messages if it is requested."""
    rule = parse_malformed_rule(options)
    named = rule.column in (options.read_words("columns") or ())
    return add_corrupt_column(columns, rule.column) if rule.asked or named else columns


def _samples(options: Options) -> int | None:
    """Return the number of messages from which a schema is inferred, None for all."""
    if (options.read_text("samples") or "").lower() == "all":
        return None
    return options.read_number("samples", DEFAULT_SAMPLE_MESSAGES, 1)


def _store_query(options: Options) -> StoreQuery:
    from sowctl.spark.reading.instants import require_instants
    from sowctl.spark.reading.pinned_state import pin_state
    from sowctl.spark.reading.storereader import StoreQuery

    origin = find_origin(options, derived=True)
    instants = _read_instants(options, origin.now)
    if instants:
        require_instants(origin, instants)
    query = StoreQuery(
        origin,
        None
        if instants
        else parse_moment(options.read_text("at"), options.build_clock()).resolve_time(origin.build_instance()),
        options.read_text("filter"),
        options.read_number("numPartitions", None, 1),
        parse_malformed_rule(options),
        instants=instants,
    )
    if (options.read_text("pin") or "").lower() == AUTOMATIC_PIN:
        return replace(query, pinned=True)
    if instants and options.read_text("pin") is not None:
        raise UsageError(
            "SOW-SPK-172", "several instants cannot be pinned in a file", hint="use pin=auto, or remove pin"
        )
    pin = options.read_path("pin")
    # The pinned file is already the state ``at`` that instant, so ``at`` is cleared.
    return query if pin is None else replace(query, origin=pin_state(query.origin, query.at, pin), at=None)


def _read_instants(options: Options, now: int) -> tuple[int, ...]:
    """Return the times of option ``at`` in ascending order, () if it has fewer than two.

    Raises UsageError ``SOW-SPK-172`` if one of them is an entry."""
    texts = options.read_words("at") or ()
    if len(texts) < 2:
        return ()
    # Relative to the time of the query: with a running clock, "now" would be after it.
    clock, times = build_fixed_clock(now), set()
    for text in texts:
        moment = parse_moment(text, clock)
        if moment.time is None:
            raise UsageError(
                "SOW-SPK-172",
                f"several instants cannot be read together: {text!r} is an entry and not a time",
                hint="give times, or one entry",
            )
        times.add(moment.time)
    return tuple(sorted(times))


def _write_request(options: Options, *, overwrite: bool, client: str | None = None) -> WriteRequest:
    from sowctl.engine.bulk.staging import OPERATIONS, Operation
    from sowctl.engine.options import PublishOptions
    from sowctl.spark.writing.staging import find_staging
    from sowctl.spark.writing.writers import WriteRequest

    if find_config(options) is None:
        # For CREATE TABLE ... AS SELECT, Spark passes no options, so that statement also fails here.
        hint = "give config and topic; for a table, use CREATE TABLE name USING sow OPTIONS (...), without "
        hint += "columns and without AS SELECT, then INSERT INTO name to publish rows"
        raise UsageError("SOW-SPK-012", "no destination is given", hint=hint)
    origin = find_origin(options)
    operation = options.read_text("operation")
    if operation is not None:
        operation = options.read_choice("operation", OPERATIONS, "publish")
    skip = options.read_choice("onError", ("abort", "skip"), "abort") == "skip"
    publish = PublishOptions(
        on_error="skip" if skip else "abort",
        max_errors=options.read_number("maxErrors"),
        expiration=options.read_seconds("expiration"),
        allow_null_key=options.read_flag("allowNullKey"),
        allow_volatile=options.read_flag("allowVolatile"),
        client=client,
        delta_null="set" if options.read_flag("deltaNull") else "ignore",
        update_only=options.read_flag("updateOnly"),
    )
    return WriteRequest(
        origin,
        find_staging(origin, client, options.read_place("staging")),
        publish,
        cast("Operation | None", operation),
        overwrite=overwrite,
        keep_stamps=options.read_choice("stamps", ("new", "keep"), "new") == "keep",
        client=client,
        checkpoint=options.read_place("checkpointLocation"),
        rejects=options.read_path("rejects"),
        report=options.read_path("report"),
    )


def _require_whole(topic: str | None, options: Options) -> None:
    """Raise UsageError ``SOW-SPK-013`` or ``SOW-SPK-130`` if a change feed is not of one topic and all operations."""
    if topic is None:
        raise UsageError("SOW-SPK-013", "a change feed requires a topic", hint="add option topic")
    if options.read_text("operation") is not None:
        raise UsageError(
            "SOW-SPK-130",
            "a change feed has all operations, but option operation is given",
            hint="remove it, and filter the rows by _change_type",
        )


def _require_records(query: JournalQuery) -> None:
    """Raise UsageError ``SOW-SPK-131`` for the change feed of a topic that is not in the configuration."""
    config = query.origin.config
    if query.changes and config is not None and all(one.name != query.topic for one in config.topics):
        raise UsageError(
            "SOW-SPK-131",
            f"topic {query.topic!r} has no records, so it has no change feed",
            hint="remove option changes to read its entries",
        )


def _build_known_query(options: Options) -> JournalQuery:
    """Build the query of a stream, a new table or a schema inference. Raises as :func:`require_entries`.

    A stream or table may be created before anything is published, so the topic need not have entries yet.
    """
    query = _journal_query(options)
    require_entries(query.origin, query.topic, query.message_type, later=True)
    _require_records(query)
    return query


def _journal_query(options: Options) -> JournalQuery:
    from sowctl.spark.reading.journalbatches import JournalQuery

    origin = find_journal(options)
    topic, message_type = options.read_text("topic"), options.read_text("messageType")
    # A message type distinguishes topics with the same name; alone it selects nothing.
    if message_type is not None and topic is None:
        raise UsageError("SOW-SPK-013", "option messageType requires a topic", hint="add option topic")
    if topic is not None and message_type is None and origin.config is not None:
        # Topics of different types may share a name (behaviour C15); entries of all of them are read then.
        found = [one for one in origin.config.topics if one.name == topic]
        # If the name is unique, the type is known and blocks without the topic can be skipped unread.
        message_type = found[0].message_type if len(found) == 1 else None
    changes = options.read_flag("changes")
    if changes:
        _require_whole(topic, options)
    return JournalQuery(
        origin,
        topic,
        message_type,
        options.read_choice("operation", ("publish", "delete", "all"), "all"),
        options.read_text("filter"),
        NumberRange(options.read_number("fromTxid"), options.read_number("toTxid")),
        NumberRange(options.read_instant("fromTime"), options.read_instant("toTime")),
        options.read_size("partitionBytes"),
        parse_malformed_rule(options),
        changes,
    )

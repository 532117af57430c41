"""The data sources ``sow`` and ``sow-journal``: options in, readers and writers out (sowctl-spark(7)).

Spark makes these objects in its Python processes, from the options of one read or write.
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
"""The code of what one of the two sources does and the other does not."""
DEFAULT_SAMPLE_MESSAGES = 300_000
"""Messages that are looked at for a schema unless option ``samples`` says otherwise: 7 us each, by one process."""
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
"""Options that say how messages are read, and nothing of which."""
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
"""Options of a journal that is read as a stream: where it begins, what a batch has, and how it goes on."""
OPTION_OWNERS = (
    dict.fromkeys(JOURNAL_OPTIONS, "reading sow-journal")
    | dict.fromkeys(STREAM_OPTIONS, "reading sow-journal as a stream (spark.readStream)")
    | dict.fromkeys(STORE_OPTIONS, "reading sow")
    | dict.fromkeys(WRITE_OPTIONS, "writing to sow")
)
"""Which question has an option that another does not have."""


class SowSource(SameCode, DataSource):
    """The records of a topic, or of what is derived from topics, now or at an instant."""

    @classmethod
    def name(cls) -> str:
        """``sow``."""
        return "sow"

    def schema(self) -> str:
        """The columns; a struct without a declared schema is inferred from the messages."""
        from sowctl.spark.reading.storereader import sample_records

        with carry_errors():
            return _schema(self, STORE_COLUMNS, (STORE_OPTIONS, WRITE_OPTIONS), _store_query, sample_records)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader."""
        from sowctl.spark.reading.storereader import StoreReader

        with carry_errors():
            return combine_readers([StoreReader(_store_query(one), schema) for one in self._read_options(schema)])

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A writer; Spark's modes are ``append`` and ``overwrite``."""
        from sowctl.spark.writing.writers import BatchWriter

        with carry_errors():
            return BatchWriter(_write_request(self._write_options(schema), overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """A writer for a stream; output mode ``complete`` replaces the topic with every batch."""
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
        """None: a store has states, and a stream is made of entries. Said by the first answer, as for a journal."""
        return _stream_or_refusal(_refuse_stream)

    def _read_options(self, schema: StructType) -> list[Options]:
        given, table = merge_table_options(self.name(), self.options, schema)
        # what a table says of writing to it is nothing to a reader
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
        # a view or table that is also written to may say how its messages are read
        return Options(self.name(), given, WRITE_OPTIONS, READ_FORM_OPTIONS, OPTION_OWNERS)


class JournalSource(SameCode, DataSource):
    """A journal: its entries, for batches and for streams."""

    @classmethod
    def name(cls) -> str:
        """``sow-journal``."""
        return "sow-journal"

    def schema(self) -> str:
        """The columns; a struct without a declared schema is inferred from the messages."""
        from sowctl.spark.reading.journalreader import sample_messages

        with carry_errors():
            # Spark asks for the schema before it says what it is for.
            known = (*JOURNAL_OPTIONS, *STREAM_OPTIONS)
            return _schema(self, JOURNAL_COLUMNS, (known, ()), _build_known_query, sample_messages)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader."""
        from sowctl.spark.reading.journalreader import JournalReader

        with carry_errors():
            readers: list[DataSourceReader] = []
            for options in self._read_options(schema):
                query = _journal_query(options)
                # Here and not in the tasks: a topic that does not exist is one error, and before any task begins.
                require_entries(query.origin, query.topic, query.message_type)
                _require_records(query)
                readers.append(JournalReader(query, schema))
            return combine_readers(readers)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader for a stream; what is wrong with the options is said by its first answer."""
        return _stream_or_refusal(lambda: self._stream_reader(schema))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """None: entries come of what is published. Raises UsageError ``SOW-SPK-167``."""
        with carry_errors():
            _refuse_rows()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 - Spark's name
        """None, as :meth:`writer`."""
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
        # One bound is enough: who says how many bytes a batch may have has said how large it may be.
        most = options.read_number("maxEntries", MAX_BATCH_ENTRIES if most_bytes is None else None, 1)
        split = options.read_flag("splitGroups")
        pace = StreamLimits(start, most, options.read_flag("failOnDataLoss", True), most_bytes, split)
        return JournalStreamReader(_build_known_query(options), pace, schema)

    def _read_options(self, schema: StructType, *, streaming: bool = False) -> list[Options]:
        given, table = merge_table_options(self.name(), self.options, schema)
        known = (*JOURNAL_OPTIONS, *STREAM_OPTIONS) if streaming else JOURNAL_OPTIONS
        # what a table says of streams is nothing to a batch
        passed = STREAM_OPTIONS if table else ()
        found = [Options(self.name(), one, known, passed, OPTION_OWNERS) for one in split_paths(given)]
        require_mergeable(found[0], schema)
        return found


def _stream_or_refusal(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """A reader for a stream, or one whose first answer says why there is none.

    Spark's runner ends a reader whatever happens: where none was made it says that its variable has no value, and
    nothing of what making it raised.
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
    """The columns of a source as text. ``known`` are the options of reading, and those besides that a table may have;
    ``sample`` gives messages of a ``query``, from which fields that are not declared are inferred."""
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
        # What is declared may be narrower than what messages hold: only a type that was inferred as a whole loses none.
        payload, comment = (
            (merge_ddl(payload, seen.build_members()), MERGED_COMMENT)
            if payload
            else (build_distinct_ddl(seen), INFERRED_COMMENT)
        )
    elif new:
        # a table that could never be read is refused when it is made
        query(options)
    if "changes" in known[0] and options.read_flag("changes"):
        columns = CHANGE_COLUMNS
    if "at" in known[0] and len(options.read_words("at") or ()) > 1:
        columns = INSTANTS_COLUMNS
    return build_ddl(_columns(options, columns), options.read_words("columns"), payload, comment=comment, table=table)


def _columns(options: Options, columns: Mapping[str, str]) -> Mapping[str, str]:
    """The columns that may be asked for; those that are seldom filled are there only where they are named."""
    rule = parse_malformed_rule(options)
    named = rule.column in (options.read_words("columns") or ())
    return add_corrupt_column(columns, rule.column) if rule.asked or named else columns


def _samples(options: Options) -> int | None:
    """Return how many messages are looked at for a schema, None for all."""
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
    # ``at`` is dropped because the pinned file is the state at that instant already.
    return query if pin is None else replace(query, origin=pin_state(query.origin, query.at, pin), at=None)


def _read_instants(options: Options, now: int) -> tuple[int, ...]:
    """The times of option ``at`` where it has several, in order. Raises UsageError ``SOW-SPK-172`` for an entry."""
    texts = options.read_words("at") or ()
    if len(texts) < 2:
        return ()
    # Counted from the present of the query: by a clock that goes on, "now" would lie behind it.
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
        # Of a table that is made of rows (CREATE TABLE ... AS SELECT) Spark passes on no options: it looks like this.
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
    """Raise UsageError where a feed of changes is asked of several topics, or of a part of the operations."""
    if topic is None:
        raise UsageError("SOW-SPK-013", "a change feed requires a topic", hint="add option topic")
    if options.read_text("operation") is not None:
        raise UsageError(
            "SOW-SPK-130",
            "a change feed has all operations, but option operation is given",
            hint="remove it, and filter the rows by _change_type",
        )


def _require_records(query: JournalQuery) -> None:
    """Raise UsageError ``SOW-SPK-131`` where a feed of changes is asked of a topic that the journal alone knows."""
    config = query.origin.config
    if query.changes and config is not None and all(one.name != query.topic for one in config.topics):
        raise UsageError(
            "SOW-SPK-131",
            f"topic {query.topic!r} has no records, so it has no change feed",
            hint="remove option changes to read its entries",
        )


def _build_known_query(options: Options) -> JournalQuery:
    """The query of a stream, a new table, or a schema that is inferred. Raises as :func:`require_entries`.

    A stream or table may be made before anything was published, so the topic need not have entries yet.
    """
    query = _journal_query(options)
    require_entries(query.origin, query.topic, query.message_type, later=True)
    _require_records(query)
    return query


def _journal_query(options: Options) -> JournalQuery:
    from sowctl.spark.reading.journalbatches import JournalQuery

    origin = find_journal(options)
    topic, message_type = options.read_text("topic"), options.read_text("messageType")
    # A type tells topics of one name apart; by itself it names none.
    if message_type is not None and topic is None:
        raise UsageError("SOW-SPK-013", "option messageType requires a topic", hint="add option topic")
    if topic is not None and message_type is None and origin.config is not None:
        # Two topics of different types may share a name (behaviour C15); then entries of both are read.
        found = [one for one in origin.config.topics if one.name == topic]
        # With one entry of that name the type is known, and blocks without the topic can be passed over unread.
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

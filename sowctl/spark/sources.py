"""The data sources ``sow`` and ``sow-journal``: options in, readers and writers out (sowctl-spark(7)).

Spark makes these objects in its Python processes, from the options of one read or write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace
from pyspark.sql.datasource import DataSource

from sowctl.arrow.inference import infer
from sowctl.engine.topics.logplaces import read_moment
from sowctl.errors import UsageError
from sowctl.spark.errors import carried
from sowctl.spark.options import PAYLOAD, PLACE, Options
from sowctl.spark.origin import find_journal, find_origin
from sowctl.spark.reading.bounds import NumberRange
from sowctl.spark.reading.journalplan import require_entries
from sowctl.spark.schema import JOURNAL_COLUMNS, STORE_COLUMNS, ddl, declared_payload

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

    from sowctl.spark.reading.journalbatches import JournalQuery
    from sowctl.spark.reading.journalstream import JournalStreamReader
    from sowctl.spark.reading.storereader import StoreQuery
    from sowctl.spark.writing.writers import BatchWriter, StreamWriter, WriteRequest

SAMPLES = 300_000
"""Messages that are looked at for a schema unless option ``samples`` says otherwise: 10 us each, by one process."""
STORE_OPTIONS = (*PLACE, *PAYLOAD, "at", "filter", "numPartitions", "pin")
WRITE_OPTIONS = (
    *PLACE,
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
)
JOURNAL_OPTIONS = (
    *PLACE,
    "archive",
    *PAYLOAD,
    "operation",
    "filter",
    "fromTxid",
    "toTxid",
    "fromTime",
    "toTime",
    "partitionBytes",
    "start",
    "maxEntries",
    "maxBytesPerTrigger",
    "failOnDataLoss",
)


class SowSource(DataSource):
    """A store: one topic's records, now or at an instant."""

    @classmethod
    def name(cls) -> str:
        """``sow``."""
        return "sow"

    def schema(self) -> str:
        """The columns; a struct without a declared schema is inferred from the messages."""
        with carried():
            options = self._read_options()
            payload, inferred = declared_payload(options), False
            # A struct that is not declared: its fields are inferred from the messages.
            if payload == "":
                from sowctl.spark.reading.storereader import sample

                payload, inferred = infer(sample(_store_query(options), _samples(options))), True
            return ddl(STORE_COLUMNS, options.words("columns"), payload, inferred=inferred)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader."""
        from sowctl.spark.reading.storereader import StoreReader

        with carried():
            return StoreReader(_store_query(self._read_options()), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A writer; Spark's modes are ``append`` and ``overwrite``."""
        from sowctl.spark.writing.writers import BatchWriter

        with carried():
            return BatchWriter(_write_request(self._write_options(), overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """A writer for a stream; output mode ``complete`` replaces the topic with every batch."""
        from sowctl.spark.writing.writers import StreamWriter

        with carried():
            options = self._write_options()
            name = options.text("queryName")
            if name is None:
                raise UsageError(
                    "SOW-SPK-033",
                    "option queryName is missing: a stream writes as a publisher of this name",
                    hint="the same name with the same checkpointLocation makes a repeated batch count once",
                )
            return StreamWriter(_write_request(options, overwrite=overwrite, client=name), schema)

    def _read_options(self) -> Options:
        return Options(self.name(), self.options, STORE_OPTIONS)

    def _write_options(self) -> Options:
        return Options(self.name(), self.options, WRITE_OPTIONS)


class JournalSource(DataSource):
    """A journal: its entries, for batches and for streams."""

    @classmethod
    def name(cls) -> str:
        """``sow-journal``."""
        return "sow-journal"

    def schema(self) -> str:
        """The columns; a struct without a declared schema is inferred from the messages."""
        with carried():
            options = self._read_options()
            payload, inferred = declared_payload(options), False
            if payload == "":
                from sowctl.spark.reading.journalreader import sample

                payload, inferred = infer(sample(_journal_query(options), _samples(options))), True
            return ddl(JOURNAL_COLUMNS, options.words("columns"), payload, inferred=inferred)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader."""
        from sowctl.spark.reading.journalreader import JournalReader

        with carried():
            query = _journal_query(self._read_options())
            # Here and not in the tasks: a topic that does not exist is one error, and before any task begins.
            require_entries(query.origin, query.topic, query.message_type)
            return JournalReader(query, schema)

    def streamReader(self, schema: StructType) -> JournalStreamReader:  # noqa: N802 - Spark's name
        """A reader for a stream."""
        from sowctl.spark.reading.journalstream import MAX_ENTRIES, JournalStreamReader, Pace

        with carried():
            options = self._read_options()
            latest = options.choice("start", ("earliest", "latest"), "earliest") == "latest"
            most_bytes = options.size("maxBytesPerTrigger")
            # One bound is enough: who says how many bytes a batch may have has said how large it may be.
            most = options.number("maxEntries", MAX_ENTRIES if most_bytes is None else None, 1)
            pace = Pace(latest, most, options.flag("failOnDataLoss", True), most_bytes)
            query = _journal_query(options)
            # A stream may be started before anything was published, so the topic need not have entries yet.
            require_entries(query.origin, query.topic, query.message_type, later=True)
            return JournalStreamReader(query, pace, schema)

    def _read_options(self) -> Options:
        return Options(self.name(), self.options, JOURNAL_OPTIONS)


def _samples(options: Options) -> int | None:
    """How many messages are looked at for a schema, None for all."""
    if (options.text("samples") or "").lower() == "all":
        return None
    return options.number("samples", SAMPLES, 1)


def _store_query(options: Options) -> StoreQuery:
    from sowctl.spark.reading.pinning import pinned
    from sowctl.spark.reading.storereader import StoreQuery

    origin = find_origin(options)
    query = StoreQuery(
        origin,
        read_moment(options.text("at"), options.clock()).of(origin.instance()),
        options.text("filter"),
        options.number("numPartitions", None, 1),
    )
    pin = options.path("pin")
    # ``at`` is dropped because the pinned file is the state at that instant already.
    return query if pin is None else replace(query, origin=pinned(query.origin, query.at, pin), at=None)


def _write_request(options: Options, *, overwrite: bool, client: str | None = None) -> WriteRequest:
    from sowctl.engine.bulk.staging import OPERATIONS, Operation
    from sowctl.engine.options import PublishOptions
    from sowctl.spark.writing.attempts import find_staging
    from sowctl.spark.writing.writers import WriteRequest

    if options.text("config") is None:
        raise UsageError("SOW-SPK-012", "nothing says where to write", hint="give config and topic")
    origin = find_origin(options)
    operation = options.text("operation")
    if operation is not None:
        operation = options.choice("operation", tuple(OPERATIONS), "publish")
    skip = options.choice("onError", ("abort", "skip"), "abort") == "skip"
    publish = PublishOptions(
        on_error="skip" if skip else "abort",
        max_errors=options.number("maxErrors"),
        expiration=options.seconds("expiration"),
        allow_null_key=options.flag("allowNullKey"),
        allow_volatile=options.flag("allowVolatile"),
        client=client,
        delta_null="set" if options.flag("deltaNull") else "ignore",
        update_only=options.flag("updateOnly"),
    )
    return WriteRequest(
        origin,
        find_staging(origin, client, options.path("staging")),
        publish,
        cast("Operation | None", operation),
        overwrite=overwrite,
        keep_stamps=options.choice("stamps", ("new", "keep"), "new") == "keep",
        client=client,
    )


def _journal_query(options: Options) -> JournalQuery:
    from sowctl.spark.reading.journalbatches import JournalQuery

    origin = find_journal(options)
    topic, message_type = options.text("topic"), options.text("messageType")
    # A type tells topics of one name apart; by itself it names none.
    if message_type is not None and topic is None:
        raise UsageError("SOW-SPK-013", "option messageType goes with a topic", hint="give option topic, too")
    if topic is not None and message_type is None and origin.config is not None:
        # Two topics of different types may share a name (behaviour C15); then entries of both are read.
        found = [one for one in origin.config.topics if one.name == topic]
        # With one entry of that name the type is known, and blocks without the topic can be passed over unread.
        message_type = found[0].message_type if len(found) == 1 else None
    return JournalQuery(
        origin,
        topic,
        message_type,
        options.choice("operation", ("publish", "delete", "all"), "all"),
        options.text("filter"),
        NumberRange(options.number("fromTxid"), options.number("toTxid")),
        NumberRange(options.instant("fromTime"), options.instant("toTime")),
        options.size("partitionBytes"),
    )

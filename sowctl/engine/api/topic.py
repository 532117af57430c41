"""One topic of an instance for programs: the verbs as methods.

A method calls the function of its verb, as the command line does. Most have the command's name; ``hash`` is
:meth:`TopicHandle.digest`, ``query --explain`` is :meth:`TopicHandle.explain`. Arguments are checked before a store is
opened.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, get_args

from msgspec.structs import replace

from sowctl.engine.api.arguments import (
    build_encoder,
    convert_interval,
    encode_payloads,
    format_keys,
    format_time_text,
    parse_instant,
    require_text,
)
from sowctl.engine.api.keyword_checks import check_keywords, choose_synonym
from sowctl.engine.api.result import Result
from sowctl.engine.options import (
    INDEX_MIN_RECORDS,
    DeleteOptions,
    DiffOptions,
    EnvelopeName,
    PublishOptions,
    QueryOptions,
    ReplayOptions,
    SubscribeOptions,
)
from sowctl.engine.search.figures import needs_reindex
from sowctl.engine.topics.targets import Target, make_missing_error
from sowctl.errors import UsageError, convert_memory_errors
from sowctl.remote.place import require_local_path
from sowctl.values.jsontree import convert_numbers

if TYPE_CHECKING:
    from datetime import datetime

    from sowctl.arrow.inputs.input_formats import InputOptions
    from sowctl.config.model import TopicConfig
    from sowctl.engine.api.arguments import At, Interval, Key, Message, Messages
    from sowctl.engine.api.differences import Differences
    from sowctl.engine.instance import Instance
    from sowctl.engine.maintenance.store_repair import StoreRepair
    from sowctl.engine.options import DeltaNull, OnError, TimestampUnit, UnknownFieldPolicy
    from sowctl.engine.records import StoredRecord
    from sowctl.engine.reports import (
        CompactReport,
        DeleteReport,
        ExpireReport,
        ExportReport,
        PublishReport,
        ReindexReport,
        ReplayReport,
        TopicInfo,
    )
    from sowctl.engine.search.keyhistory import VersionRecord
    from sowctl.engine.search.plan import Plan
    from sowctl.engine.sources.digest import Digest
    from sowctl.engine.verbs.changes import ChangesResult
    from sowctl.engine.verbs.check import CheckRun
    from sowctl.engine.verbs.inspect.blame import Blame
    from sowctl.engine.verbs.inspect.diff import DiffSide
    from sowctl.engine.verbs.inspect.schema import SchemaReport
    from sowctl.engine.verbs.snapshot import SnapshotReport
    from sowctl.engine.verbs.subscribe import Subscription
    from sowctl.engine.writing.batches import MessageSource
    from sowctl.errors import SowError
    from sowctl.messages.framing.envelope import EnvelopeFormat


@convert_memory_errors
class TopicHandle:
    """One topic of an instance. Every method opens the files that it needs and closes them again.

    Within the instance's ``with`` statement the store stays open for the next call, which halves the time of a small
    query; other processes may write in between.
    """

    def __init__(self, instance: Instance, config: TopicConfig) -> None:
        self.instance = instance
        self.config = config

    def __repr__(self) -> str:
        kind = self.config.derived.kind if self.config.derived is not None else "Topic"
        return f"<{kind} {self.name!r} of type {self.config.message_type}>"

    def __dir__(self) -> list[str]:
        """Return the names that are meant for programs."""
        return sorted(name for name in super().__dir__() if not name.startswith("_") and name != "target")

    @property
    def name(self) -> str:
        """The topic's name, or the logical topic's."""
        return self.config.label

    @property
    def target(self) -> Target:
        """The target to read. Raises MissingError ``SOW-ENG-016`` if only the transaction log names the topic."""
        if self._is_log_only:
            raise make_missing_error(self.instance, self.config.name, self.config.message_type)
        return Target(topic=self.config)

    @property
    def _is_log_only(self) -> bool:
        return self.config.key_mode == "none" and self.config.derived is None

    @check_keywords
    def publish(
        self,
        messages: Messages,
        options: PublishOptions | None = None,
        *,
        batch: int | None = None,
        batch_bytes: int = 1 << 20,
        linger: Interval | None = None,
        on_error: OnError = "stop",
        max_errors: int | None = None,
        dry_run: bool = False,
        expiration: Interval | None = None,
        sow_key: str | None = None,
        client: str | None = None,
        sequence: int | None = None,
        timestamp: datetime | str | None = None,
        timestamp_field: str | None = None,
        allow_null_key: bool = False,
        allow_volatile: bool = False,
        delta: bool = False,
        delta_null: DeltaNull = "ignore",
        update_only: bool = False,
        skip_unchanged: bool = False,
        replace_all: bool = False,
        force: bool = False,
    ) -> PublishReport:
        """Publish messages; they are durable when this returns.

        ``messages``: a list of bytes, texts or dicts, an iterator of them, or a data frame or table of pandas, Polars
        or pyarrow, with one message per row. A dict becomes a message of the topic's type; for the form of its values,
        see sowctl-python(7). Keywords that differ from their defaults override those of ``options``:

        * batch: messages in a batch; without it, 1,000, or 8,192 where that is faster
        * batch_bytes: bytes of messages that close a batch
        * linger: interval after which an incomplete batch is closed
        * on_error: at an invalid message, ``stop``, ``skip`` it, or ``abort`` and publish nothing
        * max_errors: rejected messages that ``on_error="skip"`` accepts before it stops
        * dry_run: report what would happen, and write nothing
        * expiration: lifetime of the records; 0 for none
        * sow_key: SOW key, for topics whose publishers choose the keys
        * client: name of the publisher, for duplicate detection
        * sequence: sequence number of the first message, which switches duplicate detection on
        * timestamp: time of all messages, a datetime or a text; default: now
        * timestamp_field: path of the field with each message's time, for numbers with the unit: ``/ts:ms``
        * allow_null_key: accept messages whose key fields are all null
        * allow_volatile: accept messages that are kept neither in a store nor in the journal
        * delta: merge each message into the record with its key
        * delta_null: ``ignore`` null fields of a delta, or ``set`` the fields to null
        * update_only: reject deltas to missing records
        * skip_unchanged: count messages that are equal to the current record as unchanged, and do not write them
        * replace_all: make the topic equal to the messages: delete all records that are not among them, in one group
        * force: with replace_all, accept an empty input

        Intervals are timedeltas, seconds, or texts such as ``5m``.

        Raises InputError (exit 3) at an invalid message unless ``on_error="skip"``, TypeError for a value that is not a
        message.
        """
        given = PublishOptions(
            batch=batch,
            batch_bytes=batch_bytes,
            linger=convert_interval("linger", linger),
            on_error=on_error,
            max_errors=max_errors,
            dry_run=dry_run,
            expiration=convert_interval("expiration", expiration),
            sow_key=sow_key,
            client=client,
            sequence=sequence,
            timestamp=format_time_text("timestamp", timestamp),
            timestamp_field=timestamp_field,
            allow_null_key=allow_null_key,
            allow_volatile=allow_volatile,
            delta=delta,
            delta_null=delta_null,
            update_only=update_only,
            skip_unchanged=skip_unchanged,
            replace_all=replace_all,
            force=force,
        )
        return publish_to_topic(
            self.instance, self.name, self.config.message_type, messages, merge_publish_options(options, given)
        )

    @check_keywords
    def publish_file(
        self,
        file: str | os.PathLike[str],
        options: PublishOptions | None = None,
        *,
        input_format: str | None = None,
        types: Mapping[str, str] | None = None,
        all_text: bool = False,
        delimiter: str | None = None,
        null_texts: Collection[str] = (),
        headers: bool = True,
        columns: Collection[str] = (),
        table: str | None = None,
        envelope: EnvelopeName | None = None,
        ignore_unknown_members: bool = False,
        timestamp_unit: TimestampUnit | None = None,
    ) -> PublishReport:
        """Publish the rows of a file, or the messages of a file of envelopes; they are durable when this returns.

        ``options`` are those of :meth:`publish`.

        * input_format: csv, tsv, json, ndjson, parquet, arrow, msgpack or sqlite; default: by the end of the file name
        * types: types of columns of csv and tsv: text, integer, number, boolean or json; default: detected
        * all_text: read the other columns of csv and tsv as text
        * delimiter: cell delimiter of csv and tsv; default: detected in the header
        * null_texts: texts that mean null in csv and tsv, besides the empty cell
        * headers: the first row of csv and tsv has the names of the columns
        * columns: names of the columns of csv and tsv without a header
        * table: table of an SQLite database; default: the one with the name of the topic, or the only one
        * envelope: sowctl, kafka or debezium: each line is an envelope with a message and its metadata
        * ignore_unknown_members: ignore members of envelopes that are unknown
        * timestamp_unit: unit of timestamps of envelopes that are numbers: s, ms, us or ns; default: ms

        ``inputs`` of the report has the types that columns were read as; it is empty for envelopes. Raises as
        :meth:`publish`, InputError ``SOW-EXC-012`` for a file that cannot be read as its format, UsageError for an
        unknown format or column, or options of envelopes without ``envelope``.
        """
        from sowctl.arrow.inputs.input_formats import DelimitedOptions, InputOptions

        delimited = DelimitedOptions(
            types or {}, all_text, delimiter, (*null_texts,), headers and not columns, (*columns,)
        )
        reading = InputOptions(input_format, delimited, table)
        chosen = PublishOptions() if options is None else options
        if chosen in get_args(EnvelopeName):
            raise TypeError(f"options must be sowctl.PublishOptions, not str; did you mean envelope={chosen!r}?")
        _require_publish_options(chosen)
        name = os.fspath(file)
        form = _choose_envelope_format(envelope, ignore_unknown_members, timestamp_unit, reading, chosen)
        if form is None:
            return publish_file_to_topic(self.instance, self.name, self.config.message_type, name, reading, chosen)
        return self._publish_envelopes(name, form, chosen)

    def _publish_envelopes(self, name: str, form: EnvelopeFormat, options: PublishOptions) -> PublishReport:
        from sowctl.messages.framing.frames import FrameReader
        from sowctl.messages.framing.input_files import find_descriptor, open_input

        if form.client is not None:
            # Each partition is a separate publisher, so the run has no single client.
            options = replace(options, client=None)
        kind = self.instance.find_message_type(self.config.message_type).kind
        with open_input(name) as stream:
            reader = FrameReader(find_descriptor(stream), "envelope", name=name, kind=kind, form=form)
            return _publish_source(self.instance, self.name, self.config.message_type, name, reader, options)

    @check_keywords
    def query(
        self,
        filter: str | None = None,
        *,
        order_by: str | None = None,
        top_n: int | None = None,
        limit: int | None = None,
        skip_n: int | None = None,
        offset: int | None = None,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        at: At | None = None,
        select: str | None = None,
        batch_size: int = 1000,
        sort_memory: int = 64 << 20,
        by_time: bool = False,
        index_from: int | None = INDEX_MIN_RECORDS,
        projection: str | None = None,
        grouping: str | None = None,
        after_key: Key | None = None,
        jobs: int | None = None,
        counted: bool = True,
        fresh: bool = False,
        shown: Collection[str] = (),
        unknown: UnknownFieldPolicy = "ignore",
    ) -> Result:
        """Start a query.

        Read the result with ``records()``, ``to_dicts()``, ``to_arrow()``, ``to_pandas()`` or ``count()``.

        * filter: condition for records; see sowctl-expressions(7)
        * order_by: sort order, such as ``/price DESC, /id``; default: by SOW key
        * top_n or limit: maximum number of records
        * skip_n or offset: number of records to skip first; requires top_n
        * sow_keys: SOW keys of the records to read
        * keys: values of key fields of the records to read; values of several fields joined by commas
        * at: instant of the state to read: a datetime, microseconds since 1970, or a text as for ``--at``
        * select: fields to keep of each message, such as ``-/,+/id,+/price``
        * batch_size: records in a batch
        * sort_memory: bytes for sorting and for groups, before temporary files are used
        * by_time: order by time of last update if no other order is given
        * index_from: minimum number of records of a store for using and building indexes; None: never
        * projection: fields to compute per group, such as ``SUM(/qty) AS /sum``; with grouping
        * grouping: fields to group by; with projection
        * after_key: SOW key after which to continue, in key order
        * jobs: maximum number of processes that read a large store; default: as many as are worthwhile
        * counted: count all matching records for the statistics, even beyond top_n
        * fresh: recompute a view or conflated topic, ignoring its cache
        * shown: further fields to check if unknown is not ``ignore``
        * unknown: a named field that no record has: ``ignore``, ``note`` it after the result, or ``error``
        """
        from sowctl.engine.verbs.query import start_query

        options = QueryOptions(
            filter=require_text("filter", filter),
            order_by=order_by,
            top_n=choose_synonym(("top_n", "limit"), top_n, limit),
            skip_n=choose_synonym(("skip_n", "offset"), skip_n, offset),
            sow_keys=format_keys("sow_keys", sow_keys, "query(sow_keys=[key])"),
            keys=format_keys("keys", keys, "query(keys=[value])"),
            at=parse_instant(self.instance, at),
            select=select,
            batch_size=batch_size,
            sort_memory=sort_memory,
            by_time=by_time,
            index_from=index_from,
            projection=projection,
            grouping=grouping,
            after_key=None if after_key is None else str(after_key),
            jobs=jobs,
            counted=counted,
            fresh=fresh,
            shown=format_keys("shown", shown, "query(shown=[path])"),
            unknown=unknown,
        )
        return Result(start_query(self.instance, [self.target], options), self.name)

    @check_keywords
    def subscribe(
        self,
        filter: str | None = None,
        *,
        order_by: str | None = None,
        top_n: int | None = None,
        limit: int | None = None,
        skip_n: int | None = None,
        offset: int | None = None,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        select: str | None = None,
        sow: bool = True,
        batch_size: int = 1,
        query_id: str | None = None,
        until_now: bool = False,
        lasting: Interval | None = None,
        most: int | None = None,
        progress_every: Interval | None = None,
        oof: bool = False,
        deletes: bool = False,
        delta: bool = False,
        no_empties: bool = False,
        send_keys: bool = False,
        conflation: str | None = None,
        conflation_key: str | None = None,
        projection: str | None = None,
        grouping: str | None = None,
        bookmark: datetime | str | None = None,
        bookmark_not_found: str | None = None,
        rate: str | None = None,
        rate_max_gap: Interval | None = None,
        events: bool = True,
    ) -> Subscription:
        """Follow the topic: iterate for events (``for``, ``async for``), first the records of one instant.

        Use it in a ``with`` or ``async with`` statement; ``cancel()`` ends it, from another thread, too. A program may
        publish to the topic while it handles an event: all records are read before the first one is delivered.

        * filter: condition for records and messages; see sowctl-expressions(7)
        * order_by, top_n or limit, skip_n or offset: order and number of the initial records, as for ``query``
        * sow_keys: SOW keys of the records to follow
        * keys: values of key fields of the records to follow; values of several fields joined by commas
        * select: fields to keep of each message
        * sow: start with the current records; False: only messages after them
        * batch_size: records that are delivered together
        * query_id: text in the events of the initial records
        * until_now: stop at the position that is the end of the journal at the start
        * lasting: interval after which to stop
        * most: number of messages after which to stop, not counting the initial records
        * progress_every: interval at which the position is delivered if it has changed
        * oof: deliver an event for each record that leaves the result
        * deletes: with ``sow=False``, deliver deletions and expirations, too, as ``sow_delete``
        * delta: only the changed fields of records delivered before
        * no_empties: with delta, nothing if no field has changed
        * send_keys: with no_empties, include the key fields, as without it
        * conflation: at most one message per key and interval, such as ``2s`` or ``auto``
        * conflation_key: fields that identify a message; default: the SOW key
        * projection, grouping: one message per group, as for ``query``
        * bookmark: start position: a bookmark, a time, or a datetime
        * bookmark_not_found: if the position is not in the journals: ``fail``, ``epoch`` or ``now``
        * rate: speed of a replay, such as ``100`` messages per second or ``2x``
        * rate_max_gap: longest pause of a replay
        * events: use the system's change notifications, instead of only polling
        """
        from sowctl.engine.verbs.subscribe import subscribe_topics

        options = SubscribeOptions(
            filter=require_text("filter", filter),
            order_by=order_by,
            top_n=choose_synonym(("top_n", "limit"), top_n, limit),
            skip_n=choose_synonym(("skip_n", "offset"), skip_n, offset),
            sow_keys=format_keys("sow_keys", sow_keys, "subscribe(sow_keys=[key])"),
            keys=format_keys("keys", keys, "subscribe(keys=[value])"),
            select=select,
            sow=sow,
            batch_size=batch_size,
            query_id=query_id,
            until_now=until_now,
            lasting=convert_interval("lasting", lasting),
            most=most,
            progress_every=convert_interval("progress_every", progress_every),
            oof=oof,
            deletes=deletes,
            delta=delta,
            no_empties=no_empties,
            send_keys=send_keys,
            conflation=conflation,
            conflation_key=conflation_key,
            projection=projection,
            grouping=grouping,
            bookmark=format_time_text("bookmark", bookmark),
            bookmark_not_found=bookmark_not_found,
            rate=rate,
            rate_max_gap=convert_interval("rate_max_gap", rate_max_gap),
            events=events,
        )
        return subscribe_topics(self.instance, [self.config], options)

    @check_keywords
    def explain(
        self,
        filter: str | None = None,
        *,
        order_by: str | None = None,
        top_n: int | None = None,
        limit: int | None = None,
        skip_n: int | None = None,
        offset: int | None = None,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        at: At | None = None,
        select: str | None = None,
        batch_size: int = 1000,
        sort_memory: int = 64 << 20,
        by_time: bool = False,
        index_from: int | None = INDEX_MIN_RECORDS,
        projection: str | None = None,
        grouping: str | None = None,
        after_key: Key | None = None,
        jobs: int | None = None,
        counted: bool = True,
        fresh: bool = False,
        shown: Collection[str] = (),
        unknown: UnknownFieldPolicy = "ignore",
    ) -> Plan:
        """Return the plan of a query with these options, which are those of ``query``.

        It counts as a query for the decision to build an index.
        """
        with self.query(
            filter,
            order_by=order_by,
            top_n=top_n,
            limit=limit,
            skip_n=skip_n,
            offset=offset,
            sow_keys=sow_keys,
            keys=keys,
            at=at,
            select=select,
            batch_size=batch_size,
            sort_memory=sort_memory,
            by_time=by_time,
            index_from=index_from,
            projection=projection,
            grouping=grouping,
            after_key=after_key,
            jobs=jobs,
            counted=counted,
            fresh=fresh,
            shown=shown,
            unknown=unknown,
        ) as result:
            return result.plans()[0]

    @check_keywords
    def get(self, *keys: Key, fields: bool = False, at: At | None = None) -> Iterator[StoredRecord]:
        """Return the records of SOW keys, else of key field texts (with ``fields`` only these), in the requested order.

        ``at`` is a datetime (UTC if it has no time zone), microseconds since 1970 UTC, or a text as for ``--at``: a
        time, a bookmark, or the txid of an entry.
        """
        from sowctl.engine.verbs.get import get_records

        texts = format_keys("keys", keys, "get(key)")
        batch, _ = get_records(self.instance, self.target, texts, fields=fields, at=parse_instant(self.instance, at))
        return iter(batch.records)

    @check_keywords
    def count(
        self,
        filter: str | None = None,
        *,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        at: At | None = None,
        fresh: bool = False,
        unknown: UnknownFieldPolicy = "ignore",
    ) -> int:
        """Return the number of records that match a filter; the options are those of :meth:`query`.

        No record is read if indexes suffice.
        """
        with self.query(filter, sow_keys=sow_keys, keys=keys, at=at, fresh=fresh, unknown=unknown) as result:
            return result.count()

    @check_keywords
    def history(self, *keys: Key, fields: bool = False, journal: bool = False) -> Iterator[VersionRecord]:
        """Return the versions of the records of SOW keys or key field texts (with ``fields`` only these).

        The versions of each key are ordered from the oldest. For a topic with History these are the retained versions;
        with ``journal``, for any topic, all entries in the journals.
        """
        from sowctl.engine.verbs.history import read_key_versions

        texts = format_keys("keys", keys, "history(key)")
        batch, _ = read_key_versions(self.instance, self.target, texts, fields=fields, journal=journal)
        return iter(batch.records)

    def versions(self, *keys: Key, fields: bool = False, journal: bool = False) -> Iterator[VersionRecord]:
        """Return the versions of records: the former name of :meth:`history`."""
        return self.history(*keys, fields=fields, journal=journal)

    @check_keywords
    def schema(
        self,
        filter: str | None = None,
        *,
        sample: int | str | None = None,
        at: At | None = None,
        fresh: bool = False,
        unknown: UnknownFieldPolicy = "ignore",
    ) -> SchemaReport:
        """Return the paths of messages with their types, missing and null counts, distinct values and examples.

        All records are read, or a ``sample``: a number of records, or a text such as ``5%``, the same records in every
        run. The other options are those of :meth:`query`. ``to_json_schema()`` of the report is a JSON Schema.
        """
        from sowctl.engine.profile.sample import parse_sample
        from sowctl.engine.verbs.inspect.schema import profile_schema

        if isinstance(sample, bool) or not isinstance(sample, int | str | None):
            raise TypeError(f"sample must be an int or a text such as '5%', not {type(sample).__name__}")
        share = parse_sample(None if sample is None else str(sample), "sample")
        kind = self.instance.find_message_type(self.config.message_type)
        with self.query(filter, at=at, fresh=fresh, unknown=unknown) as result:
            return profile_schema(result, self.name, kind, share)

    @check_keywords
    def export(
        self,
        path: str | os.PathLike[str],
        filter: str | None = None,
        *,
        order_by: str | None = None,
        top_n: int | None = None,
        limit: int | None = None,
        skip_n: int | None = None,
        offset: int | None = None,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        at: At | None = None,
        select: str | None = None,
        fresh: bool = False,
        unknown: UnknownFieldPolicy = "ignore",
        meta: bool = False,
        overwrite: bool = False,
        add: bool = False,
        changes: bool = False,
        since: datetime | str | None = None,
        bookmark_not_found: str | None = None,
    ) -> ExportReport:
        """Write the records to a file, whose ending selects the format, as the command ``export`` does.

        Endings are .parquet, .arrow, .arrows, .csv, .tsv, .ndjson, .json, .msgpack, .sqlite and .duckdb; .gz or .zst
        may follow the ending of text formats. The file is written completely or not at all. ``meta`` adds columns such
        as ``_sow_key``; ``add`` adds the table to an existing database, and replaces one of the same name only with
        ``overwrite``; the other options are those of :meth:`query`.

        With ``changes``, the file has the changes of the records after the position ``since`` (:meth:`changes`), and
        the report the position at which the next export continues; ``at``, ``fresh``, an order and limits do not apply.

        Raises RefusedError ``SOW-CLI-011`` if the file exists, ``SOW-EXC-027`` if the table does, unless ``overwrite``,
        and UsageError ``SOW-EXC-002`` for an unknown ending.
        """
        from sowctl.engine.api.export_file import ExportOptions, export_changes, export_records

        options = QueryOptions(
            filter=require_text("filter", filter),
            order_by=order_by,
            top_n=choose_synonym(("top_n", "limit"), top_n, limit),
            skip_n=choose_synonym(("skip_n", "offset"), skip_n, offset),
            sow_keys=format_keys("sow_keys", sow_keys, "export(sow_keys=[key])"),
            keys=format_keys("keys", keys, "export(keys=[value])"),
            at=parse_instant(self.instance, at),
            select=select,
            by_time=meta,
            counted=False,
            fresh=fresh,
            unknown=unknown,
        )
        if changes:
            return export_changes(
                self.instance,
                self.target,
                self.name,
                require_local_path(os.fspath(path)),
                options,
                format_time_text("since", since),
                bookmark_not_found,
                overwrite=overwrite,
            )
        if since is not None or bookmark_not_found is not None:
            raise TypeError("export() takes since and bookmark_not_found only with changes=True")
        writing = ExportOptions(meta=meta, overwrite=overwrite, add=add)
        place = require_local_path(os.fspath(path))
        return export_records(self.instance, self.target, self.name, place, options, writing)

    @check_keywords
    def changes(
        self,
        filter: str | None = None,
        *,
        since: datetime | str | None = None,
        bookmark_not_found: str | None = None,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        select: str | None = None,
    ) -> ChangesResult:
        """Return the changes of the records after the position ``since``, by default from the start of the journal.

        Iterate over ``records()`` of the result: each has ``change_type`` (insert, update_preimage, update_postimage or
        delete), ``reason`` of a delete (deleted or expired), and the record before or after the change. Its
        ``bookmark`` and ``txid`` are the position to continue at.

        * filter: condition for the record of a row; see sowctl-expressions(7)
        * since: a bookmark, a txid, a time, a datetime or a range
        * bookmark_not_found: if the position is not in the journals: ``fail`` (the default), ``epoch`` or ``now``
        * sow_keys, keys: only these records, as for ``query``
        * select: fields to keep of each message
        """
        from sowctl.engine.verbs.changes import start_changes

        options = QueryOptions(
            filter=require_text("filter", filter),
            sow_keys=format_keys("sow_keys", sow_keys, "changes(sow_keys=[key])"),
            keys=format_keys("keys", keys, "changes(keys=[value])"),
            select=select,
        )
        since_text = format_time_text("since", since) or "0"
        return start_changes(self.instance, self.target, options, since_text, bookmark_not_found)

    @check_keywords
    def blame(self, *keys: Key, fields: bool = False, at: At | None = None) -> list[Blame]:
        """Return the entry that last set each field of the records of SOW keys or key field texts.

        The records are those of now or as of ``at``, as for :meth:`get`; for a missing record, ``gone`` and ``last``
        say why. Raises UsageError for views, and for topics without journal and history, and InputError ``SOW-QRY-025``
        for a record with more than 500,000 members and objects.
        """
        from sowctl.engine.verbs.inspect.blame import find_origins

        texts = format_keys("keys", keys, "blame(key)")
        found = find_origins(self.instance, self.target, texts, fields=fields, at=parse_instant(self.instance, at))
        # The engine keeps numbers as texts, with all of their digits.
        return [
            replace(one, fields=[replace(origin, value=convert_numbers(origin.value)) for origin in one.fields])
            for one in found
        ]

    @check_keywords
    def diff(
        self,
        other: TopicHandle | Messages | None = None,
        filter: str | None = None,
        *,
        at: At | None = None,
        other_at: At | None = None,
        keys: Collection[Key] | None = None,
        fields: Collection[str] = (),
        ignored: Collection[str] = (),
        on: Collection[str] = (),
        loose: bool = False,
        stamps: bool = False,
        records: bool = False,
    ) -> Differences:
        """Compare this topic, now or as of ``at``, with ``other`` (default: this one), now or as of ``other_at``.

        ``other`` may be a topic of another instance, or messages as for :meth:`publish`: then it is the state after
        publishing them to the empty topic. Times are as for :meth:`get`.

        * filter: compare a record if either side matches this condition
        * keys: compare only the records with these keys
        * fields: compare only these fields
        * ignored: ignore these fields
        * on: match records by these fields instead of their SOW keys
        * loose: ignore differences in notation: white space, order of members, 1 and 1.0
        * stamps: compare metadata, too
        * records: say only which records differ, not in which fields

        Raises UsageError if the two sides are one state, or have different kinds of keys.
        """
        from sowctl.engine.api.differences import Differences
        from sowctl.engine.verbs.inspect.diff import DiffSide, compare_sides

        options = DiffOptions(
            filter=require_text("filter", filter),
            keys=format_keys("keys", keys, "diff(keys=[key])"),
            fields=format_keys("fields", fields, "diff(fields=[path])"),
            ignored=format_keys("ignored", ignored, "diff(ignored=[path])"),
            on=format_keys("on", on, "diff(on=[path])"),
            loose=loose,
            stamps=stamps,
            records=records,
        )
        before = DiffSide(
            self.instance, self.target, _format_side_name(self.name, at), parse_instant(self.instance, at)
        )
        with ExitStack() as held:
            if other is None or isinstance(other, TopicHandle):
                second = self if other is None else other
                after = DiffSide(
                    second.instance,
                    second.target,
                    _format_side_name(second.name, other_at),
                    parse_instant(second.instance, other_at),
                )
            else:
                after = self._open_messages(other, other_at, held)
            if (before.instance, before.target, before.at) == (after.instance, after.target, after.at):
                raise UsageError(
                    "SOW-DIF-005",
                    "diff() requires something to compare with",
                    hint="pass another topic, or a time: diff(at='-1h')",
                )
            return Differences(compare_sides(before, after, options), held.pop_all())

    def _open_messages(self, messages: Messages, at: At | None, held: ExitStack) -> DiffSide:
        """Return the state after publishing messages to the empty topic as a side of a comparison; ``held`` closes
        it."""
        from sowctl.engine.verbs.inspect.diff import DiffSide
        from sowctl.engine.verbs.publish import publish_messages
        from sowctl.engine.writing.input_state import open_input_state

        if at is not None:
            raise UsageError("SOW-DIF-005", "diff(other_at=) requires a topic: messages have no other time")
        topic = self.config
        options = PublishOptions()

        def load(copy: Instance) -> PublishReport:
            source = build_message_source(copy, topic, messages, options)
            return publish_messages(copy, topic.label, [("messages", source)], options, message_type=topic.message_type)

        state = held.enter_context(open_input_state(self.instance, topic, load))
        return DiffSide(state.instance, Target(topic=state.topic), "messages")

    @check_keywords
    def delete(
        self,
        *,
        filter: str | None = None,
        sow_keys: Collection[Key] | None = None,
        keys: Collection[Key] | None = None,
        data: Iterable[Message] | None = None,
        dry_run: bool = False,
    ) -> DeleteReport:
        """Delete records by one selector: a filter, lists of SOW keys and key values, or messages with their keys.

        Durable on return. Raises TypeError for a single text or message instead of a list.
        """
        from sowctl.engine.verbs.delete import delete_records

        options = DeleteOptions(
            require_text("filter", filter),
            format_keys("sow_keys", sow_keys, "delete(sow_keys=[key])"),
            encode_payloads(data, self.instance.find_message_type(self.config.message_type))
            if data is not None
            else None,
            dry_run,
            keys=format_keys("keys", keys, "delete(keys=[value])"),
        )
        return delete_records(self.instance, [self.target], options)[0]

    @check_keywords
    def expire(self, *, dry_run: bool = False) -> ExpireReport:
        """Remove expired records and versions."""
        from sowctl.engine.verbs.expire import expire_records

        return expire_records(self.instance, [self.config], dry_run=dry_run)[0]

    @check_keywords
    def replay(
        self,
        *,
        until_txid: int | None = None,
        until_time: At | None = None,
        into: str | os.PathLike[str] | None = None,
        journal: str | os.PathLike[str] | None = None,
        verify: bool = False,
        rebuild: bool = False,
        force: bool = False,
        dry_run: bool = False,
        rekey: bool = False,
    ) -> ReplayReport:
        """Bring the store up to date with the journals.

        * until_txid, until_time (as ``at`` of :meth:`get`): position at which to stop; with into or verify
        * into: directory for new stores, instead of the store itself
        * journal: directory to read journals from; default: the configured one
        * verify: compare the store with the journals; write nothing
        * rebuild: rebuild from the beginning of the journal even if the store could catch up
        * force: replace a store even if it has records that the journals no longer contain
        * dry_run: report what would happen; write nothing
        * rekey: after a change of Key, give the records the keys of the new definition
        """
        from sowctl.engine.verbs.replay import replay_topics

        options = ReplayOptions(
            until_txid=until_txid,
            until_time=parse_instant(self.instance, until_time),
            into=None if into is None else os.fspath(into),
            journal=None if journal is None else os.fspath(journal),
            verify=verify,
            rebuild=rebuild,
            force=force,
            dry_run=dry_run,
            rekey=rekey,
        )
        return replay_topics(self.instance, [self.config], options)[0]

    @check_keywords
    def snapshot(
        self, path: str | os.PathLike[str], *, at: At | None = None, filter: str | None = None, force: bool = False
    ) -> SnapshotReport:
        """Write the state, now or as of ``at`` (as for :meth:`get`), to the new store file ``path``.

        With ``filter``, only the records that match it. Raises RefusedError (exit 8) if the file exists, unless
        ``force``.
        """
        from sowctl.engine.verbs.snapshot import write_snapshot

        when = parse_instant(self.instance, at)
        place = require_local_path(os.fspath(path))
        return write_snapshot(self.instance, self.target, when, place, filter=filter, force=force)

    def check(self) -> CheckRun:
        """Check the topic's store: iterate for findings, then read ``status``, ``report`` and ``coverage``."""
        from sowctl.engine.verbs.check import check_instance

        return check_instance(self.instance, [self.target])

    @check_keywords
    def reindex(self, *, drop: bool = False) -> ReindexReport:
        """Rebuild the topic's memo indexes, or remove them."""
        from sowctl.engine.verbs.reindex import rebuild_indexes

        return rebuild_indexes(self.instance, [self.target], drop=drop)[0]

    @check_keywords
    def compact(self, *, dry_run: bool = False) -> CompactReport:
        """Replace the topic's store by a copy without free pages, while others use it."""
        from sowctl.engine.verbs.upkeep.compact import compact_stores

        for report in compact_stores(self.instance, [self.target], dry_run=dry_run):
            return report
        raise _build_no_store_error(self.config)

    @check_keywords
    def repair(self, *, earlier: bool = False, dry_run: bool = False) -> StoreRepair:
        """Repair a damaged store from its intact part and the journal: ``report`` has counts, ``items()`` the
        details."""
        from sowctl.engine.verbs.upkeep.repair import repair_stores

        for done in repair_stores(self.instance, [self.target], earlier=earlier, dry_run=dry_run):
            return done
        raise _build_no_store_error(self.config)

    @check_keywords
    def digest(self, at: At | None = None, *, filter: str | None = None) -> Digest:
        """Return the digest of the state, now or as of ``at`` (as for :meth:`get`).

        With ``filter``, the digest of the records that match it, without versions.
        """
        from functools import partial

        from sowctl.engine.sources.digest import compute_digest
        from sowctl.engine.views.openers import open_filtered_target

        opener = partial(open_filtered_target, filter=filter)
        when = parse_instant(self.instance, at)
        return compute_digest(self.instance, self.target, when, opener, partial=filter is not None)

    def info(self) -> TopicInfo:
        """Return sizes, counts and position."""
        from sowctl.engine.verbs.info import list_topic_info

        return list_topic_info(self.instance, [self.target])[0]


def merge_publish_options(options: PublishOptions | None, given: PublishOptions) -> PublishOptions:
    """Return ``options`` with the fields of ``given`` that differ from their defaults."""
    if options is None:
        return given
    _require_publish_options(options)
    defaults = PublishOptions()
    return replace(
        options,
        **{
            name: value
            for name in PublishOptions.__struct_fields__
            if (value := getattr(given, name)) != getattr(defaults, name)
        },
    )


def _require_publish_options(options: object) -> None:
    """Raise TypeError for what are no options."""
    if not isinstance(options, PublishOptions):
        raise TypeError(f"options must be sowctl.PublishOptions, not {type(options).__name__}")


def build_message_source(
    instance: Instance, config: TopicConfig, messages: Messages, chosen: PublishOptions
) -> MessageSource:
    """Return the source of a program's messages. Raises TypeError if they are none."""
    from sowctl.engine.writing.batches import ListSource

    kind = instance.find_message_type(config.message_type)
    if hasattr(messages, "__arrow_c_stream__") or hasattr(messages, "__arrow_c_array__"):
        from sowctl.arrow.inputs.table_source import open_frame_source
        from sowctl.engine.writing.row_target import build_row_target

        return open_frame_source("rows", messages, build_row_target(instance, config.label, config.message_type))
    if hasattr(messages, "collect") and not isinstance(messages, Iterable):
        # A lazy frame, for example of Polars, is a query: without this, the error would be that it is not iterable.
        raise TypeError(f"{type(messages).__name__} has no rows yet: publish its result, publish(frame.collect())")
    return ListSource(messages, chosen.batch, encode=build_encoder(kind))


def publish_to_topic(
    instance: Instance,
    topic: str,
    message_type: str | None,
    messages: Messages,
    chosen: PublishOptions,
) -> PublishReport:
    """Publish messages to the topic of this name, as :meth:`TopicHandle.publish` does."""
    from sowctl.engine.topics.targets import find_publish_topic

    config = find_publish_topic(instance, topic, message_type)
    source = build_message_source(instance, config, messages, chosen)
    return _publish_source(instance, topic, message_type, "messages", source, chosen)


def _publish_source(
    instance: Instance,
    topic: str,
    message_type: str | None,
    name: str,
    source: MessageSource,
    chosen: PublishOptions,
) -> PublishReport:
    """Publish a source, or make the topic equal to it; rebuild indexes that became stale."""
    from sowctl.engine.verbs.publish import publish_messages
    from sowctl.engine.verbs.replace import replace_records

    def load(copy: Instance, options: PublishOptions) -> PublishReport:
        return publish_messages(copy, topic, [(name, source)], options, message_type=message_type)

    if chosen.replace_all:
        report = replace_records(instance, topic, load, chosen, message_type=message_type)
    else:
        report = load(instance, chosen)
    _reindex_if_needed(instance, report)
    return report


def publish_file_to_topic(
    instance: Instance, topic: str, message_type: str | None, name: str, reading: InputOptions, chosen: PublishOptions
) -> PublishReport:
    """Publish the rows of a file to the topic of this name, as :meth:`TopicHandle.publish_file` does."""
    from sowctl.arrow.inputs.row_inputs import open_row_input
    from sowctl.engine.writing.row_target import build_row_target

    target = build_row_target(instance, topic, message_type)
    with open_row_input(name, target, reading) as found:
        report = _publish_source(instance, topic, message_type, name, found.source, chosen)
        report.inputs = [found.facts]
    return report


def _choose_envelope_format(
    name: EnvelopeName | None,
    ignores_unknown: bool,
    time_unit: TimestampUnit | None,
    reading: InputOptions,
    options: PublishOptions,
) -> EnvelopeFormat | None:
    """Return the format of a file of envelopes; None for a file of rows.

    Raises UsageError ``SOW-INP-017`` for options without envelopes, ``SOW-EXC-010`` for options of rows with them.
    """
    from sowctl.arrow.inputs.input_formats import InputOptions
    from sowctl.messages.framing.envelope import EnvelopeFormat

    if name is None:
        if ignores_unknown or time_unit is not None:
            told = "ignore_unknown_members" if ignores_unknown else "timestamp_unit"
            raise UsageError("SOW-INP-017", f"{told} requires envelopes", hint='add envelope="sowctl"')
        return None
    if name != "sowctl" and time_unit is not None:
        raise UsageError("SOW-INP-017", f"timestamp_unit has no effect on {name} envelopes", hint="omit it")
    if reading != InputOptions():
        raise UsageError("SOW-EXC-010", "envelope cannot be combined with options of rows", hint="omit these options")
    client = options.client if name != "sowctl" and options.sequence is None else None
    return EnvelopeFormat(name, ignores_unknown, time_unit or "ms", client)


def _reindex_if_needed(instance: Instance, report: PublishReport) -> None:
    loaded = [(row.topic, row.message_type, row.inserted + row.updated) for row in report.topics]
    if not report.dry_run and needs_reindex(loaded):
        from sowctl.engine.verbs.reindex import reindex_loaded

        reindex_loaded(instance, loaded)


def _format_side_name(name: str, at: At | None) -> str:
    """Return the displayed name of a side of a comparison."""
    return name if at is None else f"{name}@{at}"


def _build_no_store_error(topic: TopicConfig) -> SowError:
    from sowctl.engine.topics.positions import make_no_store_error

    return make_no_store_error(topic)

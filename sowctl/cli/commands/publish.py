"""``sowctl publish``: publish messages to topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import INPUT_FORMATS, Framing, MessageType, NullFraming, Summary
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import EnvelopeName, PublishOptions
from sowctl.errors import UsageError
from sowctl.values.times import EPOCH_UNITS

if TYPE_CHECKING:
    from sowctl.arrow.inputs.input_formats import InputOptions
    from sowctl.arrow.inputs.partitions import PartitionValues

EXAMPLES = (
    "sowctl publish orders fills.ndjson",
    "producer | sowctl publish orders",
    "sowctl publish orders in.ndjson --on-error skip --rejects bad.ndjson",
    "sowctl publish customers customers.ndjson --skip-unchanged",
    "sowctl publish customers customers.ndjson --replace-all --dry-run",
    "sowctl publish orders fills.ndjson --delta --update-only --on-error skip",
    "sowctl publish orders fills.csv --type status=text",
    "zcat fills.csv.gz | sowctl publish orders --format csv",
    "sowctl publish orders fills.json",
    "sowctl query orders --meta | sowctl -c other.xml publish --framing envelope",
    "sowctl journal dump | sowctl -c other.xml publish --framing envelope",
    "sowctl publish orders --from lake/",
    "kcat -b localhost -t orders -C -e -J | sowctl publish --envelope kafka",
)
COMMON_OPTIONS = ("rows", "type", "framing", "delta", "on_error", "rejects", "expiration", "dry_run")


class PublishArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl publish``."""

    topic: Annotated[
        str | None,
        Argument("TOPIC", "Name of the topic. Optional if envelopes name their topics.", complete="published"),
    ] = None
    files: Annotated[
        list[str] | None, Argument("FILE", "Files with messages; - or none reads standard input.", complete="file")
    ] = None
    rows: Annotated[
        list[str] | None,
        declare_option(
            "--from",
            help="Convert each row of FILE, or of the files of a directory, to a message; - is standard input.",
            metavar="FILE",
        ),
    ] = None
    input_format: Annotated[
        str | None,
        declare_option(
            "--format",
            help="Format of the input, whose rows become messages. Default: by file name; for --from -, by content.",
            choices=INPUT_FORMATS,
        ),
    ] = None
    type: Annotated[
        list[str] | None,
        declare_option(
            "--type",
            help="For csv and tsv: type of a column: COLUMN=text, integer, number, boolean or json. Default: detected.",
            metavar="TYPE",
        ),
    ] = None
    all_text: Annotated[
        bool, declare_option("--all-text", help="For csv and tsv: all columns are text, unless --type is given.")
    ] = False
    delimiter: Annotated[
        str | None,
        declare_option(
            "--delimiter",
            help="Cell delimiter of csv and tsv, for example ';', '|' or tab. Default: detected in the header.",
            metavar="CHAR",
        ),
    ] = None
    no_headers: Annotated[
        bool,
        declare_option(
            "--no-headers",
            help="For csv and tsv without a header: columns are named column1, column2, ..., or by --columns.",
        ),
    ] = False
    columns: Annotated[
        str | None,
        declare_option(
            "--columns", help="For csv and tsv without a header: names of the columns.", metavar="NAME[,NAME]..."
        ),
    ] = None
    null_text: Annotated[
        list[str] | None,
        declare_option(
            "--null-text", help="Text that means null in csv and tsv, for example NA. May be repeated.", metavar="TEXT"
        ),
    ] = None
    table: Annotated[
        str | None,
        declare_option(
            "--table",
            help="Table of an SQLite database. Default: the one with the name of the topic, or the only one.",
            metavar="NAME",
        ),
    ] = None
    message_type: MessageType = None
    framing: Framing = None
    null: NullFraming = False
    envelope: Annotated[
        str | None,
        declare_option(
            "--envelope",
            help="Read envelopes: those of sowctl, records of kafka, or change events of debezium.",
            choices=get_args(EnvelopeName),
        ),
    ] = None
    ignore_unknown_members: Annotated[
        bool,
        declare_option("--ignore-unknown-members", help="Ignore unknown members of envelopes instead of rejecting."),
    ] = False
    timestamp_unit: Annotated[
        str | None,
        declare_option(
            "--timestamp-unit",
            help="Unit of envelope timestamps that are numbers since 1970. Default: ms.",
            choices=tuple(EPOCH_UNITS),
        ),
    ] = None
    publish: PublishOptions
    rejects: Annotated[
        str | None,
        declare_option("--rejects", help="Append rejected messages to FILE, with position and reason.", metavar="FILE"),
    ] = None
    tee: Annotated[bool, declare_option("--tee", help="Write each acknowledged message to standard output.")] = False
    summary: Summary = None


def run(invocation: Invocation, arguments: PublishArguments) -> int:
    """Publish messages to a topic.

    A message is acknowledged once it is written to the journal and synced; the report counts only acknowledged
    messages. Invalid messages are rejected with their position; the first ten are printed, --rejects keeps all of them,
    and the exit status is 3. A run that ends early prints where to resume. The first interrupt ends the run after the
    current batch, the second one immediately. Large input is read in a second process if there is a second processor.
    If at least 20,000 messages changed half of the records of a topic, its memo indexes are rebuilt after the report.

    JSON messages are read as lines, as the elements of arrays, or as objects over several lines, whichever the input
    begins with: an array of objects; or an object that its first line does not complete, unless the second line is an
    object. Elements over several lines are published without spaces between tokens. Invalid JSON between elements ends
    the input; --framing lines reads lines only. The output of query --format json can be published.

    Rows of .csv, .tsv, .parquet, .arrow (also .feather and .arrows), .msgpack and .sqlite files become messages. So do
    inputs with --from or --format; with --from, the format of standard input and of pipes is detected. Parquet and
    Arrow require the extra arrow. Each column becomes a field; empty cells and nulls are omitted; a single column named
    payload, of Parquet and Arrow, is the message itself. Columns added by export --meta, and the unnamed index of
    pandas, are ignored; members of these names in files that export wrote are not. A row that cannot be converted is
    rejected with its line and column. Parquet, SQLite and Arrow files from a pipe are copied to a temporary file first.
    Files compressed with gzip or Zstandard are decompressed. For the conversion of each type, see sowctl-types(7).

    The types of columns of csv and tsv are detected from all values, and printed after the report: integer, number,
    boolean, json, otherwise text. A type is detected only if it keeps every character: leading zeros, +1, 1e5, integers
    beyond 64 bits, and columns with different types stay text, and SOW keys are the same as with --all-text. Cells in
    quotes are text, unless the header is in quotes, too. From a pipe, types are detected from the first MiB, which is
    read before the first row is published; later values of another type become text, with a warning. --type sets the
    type of a column, which not every file needs to have; rows with other values are rejected. For fix, nvfix and bflat,
    lists are detected in no column: with --type NAME=json, an array of several scalars becomes repeated fields, and
    any other cell, such as [] or {}, is the text of one field.

    Lists in rows become repeated fields of fix, nvfix, xml and bflat, in their order; an empty list has none.

    The first row of csv and tsv names the columns. Without --delimiter, a header of csv that has no comma is split at
    semicolons, tabs or bars, whichever is most frequent. A header that has commas is split at commas; if it has more
    semicolons, tabs or bars than commas, the file is rejected. Quoted cells are never null, regardless of
    --null-text. Lines may end in a carriage return alone.

    The files of a directory are read recursively, in the order of their paths, in which numbers in names count as
    numbers; names that begin with . or _ are not read. Directories above a file that are called NAME=VALUE are columns
    of its rows, unless it has such a column: numbers if all values are integers, text otherwise or with --type
    NAME=text. JSON lines and rows with a payload get no such columns.

    A lifetime that ends after the year 9999 counts as none. Messages that have expired already are counted as such. A
    note is printed for a timestamp more than a day in the future: all later messages of the topic get it, too.

    With --delta, each message is merged into the record with its key: its fields replace those of the record, objects
    are merged member by member, arrays are replaced as a whole, null fields change nothing. If there is no record, or
    the message type does not support merging, the message is published unchanged; a warning reports any records
    replaced that way.

    With --skip-unchanged, a message is not written if it would change nothing of its record but timestamp and txid: the
    payload after preprocessing, enrichment and merging, correlation ID, publisher's key and expiration are compared
    with the current record, or with the previous message of its key in the same run. A message that starts a new
    lifetime is written. The report counts messages that were not written as unchanged. Of several messages for one key
    in the input, those that differ from each other are written in every run. The sequence number of a message that is
    not written is not recorded: with --client, a retry is not detected as a duplicate, and writes the message if the
    record has changed meanwhile.

    With --replace-all, the topic has the records of the input afterwards, as if the topic had been emptied first: new
    and changed records are written, all records that are not in the input are deleted, equal records are not written.
    All changes are one group with one timestamp, the current time or --timestamp; timestamps in envelopes are ignored.
    After a crash, either all changes have happened or none. Nothing is written if a message is invalid. An input
    without records is rejected unless --force is given. With --dry-run, the number of changes and the first ten keys
    are printed. The input is kept in a temporary directory meanwhile, with about twice its size; memory use is that of
    other publishes.

    --envelope kafka reads the records that kcat -J and Kafka Connect write: the message is payload or value, ts or
    timestamp counts milliseconds, and a record whose message is null deletes the record with its key, which is a JSON
    object with the key fields, or the value of the only one. With --client, topic, partition and offset identify a
    record: each partition is a publisher of its own, so records that were published before are duplicates. The records
    of a partition must come in the order of their offsets: one that comes after a higher offset is a duplicate, with a
    note if both are in one run. Rejected records are published again without --client.
    --envelope debezium reads change events, also within records of kafka: before, after and op; an event of a deletion
    deletes the record of before or, if that is null, of the key in the record of kafka; the id in a key of MongoDB is
    the field _id. The topic is TOPIC, or the table of the event. Both ignore unknown members, and a time before the
    latest of its topic is raised to that. Timestamps of other envelopes may be numbers in --timestamp-unit.

    Envelopes may name a command: publish, delta_publish, or sow_delete, which deletes the record with the key of the
    message; missing records are counted. Output of journal dump is published as recorded, including deletions; entries
    keep their client names and sequence numbers, so entries that were published before are detected as duplicates.
    Queue entries are rejected. Envelopes with a txid, as in the output of --meta and journal dump, but without an
    expiration never expire. The journal contains the final message, after preprocessing, enrichment and merging.
    """
    from msgspec.structs import replace

    from sowctl.cli.commands.bodies.publish import (
        PublishRun,
        choose_envelope_format,
        expand_directories,
        find_row_names,
        read_input_partitions,
        split_operands,
    )
    from sowctl.cli.io.bulk_load import update_indexes
    from sowctl.engine.verbs.publish import publish_messages

    topic = arguments.topic
    files = arguments.files
    framing = "nul" if arguments.null else arguments.framing
    options = arguments.publish
    if options.sequence is not None and options.client is None:
        # With --sequence, the client of the environment counts like --client.
        options = replace(options, client=invocation.environ.get("SOWCTL_CLIENT") or None)
    form = choose_envelope_format(
        arguments.envelope,
        framing,
        ignores_unknown=arguments.ignore_unknown_members,
        time_unit=arguments.timestamp_unit,
        client=options.client if options.sequence is None else None,
    )
    enveloped = form is not None
    framing = "envelope" if enveloped else framing
    if arguments.rows and (files or framing):
        raise UsageError("SOW-EXC-010", "--from cannot be combined with other files or a framing", hint="repeat --from")
    if arguments.input_format and framing:
        given = "--envelope" if arguments.envelope else "--null" if arguments.null else "--framing"
        raise UsageError("SOW-EXC-010", f"--format cannot be combined with {given}", hint=f"omit {given}")
    reading = _parse_input_options(arguments)
    if form is not None and form.client is not None:
        # Each partition is a publisher of its own, so the run has no single client.
        options = replace(options, client=None)
    # Each envelope states whether it is a delta.
    deltas = options.delta or enveloped
    if not deltas and (options.update_only or options.delta_null != "ignore"):
        raise UsageError(
            "SOW-CLI-040",
            "--update-only and --delta-null require --delta",
            hint="add --delta, or use envelopes with deltas",
        )
    if options.force and not options.replace_all:
        raise UsageError("SOW-PUB-032", "--force requires --replace-all")
    if options.replace_all and arguments.tee:
        raise UsageError("SOW-PUB-032", "--tee cannot be combined with --replace-all")
    watcher = PublishRun(invocation, framing, arguments.rejects, options, tee=arguments.tee, form=form)
    with watcher, invocation.open_instance() as instance:
        if enveloped:
            topic, files = split_operands(instance, topic, arguments.message_type, files or [])
        if options.replace_all and topic is None:
            raise UsageError("SOW-PUB-032", "--replace-all requires a topic", hint="name it before the files")
        watcher.prepare(instance, topic, arguments.message_type)
        names, directories = expand_directories(
            arguments.rows or files or ["-"],
            framed=bool(framing or arguments.input_format),
            notify=invocation.note_once,
        )
        if arguments.rows:
            rows = frozenset(names)
        else:
            rows = find_row_names(names, arguments.input_format, watcher.kind, framing)
        partitions: dict[str, PartitionValues] = {}
        if rows or directories:
            partitions, reading = read_input_partitions(names, directories, reading)
        _refuse_options(arguments, reading, rows, topic)
        sources = watcher.open_sources(instance, topic, arguments.message_type, names, reading, rows, partitions)
        watched = watcher.watch_instance(instance)
        if options.replace_all and topic is not None:
            from sowctl.engine.verbs.replace import replace_records

            load = watcher.build_load(topic, sources, arguments.message_type)
            report = replace_records(
                watched,
                topic,
                load,
                options,
                message_type=arguments.message_type,
                on_durable=watcher.note_replaced,
            )
        else:
            report = publish_messages(
                watched,
                topic,
                sources,
                options,
                message_type=arguments.message_type,
                on_acknowledged=watcher.note_acknowledged,
                on_reject=watcher.note_rejected,
                on_broken_off=watcher.note_resume,
            )
        if options.delta:
            watcher.warn_replaced(
                map(instance.find_message_type, {row.message_type for row in report.topics if row.updated})
            )
    report.inputs = watcher.inputs
    watcher.warn_exceptions()
    watcher.print_report(report, arguments.summary)
    if not options.dry_run:
        update_indexes(invocation, [(row.topic, row.message_type, row.inserted + row.updated) for row in report.topics])
    return 3 if watcher.rejects else 0


def _parse_input_options(arguments: PublishArguments) -> InputOptions:
    """How to read inputs with rows. Raises UsageError ``SOW-EXC-010``."""
    from sowctl.arrow.inputs.input_formats import DelimitedOptions, InputOptions
    from sowctl.cli.io.row_files import parse_delimiter, parse_types

    delimited = DelimitedOptions(
        parse_types(arguments.type or ()),
        arguments.all_text,
        parse_delimiter(arguments.delimiter),
        arguments.null_text or (),
        not arguments.no_headers,
        [one.strip().removeprefix("/") for one in arguments.columns.split(",")] if arguments.columns else (),
    )
    return InputOptions(arguments.input_format, delimited, arguments.table)


def _refuse_options(
    arguments: PublishArguments, reading: InputOptions, rows: frozenset[str], topic: str | None
) -> None:
    """Reject options that the inputs do not support. Raises UsageError ``SOW-EXC-010``."""
    from sowctl.cli.io.row_files import refuse_foreign_options

    if rows and topic is None:
        from sowctl.cli.commands.bodies.publish import build_envelope_hint

        hint = next(filter(None, map(build_envelope_hint, sorted(rows))), "give TOPIC")
        raise UsageError("SOW-EXC-010", "rows require a topic", hint=hint)
    delimited = "csv tsv"
    refuse_foreign_options(
        reading,
        rows,
        (
            ("--type", bool(reading.delimited.types), delimited),
            ("--all-text", arguments.all_text, delimited),
            ("--delimiter", arguments.delimiter is not None, delimited),
            ("--null-text", bool(arguments.null_text), delimited),
            ("--no-headers", arguments.no_headers, delimited),
            ("--columns", arguments.columns is not None, delimited),
            ("--table", arguments.table is not None, "sqlite"),
        ),
    )

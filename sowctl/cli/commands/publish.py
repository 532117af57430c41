"""``sowctl publish``: messages into topics."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Framing, MessageType, NullFraming, Summary
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import PublishOptions
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl publish orders fills.ndjson",
    "producer | sowctl publish orders",
    "sowctl publish orders in.ndjson --on-error skip --rejects bad.ndjson",
    "sowctl publish orders fills.ndjson --delta --update-only --on-error skip",
    "sowctl publish orders --from fills.csv --type orderId=integer --type qty=integer",
    "sowctl query orders --meta | sowctl -c other.xml publish --framing envelope",
    "sowctl journal dump | sowctl -c other.xml publish --framing envelope",
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
            help="Convert each row of FILE to a message: .csv, .tsv, .parquet, .arrow and others.",
            metavar="FILE",
        ),
    ] = None
    type: Annotated[
        list[str] | None,
        declare_option(
            "--type",
            help="For csv and tsv: type of a column, as COLUMN=text, integer, number, boolean or json. Default: text.",
            metavar="TYPE",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        declare_option(
            "--delimiter",
            help="Cell delimiter of csv and tsv, for example ';', '|' or tab. Default: comma for csv, tab for tsv.",
            metavar="CHAR",
        ),
    ] = None
    null_text: Annotated[
        list[str] | None,
        declare_option(
            "--null-text", help="Text that means null in csv and tsv, for example NA. May be repeated.", metavar="TEXT"
        ),
    ] = None
    message_type: MessageType = None
    framing: Framing = None
    null: NullFraming = False
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

    --from converts each row to a message. Columns of .csv and .tsv are text unless --type is given (types are not
    guessed); .parquet, .arrow, .feather and .arrows (extra arrow) have typed columns; .ndjson has a message per line.
    Each column becomes a field; empty cells and nulls are omitted; a single column named payload is the message itself.
    Columns added by export --meta are ignored. A row that cannot be converted is rejected with its line and column. A
    header with more semicolons, tabs or bars than delimiters is rejected unless --delimiter is given. Quoted cells are
    never null, regardless of --null-text. Lines may end in a carriage return alone. Files compressed with gzip or
    Zstandard are decompressed, with --from or without. For the conversion of each type, see sowctl-types(7).

    A lifetime that ends after the year 9999 counts as none. Messages that have expired already are counted as such. A
    note is printed for a timestamp more than a day in the future: all later messages of the topic get it, too.

    With --delta, each message is merged into the record with its key: its fields replace those of the record, objects
    are merged member by member, arrays are replaced as a whole, null fields change nothing. If there is no record, or
    the message type does not support merging, the message is published unchanged; a warning reports any records
    replaced that way.

    Envelopes may name a command: publish, delta_publish, or sow_delete, which deletes the record with the key of the
    message; missing records are counted. Output of journal dump is published as recorded, including deletions; entries
    keep their client names and sequence numbers, so entries that were published before are detected as duplicates.
    Queue entries are rejected. Envelopes with a txid, as in the output of --meta and journal dump, but without an
    expiration never expire. The journal contains the final message, after preprocessing, enrichment and merging.
    """
    from sowctl.cli.commands.bodies.publish import PublishRun, split_operands
    from sowctl.cli.io.bulk_load import update_indexes
    from sowctl.cli.io.row_files import parse_row_options
    from sowctl.engine.verbs.publish import publish_messages

    topic = arguments.topic
    files = arguments.files
    if arguments.rows and (files or arguments.framing or arguments.null):
        raise UsageError("SOW-EXC-010", "--from cannot be combined with other files or a framing", hint="repeat --from")
    if not arguments.rows and (arguments.type or arguments.delimiter is not None or arguments.null_text):
        told = "--type" if arguments.type else "--null-text" if arguments.delimiter is None else "--delimiter"
        raise UsageError("SOW-EXC-010", f"{told} requires --from")
    reading = parse_row_options(
        arguments.type or (), arguments.delimiter, arguments.null_text or (), arguments.rows or ()
    )
    # An envelope says for itself whether it is a delta.
    options = arguments.publish
    deltas = options.delta or arguments.framing == "envelope"
    if not deltas and (options.update_only or options.delta_null != "ignore"):
        raise UsageError(
            "SOW-CLI-040",
            "--update-only and --delta-null require --delta",
            hint="add --delta, or use envelopes with deltas",
        )
    watcher = PublishRun(
        invocation, "nul" if arguments.null else arguments.framing, arguments.rejects, options, tee=arguments.tee
    )
    with watcher, invocation.open_instance() as instance:
        if arguments.framing == "envelope":
            topic, files = split_operands(instance, topic, arguments.message_type, files or [])
        watcher.prepare(instance, topic, arguments.message_type)
        if arguments.rows:
            sources = watcher.open_rows(instance, topic, arguments.message_type, arguments.rows, reading)
        else:
            sources = watcher.open_inputs(files or ["-"])
        report = publish_messages(
            watcher.watch_instance(instance),
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
    watcher.print_report(report, arguments.summary)
    if not options.dry_run:
        update_indexes(invocation, [(row.topic, row.message_type, row.inserted + row.updated) for row in report.topics])
    return 3 if watcher.rejects else 0

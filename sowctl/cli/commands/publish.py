"""``sowctl publish``: messages into topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import DryRun, Framing, MessageType, NullFraming, Summary
from sowctl.errors import UsageError
from sowctl.values.units import MAX_U64

if TYPE_CHECKING:
    from sowctl.engine.options import DeltaNull, OnError

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


def run(
    invocation: Invocation,
    topic: Annotated[
        str | None, Argument("TOPIC", "the topic; may be left out where envelopes name theirs", complete="published")
    ] = None,
    files: Annotated[
        list[str] | None, Argument("FILE", "files with messages; - or none: standard input", complete="file")
    ] = None,
    rows: Annotated[
        list[str] | None,
        option("--from", help="make messages of the rows of FILE, .csv .tsv .parquet .arrow ...", metavar="FILE"),
    ] = None,
    type: Annotated[
        list[str] | None,
        option(
            "--type", help="of csv and tsv: COLUMN=text, integer, number, boolean or json; default text", metavar="TYPE"
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        option(
            "--delimiter",
            help="character between the cells of csv and tsv, such as ';', '|' or tab; default comma, for tsv tab",
            metavar="CHAR",
        ),
    ] = None,
    null_text: Annotated[
        list[str] | None,
        option("--null-text", help="word of csv and tsv that means null, such as NA; may be repeated", metavar="TEXT"),
    ] = None,
    message_type: MessageType = None,
    framing: Framing = None,
    null: NullFraming = False,
    batch: Annotated[
        int | None,
        option(
            "--batch",
            help="messages in one batch, at most; without it up to 1 MiB of them are synced together",
            metavar="COUNT",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = None,
    linger: Annotated[
        str | None,
        option("--linger", help="time after which a batch is closed though it is not full", metavar="TIME"),
    ] = None,
    on_error: Annotated[
        str,
        option(
            "--on-error",
            help="at a bad message: stop there, skip it, or abort, which leaves nothing of this run behind",
            choices=("stop", "skip", "abort"),
        ),
    ] = "stop",
    rejects: Annotated[
        str | None,
        option("--rejects", help="append refused messages to FILE, with place and reason", metavar="FILE"),
    ] = None,
    max_errors: Annotated[
        int | None, option("--max-errors", help="with skip: stop where one more is bad", metavar="COUNT", minimum=1)
    ] = None,
    dry_run: DryRun = False,
    expiration: Annotated[
        str | None,
        option("--expiration", help="lifetime of the records, such as 30s or 5m; 0 for none", metavar="TIME"),
    ] = None,
    sow_key: Annotated[
        str | None, option("--sow-key", help="the key, for topics whose keys publishers choose", metavar="KEY")
    ] = None,
    client: Annotated[
        str | None, option("--client", help="name of the publisher, for duplicate detection", metavar="NAME")
    ] = None,
    sequence: Annotated[
        int | None,
        option(
            "--sequence",
            help="number of the first message; the rest follow; default behind the client's highest",
            metavar="NUMBER",
            minimum=1,
            maximum=MAX_U64,
        ),
    ] = None,
    timestamp: Annotated[
        str | None, option("--timestamp", help="time of the messages instead of the clock", metavar="TIME")
    ] = None,
    timestamp_field: Annotated[
        str | None,
        option(
            "--timestamp-field",
            help="path of the field that holds each message's time; of numbers since 1970 with the unit: /ts:ms",
            metavar="PATH",
        ),
    ] = None,
    allow_null_key: Annotated[
        bool, option("--allow-null-key", help="accept messages whose key fields are all null")
    ] = False,
    allow_volatile: Annotated[
        bool, option("--allow-volatile", help="accept messages that neither a store nor a journal keeps")
    ] = False,
    delta: Annotated[
        bool, option("--delta", help="messages hold only what changes; they are merged with the records of their keys")
    ] = False,
    delta_null: Annotated[
        str,
        option("--delta-null", help="null fields of a delta: ignore them, or set them", choices=("ignore", "set")),
    ] = "ignore",
    update_only: Annotated[bool, option("--update-only", help="refuse a delta to a record that is not there")] = False,
    tee: Annotated[bool, option("--tee", help="write each acknowledged message to standard output")] = False,
    summary: Summary = None,
) -> int:
    """Publish messages to a topic.

    A message is acknowledged when it is in the journal and synced; the report counts acknowledged messages only. A
    bad message is refused with its place; the first ten are said, --rejects keeps all, and the status is 3. A run that
    ends early says where the rest begins. An interrupt ends it behind the batch being written, a second one at once.
    A large input is read by a second process where there is a second processor. Of
    20,000 messages or more that changed half of a topic's records, its memo indexes are built anew behind the report.

    --from makes a message of each row: of .csv and .tsv, whose columns are texts unless --type says otherwise (nothing
    is guessed), of .parquet, .arrow, .feather and .arrows (extra arrow), whose types count, of the lines of .ndjson.
    Columns are fields, empty cells and nulls are left out; a column payload alone is the message itself. Columns that
    export --meta has added are passed over. A row that makes no message is refused with its line and column. A heading
    with more semicolons, tabs or bars than delimiters is refused, unless --delimiter says what separates columns.
    Cells in quotation marks are never null, whatever --null-text says. Lines may end in carriage returns alone. Files
    that are packed with gzip or Zstandard are unpacked, named with --from or not. sowctl-types(7) says what a value of
    each type becomes.

    A lifetime that ends beyond the year 9999 is none. Messages that are over at the clock are counted as already
    expired. A note tells of a time more than a day ahead of the clock: every later message of its topic gets it too.
    With --delta a message is merged with the record of its key: fields that it has replace those of the record,
    objects are merged member by member, arrays are replaced whole, null fields change nothing. Without a record, and
    for message types that cannot be merged, it is published as it is; a warning says where that replaced records.
    Envelopes may say which command a message is: publish, delta_publish, or sow_delete, which deletes the record
    whose key the message has; a key without a record is counted as missing. What journal dump prints is published as
    it was written, deletions too; entries keep their publishers and sequence numbers, so that entries that were
    published before are duplicates, and entries of queues are refused. Envelopes with a txid, as --meta and dumps have
    them, and without expiration live for ever. The journal holds the finished message, after preprocessing, enrichment
    and merge.
    """
    from sowctl.cli.commands.bodies.publish import Publishing, operands
    from sowctl.cli.io.loaded import follow
    from sowctl.cli.io.tables import reading_of
    from sowctl.cli.words.when import seconds
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.verbs.publish import publish

    if rows and (files or framing or null):
        raise UsageError("SOW-EXC-010", "--from takes no further files and no framing", hint="repeat --from")
    if not rows and (type or delimiter is not None or null_text):
        told = "--type" if type else "--null-text" if delimiter is None else "--delimiter"
        raise UsageError("SOW-EXC-010", f"{told} says how the columns of files are read, so it goes with --from")
    reading = reading_of(type or (), delimiter, null_text or (), rows or ())
    # An envelope says for itself whether it is a delta.
    deltas = delta or framing == "envelope"
    if not deltas and (update_only or delta_null != "ignore"):
        raise UsageError("SOW-CLI-040", "--update-only and --delta-null need --delta", hint="or envelopes of deltas")
    options = PublishOptions(
        batch=batch,
        linger=seconds("--linger", linger),
        on_error=cast("OnError", on_error),
        max_errors=max_errors,
        dry_run=dry_run,
        expiration=seconds("--expiration", expiration),
        sow_key=sow_key,
        client=client,
        sequence=sequence,
        timestamp=timestamp,
        timestamp_field=timestamp_field,
        allow_null_key=allow_null_key,
        allow_volatile=allow_volatile,
        delta=delta,
        delta_null=cast("DeltaNull", delta_null),
        update_only=update_only,
    )
    watcher = Publishing(invocation, "nul" if null else framing, rejects, options, tee=tee)
    with watcher, invocation.open_instance() as instance:
        if framing == "envelope":
            topic, files = operands(instance, topic, message_type, files or [])
        watcher.expect(instance, topic, message_type)
        if rows:
            sources = watcher.rows(instance, topic, message_type, rows, reading)
        else:
            sources = watcher.sources(files or ["-"])
        report = publish(
            watcher.watched(instance),
            topic,
            sources,
            options,
            message_type=message_type,
            on_acknowledged=watcher.acknowledged,
            on_reject=watcher.rejected,
            on_broken_off=watcher.broken_off,
        )
        if delta:
            watcher.warn_of_replacing(map(instance.type_of, {row.message_type for row in report.topics if row.updated}))
    watcher.report(report, summary)
    if not dry_run:
        follow(invocation, [(row.topic, row.message_type, row.inserted + row.updated) for row in report.topics])
    return 3 if watcher.rejects else 0

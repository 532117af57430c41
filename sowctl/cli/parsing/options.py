"""The options that several commands share, each declared once, so that all commands spell them alike.

A command uses the name as the annotation of a field: ``message_type: MessageType = None``. Options of the engine are
declared there (:mod:`sowctl.engine.options`); those of every command are in :mod:`sowctl.cli.settings`.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Struct

from sowctl.declarations import Argument, Option, declare_option
from sowctl.engine.options import Filter, Fresh
from sowctl.errors import UsageError

FORMATS = ("table", "ndjson", "json", "csv", "tsv", "raw", "template", "msgpack", "parquet", "arrow")
EVENT_FORMATS = ("text", "ndjson", "raw")
FINDING_FORMATS = ("text", "json", "sarif", "github", "junit", "gitlab")
INPUT_FORMATS = ("csv", "tsv", "json", "ndjson", "parquet", "arrow", "msgpack", "sqlite")
FRAMINGS = ("lines", "json", "nul", "length", "envelope")
OUTPUT_PANEL = "Output options"


def _declare_summary(words: str, *, document: bool = False) -> Option:
    """Return the option of the report at the end; with ``document``, ``--json`` prints it as a document."""
    return declare_option("--summary", help=words, choices=("text", "json"), panel=OUTPUT_PANEL, document=document)


Target: TypeAlias = Annotated[
    str,
    Argument("TARGET", "Name of a topic or view, a .sow file, or a regular expression over names.", complete="target"),
]
ReadTargets: TypeAlias = Annotated[
    list[str],
    Argument("TARGET", "Names of topics or views, .sow files, or regular expressions over names.", complete="target"),
]
Targets: TypeAlias = Annotated[
    list[str] | None, Argument("TARGET", "Topics, .sow files or patterns. Default: all.", complete="stored")
]
Views: TypeAlias = Annotated[list[str] | None, Argument("VIEW", "Names of views. Default: all.", complete="view")]
QueueName: TypeAlias = Annotated[str, Argument("QUEUE", "Name of a queue.", complete="queue")]
Outcomes: TypeAlias = Annotated[
    bool, declare_option("--json", help="Print one JSON array with the outcome of each message.")
]
Leased: TypeAlias = Annotated[
    list[str], Argument("MESSAGE", "Bookmarks or txids, alone or as BOOKMARK,TOKEN; - reads standard input.")
]
Leaser: TypeAlias = Annotated[str, declare_option("--client", help="Client that leased the messages.", metavar="NAME")]
Topics: TypeAlias = Annotated[list[str] | None, Argument("TOPIC", "Names of topics. Default: all.", complete="topic")]

JournalOperands: TypeAlias = Annotated[
    list[str] | None,
    Argument(
        "TOPIC",
        "Names of topics. Default: all. A directory, or the URL of an archive, is the journal to read.",
        complete="topic",
    ),
]
TopicNames: TypeAlias = Annotated[
    list[str] | None,
    declare_option("--topic", help="Same as TOPIC, also where a directory has that name.", metavar="NAME"),
]
JournalPlace: TypeAlias = Annotated[
    str | None, Argument("DIR", "Journal directory. Default: the configured one.", complete="directory")
]
Archive: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--archive",
        help="Directory or URL of archived journal files. Default: the JournalArchiveDirectory.",
        metavar="URL",
    ),
]
OlderThan: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--older-than", help="Only files that have not been written to for TIME, for example 1d.", metavar="TIME"
    ),
]
FindingsFormat: TypeAlias = Annotated[
    str, declare_option("--format", "-F", help="Output format of findings.", choices=("text", "json"), document=True)
]
Coverage: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--summary",
        help="Print a summary of what was read and found, as text or as one line of JSON at the end. Without "
        "--summary the text goes to standard error; with --format json it is one line of JSON.",
        choices=("text", "json"),
    ),
]

MessageType: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--message-type",
        help="Message type, if several topics share the name.",
        metavar="TYPE",
        complete="message type",
    ),
]
KeyOperands: TypeAlias = Annotated[
    list[str] | None, Argument("KEY", "SOW keys, or comma-separated values of the key fields.")
]
KeysFrom: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--keys-from", help="Read further keys from FILE, one per line; - is standard input.", metavar="FILE"
    ),
]
LiteralTopic: TypeAlias = Annotated[
    bool, declare_option("--literal-topic", help="Treat the target as a name, never as a regular expression.")
]
Sample: TypeAlias = Annotated[
    str | None,
    declare_option("--sample", help="Read only a sample of N records or a percentage: 10000, 5%.", metavar="N"),
]
Regex: TypeAlias = Annotated[
    bool, declare_option("--regex", help="Treat the target as a regular expression; list its matches.")
]
Since: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--since", help="Start at this time, txid or bookmark, included.", metavar="WHEN", old_names=("--from",)
    ),
]
Until: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--until", help="End at this time, txid or bookmark, included.", metavar="WHEN", old_names=("--to",)
    ),
]
Txids: TypeAlias = Annotated[str | None, declare_option("--txid", help="Only these txids: N or N:M.", metavar="RANGE")]
OfPublisher: TypeAlias = Annotated[
    str | None, declare_option("--client", help="Only entries of this publisher.", metavar="NAME")
]
At: TypeAlias = Annotated[
    str | None, declare_option("--at", help="State as of a time, a bookmark or a txid.", metavar="WHEN")
]
Format: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--format",
        "-F",
        help="Output format. Default: table on a terminal, otherwise ndjson.",
        choices=FORMATS,
        panel=OUTPUT_PANEL,
    ),
]
Meta: TypeAlias = Annotated[
    bool,
    declare_option(
        "--meta",
        help="Wrap payloads in envelopes with topic, key, times and txid; journal entries also have bookmarks.",
        panel=OUTPUT_PANEL,
    ),
]
Columns: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--columns",
        help="Columns of table, csv, tsv, msgpack, parquet, arrow and SQLite output, for example /id,sow_key. Selects "
        "csv when piped.",
        metavar="LIST",
        panel=OUTPUT_PANEL,
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--delimiter",
        help="Record terminator of ndjson, raw and template output: a text, or a byte value as a number.",
        panel=OUTPUT_PANEL,
    ),
]
Null: TypeAlias = Annotated[
    bool,
    declare_option(
        "--null", "-0", help="End records of ndjson, raw and template output with a NUL byte.", panel=OUTPUT_PANEL
    ),
]
Lengths: TypeAlias = Annotated[
    bool,
    declare_option(
        "--length-prefix",
        help="Print raw records, each preceded by its length: 4 bytes, big-endian.",
        panel=OUTPUT_PANEL,
    ),
]
Template: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--template",
        help="Text to print per record: {/path}, {data}, {sow_key}, {topic}, {timestamp}.",
        panel=OUTPUT_PANEL,
    ),
]
NoHeaders: TypeAlias = Annotated[
    bool, declare_option("--no-headers", help="Omit the header line of csv, tsv and table output.", panel=OUTPUT_PANEL)
]
FixNames: TypeAlias = Annotated[
    bool,
    declare_option("--fix-names", help="Show FIX tags by their standard names.", panel=OUTPUT_PANEL),
]
Framing: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--framing",
        help="How input is split into messages. Default: json for JSON, lines for other text, length for binary types.",
        choices=FRAMINGS,
    ),
]
NullFraming: TypeAlias = Annotated[
    bool, declare_option("--null", "-0", help="Messages end with a NUL byte; same as --framing nul.")
]
Output: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--output",
        help="Write to FILE, atomically. Its ending gives the format, as for export, unless --format does.",
        metavar="FILE",
        complete="file",
        panel=OUTPUT_PANEL,
    ),
]
Force: TypeAlias = Annotated[
    bool, declare_option("--force", help="Let --output replace an existing file.", panel=OUTPUT_PANEL)
]
Yes: TypeAlias = Annotated[bool, declare_option("--yes", help="Do not ask for confirmation.")]
Summary: TypeAlias = Annotated[
    str | None,
    _declare_summary("Output format of the final report; json is a line on standard output, after other output."),
]
SummaryAfterOutput: TypeAlias = Annotated[
    str | None,
    _declare_summary(
        "Output format of the final report; json is a line on standard output, after that of the commands.",
        document=True,
    ),
]
EventFormat: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--format",
        "-F",
        help="Output format of events; raw prints payloads. Default: text on a terminal, otherwise ndjson.",
        choices=EVENT_FORMATS,
    ),
]
Summaries: TypeAlias = Annotated[
    str | None,
    _declare_summary("Output format of the final reports; json is a line for each topic.", document=True),
]
Numbers: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--format",
        "-F",
        help="Write the counts of each topic, and their total, to standard output.",
        choices=FORMATS,
        panel=OUTPUT_PANEL,
    ),
]

Count: TypeAlias = Annotated[
    bool, declare_option("--count", help="Print only the number of records; with --format, the number per topic.")
]
Statistics: TypeAlias = Annotated[
    bool, declare_option("--statistics", help="Print the number of records examined, matched and returned.")
]
OptionText: TypeAlias = Annotated[
    str | None,
    declare_option("--options", help="AMPS option string, for example 'top_n=10,select=[-/,+/id]'.", metavar="TEXT"),
]
Explain: TypeAlias = Annotated[
    bool,
    declare_option("--explain", help="Print the query plan. Counts as a query for the decision to build an index."),
]
Analyze: TypeAlias = Annotated[
    bool, declare_option("--analyze", help="With --explain: run the query and print counts and time, too.")
]
NoIndex: TypeAlias = Annotated[bool, declare_option("--no-index", help="Neither use nor build memo indexes.")]
Strict: TypeAlias = Annotated[
    bool, declare_option("--strict", help="Exit with status 2 if a named field occurs in no record.")
]
ExitStatus: TypeAlias = Annotated[bool, declare_option("--exit-status", help="Exit with status 1 if nothing is found.")]
StreamJson: TypeAlias = Annotated[
    bool,
    declare_option(
        "--json",
        help="Same as --format json; with --follow, one line of JSON per event, as --format ndjson.",
        panel=OUTPUT_PANEL,
    ),
]
Follow: TypeAlias = Annotated[bool, declare_option("--follow", help="Keep printing new messages until interrupted.")]


class OutputChoice(Struct, frozen=True):
    """The requested output of records: format, columns, framing and file."""

    format: Format = None
    meta: Meta = False
    columns: Columns = None
    delimiter: Delimiter = None
    null: Null = False
    length_prefix: Lengths = False
    template: Template = None
    no_headers: NoHeaders = False
    path: Output = None
    force: Force = False


def choose_stream_output(output: OutputChoice, *, json: bool, follow: bool) -> OutputChoice:
    """Return the output of a command that may follow, with the format implied by ``--json``.

    Raises UsageError ``SOW-CLI-012`` if another format was given.
    """
    if not json:
        return output
    from msgspec.structs import replace

    meant = "ndjson" if follow else "json"
    if output.format not in (None, meant):
        message = f"--json and --format {output.format} exclude each other"
        raise UsageError("SOW-CLI-012", message, hint="give one of them")
    return replace(output, format=meant)


class RecordChoice(Struct, frozen=True):
    """The records that a command reads, and as of which instant."""

    filter: Filter = None
    at: At = None
    fresh: Fresh = False
    strict: Strict = False
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    fix_names: FixNames = False

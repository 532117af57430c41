"""The options that several commands share, each declared once, so that all commands spell them alike.

A command uses the name as an annotation: ``filter: Filter = None``. ``GLOBALS`` are the options of every command;
they may stand before or after the command's name and end up in :class:`~sowctl.cli.context.Settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec.structs import replace

from sowctl.cli.words.declare import Argument, Option, Parameter, Shape, option
from sowctl.errors import UsageError

FORMATS = ("table", "ndjson", "json", "csv", "tsv", "raw", "template", "msgpack", "parquet", "arrow")
FINDING_FORMATS = ("text", "json", "sarif", "github", "junit", "gitlab")
FRAMINGS = ("lines", "nul", "length", "envelope")
PANEL = "Global options"
OUTPUT = "Output options"

Target: TypeAlias = Annotated[
    str,
    Argument("TARGET", "a topic's or view's name, a .sow file, or a regular expression over names", complete="target"),
]
Targets: TypeAlias = Annotated[
    list[str] | None, Argument("TARGET", "topics, .sow files, or patterns; default all", complete="stored")
]
Views: TypeAlias = Annotated[list[str] | None, Argument("VIEW", "names of views; default all", complete="view")]
QueueName: TypeAlias = Annotated[str, Argument("QUEUE", "a queue's name", complete="queue")]
Leased: TypeAlias = Annotated[
    list[str], Argument("MESSAGE", "bookmarks or txids, alone or as BOOKMARK,TOKEN; - reads standard input")
]
Leaser: TypeAlias = Annotated[str, option("--client", help="who leased; default command-line", metavar="NAME")]
Topics: TypeAlias = Annotated[list[str] | None, Argument("TOPIC", "names of topics; default all", complete="topic")]

JournalPlace: TypeAlias = Annotated[
    str | None, Argument("DIR", "directory of the journals; default the configured one", complete="directory")
]
Archive: TypeAlias = Annotated[
    str | None,
    option(
        "--archive",
        help="where older files of the journal lie: a directory or a URL; default the JournalArchiveDirectory",
        metavar="URL",
    ),
]
OlderThan: TypeAlias = Annotated[
    str | None,
    option("--older-than", help="only files to which nothing was written for so long, such as 1d", metavar="TIME"),
]
FindingsFormat: TypeAlias = Annotated[
    str, option("--format", "-F", help="how findings are written", choices=("text", "json"))
]
Coverage: TypeAlias = Annotated[
    str | None,
    option(
        "--summary",
        help="how much was read and found: in words, or as the last line of JSON; without it on standard error, with "
        "--format json as a line of JSON",
        choices=("text", "json"),
    ),
]

Filter: TypeAlias = Annotated[
    str | None, option("--filter", "-f", help="only records for which this expression is true", metavar="EXPR")
]
SowKeys: TypeAlias = Annotated[
    list[str] | None,
    option("--sow-key", help="only this SOW key, or a list with commas; may be repeated", metavar="KEY"),
]
MessageType: TypeAlias = Annotated[
    str | None,
    option(
        "--message-type", help="the message type, where topics share a name", metavar="TYPE", complete="message type"
    ),
]
LiteralTopic: TypeAlias = Annotated[
    bool, option("--literal-topic", help="the target is a name, never a regular expression")
]
Sample: TypeAlias = Annotated[
    str | None, option("--sample", help="look at so many records, or at such a part of them: 10000, 5%", metavar="N")
]
Regex: TypeAlias = Annotated[bool, option("--regex", help="the target is a regular expression; lists what it matches")]
At: TypeAlias = Annotated[
    str | None, option("--at", help="the state as of a time, a bookmark or a txid", metavar="WHEN")
]
Format: TypeAlias = Annotated[
    str | None,
    option(
        "--format",
        "-F",
        help="output format; without it table on a terminal, else ndjson",
        choices=FORMATS,
        panel=OUTPUT,
    ),
]
Meta: TypeAlias = Annotated[
    bool,
    option(
        "--meta",
        help="wrap payloads in envelopes with topic, key, times and txid; entries of a journal have bookmarks, too",
        panel=OUTPUT,
    ),
]
Columns: TypeAlias = Annotated[
    str | None,
    option(
        "--columns", help="of table, csv and tsv, such as /id,sow_key; into pipes csv", metavar="LIST", panel=OUTPUT
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    option("--delimiter", help="end of a record of ndjson, raw, template: text, or a byte as a number", panel=OUTPUT),
]
Null: TypeAlias = Annotated[
    bool, option("--null", "-0", help="records of ndjson, raw and template end with a zero byte", panel=OUTPUT)
]
Lengths: TypeAlias = Annotated[
    bool,
    option("--length-prefix", help="raw records, each behind its length: 4 bytes, big-endian", panel=OUTPUT),
]
Template: TypeAlias = Annotated[
    str | None,
    option("--template", help="a text per record: {/path}, {data}, {sow_key}, {topic}, {timestamp}", panel=OUTPUT),
]
NoHeaders: TypeAlias = Annotated[
    bool, option("--no-headers", help="no line of names before the rows of csv, tsv and table", panel=OUTPUT)
]
FixNames: TypeAlias = Annotated[
    bool,
    option("--fix-names", help="show FIX tags by the names that the standard gives them", panel=OUTPUT),
]
Framing: TypeAlias = Annotated[
    str | None,
    option(
        "--framing",
        help="how messages are told apart in the input; default lines, or length for types with bytes of any kind",
        choices=FRAMINGS,
    ),
]
NullFraming: TypeAlias = Annotated[
    bool, option("--null", "-0", help="messages end with a zero byte; same as --framing nul")
]
Output: TypeAlias = Annotated[
    str | None,
    option("--output", help="write to FILE, whole or not at all", metavar="FILE", complete="file", panel=OUTPUT),
]
Force: TypeAlias = Annotated[bool, option("--force", help="let --output replace an existing file", panel=OUTPUT)]
DryRun: TypeAlias = Annotated[bool, option("--dry-run", help="say what would be done, and do nothing")]
Yes: TypeAlias = Annotated[bool, option("--yes", help="do not ask")]
Summary: TypeAlias = Annotated[
    str | None, option("--summary", help="how the report at the end is written", choices=("text", "json"), panel=OUTPUT)
]
Numbers: TypeAlias = Annotated[
    str | None,
    option(
        "--format",
        "-F",
        help="write the numbers of every topic, and their total, to standard output",
        choices=FORMATS,
        panel=OUTPUT,
    ),
]

_CONFIG = option(
    "--config",
    "-c",
    help="configuration file; default $SOWCTL_CONFIG, else the one of sowctl.xml, amps.xml, config.xml here",
    metavar="FILE",
    complete="file",
    panel=PANEL,
)
_ROOT = option(
    "--root",
    help="directory that relative paths of the configuration count from; default its own",
    metavar="DIR",
    complete="directory",
    panel=PANEL,
)
_COLOR = option("--color", help="colour messages", choices=("auto", "always", "never"), panel=PANEL)
_ERRORS = option("--error-format", help="how errors are written", choices=("text", "json"), panel=PANEL)
_WAIT = option("--lock-wait", help="how long to wait for a lock: 0, 10s, forever", metavar="TIME", panel=PANEL)
_TIMEOUT = option(
    "--timeout",
    help="end with status 124 after so long, such as 30s, as an interrupt would",
    metavar="TIME",
    panel=PANEL,
)
_NOW = option("--now", help="the time to take for the present; default $SOWCTL_NOW, else the clock", panel=PANEL)
_PROGRESS = option(
    "--progress", help="progress on standard error", choices=("auto", "always", "never", "json"), panel=PANEL
)
_QUIET = option("--quiet", "-q", help="no notes; errors are still written", panel=PANEL)
_VERBOSE = option("--verbose", "-v", help="more notes; may be repeated", counted=True, panel=PANEL)
_NO_PAGER = option("--no-pager", help="show long tables on a terminal without a pager", panel=PANEL)
_DEBUG = option("--debug", help="show a traceback with an error", panel=PANEL)


def _shared(name: str, declared: Option, shape: Shape, default: object) -> Parameter:
    return Parameter(name, declared, shape, False, default)


GLOBALS: tuple[Parameter, ...] = (
    _shared("config", _CONFIG, "text", None),
    _shared("root", _ROOT, "text", None),
    _shared("now", _NOW, "text", None),
    _shared("lock_wait", _WAIT, "text", "10s"),
    _shared("timeout", _TIMEOUT, "text", None),
    _shared("color", _COLOR, "text", "auto"),
    _shared("error_format", _ERRORS, "text", "text"),
    _shared("progress", _PROGRESS, "text", "auto"),
    _shared("quiet", _QUIET, "flag", False),
    _shared("verbose", _VERBOSE, "count", 0),
    _shared("no_pager", _NO_PAGER, "flag", False),
    _shared("debug", _DEBUG, "flag", False),
)
VARIABLES: dict[str, str] = {parameter.name: f"SOWCTL_{parameter.name.upper()}" for parameter in GLOBALS}
"""The environment variable of each global option; it counts where the option is not given."""
_SWITCHES = {"1": 1, "true": 1, "yes": 1, "on": 1, "0": 0, "false": 0, "no": 0, "off": 0, "2": 2, "3": 3}
"""What a variable of an option without a value may say: that it is given, or not, or how often."""


def from_environment(environ: Mapping[str, str]) -> tuple[Parameter, ...]:
    """``GLOBALS`` with what the environment sets as defaults; a variable that is empty sets nothing.

    --config stays as it is: commands that can do without a configuration read only one that is given, so that
    :meth:`~sowctl.cli.context.Invocation.config_path` looks at its variable.
    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-091`` for a value that the option would not take.
    """
    found = []
    for parameter in GLOBALS:
        name = VARIABLES[parameter.name]
        text = None if parameter.name == "config" else environ.get(name) or None
        if text is None:
            found.append(parameter)
            continue
        choices = parameter.declared.choices if parameter.takes_value else tuple(_SWITCHES)
        # Words are taken as they are usually written; choices only as --help has them.
        known = text if parameter.takes_value else text.lower()
        if choices and known not in choices:
            words = f"{name} is '{text}'; it takes {', '.join(choices)}"
            raise UsageError("SOW-CLI-091", words, hint=f"unset {name}, or give it one of these")
        value: object = text
        if not parameter.takes_value:
            value = _SWITCHES[known] if parameter.shape == "count" else bool(_SWITCHES[known])
        # The default is exchanged, so that an option on the command line still wins.
        found.append(replace(parameter, default=value))
    return tuple(found)


# ``--format`` is no global option, and often written in front of the command: its value must not be taken for a
# command.
LEADING_VALUES = frozenset(
    name
    for parameter in GLOBALS
    if parameter.takes_value and isinstance(parameter.declared, Option)
    for name in parameter.declared.names
) | {"--format", "-F"}

"""The options that several commands share, each declared once, so that all commands spell them alike.

A command uses the name as an annotation: ``filter: Filter = None``. ``GLOBAL_PARAMETERS`` are the options of every
command; they may stand before or after the command's name and end up in :class:`~sowctl.cli.context.Settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec.structs import replace

from sowctl.cli.parsing.parameters import Parameter, Shape
from sowctl.declarations import Argument, Option, declare_option
from sowctl.errors import UsageError

FORMATS = ("table", "ndjson", "json", "csv", "tsv", "raw", "template", "msgpack", "parquet", "arrow")
FINDING_FORMATS = ("text", "json", "sarif", "github", "junit", "gitlab")
FRAMINGS = ("lines", "nul", "length", "envelope")
GLOBAL_PANEL = "Global options"
OUTPUT_PANEL = "Output options"

Target: TypeAlias = Annotated[
    str,
    Argument("TARGET", "Name of a topic or view, a .sow file, or a regular expression over names.", complete="target"),
]
Targets: TypeAlias = Annotated[
    list[str] | None, Argument("TARGET", "Topics, .sow files or patterns. Default: all.", complete="stored")
]
Views: TypeAlias = Annotated[list[str] | None, Argument("VIEW", "Names of views. Default: all.", complete="view")]
QueueName: TypeAlias = Annotated[str, Argument("QUEUE", "Name of a queue.", complete="queue")]
Leased: TypeAlias = Annotated[
    list[str], Argument("MESSAGE", "Bookmarks or txids, alone or as BOOKMARK,TOKEN; - reads standard input.")
]
Leaser: TypeAlias = Annotated[
    str, declare_option("--client", help="Client that leased the messages. Default: command-line.", metavar="NAME")
]
Topics: TypeAlias = Annotated[list[str] | None, Argument("TOPIC", "Names of topics. Default: all.", complete="topic")]

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
    str, declare_option("--format", "-F", help="Output format of findings.", choices=("text", "json"))
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

Filter: TypeAlias = Annotated[
    str | None, declare_option("--filter", "-f", help="Only records that match the expression EXPR.", metavar="EXPR")
]
SowKeys: TypeAlias = Annotated[
    list[str] | None,
    declare_option(
        "--sow-key",
        help="Only the record with this SOW key, or a comma-separated list of keys. May be repeated.",
        metavar="KEY",
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
        help="How input is split into messages. Default: lines, or length for message types that may contain any byte.",
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
DryRun: TypeAlias = Annotated[bool, declare_option("--dry-run", help="Show what would be done without doing it.")]
Yes: TypeAlias = Annotated[bool, declare_option("--yes", help="Do not ask for confirmation.")]
Summary: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--summary", help="Output format of the final report.", choices=("text", "json"), panel=OUTPUT_PANEL
    ),
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

_CONFIG_OPTION = declare_option(
    "--config",
    "-c",
    help="Configuration file. Default: $SOWCTL_CONFIG, otherwise the one of sowctl.xml, amps.xml and "
    "config.xml in the working directory.",
    metavar="FILE",
    complete="file",
    panel=GLOBAL_PANEL,
)
_ROOT_OPTION = declare_option(
    "--root",
    help="Base directory of relative paths in the configuration. Default: the directory of the configuration file.",
    metavar="DIR",
    complete="directory",
    panel=GLOBAL_PANEL,
)
_COLOR_OPTION = declare_option(
    "--color", help="Color messages.", choices=("auto", "always", "never"), panel=GLOBAL_PANEL
)
_ERROR_FORMAT_OPTION = declare_option(
    "--error-format", help="Output format of errors.", choices=("text", "json"), panel=GLOBAL_PANEL
)
_LOCK_WAIT_OPTION = declare_option(
    "--lock-wait", help="How long to wait for a lock: 0, 10s, forever.", metavar="TIME", panel=GLOBAL_PANEL
)
_TIMEOUT_OPTION = declare_option(
    "--timeout",
    help="Stop after TIME, for example 30s, as if interrupted, and exit with status 124.",
    metavar="TIME",
    panel=GLOBAL_PANEL,
)
_NOW_OPTION = declare_option(
    "--now",
    help="Time to use as the current time. Default: $SOWCTL_NOW, otherwise the system clock.",
    panel=GLOBAL_PANEL,
)
_PROGRESS_OPTION = declare_option(
    "--progress",
    help="Show progress on standard error.",
    choices=("auto", "always", "never", "json"),
    panel=GLOBAL_PANEL,
)
_QUIET_OPTION = declare_option("--quiet", "-q", help="Suppress notes; errors are still printed.", panel=GLOBAL_PANEL)
_VERBOSE_OPTION = declare_option(
    "--verbose", "-v", help="Print more notes. May be repeated.", counted=True, panel=GLOBAL_PANEL
)
_NO_PAGER_OPTION = declare_option(
    "--no-pager", help="Do not use a pager for long tables on a terminal.", panel=GLOBAL_PANEL
)
_DEBUG_OPTION = declare_option("--debug", help="Print a traceback with each error.", panel=GLOBAL_PANEL)


def _build_shared(name: str, declared: Option, shape: Shape, default: object) -> Parameter:
    return Parameter(name, declared, shape, False, default)


GLOBAL_PARAMETERS: tuple[Parameter, ...] = (
    _build_shared("config", _CONFIG_OPTION, "text", None),
    _build_shared("root", _ROOT_OPTION, "text", None),
    _build_shared("now", _NOW_OPTION, "text", None),
    _build_shared("lock_wait", _LOCK_WAIT_OPTION, "text", "10s"),
    _build_shared("timeout", _TIMEOUT_OPTION, "text", None),
    _build_shared("color", _COLOR_OPTION, "text", "auto"),
    _build_shared("error_format", _ERROR_FORMAT_OPTION, "text", "text"),
    _build_shared("progress", _PROGRESS_OPTION, "text", "auto"),
    _build_shared("quiet", _QUIET_OPTION, "flag", False),
    _build_shared("verbose", _VERBOSE_OPTION, "count", 0),
    _build_shared("no_pager", _NO_PAGER_OPTION, "flag", False),
    _build_shared("debug", _DEBUG_OPTION, "flag", False),
)
GLOBAL_VARIABLES: dict[str, str] = {
    parameter.name: f"SOWCTL_{parameter.name.upper()}" for parameter in GLOBAL_PARAMETERS
}
"""The environment variable of each global option; it counts where the option is not given."""
_SWITCH_VALUES = {"1": 1, "true": 1, "yes": 1, "on": 1, "0": 0, "false": 0, "no": 0, "off": 0, "2": 2, "3": 3}
"""What a variable of an option without a value may say: that it is given, or not, or how often."""


def read_environment(environ: Mapping[str, str]) -> tuple[Parameter, ...]:
    """``GLOBAL_PARAMETERS`` with what the environment sets as defaults; a variable that is empty sets nothing.

    --config stays as it is: commands that can do without a configuration read only one that is given, so that
    :meth:`~sowctl.cli.context.Invocation.find_config_path` looks at its variable.
    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-091`` for a value that the option would not take.
    """
    found = []
    for parameter in GLOBAL_PARAMETERS:
        name = GLOBAL_VARIABLES[parameter.name]
        text = None if parameter.name == "config" else environ.get(name) or None
        if text is None:
            found.append(parameter)
            continue
        choices = parameter.declared.choices if parameter.takes_value else tuple(_SWITCH_VALUES)
        # Words are taken as they are usually written; choices only as --help has them.
        known = text if parameter.takes_value else text.lower()
        if choices and known not in choices:
            words = f"{name} is '{text}'; it takes {', '.join(choices)}"
            raise UsageError("SOW-CLI-091", words, hint=f"unset {name}, or give it one of these")
        value: object = text
        if not parameter.takes_value:
            value = _SWITCH_VALUES[known] if parameter.shape == "count" else bool(_SWITCH_VALUES[known])
        # The default is exchanged, so that an option on the command line still wins.
        found.append(replace(parameter, default=value))
    return tuple(found)


# ``--format`` is no global option, and often written in front of the command: its value must not be taken for a
# command.
LEADING_VALUE_OPTIONS = frozenset(
    name
    for parameter in GLOBAL_PARAMETERS
    if parameter.takes_value and isinstance(parameter.declared, Option)
    for name in parameter.declared.names
) | {"--format", "-F"}

"""Options of queries, declared once for all commands that ask one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from sowctl.declarations import declare_option
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.engine.options import QueryOptions

OrderBy: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--order-by", "-o", help="Sort order, for example '/price DESC, /id'. Default: by SOW key.", metavar="LIST"
    ),
]
TopN: TypeAlias = Annotated[
    int | None,
    declare_option("--top-n", "-n", "--limit", help="Print at most COUNT records.", metavar="COUNT", minimum=0),
]
SkipN: TypeAlias = Annotated[
    int | None, declare_option("--skip-n", "--offset", help="Skip the first COUNT records.", metavar="COUNT", minimum=0)
]
Select: TypeAlias = Annotated[
    str | None, declare_option("--select", help="Fields to print, for example '-/,+/id,+/price'.", metavar="LIST")
]
Count: TypeAlias = Annotated[
    bool, declare_option("--count", help="Print only the number of records; with --format, the number per topic.")
]
Statistics: TypeAlias = Annotated[
    bool, declare_option("--statistics", help="Print the number of records examined, matched and returned.")
]
BatchSize: TypeAlias = Annotated[
    int,
    declare_option(
        "--batch-size", help="Number of records to read at a time.", metavar="COUNT", minimum=1, maximum=10_000
    ),
]
SortMemory: TypeAlias = Annotated[
    str,
    declare_option(
        "--sort-memory",
        help="Memory for sorting and for the groups of a view, before temporary files are used.",
        metavar="SIZE",
    ),
]
Projection: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--projection", help="Fields to compute per group, for example 'SUM(/qty) AS /sum'.", metavar="LIST"
    ),
]
Grouping: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--grouping",
        help="Fields to group by, for example '/region'; '' makes one group of all records.",
        metavar="LIST",
    ),
]
AfterKey: TypeAlias = Annotated[
    str | None, declare_option("--after-key", help="Continue after this SOW key, in key order.", metavar="KEY")
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
Jobs: TypeAlias = Annotated[
    int | None,
    declare_option(
        "--jobs", "-j", help="Maximum number of processes that read a large store.", metavar="COUNT", minimum=1
    ),
]
Strict: TypeAlias = Annotated[
    bool, declare_option("--strict", help="Exit with status 2 if a named field occurs in no record.")
]
ExitStatus: TypeAlias = Annotated[bool, declare_option("--exit-status", help="Exit with status 1 if nothing is found.")]

Fresh: TypeAlias = Annotated[
    bool, declare_option("--fresh", help="Recompute a view or conflated topic, ignoring its cache.")
]
Follow: TypeAlias = Annotated[bool, declare_option("--follow", help="Keep printing new messages until interrupted.")]


def apply_unknown(invocation: Invocation, asked: QueryOptions, columns: str | None, *, strict: bool) -> QueryOptions:
    """Return the query's options with the treatment of fields that no record has."""
    from msgspec.structs import replace

    shown = tuple(part.strip() for part in (columns or "").split(",") if part.strip().startswith(("/", "[")))
    return replace(asked, shown=shown, unknown=choose_unknown(invocation, strict=strict))


def choose_unknown(invocation: Invocation, *, strict: bool) -> Literal["ignore", "note", "error"]:
    """Choose the treatment of fields that no record has. Notes that are not to be seen are not looked for either."""
    return "error" if strict else "ignore" if invocation.settings.quiet else "note"


def apply_option_string(
    invocation: Invocation, asked: QueryOptions, text: str, at: str | None, literal: bool
) -> tuple[QueryOptions, str | None, bool]:
    """The query, ``--at`` and ``--literal-topic`` with what ``--options`` says; notes on what has no effect are told.

    Raises UsageError ``SOW-CLI-013`` for two instants, ``SOW-QRY-017``.
    """
    from sowctl.engine.search.optiontext import apply_option_text

    told = apply_option_text(asked, text)
    if told.bookmark is not None and at is not None:
        raise UsageError("SOW-CLI-013", "the past is asked for twice", hint="give --at or the option bookmark")
    for note in told.notes:
        invocation.note(note)
    return told.options, told.bookmark or at, told.literal or literal

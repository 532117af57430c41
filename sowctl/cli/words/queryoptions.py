"""Options of queries, declared once for all commands that ask one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from sowctl.cli.words.declare import option
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.engine.options import QueryOptions

OrderBy: TypeAlias = Annotated[
    str | None, option("--order-by", "-o", help="such as '/price DESC, /id'; default key order", metavar="LIST")
]
TopN: TypeAlias = Annotated[
    int | None, option("--top-n", "-n", "--limit", help="at most so many records", metavar="COUNT", minimum=0)
]
SkipN: TypeAlias = Annotated[
    int | None, option("--skip-n", "--offset", help="leave out so many first", metavar="COUNT", minimum=0)
]
Select: TypeAlias = Annotated[
    str | None, option("--select", help="fields to print, such as '-/,+/id,+/price'", metavar="LIST")
]
Count: TypeAlias = Annotated[
    bool, option("--count", help="print only how many records there are; with --format of each topic")
]
Statistics: TypeAlias = Annotated[
    bool, option("--statistics", help="say how many records were examined, matched and returned")
]
BatchSize: TypeAlias = Annotated[
    int,
    option("--batch-size", help="records read at a time", metavar="COUNT", minimum=1, maximum=10_000),
]
SortMemory: TypeAlias = Annotated[
    str,
    option(
        "--sort-memory", help="memory for sorting, and for the groups of a view, before files are used", metavar="SIZE"
    ),
]
Projection: TypeAlias = Annotated[
    str | None,
    option("--projection", help="fields of one message per group, such as 'SUM(/qty) AS /sum'", metavar="LIST"),
]
Grouping: TypeAlias = Annotated[
    str | None,
    option("--grouping", help="fields that make a group, such as '/region'; '' for one group of all", metavar="LIST"),
]
AfterKey: TypeAlias = Annotated[
    str | None, option("--after-key", help="go on after this SOW key, in key order", metavar="KEY")
]
OptionText: TypeAlias = Annotated[
    str | None, option("--options", help="option text, such as 'top_n=10,select=[-/,+/id]'", metavar="TEXT")
]
Explain: TypeAlias = Annotated[
    bool,
    option(
        "--explain", help="print how the records would be found; it counts as asking, so that an index may be built"
    ),
]
Analyze: TypeAlias = Annotated[
    bool, option("--analyze", help="with --explain, run the query and print counts and time, too")
]
NoIndex: TypeAlias = Annotated[bool, option("--no-index", help="use and build no memo indexes")]
Jobs: TypeAlias = Annotated[
    int | None, option("--jobs", "-j", help="processes that may read a large store", metavar="COUNT", minimum=1)
]
Strict: TypeAlias = Annotated[
    bool, option("--strict", help="end with status 2 where no record has a field that is named")
]
ExitStatus: TypeAlias = Annotated[bool, option("--exit-status", help="end with status 1 if nothing is found")]

Fresh: TypeAlias = Annotated[
    bool, option("--fresh", help="compute a view or conflated topic anew, whatever its cache holds")
]
Follow: TypeAlias = Annotated[bool, option("--follow", help="go on with what is published, until interrupted")]


def with_unknown(invocation: Invocation, asked: QueryOptions, columns: str | None, *, strict: bool) -> QueryOptions:
    """What a query is asked for, with what is to become of fields that no record has."""
    from msgspec.structs import replace

    shown = tuple(part.strip() for part in (columns or "").split(",") if part.strip().startswith(("/", "[")))
    return replace(asked, shown=shown, unknown=on_unknown(invocation, strict=strict))


def on_unknown(invocation: Invocation, *, strict: bool) -> Literal["ignore", "note", "error"]:
    """What becomes of fields that no record has. Notes that are not to be seen are not looked for either."""
    return "error" if strict else "ignore" if invocation.settings.quiet else "note"


def with_text(
    invocation: Invocation, asked: QueryOptions, text: str, at: str | None, literal: bool
) -> tuple[QueryOptions, str | None, bool]:
    """The query, ``--at`` and ``--literal-topic`` with what ``--options`` says; notes on what has no effect are told.

    Raises UsageError ``SOW-CLI-013`` for two instants, ``SOW-QRY-017``.
    """
    from sowctl.engine.search.optiontext import with_option_text

    told = with_option_text(asked, text)
    if told.bookmark is not None and at is not None:
        raise UsageError("SOW-CLI-013", "the past is asked for twice", hint="give --at or the option bookmark")
    for note in told.notes:
        invocation.note(note)
    return told.options, told.bookmark or at, told.literal or literal

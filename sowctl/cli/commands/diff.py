"""``sowctl diff``: differences between two states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, Strict
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import DiffOptions
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.verbs.inspect.diff import Comparison

EXAMPLES = (
    "sowctl diff orders@2026-01-05T10:00:00Z orders --stat",
    "sowctl diff orders@1200..1210",
    "sowctl diff customers golden.ndjson",
    "sowctl diff customers@2026-01-05T09:00:00Z --filter \"/region = 'APAC'\" --only /creditLimit",
    "sowctl diff sowctl.xml amps.xml --summary",
    "sowctl diff other.xml sowctl.xml --format envelopes | sowctl publish --framing envelope -c other.xml",
)


class DiffArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl diff``."""

    before: Annotated[
        str,
        Argument("A", "TARGET, TARGET@WHEN, TARGET@WHEN..WHEN, INSTANCE, INSTANCE:TARGET or FILE.", complete="target"),
    ]
    after: Annotated[
        str | None, Argument("B", "What to compare A with. Default: the current state of A.", complete="target")
    ] = None
    topic: Annotated[
        list[str] | None,
        declare_option(
            "--topic", help="When comparing instances: compare only this topic. May be repeated.", metavar="NAME"
        ),
    ] = None
    type: Annotated[
        list[str] | None,
        declare_option(
            "--type",
            help="For a .csv or .tsv file: type of a column, as COLUMN=text, integer, number, boolean or json. "
            "Default: detected.",
            metavar="TYPE",
        ),
    ] = None
    differences: DiffOptions
    stat: Annotated[
        bool, declare_option("--stat", help="Print the number of differing records and fields per topic.")
    ] = False
    summary: Annotated[bool, declare_option("--summary", help="Print one line per topic.")] = False
    top_n: Annotated[
        int | None,
        declare_option(
            "--top-n",
            "-n",
            help="Print at most COUNT records per topic; the counts include all records.",
            metavar="COUNT",
            minimum=0,
        ),
    ] = None
    format: Annotated[
        str,
        declare_option(
            "--format",
            "-F",
            help="Output format of differences.",
            choices=("text", "json", "envelopes"),
            document=True,
        ),
    ] = "text"
    strict: Strict = False
    message_type: MessageType = None


def run(invocation: Invocation, arguments: DiffArguments) -> int:
    """Compare two states by key and field: topics, views or .sow files, each now or at an instant, or whole instances.

    WHEN is a time, a bookmark or a txid, as for query --at. A single TARGET@WHEN..WHEN compares the two ends of the
    range; as one of two sides, it is the state of the keys written in that range of the journal. INSTANCE is a
    configuration file or its directory; all of its topics are compared, but not views and other derived topics.
    INSTANCE:TARGET@WHEN is a state in an instance. Both states are read in one pass, whatever their size; records that
    are equal byte for byte are not decoded.

    FILE is a file of messages or rows, as for publish --from: .ndjson, .csv, .parquet and others. It is compared with
    one topic, or with its state at an instant. Its records are those that publishing the file to the empty topic would
    make: keys, fields and the types of columns are those of publish. They are kept in a temporary directory meanwhile.

    Each differing record is a line: ~ changed, with its fields below, + only in B, - only in A. With --format json,
    each line is an object; with --format envelopes, the output is input for publish --framing envelope that turns A
    into B, including deletions. A record that differs only in notation counts as changed unless --loose is given.
    Arrays of objects are compared item by item, other arrays as one value. --filter selects a record if either side
    matches.

    A note is printed for a field of --filter, --only, --ignore or --on that occurs in no record of either side; in
    large stores, in none of the first 10,000. With --strict, this is an error, and nothing is compared.

    The exit status is 0 if there are no differences, 1 if there are, and 2 or more for errors. With --quiet, nothing
    but errors is printed, whatever the format. If there are no differences, hash --payloads prints equal digests.
    """
    from contextlib import ExitStack, closing

    from sowctl.cli.commands.bodies.diff import DiffPrinter
    from sowctl.cli.diff_sides import pair_sides
    from sowctl.cli.lookup import choose_unknown
    from sowctl.engine.search.filter_notes import note_filter
    from sowctl.engine.search.unknown_fields import UnknownFieldCheck
    from sowctl.engine.verbs.inspect.diff import compare_sides

    wanted = arguments.differences
    if arguments.format == "envelopes" and (
        wanted.fields
        or wanted.ignored
        or wanted.loose
        or wanted.on
        or arguments.stat
        or arguments.summary
        or arguments.top_n is not None
    ):
        raise UsageError(
            "SOW-DIF-006",
            "--format envelopes requires complete records and all differences, so it cannot be "
            "combined with --only, --ignore, --loose, --on, --top-n, --stat and --summary",
            hint="remove these options; --filter and --key select records",
        )
    is_brief = arguments.summary and not arguments.stat and arguments.format == "text"
    options = replace(wanted, records=arguments.format == "envelopes" or is_brief)
    showing = DiffPrinter(
        invocation, arguments.format, stat=arguments.stat, summary=arguments.summary, most=arguments.top_n
    )
    with ExitStack() as stack:
        words = [arguments.before] if arguments.after is None else [arguments.before, arguments.after]
        types = arguments.type or ()
        sides = pair_sides(invocation, words, arguments.topic or (), arguments.message_type, stack, types)
        # A field of any of the topics is known, so all of them are examined before one is reported.
        unknown = choose_unknown(invocation, strict=arguments.strict)
        named = wanted.filter or wanted.fields or wanted.ignored or wanted.on
        lacking = UnknownFieldCheck(sides[0][0].instance, unknown) if named and sides and unknown != "ignore" else None
        if sides:
            note_filter(sides[0][0].instance, wanted.filter)
        if lacking is not None and lacking.refuses:
            for one, other in sides:
                compare_sides(one, other, options, lacking).close()
            lacking.refuse_unknown()
            lacking = None
        comparison: Comparison
        for one, other in sides:
            with closing(compare_sides(one, other, options, lacking)) as comparison:
                showing.print_comparison(comparison)
                if lacking is not None:
                    lacking.note_present(comparison.counts.fields)
        if lacking is not None:
            lacking.notify_unknown()
    return showing.finish()

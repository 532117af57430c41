"""``sowctl diff``: what differs between two states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words import queryoptions as asking
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import Filter, MessageType
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.verbs.looking.diff import Comparison

EXAMPLES = (
    "sowctl diff orders@2026-01-05T10:00:00Z orders --stat",
    "sowctl diff orders@1200..1210",
    "sowctl diff customers@2026-01-05T09:00:00Z --filter \"/region = 'APAC'\" --only /creditLimit",
    "sowctl diff sowctl.xml amps.xml --summary",
    "sowctl diff other.xml sowctl.xml --format envelopes | sowctl publish --framing envelope -c other.xml",
)


def run(
    invocation: Invocation,
    before: Annotated[
        str, Argument("A", "TARGET, TARGET@WHEN, TARGET@WHEN..WHEN, INSTANCE or INSTANCE:TARGET", complete="target")
    ],
    after: Annotated[
        str | None, Argument("B", "what to compare it with; without it the present of A", complete="target")
    ] = None,
    topic: Annotated[
        list[str] | None, option("--topic", help="of whole instances only this topic; may be repeated", metavar="NAME")
    ] = None,
    filter: Filter = None,
    key: Annotated[
        list[str] | None, option("--key", help="only the record of this key; may be repeated", metavar="KEY")
    ] = None,
    only: Annotated[
        str | None, option("--only", help="only differences in these fields, such as /qty,/price", metavar="PATHS")
    ] = None,
    ignore: Annotated[
        str | None, option("--ignore", help="no differences in these fields, such as /time", metavar="PATHS")
    ] = None,
    on: Annotated[
        str | None, option("--on", help="pair records by these fields instead of their SOW keys", metavar="PATHS")
    ] = None,
    loose: Annotated[
        bool, option("--loose", help="bytes do not count: white space, order of members, 1 and 1.0")
    ] = False,
    meta: Annotated[
        bool, option("--meta", help="compare times, lifetimes, txids, correlation ids and publishers' keys, too")
    ] = False,
    stat: Annotated[bool, option("--stat", help="how many records and fields differ, topic by topic")] = False,
    summary: Annotated[bool, option("--summary", help="one line for each topic")] = False,
    top_n: Annotated[
        int | None,
        option("--top-n", "-n", help="show so many records of each topic; count all", metavar="COUNT", minimum=0),
    ] = None,
    format: Annotated[
        str, option("--format", "-F", help="how differences are written", choices=("text", "json", "envelopes"))
    ] = "text",
    strict: asking.Strict = False,
    message_type: MessageType = None,
) -> int:
    """Compare two states by key and field: topics, views, .sow files, each now or at an instant, or whole instances.

    WHEN is what query --at takes: a time, a bookmark, a txid. TARGET@WHEN..WHEN alone is compared at its two ends; as
    one of two sides it is what the journal's entries of that range leave of their keys. INSTANCE is a configuration or
    the directory of one, of which the topics are compared, not what is derived from them; INSTANCE:TARGET@WHEN names a
    state in it. Both states are read in one pass, whatever their
    size; records that are equal byte by byte are not decoded.

    A record is a line: ~ changed, with its fields below, + only in B, - only in A. With --format json one object a
    line; with --format envelopes what publish --framing envelope needs to make A into B, deletions too. A record that
    differs in its bytes alone is changed unless --loose is given. Arrays of objects are compared item by item, other
    arrays as one value. A record counts for --filter if it matches on either side.

    A note tells of a field of --filter, --only, --ignore or --on that no record has on either side, or in large stores
    none of the first 10,000; with --strict it is an error, and nothing is compared.

    Ends with status 0 where nothing differs, 1 where something does, 2 or more for errors. hash --payloads prints equal
    digests where nothing differs.
    """
    from contextlib import ExitStack, closing

    from sowctl.cli.commands.bodies.diff import Showing
    from sowctl.cli.sides import pairs
    from sowctl.engine.options import DiffOptions
    from sowctl.engine.search.lacking import Lacking
    from sowctl.engine.verbs.looking.diff import compare

    if format == "envelopes" and (only or ignore or loose or on or stat or summary or top_n is not None):
        raise UsageError(
            "SOW-DIF-006",
            "envelopes make all of A into B: --only, --ignore, --loose, --on, --top-n, --stat, --summary do not go "
            "with them",
            hint="leave them out; --filter and --key choose records",
        )
    options = DiffOptions(
        filter=filter,
        keys=tuple(key) if key else None,
        fields=_paths(only),
        ignored=_paths(ignore),
        on=_paths(on),
        loose=loose,
        stamps=meta,
        records=format == "envelopes" or (summary and not stat and format == "text"),
    )
    showing = Showing(invocation, format, stat=stat, summary=summary, most=top_n)
    with ExitStack() as stack:
        words = [before] if after is None else [before, after]
        sides = pairs(invocation, words, topic or (), message_type, stack)
        # A field that one of several topics has is known, so all of them are looked at before one is refused.
        unknown = asking.on_unknown(invocation, strict=strict)
        named = filter or only or ignore or on
        lacking = Lacking(sides[0][0].instance, unknown) if named and sides and unknown != "ignore" else None
        if lacking is not None and lacking.refuses:
            for one, other in sides:
                compare(one, other, options, lacking).close()
            lacking.refuse()
            lacking = None
        comparison: Comparison
        for one, other in sides:
            with closing(compare(one, other, options, lacking)) as comparison:
                showing.show(comparison)
                if lacking is not None:
                    lacking.met(comparison.counts.fields)
        if lacking is not None:
            lacking.tell()
    return showing.end()


def _paths(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text is not None else ()

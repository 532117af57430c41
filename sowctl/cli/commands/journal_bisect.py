"""``sowctl journal bisect``: find the entry that changed a state, and its publisher."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FixNames, OutputChoice, Summary
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.engine.options import SowKeys
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl journal bisect orders --filter \"/status = 'cancelled'\"",
    "sowctl journal bisect orders --filter '/qty > 4000' --count '>= 100'",
    "sowctl journal bisect orders --key 10417 --filter '/filled > 0' --summary json",
)


class JournalBisectArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal bisect``."""

    operand: Annotated[
        str | None, Argument("TOPIC", "Name of the topic. Optional if there is only one.", complete="topic")
    ] = None
    topic: Annotated[str | None, declare_option("--topic", help="Same as TOPIC.", metavar="NAME")] = None
    filter: Annotated[
        str | None,
        declare_option(
            "--filter", "-f", help="Count only records that match the expression. Default: all.", metavar="EXPR"
        ),
    ] = None
    count: Annotated[
        str,
        declare_option(
            "--count",
            help="Condition on the number of records: one of > >= = != <= <, and a number.",
            metavar="CONDITION",
        ),
    ] = "> 0"
    key: Annotated[
        list[str] | None,
        declare_option("--key", help="Count only the record with this key. May be repeated.", metavar="KEY"),
    ] = None
    sow_keys: SowKeys = None
    since: Annotated[
        str | None,
        declare_option(
            "--since", help="Position at which the condition is false: a time, txid or bookmark.", metavar="WHEN"
        ),
    ] = None
    until: Annotated[
        str | None,
        declare_option(
            "--until", help="Position at which the condition is true: a time, txid or bookmark.", metavar="WHEN"
        ),
    ] = None
    fix_names: FixNames = False
    summary: Summary = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: JournalBisectArguments) -> int:
    """Find and print the journal entry after which a condition on the state of a topic holds.

    The condition is on the number of records that match --filter at a position of the journal. It must be false at
    --since (default: the beginning) and true at --until (default: the end). The command does a binary search between
    the two. If the condition changes once, its entry is found; if it changes several times, one of the entries that
    made it true is found.

    The output has the number of matching records before and after the entry, its time and its client. Records that had
    expired by the time of the last entry of the topic do not count. The exit status is 1 if the condition holds at
    --since or does not hold at --until.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.report_output import show_words
    from sowctl.cli.parsing.option_values import parse_position
    from sowctl.engine.search.filter_notes import note_filter
    from sowctl.engine.verbs.upkeep.journal_bisect import BisectOptions, bisect_journal

    if arguments.operand is not None and arguments.topic is not None:
        raise UsageError("SOW-CLI-013", "the topic is given twice", hint="give TOPIC or --topic, not both")
    opening, closing = parse_position(invocation, arguments.since), parse_position(invocation, arguments.until)
    sink = Sink(invocation, replace(arguments.output, meta=True))
    with invocation.open_instance(fix_names=arguments.fix_names) as instance:
        note_filter(instance, arguments.filter)
        begin, end = opening.resolve(instance), closing.resolve(instance)
        options = BisectOptions(
            filter=arguments.filter,
            count=arguments.count,
            keys=tuple(arguments.key or ()),
            sow_keys=arguments.sow_keys or (),
            from_txid=begin.txid,
            from_time=begin.time,
            to_txid=end.txid,
            to_time=end.time,
        )
        found = bisect_journal(instance, arguments.operand or arguments.topic, options)
        sink.write([found.entry])
    show_words(invocation, found.summary, found.values, arguments.summary)
    return 0

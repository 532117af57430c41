"""``sowctl journal bisect``: since when something is so, and who wrote it."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, FixNames, Format, SowKeys, Summary

EXAMPLES = (
    "sowctl journal bisect --topic orders --filter \"/status = 'cancelled'\"",
    "sowctl journal bisect --topic orders --filter '/qty > 4000' --count '>= 100'",
    "sowctl journal bisect --topic orders --key 10417 --filter '/filled > 0' --summary json",
)


def run(
    invocation: Invocation,
    topic: Annotated[
        str | None, option("--topic", help="the topic; may be left out where there is one", metavar="NAME")
    ] = None,
    filter: Annotated[
        str | None, option("--filter", "-f", help="which records count; default all", metavar="EXPR")
    ] = None,
    count: Annotated[
        str, option("--count", help="what their number has to be: > >= = != <= or <, and a number", metavar="CONDITION")
    ] = "> 0",
    key: Annotated[
        list[str] | None, option("--key", help="only the record with this key; may be repeated", metavar="KEY")
    ] = None,
    sow_key: SowKeys = None,
    since: Annotated[
        str | None, option("--since", help="where it is false: a time, txid or bookmark", metavar="WHEN")
    ] = None,
    until: Annotated[
        str | None, option("--until", help="where it is true: a time, txid or bookmark", metavar="WHEN")
    ] = None,
    format: Format = None,
    columns: Columns = None,
    fix_names: FixNames = False,
    summary: Summary = None,
) -> int:
    """Find the entry of the journal behind which a condition over the state of a topic holds, and print it.

    The condition is about the number of records for which --filter is true, as of a place in the log. It has to be
    false at --since, which is the beginning unless given, and true at --until, which is the end. What lies between is
    halved again and again. Where the condition changes once, its entry is found; where it changes several times, one
    of the entries that made it true.

    Says how many records matched before the entry and behind it, when it was written and by which client. A record
    that had expired at the time of the topic's last entry does not count. Ends with status 1 where the condition holds
    at --since or does not at --until.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.reporting import show_words
    from sowctl.cli.words.when import position, sow_keys
    from sowctl.engine.verbs.upkeep.journal_bisect import BisectOptions, bisect

    opening, closing = position(invocation, since), position(invocation, until)
    sink = Sink(invocation, Choice(format, meta=True, columns=columns))
    with invocation.open_instance(fix_names=fix_names) as instance:
        begin, end = opening.found(instance), closing.found(instance)
        options = BisectOptions(
            filter=filter,
            count=count,
            keys=tuple(key or ()),
            sow_keys=sow_keys(sow_key),
            from_txid=begin.txid,
            from_time=begin.time,
            to_txid=end.txid,
            to_time=end.time,
        )
        found = bisect(instance, topic, options)
        sink.write([found.entry])
    show_words(invocation, found.words, found.row, summary)
    return 0

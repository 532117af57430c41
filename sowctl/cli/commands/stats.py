"""``sowctl stats``: figures of fields, and of the journal."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words import queryoptions as asking
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import (
    At,
    Filter,
    FixNames,
    Force,
    Format,
    LiteralTopic,
    MessageType,
    Output,
    Sample,
)

EXAMPLES = (
    "sowctl stats orders /price /symbol",
    "sowctl stats orders --filter \"/status = 'filled'\" --json",
    "sowctl stats --journal --interval 10m",
    "sowctl stats orders --journal --since 2026-01-05T09:30:00Z --until 2026-01-05T10:00:00Z",
)


def run(
    invocation: Invocation,
    target: Annotated[
        str | None,
        Argument("TARGET", "a topic's or view's name, a .sow file, or a regular expression", complete="target"),
    ] = None,
    paths: Annotated[list[str] | None, Argument("PATH", "fields, such as /price; default all that have values")] = None,
    filter: Filter = None,
    sample: Sample = None,
    top: Annotated[int, option("--top", help="so many of the most frequent values", metavar="COUNT", minimum=0)] = 5,
    bars: Annotated[
        int, option("--bars", help="about so many bars of a histogram", metavar="COUNT", minimum=1, maximum=200)
    ] = 10,
    at: At = None,
    fresh: asking.Fresh = False,
    message_type: MessageType = None,
    literal_topic: LiteralTopic = False,
    journal: Annotated[bool, option("--journal", help="count the messages of the journal by time instead")] = False,
    interval: Annotated[
        str | None, option("--interval", help="with --journal: count by so long a time; default 1m", metavar="TIME")
    ] = None,
    since: Annotated[str | None, option("--since", help="begin at this time, txid or bookmark", metavar="WHEN")] = None,
    until: Annotated[str | None, option("--until", help="end at this time, txid or bookmark", metavar="WHEN")] = None,
    txid: Annotated[str | None, option("--txid", help="only these txids: N or N:M", metavar="RANGE")] = None,
    client: Annotated[str | None, option("--client", help="only entries of this publisher", metavar="NAME")] = None,
    strict: asking.Strict = False,
    format: Format = None,
    fix_names: FixNames = False,
    output: Output = None,
    force: Force = False,
) -> int:
    """Print figures of the fields of a topic's records: counts, quantiles, histogram, the most frequent values.

    Values are those that filters see: of a path that leads to several values, all of them. without counts the records
    whose value is NULL, which an absent field and an empty text are, too. A quantile is a number that was there: the
    smallest that so many percent of all numbers do not exceed. Texts have the first and the last one by code points.

    All records are read; --sample takes some of them, those whose keys have the lowest hashes. Where no PATH is
    given, the fields are those of the first records, which are looked through until 500,000 values were seen; at
    most 100 fields are taken, and so many records that their fields have 10,000,000 values and their messages 400
    MB. A note says where that is not all. Figures are exact as long as 8,000,000 numbers and 500,000 distinct
    values are enough for all fields together. Then the fields with the most are estimated: quantiles by the sketch
    of Manku, Rajagopalan and Lindsay, with how far ranks may be wrong; distinct values by HyperLogLog, standard
    error 1.6 %; the most frequent values by the counters of Misra and Gries, whose counts are too low by what +
    says at most.

    With --journal the messages of the journal are counted by topic, client and minute, those of TARGET or of all
    topics, within --since, --until, --txid and --client; on a terminal a sparkline shows them. So many intervals that
    there are more than 10,000 become twice as long until they are fewer.
    """
    from sowctl.cli.commands.bodies.looking import RecordOptions
    from sowctl.cli.commands.bodies.stats import CountOptions, FieldOptions, FigureOptions, count_journal, show_fields

    shown = FigureOptions(format, output, force)
    if journal:
        about = {
            "PATH": paths,
            "--filter": filter,
            "--sample": sample,
            "--at": at,
            "--fresh": fresh,
            "--strict": strict,
        }
        counting = CountOptions(target, interval or "1m", since, until, txid, client, message_type)
        return count_journal(invocation, counting, shown, about)
    about = {"--interval": interval, "--since": since, "--until": until, "--txid": txid, "--client": client}
    wanted = RecordOptions(target or "", filter, at, message_type, literal_topic, fresh, fix_names, strict=strict)
    return show_fields(invocation, wanted, FieldOptions(tuple(paths or ()), sample, top, bars), shown, about)

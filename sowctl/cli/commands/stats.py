"""``sowctl stats``: figures of fields, and of the journal."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing import queryoptions as asking
from sowctl.cli.parsing.options import (
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
from sowctl.declarations import Argument, declare_option

EXAMPLES = (
    "sowctl stats orders /price /symbol",
    "sowctl stats orders --filter \"/status = 'filled'\" --json",
    "sowctl stats --journal --interval 10m",
    "sowctl stats orders --journal --since 2026-01-05T09:30:00Z --until 2026-01-05T10:00:00Z",
)


class StatsArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl stats``."""

    target: Annotated[
        str | None,
        Argument("TARGET", "Name of a topic or view, a .sow file, or a regular expression.", complete="target"),
    ] = None
    paths: Annotated[
        list[str] | None, Argument("PATH", "Fields, for example /price. Default: all fields with values.")
    ] = None
    filter: Filter = None
    sample: Sample = None
    top: Annotated[
        int, declare_option("--top", help="Number of most frequent values to print.", metavar="COUNT", minimum=0)
    ] = 5
    bars: Annotated[
        int,
        declare_option("--bars", help="Approximate number of histogram bars.", metavar="COUNT", minimum=1, maximum=200),
    ] = 10
    at: At = None
    fresh: asking.Fresh = False
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    journal: Annotated[bool, declare_option("--journal", help="Count the messages in the journal by time instead.")] = (
        False
    )
    interval: Annotated[
        str | None,
        declare_option("--interval", help="With --journal: length of the intervals. Default: 1m.", metavar="TIME"),
    ] = None
    since: Annotated[
        str | None, declare_option("--since", help="Start at this time, txid or bookmark.", metavar="WHEN")
    ] = None
    until: Annotated[
        str | None, declare_option("--until", help="End at this time, txid or bookmark.", metavar="WHEN")
    ] = None
    txid: Annotated[str | None, declare_option("--txid", help="Only these txids: N or N:M.", metavar="RANGE")] = None
    client: Annotated[
        str | None, declare_option("--client", help="Only entries of this publisher.", metavar="NAME")
    ] = None
    strict: asking.Strict = False
    format: Format = None
    fix_names: FixNames = False
    output: Output = None
    force: Force = False


def run(invocation: Invocation, arguments: StatsArguments) -> int:
    """Print statistics of the fields of a topic: counts, quantiles, histogram, most frequent values.

    Values are those that filters see: if a path leads to several values, all of them. without counts the records whose
    value is NULL, which includes missing fields and empty strings. A quantile is an existing number: the smallest that
    is not exceeded by that percentage of all numbers. For text, the first and the last value in code point order are
    printed.

    All records are read; --sample reads only those with the lowest hashes of their keys. Without PATH, the fields are
    those of the first records, up to 500,000 values, limited to 100 fields and to as many records as have 10,000,000
    values and 400 MB of messages; a note reports if a limit was reached. Results are exact up to 8,000,000 numbers and
    500,000 distinct values for all fields together. Beyond that, the fields with the most values are estimated:
    quantiles by the sketch of Manku, Rajagopalan and Lindsay, with the maximum rank error; distinct values by
    HyperLogLog, standard error 1.6 %; the most frequent values by the counters of Misra and Gries, which undercount by
    at most the number printed after +.

    With --journal, the messages in the journal are counted by topic, client and minute, for TARGET or all topics,
    within --since, --until, --txid and --client; on a terminal, a sparkline is printed, which leaves out long times
    without messages. Other formats print at most 10,000 intervals, or 1,000,000 with --interval: if there are more,
    their length is doubled until there are fewer.
    """
    from sowctl.cli.commands.bodies.inspection import RecordOptions
    from sowctl.cli.commands.bodies.stats import CountOptions, FieldOptions, FigureOptions, count_journal, show_fields

    shown = FigureOptions(arguments.format, arguments.output, arguments.force)
    if arguments.journal:
        about = {
            "PATH": arguments.paths,
            "--filter": arguments.filter,
            "--sample": arguments.sample,
            "--at": arguments.at,
            "--fresh": arguments.fresh,
            "--strict": arguments.strict,
        }
        counting = CountOptions(
            arguments.target,
            arguments.interval,
            arguments.since,
            arguments.until,
            arguments.txid,
            arguments.client,
            arguments.message_type,
        )
        return count_journal(invocation, counting, shown, about)
    about = {
        "--interval": arguments.interval,
        "--since": arguments.since,
        "--until": arguments.until,
        "--txid": arguments.txid,
        "--client": arguments.client,
    }
    wanted = RecordOptions(
        arguments.target or "",
        arguments.filter,
        arguments.at,
        arguments.message_type,
        arguments.literal_topic,
        arguments.fresh,
        arguments.fix_names,
        strict=arguments.strict,
    )
    return show_fields(
        invocation,
        wanted,
        FieldOptions(tuple(arguments.paths or ()), arguments.sample, arguments.top, arguments.bars),
        shown,
        about,
    )

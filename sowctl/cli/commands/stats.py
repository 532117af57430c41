"""``sowctl stats``: statistics of fields, and of the journal."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, RecordChoice
from sowctl.cli.parsing.stats_options import FieldOptions, RateOptions
from sowctl.declarations import Argument, declare_option, declare_part, list_given_options
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl stats orders /price /symbol",
    "sowctl stats orders --filter \"/status = 'filled'\" --json",
    "sowctl stats --journal --interval 10m --format csv",
    "sowctl stats --journal --by-topic --last 1d",
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
    records: RecordChoice
    fields: FieldOptions
    journal: Annotated[bool, declare_option("--journal", help="Count the messages in the journal by time instead.")] = (
        False
    )
    rates: RateOptions
    output: Annotated[OutputChoice, declare_part("format", "path", "force")]


def run(invocation: Invocation, arguments: StatsArguments) -> int:
    """Print statistics of the fields of a topic: counts, quantiles, histogram, most frequent values.

    Values are those that filters see: if a path leads to several values, all of them. without counts the records whose
    value is NULL, which includes missing fields and empty strings. A quantile is an existing number: the smallest that
    is not exceeded by that percentage of all numbers. For text, the first and the last value in code point order are
    printed.

    All records are read; --sample reads only those with the lowest hashes of their keys. Without PATH, the fields are
    those of the first records, up to 500,000 values, and at most 100 fields; if the records have more than 10,000,000
    values of these fields, or more than 256 MB of messages, a sample of them is read. A note reports if a limit was
    reached. Results are exact up to 8,000,000 numbers and 500,000 distinct values for all fields together. Beyond that,
    the fields with the most values are estimated: quantiles by the sketch of Manku, Rajagopalan and Lindsay, with the
    maximum rank error; distinct values by HyperLogLog, standard error 1.6 %; the most frequent values by the counters
    of Misra and Gries, which undercount by at most the number printed after +.

    With --journal, the messages in the journal are counted by topic, client and minute, for TARGET or all topics,
    within --since, --last, --until, --txid and --client. The topic with the most bytes comes first. Bytes are those of
    the messages as published, before compression; rates are per second, averaged over the intervals with messages. On
    a terminal, a sparkline is printed, which leaves out long times without messages. csv and tsv have one row per
    interval with messages, other formats one row per topic and client with the counts of all intervals. These print at
    most 10,000 intervals, or 1,000,000 with --interval: if there are more, their length is doubled until there are
    fewer.
    """
    from sowctl.cli.commands.bodies.stats import JournalCount, count_journal, show_fields

    records = arguments.records
    if arguments.journal:
        chosen = replace(records, message_type=None, literal_topic=False, fix_names=False)
        given = ["PATH"] if arguments.paths else ["--sample"] if arguments.fields.sample else list_given_options(chosen)
        for name in given[:1]:
            raise _build_misuse_error(name, "cannot be used with --journal")
        counted = JournalCount(arguments.target, records.message_type, arguments.rates)
        return count_journal(invocation, counted, arguments.output)
    for name in list_given_options(arguments.rates)[:1]:
        raise _build_misuse_error(name, "requires --journal")
    if not arguments.target:
        raise UsageError("SOW-CLI-003", "missing argument TARGET", hint="name a topic, or add --journal")
    paths = arguments.paths or []
    return show_fields(invocation, arguments.target, paths, records, arguments.fields, arguments.output)


def _build_misuse_error(name: str, words: str) -> UsageError:
    return UsageError("SOW-STA-003", f"{name} {words}", hint="statistics are either of records or of the journal")

"""The two parts of ``stats``: statistics of fields, and messages of the journal by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from sowctl.cli.commands.bodies.inspection import inspect_topics, note_coverage
from sowctl.cli.io.output_sink import Sink
from sowctl.cli.parsing.stats_options import RateOptions
from sowctl.errors import UsageError
from sowctl.output.options import Terminal
from sowctl.output.reports import as_dict
from sowctl.values.display import format_bytes, format_count

if TYPE_CHECKING:
    from sowctl.cli.commands.bodies.inspection import Ask
    from sowctl.cli.context import Invocation
    from sowctl.cli.parsing.options import OutputChoice, RecordChoice
    from sowctl.cli.parsing.stats_options import FieldOptions
    from sowctl.engine.profile.rates import RatesReport
    from sowctl.engine.profile.sample import SampleShare
    from sowctl.engine.verbs.inspect.stats import StatsReport
    from sowctl.messages.base import MessageType
    from sowctl.values.paths import Path

Row = Mapping[str, Any]


DEFAULT_INTERVAL_SECONDS = 60.0


class JournalCount(Struct, frozen=True):
    """The messages to count: those of all topics if ``target`` is None."""

    target: str | None
    message_type: str | None
    rates: RateOptions


def show_fields(
    invocation: Invocation,
    target: str,
    names: Sequence[str],
    records: RecordChoice,
    fields: FieldOptions,
    output: OutputChoice,
) -> int:
    """``stats`` of records."""
    from sowctl.engine.profile.sample import parse_sample
    from sowctl.values.paths import parse_path

    # A path of sowctl schema is accepted unchanged: filters have no notation for the elements of an array.
    paths = [parse_path(text.replace("[*]", "")) for text in names]
    share = parse_sample(fields.sample)
    sink = Sink(invocation, output)
    reports = inspect_topics(
        invocation,
        [target],
        records,
        lambda ask, topic, kind: _read_stats(ask, topic, kind, paths, share, fields),
        paths=",".join(map(str, paths)),
    )
    for report in reports:
        note_coverage(invocation, report)
        if report.searched is not None:
            invocation.note(f"{report.topic}: the fields are those of the first {report.searched:,} records")
        if report.left_out:
            invocation.warn(
                f"{report.topic}: {format_count(report.left_out, 'more field is', 'more fields are')} not included",
                hint="name the fields that you need",
            )
    if sink.format == "table":
        from sowctl.output.charts import draw_fields

        # The name of a single topic is known to the user.
        several = len(reports) > 1
        rows = [(report.topic if several else None, [as_dict(one) for one in report.fields]) for report in reports]

        def draw(terminal: Terminal, out: BinaryIO) -> None:
            for topic, some in rows:
                draw_fields(some, terminal, out, topic)

        _draw_figures(sink, draw)
        return 0
    sink.write_rows(
        {"topic": report.topic, "message_type": report.message_type, **as_dict(facts)}
        for report in reports
        for facts in report.fields
    )
    return 0


def _read_stats(
    ask: Ask, topic: str, kind: MessageType, paths: Sequence[Path], share: SampleShare, fields: FieldOptions
) -> StatsReport:
    from sowctl.engine.verbs.inspect.stats import compute_stats

    return compute_stats(ask, topic, kind, paths, share, top=fields.top, bars=fields.bars)


def count_journal(invocation: Invocation, counted: JournalCount, output: OutputChoice) -> int:
    """``stats --journal``."""
    from sowctl.cli.parsing.option_values import parse_position, parse_range
    from sowctl.engine.profile.rates import MAX_ASKED_INTERVALS, MAX_INTERVALS
    from sowctl.engine.verbs.inspect.stats import EntryRange, count_rates
    from sowctl.values.units import format_interval

    counting = counted.rates
    txids = parse_range("--txid", counting.txid)
    begins, ends = parse_position(invocation, counting.since), parse_position(invocation, counting.until)
    interval = round((DEFAULT_INTERVAL_SECONDS if counting.interval is None else counting.interval) * 1_000_000)
    if interval < 1:
        raise UsageError("SOW-CLI-022", "--interval must be above 0", hint="use for example 10s, 1m or 1h")
    if counting.last is not None and counting.since is not None:
        raise UsageError("SOW-CLI-012", "--last and --since exclude each other", hint="give one of them")
    sink = Sink(invocation, output)
    with invocation.open_instance() as instance:
        begin, end = begins.resolve(instance), ends.resolve(instance)
        last = None if counting.last is None else instance.now - round(counting.last * 1_000_000)
        within = EntryRange(
            from_time=begin.time if last is None else last,
            to_time=end.time,
            from_txid=max((txids[0] if txids else 0), begin.txid or 0) or None,
            to_txid=min((bound for bound in (txids and txids[1], end.txid) if bound is not None), default=None),
            client=counting.client,
        )
        topic_names = [_format_target(counted.target, counted.message_type)] if counted.target else []
        # Output for people and tables skips intervals without messages; other programs get each, unless they requested
        # fewer.
        asked = counting.interval is not None or sink.format in ("table", "csv", "tsv")
        most = MAX_ASKED_INTERVALS if asked else MAX_INTERVALS
        report = count_rates(instance, topic_names, within, interval=interval, most=most, by_topic=counting.by_topic)
    size = sum(one.bytes for one in report.series)
    invocation.note(f"{format_count(report.messages, 'message')}, {format_bytes(size)}")
    if report.interval != report.wanted:
        length = format_interval(1000 * report.interval)
        invocation.note(f"the intervals are {length} long; shorter intervals would be too many")
    rows = build_rate_rows(report)
    if sink.format == "table":
        from sowctl.output.charts import draw_rates

        if rows:
            _draw_figures(sink, lambda terminal, out: draw_rates(rows, rows[0]["begin"], terminal, out))
        return 0
    # A cell cannot hold the counts of all intervals in a form that spreadsheet programs read.
    sink.write_rows(_iterate_interval_rows(report) if sink.format in ("csv", "tsv") else rows)
    return 0


def _iterate_interval_rows(report: RatesReport) -> Iterator[dict[str, Any]]:
    """Yield one row for each topic, client and interval with messages, ordered by time within each."""
    from sowctl.values.times import format_time

    for one in report.series:
        for number, (count, size) in enumerate(zip(one.counts, one.sizes, strict=True)):
            assert report.begin is not None
            if not count:
                continue
            yield {
                "topic": one.topic,
                "message_type": one.message_type,
                "client": one.client,
                "begin": format_time(report.begin + number * report.interval),
                "interval_seconds": report.interval / 1_000_000,
                "messages": count,
                "bytes": size,
            }


def build_rate_rows(report: RatesReport) -> list[dict[str, Any]]:
    """Return one row for each topic and client."""
    from sowctl.values.times import format_time

    begin = None if report.begin is None else format_time(report.begin)
    return [
        {
            "topic": one.topic,
            "message_type": one.message_type,
            "client": one.client,
            "messages": one.messages,
            "bytes": one.bytes,
            "messages_rate": round(one.rates[0], 3),
            "bytes_rate": round(one.rates[1], 3),
            "peak": max(one.counts),
            "begin": begin,
            "interval_seconds": report.interval / 1_000_000,
            "counts": one.counts,
        }
        for one in report.series
    ]


def _format_target(target: str, message_type: str | None) -> str:
    return f"[{message_type}].[{target}]" if message_type is not None else target


def _draw_figures(sink: Sink, draw: Callable[[Terminal, BinaryIO], object]) -> None:
    """Draw to the terminal, or as for one of 80 columns without colours into a pipe or file."""
    terminal = sink.options.terminal or Terminal()
    if sink.path is None:
        sink.invocation.start_paging()
        draw(terminal, sink.invocation.streams.painted_stdout)
        return
    with sink.open_file() as out:
        draw(terminal, out)

"""The two halves of ``stats``: figures of fields, and messages of the journal by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.commands.bodies.looking import RecordOptions, looked_at, share_of, tell
from sowctl.cli.io.emit import Choice, Sink
from sowctl.errors import UsageError
from sowctl.output.options import Terminal
from sowctl.output.reports import as_dict

if TYPE_CHECKING:
    from sowctl.cli.commands.bodies.looking import Ask
    from sowctl.cli.context import Invocation
    from sowctl.engine.profile.rates import RatesReport
    from sowctl.engine.profile.sample import SampleShare
    from sowctl.engine.verbs.looking.stats import StatsReport
    from sowctl.messages.base import MessageType
    from sowctl.values.paths import Path

Row = Mapping[str, Any]


class FigureOptions(Struct, frozen=True):
    """Where the figures go, as given."""

    format: str | None
    output: str | None
    force: bool


DEFAULT_INTERVAL = "1m"


class FieldOptions(Struct, frozen=True):
    """Which fields are looked at, and how closely, as given."""

    paths: tuple[str, ...]
    sample: str | None
    top: int
    bars: int


class CountOptions(Struct, frozen=True):
    """Which messages of the journal are counted, as given."""

    target: str | None
    interval: str | None
    since: str | None
    until: str | None
    txid: str | None
    client: str | None
    message_type: str | None


def show_fields(
    invocation: Invocation,
    wanted: RecordOptions,
    fields: FieldOptions,
    shown: FigureOptions,
    others: Mapping[str, object],
) -> int:
    """``stats`` of records. Raises UsageError ``SOW-STA-003`` for options of the other half among ``others``."""
    from sowctl.values.paths import parse_path

    _refuse(others, "requires --journal")
    if not wanted.target:
        raise UsageError("SOW-CLI-003", "missing argument TARGET", hint="name a topic, or add --journal")
    # A path of sowctl schema may be given as it stands there: filters have no sign for the elements of an array.
    paths = [parse_path(text.replace("[*]", "")) for text in fields.paths]
    share = share_of(fields.sample)
    sink = Sink(invocation, Choice(shown.format, output=shown.output, force=shown.force))
    wanted = replace(wanted, paths=",".join(map(str, paths)))
    reports = looked_at(invocation, wanted, lambda ask, topic, kind: _read(ask, topic, kind, paths, share, fields))
    for report in reports:
        tell(invocation, report)
        if report.searched is not None:
            invocation.note(f"{report.topic}: the fields are those of the first {report.searched:,} records")
        if report.left_out:
            invocation.warn(
                f"{report.topic}: {report.left_out:,} more fields are not included",
                hint="name the fields that you need",
            )
    if sink.format == "table":
        from sowctl.output.charts import draw_fields

        # The name of a single topic was just typed.
        several = len(reports) > 1
        rows = [(report.topic if several else None, [as_dict(one) for one in report.fields]) for report in reports]

        def draw(terminal: Terminal, out: BinaryIO) -> None:
            for topic, some in rows:
                draw_fields(some, terminal, out, topic)

        _draw(sink, draw)
        return 0
    sink.write_rows(
        {"topic": report.topic, "message_type": report.message_type, **as_dict(facts)}
        for report in reports
        for facts in report.fields
    )
    return 0


def _read(
    ask: Ask, topic: str, kind: MessageType, paths: Sequence[Path], share: SampleShare, fields: FieldOptions
) -> StatsReport:
    from sowctl.engine.verbs.looking.stats import stats

    return stats(ask, topic, kind, paths, share, top=fields.top, bars=fields.bars)


def count_journal(
    invocation: Invocation, counting: CountOptions, shown: FigureOptions, others: Mapping[str, object]
) -> int:
    """``stats --journal``. Raises UsageError ``SOW-STA-003`` for options of the other half among ``others``."""
    from sowctl.cli.words.when import numbers, position, seconds
    from sowctl.engine.profile.rates import MAX_ASKED_INTERVALS, MOST_INTERVALS
    from sowctl.engine.verbs.looking.stats import Range, rates
    from sowctl.values.units import format_interval

    _refuse(others, "cannot be used with --journal")
    txids = numbers("--txid", counting.txid)
    begins, ends = position(invocation, counting.since), position(invocation, counting.until)
    interval = round((seconds("--interval", counting.interval or DEFAULT_INTERVAL) or 0) * 1_000_000)
    if interval < 1:
        raise UsageError("SOW-CLI-022", "--interval must be above 0", hint="use for example 10s, 1m or 1h")
    sink = Sink(invocation, Choice(shown.format, output=shown.output, force=shown.force))
    with invocation.open_instance() as instance:
        begin, end = begins.found(instance), ends.found(instance)
        within = Range(
            from_time=begin.time,
            to_time=end.time,
            from_txid=max((txids[0] if txids else 0), begin.txid or 0) or None,
            to_txid=min((bound for bound in (txids and txids[1], end.txid) if bound is not None), default=None),
            client=counting.client,
        )
        topics = [_typed(counting)] if counting.target else []
        # A person sees no interval in which nothing happened; a program gets each, unless it asked for fewer.
        asked = counting.interval is not None or sink.format == "table"
        most = MAX_ASKED_INTERVALS if asked else MOST_INTERVALS
        report = rates(instance, topics, within, interval=interval, most=most)
    invocation.note(f"{report.messages:,} messages")
    if report.interval != report.wanted:
        length = format_interval(1000 * report.interval)
        invocation.note(f"the intervals are {length} long; shorter intervals would be too many")
    rows = rate_rows(report)
    if sink.format == "table":
        from sowctl.output.charts import draw_rates

        if rows:
            _draw(sink, lambda terminal, out: draw_rates(rows, rows[0]["begin"], terminal, out))
        return 0
    sink.write_rows(rows)
    return 0


def rate_rows(report: RatesReport) -> list[dict[str, Any]]:
    """One row for each topic and client."""
    from sowctl.values.times import format_time

    begin = None if report.begin is None else format_time(report.begin)
    return [
        {
            "topic": one.topic,
            "message_type": one.message_type,
            "client": one.client,
            "messages": one.messages,
            "peak": max(one.counts),
            "begin": begin,
            "interval_seconds": report.interval / 1_000_000,
            "counts": one.counts,
        }
        for one in report.series
    ]


def _typed(counting: CountOptions) -> str:
    kind = counting.message_type
    return f"[{kind}].[{counting.target}]" if kind is not None else counting.target or ""


def _refuse(others: Mapping[str, object], words: str) -> None:
    given = next((name for name, value in others.items() if value not in (None, False)), None)
    if given is not None:
        raise UsageError("SOW-STA-003", f"{given} {words}", hint="statistics are either of records or of the journal")


def _draw(sink: Sink, draw: Callable[[Terminal, BinaryIO], object]) -> None:
    """Draw to the terminal, or as for one of 80 columns without colours into a pipe or file."""
    terminal = sink.options.terminal or Terminal()
    if sink.path is None:
        sink.invocation.page()
        draw(terminal, sink.invocation.streams.painted)
        return
    with sink.open_file() as out:
        draw(terminal, out)

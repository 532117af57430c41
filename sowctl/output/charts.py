"""Bars and sparklines made of characters, and the statistics of ``stats`` drawn with them.

The input is the rows that programs get as JSON. A terminal that shows all characters gets blocks in eighths, any other
the characters ``#`` and ``.:-=+*%@``. All text is escaped by ``escape_line``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

from sowctl.output.display import clip_text, escape_line, measure_width
from sowctl.output.options import Terminal
from sowctl.output.richconsole import open_console
from sowctl.values.display import format_bytes, format_count, format_duration, format_number
from sowctl.values.units import format_interval

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Row = Mapping[str, Any]
_BAR_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SPARK_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = ".:-=+*%@"
_MAX_LABEL_COLUMNS = 24
"""Maximum columns of the label before a bar."""
_MAX_BAR_COLUMNS = 40
MIN_SPARKLINE_COLUMNS = 8
"""Minimum columns of a sparkline."""
MAX_GAPS = 3
"""Maximum number of times without messages to omit from a sparkline."""
MIN_GAP_INTERVALS = 10
"""Number of intervals without messages up to which they are always drawn."""
_GAP_MARK = "┊"
_MAX_EXACT_SPAN_CHARACTERS = 4
"""Maximum characters of a duration that is shown exactly."""


def format_bar(part: float, columns: int, *, unicode: bool = True) -> str:
    """A bar over ``part`` of ``columns``; any part above 0 is visible."""
    if part <= 0:
        return ""
    if not unicode:
        return "#" * max(1, round(part * columns))
    eighths = max(1, round(part * columns * 8))
    return _BAR_EIGHTHS[8] * (eighths // 8) + _BAR_EIGHTHS[eighths % 8].strip()


def format_sparkline(counts: Sequence[int], highest: int, *, unicode: bool = True) -> str:
    """One character for each count, a blank for 0; ``highest`` is the count with the highest character."""
    marks = _SPARK_HEIGHTS if unicode else _ASCII_HEIGHTS
    return "".join(marks[min(7, count * 8 // (highest + 1))] if count else " " for count in counts)


def sum_groups(counts: Sequence[int], size: int) -> list[int]:
    """The sums of ``size`` counts in a row."""
    return [sum(counts[start : start + size]) for start in range(0, len(counts), size)]


def find_busy_parts(series: Sequence[Sequence[int]]) -> list[range]:
    """The intervals to draw: all except the longest times without messages in any series.

    A time is omitted if it has more intervals than those with messages: it would take more than half of the line.
    """
    busy = [number for number, counts in enumerate(zip(*series, strict=True)) if any(counts)]
    gaps = sorted(((after - before, before, after) for before, after in pairwise(busy)), reverse=True)[:MAX_GAPS]
    cuts = sorted((before, after) for length, before, after in gaps if length > max(len(busy), MIN_GAP_INTERVALS))
    begins = [0, *(after for _, after in cuts)]
    ends = [*(before + 1 for before, _ in cuts), len(series[0])]
    return [range(begin, end) for begin, end in zip(begins, ends, strict=True)]


def choose_mark_size(parts: Sequence[range], columns: int) -> int:
    """Choose the number of intervals per mark, so that all parts and the marks between them fit ``columns``."""
    room = max(1, columns - len(parts) + 1)
    size = max(1, -(-sum(map(len, parts)) // room))
    # Each part ends with a mark of its own, which may cover fewer intervals.
    while size < max(map(len, parts)) and sum(-(-len(part) // size) for part in parts) > room:
        size += 1
    return size


def draw_fields(rows: Iterable[Row], terminal: Terminal, out: BinaryIO, topic: str | None = None) -> None:
    """Draw the fields of ``stats``: for each a heading, its statistics, and bars; first the ``topic``, if given."""
    from rich.text import Text

    with _Page(terminal, out) as page:
        if topic is not None:
            page.write_wrapped(Text(escape_line(topic), style="bold underline"))
        for row in rows:
            heading = Text(escape_line(row["path"]), style="bold")
            heading.append("  " + ", ".join(_format_counts(row)), style="not bold")
            page.write_wrapped(heading)
            if row["numbers"] is not None:
                _draw_numbers(page, row["numbers"])
            if _shows_texts(row):
                page.write_wrapped(Text(f"  {_row_lengths(row)}"))
            if _shows_top(row):
                unsure = any(one["missed"] for one in row["top"])
                bars = [(_format_value(one["value"]), one["count"], "+" if one["missed"] else "") for one in row["top"]]
                _draw_bars(page, bars, row["values"])
                if unsure:
                    page.write_wrapped(Text(f"  + up to {max(one['missed'] for one in row['top']):,} more"))


def _shows_texts(row: Row) -> bool:
    return row["shortest"] is not None


def _row_lengths(row: Row) -> str:
    short, long = row["shortest"], row["longest"]
    length = f"{short:,}" if short == long else f"{short:,} to {long:,}"
    first, last = (
        clip_text(escape_line(row["first"]), _MAX_LABEL_COLUMNS),
        clip_text(escape_line(row["last"]), _MAX_LABEL_COLUMNS),
    )
    return f"first {first}, last {last}, {length} character{'' if long == 1 else 's'}"


def _shows_top(row: Row) -> bool:
    """True if some values are more frequent than others; for numbers with a histogram only if there are few."""
    few = row["numbers"] is None or row["distinct"] <= len(row["top"])
    return few and any(one["count"] > 1 for one in row["top"])


def _format_counts(row: Row) -> list[str]:
    types = [name if len(row["types"]) == 1 else f"{name} {count:,}" for name, count in row["types"].items()]
    about = "about " if row["distinct_error"] is not None else ""
    parts = [" ".join(types) or "no values", format_count(row["records"], "record")]
    if row["without"]:
        parts.append(f"{row['without']:,} without")
    if row["values"] != row["records"]:
        parts.append(format_count(row["values"], "value"))
    return [*parts, f"{about}{row['distinct']:,} distinct"]


def _draw_numbers(page: _Page, row: Row) -> None:
    from rich.text import Text

    quantiles = row["quantiles"]
    figures = [("min", row["minimum"]), *quantiles.items(), ("max", row["maximum"]), ("mean", row["mean"])]
    parts = [f"{name} {format_number(value)}" for name, value in figures if value is not None]
    if row["rank_error"] is not None:
        parts.append(f"(ranks within {row['rank_error']:.2%})")
    if row["infinite"]:
        parts.append(f"infinite {row['infinite']:,}")
    line = ""
    for part in parts:
        # A name and its number stay together.
        if line and len(line) + 2 + len(part) > page.columns:
            page.write_line(Text(line))
            line = ""
        line += f"  {part}"
    page.write_line(Text(line))
    histogram = row["histogram"]
    if len(histogram) > 1:
        bars = [(f"{format_number(one['low'])} ..", one["count"], "") for one in histogram]
        _draw_bars(page, bars, max(one["count"] for one in histogram), right=True)


def _draw_bars(page: _Page, bars: Sequence[tuple[str, int, str]], whole: int, *, right: bool = False) -> None:
    from rich.text import Text

    labels = [clip_text(label, _MAX_LABEL_COLUMNS) for label, _, _ in bars]
    room = max(map(measure_width, labels))
    digits = max(len(f"{count:,}{mark}") for _, count, mark in bars)
    columns = min(_MAX_BAR_COLUMNS, page.columns - room - digits - 5)
    for label, (_, count, mark) in zip(labels, bars, strict=True):
        blank = " " * (room - measure_width(label))
        line = Text(f"  {blank + label if right else label + blank} ")
        line.append(f"{f'{count:,}{mark}':>{digits}} ")
        if columns > 0:
            line.append(format_bar(count / whole if whole else 0, columns, unicode=page.unicode), style="cyan")
        page.write_line(line)


def draw_rates(rows: Sequence[Row], begins: str, terminal: Terminal, out: BinaryIO) -> None:
    """Draw the messages per interval: a line and a sparkline for each topic and client."""
    from rich.text import Text

    with _Page(terminal, out) as page:
        texts_by_head = {
            "topic": [clip_text(escape_line(row["topic"]), _MAX_LABEL_COLUMNS) for row in rows],
            "client": [clip_text(escape_line(row["client"] or "-"), _MAX_LABEL_COLUMNS) for row in rows],
            "messages": [f"{row['messages']:,}" for row in rows],
            "bytes": [format_bytes(row["bytes"]) for row in rows],
            "rate": [f"{format_bytes(round(row['bytes_rate']))}/s" for row in rows],
            "peak": [f"{row['peak']:,}" for row in rows],
        }
        widths_by_head = {head: max(map(measure_width, (head, *column))) for head, column in texts_by_head.items()}
        # If there is not enough room, the clients are dropped first if no message has one, and last if one has.
        named = any(row["client"] for row in rows)
        spare = ["peak", "messages", "client"] if named else ["client", "peak", "messages"]
        while spare and sum(widths_by_head.values()) + 2 * (len(widths_by_head) - 1) > page.columns:
            del widths_by_head[spare.pop(0)]
        heads, widths = tuple(widths_by_head), list(widths_by_head.values())
        cells = list(zip(*(texts_by_head[head] for head in heads), strict=True))
        left = page.columns - sum(widths) - 2 * len(widths)
        # If there is no room beside the numbers, the sparkline has a line of its own.
        below = left < MIN_SPARKLINE_COLUMNS
        room = page.columns - 2 if below else left
        parts = find_busy_parts([row["counts"] for row in rows])
        size = choose_mark_size(parts, room)
        interval = rows[0]["interval_seconds"]
        marks = sum(-(-len(part) // size) for part in parts)
        page.write_wrapped(
            Text(
                f"{format_count(marks, 'mark')} of {_format_span(interval * size)}{'' if marks == 1 else ' each'}, "
                f"from {begins}; "
                f"peak: messages in {_format_span(interval)}; rate: averaged over the intervals with messages"
            )
        )
        if len(parts) > 1:
            gaps = [after.start - before.stop for before, after in pairwise(parts)]
            times = ", ".join(_format_span(interval * gap) for gap in gaps)
            page.write_wrapped(
                Text(f"{_GAP_MARK if page.unicode else '|'} is a time without messages that is left out: {times}")
            )
        labels = sum(head in ("topic", "client") for head in heads)
        page.write_line(Text(_pad_cells(heads, widths, labels), style="bold"))
        series = [[sum_groups(row["counts"][part.start : part.stop], size) for part in parts] for row in rows]
        highest = max(max(sums) for one in series for sums in one)
        for texts, sums_of_parts in zip(cells, series, strict=True):
            line = Text(_pad_cells(texts, widths, labels))
            if below:
                page.write_line(line)
                line = Text("")
            line.append("  ")
            for number, sums in enumerate(sums_of_parts):
                if number:
                    line.append(_GAP_MARK if page.unicode else "|", style="dim")
                line.append(format_sparkline(sums, highest, unicode=page.unicode), style="cyan")
            page.write_line(line)


def _format_span(seconds: float) -> str:
    """A duration: as in options if that is short, ``90s``, ``2h``, else in words."""
    exact = format_interval(round(seconds * 1e9))
    return exact if len(exact) <= _MAX_EXACT_SPAN_CHARACTERS else format_duration(seconds, whole=True)


def _pad_cells(texts: Sequence[str], widths: Sequence[int], labels: int) -> str:
    """One line of texts: ``labels`` of them left-aligned, then right-aligned numbers."""
    cells = []
    for at, (text, room) in enumerate(zip(texts, widths, strict=True)):
        blank = " " * (room - measure_width(text))
        cells.append(text + blank if at < labels else blank + text)
    return "  ".join(cells)


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape_line(value) if isinstance(value, str) else format_number(value)  # type: ignore[arg-type]  # a number then


class _Page:
    """Lines to an output, drawn by rich; use it in a ``with`` statement."""

    def __init__(self, terminal: Terminal, out: BinaryIO) -> None:
        self.columns = terminal.columns
        self.unicode = terminal.shows_unicode
        self._terminal = terminal
        self._out = out

    def __enter__(self) -> _Page:
        self._drawing = open_console(self._out, self._terminal, self._terminal.encoding)
        self._console: Console = self._drawing.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._drawing.__exit__(*problem)

    def write_line(self, text: Text) -> None:
        """Write a line that fits."""
        self._console.print(text, no_wrap=True, crop=False, overflow="ignore", soft_wrap=True)

    def write_wrapped(self, text: Text) -> None:
        """Write a text, wrapped to the next line if it does not fit."""
        self._console.print(text)

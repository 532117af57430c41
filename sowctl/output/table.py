"""Format ``table``: columns for people.

Column widths are those of the first 200 rows. On a terminal, the least important parts are shortened until a line fits:
the fractions of times, the directories of paths, then the caller's spare columns, the seconds of times, then objects
and arrays, then texts, the widest first. Numbers and SOW keys are never cut, because a part of one is useless. If that
is not enough, each record becomes a block of lines. A short result on a terminal has no column for metadata, or for
facts, that none of its rows has. In other output nothing is cut and nothing omitted. A short result on a UTF-8 terminal
is drawn by rich, all others are streamed. Every cell is escaped by ``escape_line``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

from sowctl.output.columns import format_cells, open_columns
from sowctl.output.display import clip_front, clip_text, escape_line, measure_width
from sowctl.output.formats import RenderResult
from sowctl.output.options import COLUMN_NAMES, Column, OutputOptions, Terminal
from sowctl.output.records import Batch
from sowctl.output.richconsole import open_console
from sowctl.values.jsontree import NumberText

SAMPLE_ROWS = 200
_GAP = "  "
_MIN_TEXT_COLUMNS = 8
"""Minimum columns of a text column."""
_MIN_NESTED_COLUMNS = 5
"""Minimum columns of objects and arrays: their beginnings say little anyway."""
_BOOKMARK_PATTERN = re.compile(r"\d+\|\d+\|")
_MAX_KEY_DIGITS = 20
"""Digits of the largest SOW key."""
_TIME_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?")
_TO_SECOND_COLUMNS, _TO_MINUTE_COLUMNS = 19, 16
"""Columns of a time up to the second, and up to the minute."""
_STATE_STYLES = {
    "damaged": "bold red",
    "unreadable": "red",
    "missing": "red",
    "behind": "yellow",
    "due": "yellow",
}
_ELLIPSIS = "…"


class Layout(NamedTuple):
    """The columns of one table: headings, widths, which are right-aligned, which hold times, and which are cut at the
    front."""

    headings: list[str]
    widths: list[int]
    right: list[bool]
    times: list[bool]
    paths: list[bool]

    def format_cell(self, at: int, text: str, mark: str) -> str:
        """The text of a cell of column ``at``, cut to its width; ``mark`` replaces the part that was cut."""
        room = self.widths[at]
        if measure_width(text) <= room:
            return text
        if self.times[at]:
            keep = _TO_SECOND_COLUMNS if room >= _TO_SECOND_COLUMNS + len(mark) else _TO_MINUTE_COLUMNS
            # Only the first characters of a longer mark may fit.
            return text[:keep] + mark[: room - keep]
        return clip_front(text, room, mark) if self.paths[at] else clip_text(text, room, mark)


class _ColumnFit:
    """The first rows of a table, and the adjustment of its columns so that a line fits ``columns`` of a terminal."""

    def __init__(
        self, headings: list[str], rows: list[list[Any]], texts: list[list[str]], options: OutputOptions
    ) -> None:
        self.headings, self.rows, self.texts, self.options = headings, rows, texts, options
        self.shown = list(range(len(headings)))
        self._before = self.shown
        columns = list(zip(*rows, strict=True))
        figures = [heading in options.fit.figures for heading in headings]
        self.right = [known or _is_numeric(cells) for known, cells in zip(figures, columns, strict=True)]
        self.whole = [known or _are_identifiers(cells) for known, cells in zip(figures, columns, strict=True)]
        self.times = [_are_times(cells) for cells in columns]
        self.nested = [_are_nested(cells) for cells in columns]
        above = [headings] if options.headers else []
        self.widths = [max(map(measure_width, column)) for column in zip(*above, *texts, strict=True)]

    def drop_columns(self, numbers: set[int]) -> None:
        """Drop columns, but not all."""
        left = [at for at in self.shown if at not in numbers]
        self.shown = left or self.shown

    def restore_columns(self) -> None:
        """Restore the columns that :meth:`fit_columns` has dropped."""
        self.shown = self._before

    def build_layout(self) -> Layout:
        """The present columns."""
        paths = self.options.fit.paths
        return Layout(
            [self.headings[at] for at in self.shown],
            [self.widths[at] for at in self.shown],
            [self.right[at] for at in self.shown],
            [self.times[at] for at in self.shown],
            [self.headings[at] in paths for at in self.shown],
        )

    def _excess_width(self, columns: int) -> int:
        """The number of columns by which a line exceeds the terminal; 0 if it fits."""
        return max(0, sum(self.widths[at] for at in self.shown) + len(_GAP) * (len(self.shown) - 1) - columns)

    def _exceeds_width(self, columns: int) -> bool:
        return self._excess_width(columns) > 0

    def fit_columns(self, columns: int) -> bool:
        """Make a line fit; return whether that is possible."""
        self._before = self.shown
        self._cut_times(columns, _TO_SECOND_COLUMNS + len(_ELLIPSIS))
        self._cut_directories(columns)
        for name in self.options.fit.spare:
            if self._exceeds_width(columns) and name in self.headings:
                at = self.headings.index(name)
                self._cut_times(columns, _TO_MINUTE_COLUMNS + len(_ELLIPSIS), at)
                if self._exceeds_width(columns):
                    self.drop_columns({at})
        self._cut_times(columns, _TO_MINUTE_COLUMNS + len(_ELLIPSIS))
        nested = [at for at in self.shown if self.nested[at]]
        least = {at: max(_MIN_NESTED_COLUMNS, measure_width(self.headings[at])) for at in nested}
        return self._shrink_columns(columns, least) or self._shrink_columns(
            columns, dict.fromkeys(self.shown, _MIN_TEXT_COLUMNS)
        )

    def _cut_times(self, columns: int, room: int, only: int | None = None) -> None:
        """Cut columns of times one by one, or one of them, until a line fits."""
        for at in self.shown if only is None else (only,):
            if self._exceeds_width(columns) and self.times[at]:
                self.widths[at] = min(self.widths[at], max(room, measure_width(self.headings[at])))

    def _cut_directories(self, columns: int) -> None:
        """Cut columns of paths at the front, down to the longest name of a file, until a line fits."""
        for at in self.shown:
            if self.headings[at] in self.options.fit.paths:
                names = (measure_width(row[at].rpartition("/")[2]) + len("/" + _ELLIPSIS) for row in self.texts)
                least = max(measure_width(self.headings[at]), *names)
                self.widths[at] = max(min(self.widths[at], least), self.widths[at] - self._excess_width(columns))

    def leave_out_repeated(self, columns: int) -> list[str]:
        """Drop columns with one value in all rows if a line does not fit; return their names and values."""
        if not self.options.fit.repeated or len(self.rows) < 2 or not self._exceeds_width(columns):
            return []
        same = [at for at in self.shown if all(row[at] == self.texts[0][at] for row in self.texts)]
        self.drop_columns(set(same))
        # Fields are more informative than metadata, which is mostly the usual.
        same.sort(key=lambda at: self.headings[at] in COLUMN_NAMES)
        return [f"{self.headings[at]} {self.texts[0][at]}" for at in same if at not in self.shown and self.texts[0][at]]

    def _shrink_columns(self, columns: int, least: dict[int, int]) -> bool:
        """Shrink the widest of the columns in ``least``, down to their minimum widths, until a line fits; return
        whether it does."""
        elastic = [at for at in least if not self.whole[at] and not self.times[at]]
        while self._exceeds_width(columns):
            # Narrower texts would be useless.
            wide = [at for at in elastic if self.widths[at] > least[at]]
            if not wide:
                return False
            self.widths[max(wide, key=self.widths.__getitem__)] -= 1
        return True


class TableRenderer:
    """See the module."""

    def __init__(self, options: OutputOptions) -> None:
        self.options = options

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write the heading and one row per record; nothing if there are no records."""
        columns, found = open_columns(batches, self.options)
        rows = (columns.read_cells(row) for row in found)
        # One more than the sample, to find out whether that was all.
        first = list(islice(rows, SAMPLE_ROWS + 1))
        if not first:
            return RenderResult(0)
        terminal = self.options.terminal
        shown = list(range(len(columns.columns)))
        if terminal is not None and not columns.chosen and len(first) <= SAMPLE_ROWS:
            # All rows are known here, so an omitted column is empty in each of them.
            empty = {at for at in shown if all(cells[at] is None for cells in first)}
            shown = [
                at for at in shown if at not in empty or not (_is_metadata(columns.columns[at]) or self.options.facts)
            ]
            first = [[cells[at] for at in shown] for cells in first]
        fitting = _ColumnFit(
            [escape_line(columns.headings[at]) for at in shown],
            first,
            [_cell_texts(cells) for cells in first],
            self.options,
        )
        notes = list(columns.format_notes())
        fits = True
        # In a file nothing is cut, however wide the lines are.
        if terminal is not None:
            if not columns.chosen and len(first) <= SAMPLE_ROWS:
                same = fitting.leave_out_repeated(terminal.columns)
                notes += [_format_repeated(same, terminal.columns)] if same else []
            fits = fitting.fit_columns(terminal.columns)
        if not fits:
            # If each column has its own line, there is room for the dropped ones.
            fitting.restore_columns()
        layout, kept = fitting.build_layout(), fitting.shown
        everything = ([row[at] for at in kept] for row in chain(fitting.texts, map(_cell_texts, rows)))
        if not fits:
            count = _draw_blocks(layout.headings, everything, terminal or Terminal(), out)
        elif terminal is not None and terminal.shows_unicode and len(first) <= SAMPLE_ROWS:
            count = _draw_table(layout, list(everything), terminal, out, self.options)
        else:
            count = _stream_table(layout, everything, terminal, out, headers=self.options.headers)
        return RenderResult(count, tuple(notes))


def _format_repeated(values: list[str], columns: int) -> str:
    """A note of names with values, as many as fit into two lines."""
    room = 2 * columns - len("the same in each: ") - len(" and 99 more fields")
    told: list[str] = []
    for value in values:
        if sum(map(measure_width, told)) + 2 * len(told) + measure_width(value) <= room:
            told.append(value)
    rest = len(values) - len(told)
    more = f"{rest} {'more ' if told else ''}{'field' if rest == 1 else 'fields'}"
    return "the same in each: " + ", ".join(told) + (f"{' and ' if told else ''}{more}" if rest else "")


def _is_metadata(column: Column) -> bool:
    return isinstance(column, str) and column != "data"


def _is_numeric(cells: tuple[Any, ...]) -> bool:
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(isinstance(cell, NumberText | int) for cell in present)


def _are_identifiers(cells: tuple[Any, ...]) -> bool:
    """True if all are numbers, texts of digits such as SOW keys, or bookmarks, which must be copied exactly."""
    present = [cell for cell in cells if cell is not None]
    return _is_numeric(cells) or (bool(present) and all(map(_is_key, present)))


def _is_key(cell: Any) -> bool:
    if not isinstance(cell, str):
        return False
    return (len(cell) <= _MAX_KEY_DIGITS and cell.isascii() and cell.isdecimal()) or bool(
        _BOOKMARK_PATTERN.fullmatch(cell)
    )


def _cell_texts(cells: list[Any]) -> list[str]:
    return [escape_line(text or "") for text in format_cells(cells)]


def _are_times(cells: tuple[Any, ...]) -> bool:
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(
        isinstance(cell, str) and _TIME_PATTERN.fullmatch(cell) is not None for cell in present
    )


def _are_nested(cells: tuple[Any, ...]) -> bool:
    return any(isinstance(cell, dict | list) for cell in cells)


def _draw_table(
    layout: Layout, rows: list[list[str]], terminal: Terminal, out: BinaryIO, options: OutputOptions
) -> int:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.show_header = options.headers
    for heading, room, numeric in zip(layout.headings, layout.widths, layout.right, strict=True):
        table.add_column(Text(heading), width=room, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        # As Text, because rich would interpret brackets in a plain string as markup.
        cells = [Text(layout.format_cell(at, text, _ELLIPSIS)) for at, text in enumerate(row)]
        if options.fit.state in layout.headings:
            state = layout.headings.index(options.fit.state)
            cells[state].stylize(_STATE_STYLES.get(row[state].split(",")[0], ""))
        table.add_row(*cells)
    with open_console(out, terminal, "utf-8") as console:
        console.print(table, crop=False)
    return len(rows)


def _stream_table(
    layout: Layout, rows: Iterator[list[str]], terminal: Terminal | None, out: BinaryIO, *, headers: bool
) -> int:
    encoding = terminal.encoding if terminal is not None else "utf-8"

    def line(texts: list[str]) -> str:
        cells = []
        for at, text in enumerate(texts):
            shown = layout.format_cell(at, text, "...") if terminal is not None else text
            blank = " " * max(0, layout.widths[at] - measure_width(shown))
            cells.append(blank + shown if layout.right[at] else shown + blank)
        return _GAP.join(cells).rstrip() + "\n"

    # A terminal of another encoding shows escapes for missing characters, instead of ending the query.
    if headers:
        out.write(line(layout.headings).encode(encoding, "backslashreplace"))
    count = 0
    while chunk := list(islice(rows, SAMPLE_ROWS)):
        out.write("".join(map(line, chunk)).encode(encoding, "backslashreplace"))
        out.flush()
        count += len(chunk)
    return count


def _draw_blocks(headings: list[str], rows: Iterator[list[str]], terminal: Terminal, out: BinaryIO) -> int:
    """Draw each record as lines, one for each non-empty column, if there are too many columns for the terminal."""
    longest = max(map(measure_width, headings))
    names = [clip_text(heading, terminal.columns) + " " * (longest - measure_width(heading)) for heading in headings]
    room = max(_MIN_TEXT_COLUMNS, terminal.columns - longest - len(_GAP))
    count = 0
    for count, row in enumerate(rows, start=1):
        lines = [f"--- {count} ".ljust(min(terminal.columns, 40), "-")]
        for name, text in zip(names, row, strict=True):
            if text:
                lines += [
                    _GAP.join((name if first else " " * longest, part)) for first, part in _split_text(text, room)
                ]
        out.write(("\n".join(lines) + "\n").encode(terminal.encoding, "backslashreplace"))
        out.flush()
    return count


def _split_text(text: str, room: int) -> Iterator[tuple[bool, str]]:
    """``text`` in pieces that fit, and whether each is the first."""
    first = True
    while text:
        end = len(text)
        # Characters are up to two columns wide, so half of the excess can be cut at once.
        while measure_width(text[:end]) > room:
            end -= max(1, (measure_width(text[:end]) - room) // 2)
        yield first, text[:end]
        text, first = text[end:], False

"""Format ``table``: columns for people.

Columns are as wide as the first 200 rows need. On a terminal texts are cut, the widest first, until a line fits;
numbers never are, and neither are SOW keys and the times of the metadata: a part of one is of no use. Where that is not
enough, each record becomes a block of lines. A short result on a terminal has no column for metadata that none of its
records has. Elsewhere nothing is cut and nothing left out. A short result on a UTF-8 terminal is drawn by rich,
everything else streams. No cell is printed but through ``display``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

from sowctl.output.columns import cell_texts, open_columns
from sowctl.output.display import clip, display, width
from sowctl.output.drawing import drawing
from sowctl.output.formats import Rendered
from sowctl.output.options import Column, OutputOptions, Terminal
from sowctl.output.records import Batch
from sowctl.values.jsontree import NumberText

FEW = 200
_GAP = "  "
_READABLE = 8
"""Columns of text are not cut below this width."""
_LONGEST_KEY = 20
"""Digits of the largest SOW key."""
_TIMES = frozenset({"timestamp", "expiration", "until"})
"""Columns of metadata that hold times."""


class Layout(NamedTuple):
    """The columns of one table: what stands above them, their widths, and which stand on the right."""

    headings: list[str]
    widths: list[int]
    right: list[bool]


class TableRenderer:
    """See the module."""

    def __init__(self, options: OutputOptions) -> None:
        self.options = options

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> Rendered:
        """Write the heading and one row per record; nothing at all where there is no record."""
        columns, found = open_columns(batches, self.options)
        rows = (columns.cells(row) for row in found)
        # One more than is looked at, to know whether that was all.
        first = list(islice(rows, FEW + 1))
        if not first:
            return Rendered(0)
        terminal = self.options.terminal
        shown = list(range(len(columns.columns)))
        if terminal is not None and not columns.chosen and len(first) <= FEW:
            # All rows are known here, so that a column left out is empty in each of them.
            empty = {at for at in shown if all(cells[at] is None for cells in first)}
            shown = [at for at in shown if at not in empty or not _is_metadata(columns.columns[at])]
            first = [[cells[at] for at in shown] for cells in first]
        right = [_numeric(cells) for cells in zip(*first, strict=True)]
        whole = [
            columns.columns[at] in _TIMES or _whole(cells)
            for at, cells in zip(shown, zip(*first, strict=True), strict=True)
        ]
        texts = [_texts(cells) for cells in first]
        headings = [display(columns.headings[at]) for at in shown]
        above = [headings] if self.options.headers else []
        widths = [max(map(width, column)) for column in zip(*above, *texts, strict=True)]
        uncut = Layout(headings, widths, right)
        # In a file nothing is cut, however wide the lines are.
        layout = uncut if terminal is None else _fit(uncut, whole, terminal.columns)
        everything = chain(texts, map(_texts, rows))
        if layout is None:
            count = _blocks(headings, everything, terminal or Terminal(), out)
        elif terminal is not None and terminal.unicode and len(first) <= FEW:
            count = _draw(layout, texts, terminal, out, headers=self.options.headers)
        else:
            count = _stream(layout, everything, terminal, out, headers=self.options.headers)
        return Rendered(count, columns.notes())


def _is_metadata(column: Column) -> bool:
    return isinstance(column, str) and column != "data"


def _numeric(cells: tuple[Any, ...]) -> bool:
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(isinstance(cell, NumberText | int) for cell in present)


def _whole(cells: tuple[Any, ...]) -> bool:
    """Whether they are numbers, or texts of digits like SOW keys."""
    present = [cell for cell in cells if cell is not None]
    return _numeric(cells) or (bool(present) and all(map(_is_key, present)))


def _is_key(cell: Any) -> bool:
    return isinstance(cell, str) and len(cell) <= _LONGEST_KEY and cell.isascii() and cell.isdecimal()


def _texts(cells: list[Any]) -> list[str]:
    return [display(text or "") for text in cell_texts(cells)]


def _fit(layout: Layout, whole: list[bool], columns: int) -> Layout | None:
    """Take from the widest column that is not to stay ``whole`` until a line fits; None where it cannot."""
    room = columns - len(_GAP) * (len(whole) - 1)
    fitted = list(layout.widths)
    elastic = [position for position, kept in enumerate(whole) if not kept]
    while sum(fitted) > room:
        widest = max(elastic, key=fitted.__getitem__, default=None)
        # Narrower texts would say nothing, so records become blocks of lines.
        if widest is None or fitted[widest] <= _READABLE:
            return None
        fitted[widest] -= 1
    return layout._replace(widths=fitted)


def _draw(layout: Layout, rows: list[list[str]], terminal: Terminal, out: BinaryIO, *, headers: bool) -> int:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.show_header = headers
    for heading, room, numeric in zip(*layout, strict=True):
        table.add_column(Text(heading), width=room, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        # As texts, because rich would take brackets in a plain string for markup.
        table.add_row(*(Text(clip(text, room, "…")) for text, room in zip(row, layout.widths, strict=True)))
    with drawing(out, terminal, "utf-8") as console:
        console.print(table, crop=False)
    return len(rows)


def _stream(
    layout: Layout, rows: Iterator[list[str]], terminal: Terminal | None, out: BinaryIO, *, headers: bool
) -> int:
    encoding = terminal.encoding if terminal is not None else "utf-8"

    def line(texts: list[str]) -> str:
        cells = []
        for text, room, right in zip(texts, layout.widths, layout.right, strict=True):
            shown = clip(text, room) if terminal is not None else text
            blank = " " * max(0, room - width(shown))
            cells.append(blank + shown if right else shown + blank)
        return _GAP.join(cells).rstrip() + "\n"

    # A terminal of another encoding shows escapes for what it lacks, rather than ending the query.
    if headers:
        out.write(line(layout.headings).encode(encoding, "backslashreplace"))
    count = 0
    while chunk := list(islice(rows, FEW)):
        out.write("".join(map(line, chunk)).encode(encoding, "backslashreplace"))
        out.flush()
        count += len(chunk)
    return count


def _blocks(headings: list[str], rows: Iterator[list[str]], terminal: Terminal, out: BinaryIO) -> int:
    """A record in lines, one for each column that has something: for more columns than a terminal has room for."""
    longest = max(map(width, headings))
    names = [clip(heading, terminal.columns) + " " * (longest - width(heading)) for heading in headings]
    room = max(_READABLE, terminal.columns - longest - len(_GAP))
    count = 0
    for count, row in enumerate(rows, start=1):
        lines = [f"--- {count} ".ljust(min(terminal.columns, 40), "-")]
        for name, text in zip(names, row, strict=True):
            if text:
                lines += [_GAP.join((name if first else " " * longest, part)) for first, part in _parts(text, room)]
        out.write(("\n".join(lines) + "\n").encode(terminal.encoding, "backslashreplace"))
        out.flush()
    return count


def _parts(text: str, room: int) -> Iterator[tuple[bool, str]]:
    """``text`` in pieces that fit, and whether each is the first."""
    first = True
    while text:
        end = len(text)
        # Characters are up to two columns wide, so half of what is too much can be cut at once.
        while width(text[:end]) > room:
            end -= max(1, (width(text[:end]) - room) // 2)
        yield first, text[:end]
        text, first = text[end:], False

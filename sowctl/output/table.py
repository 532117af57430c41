"""Format ``table``: columns for people.

A short result on a UTF-8 terminal is laid out by rich, every cell as plain text. Everything else streams in fixed
widths, measured on the first 200 rows and, on a terminal, cut to its width; elsewhere nothing is cut. Numbers stand on
the right. No cell reaches the output except through ``display``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from itertools import chain, islice
from typing import Any, BinaryIO

from sowctl.output.columns import Columns, cell_text, open_columns
from sowctl.output.display import clip, display, width
from sowctl.output.formats import Rendered
from sowctl.output.members import NumberText
from sowctl.output.options import OutputOptions, Terminal
from sowctl.output.records import Batch

FEW = 200
_GAP = "  "
_LEAST = 4
_CHUNK = 200


class TableRenderer:
    """See the module."""

    def __init__(self, options: OutputOptions) -> None:
        self.options = options

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> Rendered:
        """Write the heading and one row per record; nothing at all where there is no record."""
        columns, found = open_columns(batches, self.options)
        rows = (columns.cells(row) for row in found)
        first = list(islice(rows, FEW + 1))
        if not first:
            return Rendered(0)
        right = [_numeric(cells) for cells in zip(*first, strict=True)]
        texts = [_texts(cells) for cells in first]
        headings = [display(heading) for heading in columns.headings]
        terminal = self.options.terminal
        if terminal is not None and terminal.unicode and len(first) <= FEW:
            _with_rich(headings, texts, right, terminal, out)
            return Rendered(len(first), columns.notes())
        return _stream(columns, headings, chain(texts, map(_texts, rows)), right, terminal, out)


def _numeric(cells: tuple[Any, ...]) -> bool:
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(isinstance(cell, NumberText | int) for cell in present)


def _texts(cells: list[Any]) -> list[str]:
    return [display(cell_text(value) or "") for value in cells]


def _with_rich(
    headings: list[str], rows: list[list[str]], right: list[bool], terminal: Terminal, out: BinaryIO
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading, numeric in zip(headings, right, strict=True):
        table.add_column(Text(heading), justify="right" if numeric else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*map(Text, row))
    text = TextIOWrapper(out, encoding="utf-8", write_through=True, newline="\n")
    try:
        color = "auto" if terminal.colored else None
        Console(
            file=text,
            width=terminal.columns,
            force_terminal=terminal.colored,
            color_system=color,  # type: ignore[arg-type]
            no_color=not terminal.colored,
            legacy_windows=False,
        ).print(table)
    finally:
        text.detach()


def _stream(
    columns: Columns,
    headings: list[str],
    rows: Iterator[list[str]],
    right: list[bool],
    terminal: Terminal | None,
    out: BinaryIO,
) -> Rendered:
    first = list(islice(rows, FEW))
    widths = [max(map(width, texts)) for texts in zip(headings, *first, strict=True)]
    if terminal is not None:
        widths = _fit(widths, terminal.columns - len(_GAP) * (len(widths) - 1))
    encoding = terminal.encoding if terminal is not None else "utf-8"

    def line(texts: list[str]) -> str:
        if terminal is not None:
            texts = [clip(text, room) for text, room in zip(texts, widths, strict=True)]
        cells = [_pad(text, room, side) for text, room, side in zip(texts, widths, right, strict=True)]
        return _GAP.join(cells).rstrip() + "\n"

    out.write(line(headings).encode(encoding, "backslashreplace"))
    count = 0
    pending = chain(first, rows)
    while chunk := list(islice(pending, _CHUNK)):
        out.write("".join(map(line, chunk)).encode(encoding, "backslashreplace"))
        out.flush()
        count += len(chunk)
    return Rendered(count, columns.notes())


def _pad(text: str, room: int, right: bool) -> str:
    blank = " " * max(0, room - width(text))
    return blank + text if right else text + blank


def _fit(widths: list[int], room: int) -> list[int]:
    """Take from the widest column until all fit; no column gets narrower than a few characters."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > _LEAST:
        widest = fitted.index(max(fitted))
        fitted[widest] -= 1
    return fitted

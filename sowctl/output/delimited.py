"""Formats ``csv`` and ``tsv``: a header and one line per record; which columns, see ``columns.py``.

CSV as RFC 4180 with line feeds: a cell is quoted where it holds a comma, a quote or a line break, or where it is the
empty text - nothing at all stands for null. TSV escapes tab, line breaks and backslash with a backslash; null
and the empty text look alike there. Lines are written 1,000 at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import BinaryIO

from sowctl.output.columns import cell_texts, open_columns
from sowctl.output.display import display
from sowctl.output.formats import Rendered
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch

_CHUNK = 1_000
_TSV = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})


def csv_cell(text: str | None) -> str:
    """One cell of CSV."""
    if text is None:
        return ""
    # An empty text is quoted, to be told from null. Nothing else is added or taken away: a cell that begins with ``=``
    # is what the message holds, and readers must get it back.
    if not text or "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def tsv_cell(text: str | None) -> str:
    """One cell of TSV."""
    return "" if text is None else text.translate(_TSV)


class _Delimited:
    separator: str

    def __init__(self, options: OutputOptions) -> None:
        self.options = options

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> Rendered:
        """Write header and lines; nothing at all where there is no record and no chosen column."""
        columns, rows = open_columns(batches, self.options)
        if not columns.columns:
            return Rendered(0)
        if self.options.headers:
            out.write(self._line(columns.headings))
        count = 0
        while chunk := [columns.cells(row) for row in islice(rows, _CHUNK)]:
            out.write(b"".join(self._line(cell_texts(cells)) for cells in chunk))
            out.flush()
            count += len(chunk)
        out.flush()
        return Rendered(count, columns.notes())

    def cell(self, text: str | None) -> str:
        raise NotImplementedError

    def special(self, line: str) -> bool:
        """Whether something in a line, separators aside, may have to be written otherwise."""
        raise NotImplementedError

    def _line(self, texts: Iterable[str | None]) -> bytes:
        if self.options.terminal is not None:
            # On a terminal alone: a file gets the text itself, control characters included.
            texts = (None if text is None else display(text) for text in texts)
        cells = list(texts)
        # Most lines are their texts side by side: nothing in them needs a quote or an escape.
        line = self.separator.join([text or "" for text in cells])
        if line.count(self.separator) >= len(cells) or self.special(line) or "" in cells:
            line = self.separator.join(map(self.cell, cells))
        # Bytes that are not UTF-8 came as surrogates and leave as the bytes that they were.
        return (line + "\n").encode("utf-8", "surrogateescape")


class CsvRenderer(_Delimited):
    """Comma-separated values."""

    separator = ","

    def cell(self, text: str | None) -> str:
        """One cell, quoted where needed."""
        return csv_cell(text)

    def special(self, line: str) -> bool:
        """See above."""
        return '"' in line or "\n" in line or "\r" in line


class TsvRenderer(_Delimited):
    """Tab-separated values."""

    separator = "\t"

    def cell(self, text: str | None) -> str:
        """One cell with backslash escapes."""
        return tsv_cell(text)

    def special(self, line: str) -> bool:
        """See above."""
        return "\\" in line or "\n" in line or "\r" in line

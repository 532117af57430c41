"""Formats ``csv`` and ``tsv``: a header and one line per record; ``columns.py`` determines the columns.

CSV as in RFC 4180 with line feeds: a cell is quoted if it contains a comma, a quote or a line break, or is the empty
text - an empty cell is null. TSV escapes tab, line breaks and backslash with a backslash; null and the empty text are
indistinguishable. Lines are written a batch at a time, and formatted by columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, cast

from sowctl.output.columns import ShownColumns, format_cells, open_batches
from sowctl.output.display import escape_line
from sowctl.output.formats import RenderResult
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch
from sowctl.output.text_columns import Texts
from sowctl.values.paths import Path

_CHUNK_RECORDS = 1_000
_TSV_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})


def encode_csv_cell(text: str | None) -> str:
    """One cell of CSV."""
    if text is None:
        return ""
    # An empty text is quoted to distinguish it from null. Nothing else is added or removed: a cell that begins with
    # ``=`` is the content of the message, and readers must get it back.
    if not text or "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def encode_tsv_cell(text: str | None) -> str:
    """One cell of TSV."""
    return "" if text is None else text.translate(_TSV_ESCAPES)


def _list_headings(columns: ShownColumns) -> list[str]:
    """The headings. Publishing a file removes one slash, so a name that begins with a slash gets another one."""
    return [
        f"/{heading}" if isinstance(column, Path) and column.steps[0].name.startswith("/") else heading
        for column, heading in zip(columns.columns, columns.headings, strict=True)
    ]


class _DelimitedRenderer(ABC):
    """Base of both formats, which differ in their separators and in the encoding of cells."""

    separator: str

    def __init__(self, options: OutputOptions) -> None:
        self.options = options

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write header and lines; nothing if there are neither records nor chosen columns."""
        columns, found = open_batches(batches, self.options)
        if not columns.columns:
            return RenderResult(0)
        if self.options.headers:
            out.write(self._join_lines([[text] for text in _list_headings(columns)]))
        count = 0
        for batch in found:
            for number, texts in self._iterate_parts(columns, batch):
                out.write(self._join_lines(texts))
                count += number
            out.flush()
        out.flush()
        return RenderResult(count, columns.format_notes())

    def _iterate_parts(self, columns: ShownColumns, batch: Batch) -> Iterator[tuple[int, Sequence[Texts]]]:
        """The texts of a batch, by column, and the number of records."""
        texts = columns.format_texts(batch)
        if texts is not None:
            yield len(batch.payloads), texts
            return
        rows = columns.iterate_rows(batch)
        while part := [format_cells(columns.read_cells(row)) for row in islice(rows, _CHUNK_RECORDS)]:
            yield len(part), list(zip(*part, strict=True))

    def _join_lines(self, columns: Sequence[Texts]) -> bytes:
        """The lines of several records."""
        cells = map(self._format_cells, columns)
        lines = map(self.separator.join, zip(*cells, strict=True))
        # Bytes that are not UTF-8 are surrogates here and are written as the original bytes.
        return "".join([line + "\n" for line in lines]).encode("utf-8", "surrogateescape")

    def _format_cells(self, texts: Texts) -> Iterable[str]:
        if self.options.terminal is not None:
            # Only on a terminal: a file gets the text itself, control characters included.
            texts = [None if text is None else escape_line(text) for text in texts]
        if None not in texts:
            plain = cast("Sequence[str]", texts)
            whole = "\n".join(plain)
            # Most columns need no quotes or escapes, which one search per character finds for all cells.
            if whole.count("\n") < len(texts) and not any(map(whole.__contains__, self.special)) and "" not in texts:
                return plain
        return map(self.encode_cell, texts)

    @property
    @abstractmethod
    def special(self) -> Sequence[str]:
        """The characters that may need quotes or escapes, except line feeds."""

    @abstractmethod
    def encode_cell(self, text: str | None) -> str:
        """Encode one cell."""


class CsvRenderer(_DelimitedRenderer):
    """Comma-separated values."""

    separator = ","
    special = (",", '"', "\r")

    def encode_cell(self, text: str | None) -> str:
        """Encode one cell, quoted if needed."""
        return encode_csv_cell(text)


class TsvRenderer(_DelimitedRenderer):
    """Tab-separated values."""

    separator = "\t"
    special = ("\t", "\\", "\r")

    def encode_cell(self, text: str | None) -> str:
        """Encode one cell with backslash escapes."""
        return encode_tsv_cell(text)

"""Rows of CSV and TSV as Python values, line by line.

CSV as in RFC 4180, with a header: an empty cell is null, a quoted empty one the empty text. TSV with the escapes of
:mod:`sowctl.output.delimited`; an empty cell is null. In both a cell is a text unless a type is given. Lines end in a
line feed, a carriage return and a line feed, or, if the header does, in a carriage return alone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain, repeat
from typing import Any, BinaryIO, TypeAlias

import msgspec
from msgspec import Struct

from sowctl.errors import InputError, StorageError
from sowctl.messages.framing.encodings import HEAD_BYTES, UTF8_BOM, refuse_encoding
from sowctl.messages.framing.frames import UNREADABLE_CODE
from sowctl.messages.native_values import Form
from sowctl.values import jsontree
from sowctl.values.display import format_count

TEXT_KINDS = ("text", "integer", "number", "boolean", "json")
"""The types that can be given for a column of text."""
_WHOLE_NUMBER_PATTERN = re.compile(r"[-+]?[0-9]+")
_ESCAPE_PATTERN = re.compile(r"\\([tnr\\])")
_ESCAPED_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
_TRUTH_VALUES = {"true": True, "false": False, "1": True, "0": False}
MAX_ROW_BYTES = 64 << 20
"""Maximum size of one row: an unclosed quote would turn the rest of the file into one cell."""

BLOCK_BYTES = 128 << 10
"""Bytes of one read."""
_HEADING_BYTES = 1 << 20
"""Number of bytes in which the first line of a file must end if it ends in a line feed."""
SEPARATORS = (",", ";", "\t", "|")
"""Separators of cells in csv files."""
_QUOTED_PATTERN = re.compile(rb'"(?:[^"]++|"")*+"')
_QUOTED_TEXT_PATTERN = re.compile(r'"(?:[^"]++|"")*+"')
_QUOTED_SCALAR_PATTERN = re.compile(r'"(?:-?[0-9.]+|true|false)"')
_LINE_PATTERN = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)")
MAX_EXPONENT = 400
"""Maximum exponent of a number in a message."""

Cell: TypeAlias = "str | None"


class RowRefused(ValueError):
    """The reason why a row has no message."""


def make_changes_error(name: str) -> InputError:
    """Return the error for a file of changes: preimages and deleted records would be published as records."""
    return InputError(
        "SOW-EXC-012",
        "the rows are changes, as export --changes writes them, not records",
        place=name,
        hint="export the records, without --changes",
    )


class Row(Struct, frozen=True):
    """The ``line`` where a row begins, from 1, its bytes, and its cells, or the reason why it has none."""

    line: int
    raw: bytes
    cells: Sequence[Cell] | None
    problem: str = ""


class RowBlock(Struct, frozen=True):
    """Rows that were read together, by columns: ``lines`` has the line of each, ``texts`` its text.

    ``quoted`` has the columns with numbers or truth values in quotation marks, possibly others, too, each with the
    indexes of its quoted rows; ``refused`` are rows without cells, or with more or fewer cells than the header;
    ``end`` is the line after the block.
    """

    columns: Sequence[Sequence[Cell]]
    lines: Sequence[int]
    texts: Sequence[str]
    quoted: Mapping[int, Sequence[int]]
    refused: Sequence[Row]
    end: int


class Dialect(Struct, frozen=True):
    """The separator, quotes and empty texts of a file of delimited text.

    ``separator`` is between cells; ``quotes``: cells may be quoted, otherwise they have the escapes of TSV. An unquoted
    cell that is one of ``nulls`` is null.
    """

    separator: str = ","
    quotes: bool = True
    nulls: frozenset[str] = frozenset({""})


class _PlainColumns(Sequence[Sequence[Cell]]):
    """Columns of cells that are row after row in one list; each column is built on demand."""

    def __init__(self, cells: list[str], width: int, nulls: frozenset[str]) -> None:
        self._cells = cells
        self._width = width
        self._nulls = nulls

    def __len__(self) -> int:
        return self._width

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self._width))]
        if not 0 <= index < self._width:
            raise IndexError(index)
        column, nulls = self._cells[index :: self._width], self._nulls
        if not any(null in column for null in nulls):
            return column
        return [None if cell in nulls else cell for cell in column]


class DelimitedReader:
    """Reads the rows of CSV or TSV: :meth:`read_first` the first one, then blocks of the others.

    Blank lines after the first one are skipped. Reading raises StorageError ``SOW-INP-005``, and InputError
    ``SOW-INP-006`` for UTF-16.
    """

    def __init__(self, name: str, stream: BinaryIO, dialect: Dialect) -> None:
        self.dialect = dialect
        self.name = name
        self.marks_quotes = dialect.quotes
        """Whether blocks report which columns have numbers or truth values in quotation marks."""
        self._read = getattr(stream, "read1", stream.read)
        self._rest = b""
        self._line = 1
        self._universal = False
        self._ended = False

    def read_first(self) -> bytes | None:
        """The bytes of the first row, without its line break; None for an empty input."""
        while not self._ended and not self._has_first_row():
            self._fill()
        if not self._rest:
            return None
        self._rest = self._rest.removeprefix(UTF8_BOM)
        # If the header ends in a carriage return alone, each such one ends a line.
        self._universal = _has_bare_return(self._rest[: self._rest.find(b"\n") + 1 or len(self._rest)])
        rows, used = self._join_lines(self._rest, count=1)
        if not rows:
            # Only a byte order mark.
            return b""
        self._rest = self._rest[used:]
        self._line += rows[0][2]
        return rows[0][1]

    def return_first(self, raw: bytes) -> None:
        """Read the first row again, as one of the others, because it is no header."""
        self._rest = raw + (b"\r" if self._universal else b"\n") + self._rest
        self._line = 1

    def read_sample(self, width: int, size: int) -> Iterator[RowBlock]:
        """The rows among the next ``size`` bytes, which will be read again."""
        while not self._ended and len(self._rest) < size:
            self._fill()
        rest, line = self._rest, self._line
        found = self._read_fast(width) or self._read_exact(width, _build_cell_cutter(self.dialect))
        self._rest, self._line = rest, line
        if found is not None:
            yield found

    def _has_first_row(self) -> bool:
        line = self._rest.find(b"\n") + 1
        if not line:
            # It may end in a carriage return alone.
            return len(self._rest) >= _HEADING_BYTES and (b"\r" in self._rest or len(self._rest) >= MAX_ROW_BYTES)
        return bool(self._join_lines(self._rest, count=1)[0]) or len(self._rest) >= MAX_ROW_BYTES

    def _fill(self) -> None:
        try:
            more = self._read(BLOCK_BYTES)
        except OSError as problem:
            words = f"cannot read the input: {problem.strerror or problem}"
            raise StorageError(UNREADABLE_CODE, words, place=self.name) from None
        is_first = len(self._rest) < HEAD_BYTES and self._line == 1
        self._rest += more
        self._ended = not more
        if is_first:
            refuse_encoding(self._rest[:HEAD_BYTES], self.name)

    def read_blocks(self, width: int) -> Iterator[RowBlock]:
        """Blocks of the following rows, which have ``width`` cells."""
        cut = _build_cell_cutter(self.dialect)
        wanted = 0
        while True:
            if self._rest and (self._ended or len(self._rest) >= wanted):
                block = self._read_fast(width) or self._read_exact(width, cut)
                if block is not None:
                    yield block
                # A long incomplete row is parsed again after another quarter of it has been read.
                wanted = len(self._rest) * 5 // 4 if len(self._rest) > BLOCK_BYTES else 0
            if self._ended:
                return
            self._fill()

    def _read_fast(self, width: int) -> RowBlock | None:
        """The available complete lines, each a row; None if they are not that simple."""
        dialect = self.dialect
        end = len(self._rest) if self._ended else self._rest.rfind(b"\n") + 1
        if not end or self._universal:
            return None
        block = self._rest[:end]
        if b"\r" in block:
            if block.count(b"\r") != block.count(b"\r\n"):
                return None
            block = block.replace(b"\r\n", b"\n")
        is_quoted = dialect.quotes and b'"' in block
        if not dialect.quotes and b"\\" in block:
            return None
        try:
            lines = block.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            return None
        if min(lines)[:1] <= " " and not all(line.strip(" \t") for line in lines):
            return None
        separator, nulls = dialect.separator, dialect.nulls
        if is_quoted:
            cells = self._cut_quoted(lines, width)
            if cells is None:
                return None
        elif {*map(str.count, lines, repeat(separator))} != {width - 1}:
            return None
        else:
            cells = separator.join(lines).split(separator)
        columns = _PlainColumns(cells, width, nulls)
        numbers = range(self._line, self._line + len(lines))
        self._rest = self._rest[end:]
        self._line = numbers.stop
        return RowBlock(columns, numbers, lines, {}, (), numbers.stop)

    def _cut_quoted(self, lines: list[str], width: int) -> list[str] | None:
        """The cells of lines with quotation marks, row after row, by Python's reader; None if its result may differ
        from that of :func:`cut_cells`, or if the quotation marks of single cells count."""
        separator = re.escape(self.dialect.separator)
        text = "\n".join(("", *lines, ""))
        whole = rf'(?:(?:"(?:[^"\n]|"")*+"|[^"\n{separator}]*+)[\n{separator}])*+'
        if len(self.dialect.nulls) > 1 or re.fullmatch(whole, text) is None:
            return None
        # An empty text, which is not null. The search is for the two marks, so the text before them is checked last.
        if re.search(rf'""(?<=[\n{separator}]"")(?=[\n{separator}])', text) is not None:
            return None
        if self.marks_quotes and _QUOTED_SCALAR_PATTERN.search(text) is not None:
            return None
        try:
            rows = list(csv.reader(lines, delimiter=self.dialect.separator, strict=True))
        except csv.Error:
            return None
        if {*map(len, rows)} != {width}:
            return None
        return list(chain.from_iterable(rows))

    def _read_exact(self, width: int, cut: Callable[[str], tuple[list[Cell], list[int]]]) -> RowBlock | None:
        """The available complete rows; None if there are none."""
        found, used = self._join_lines(self._rest)
        rows: list[Sequence[Cell]] = []
        lines: list[int] = []
        texts: list[str] = []
        quoted: dict[int, list[int]] = {}
        refused: list[Row] = []
        for begin, raw, _ in found:
            if not raw.strip(b" \t"):
                continue
            line = self._line + begin
            try:
                text = raw.decode()
                cells, marked = cut(text)
            except UnicodeDecodeError:
                refused.append(Row(line, raw, None, "it is not UTF-8"))
            except RowRefused as problem:
                refused.append(Row(line, raw, None, str(problem)))
            else:
                if len(cells) != width:
                    words = f"it has {format_count(len(cells), 'cell')}, but the header has {width}"
                    refused.append(Row(line, raw, None, words))
                    continue
                rows.append(cells)
                lines.append(line)
                texts.append(text)
                for column in marked:
                    quoted.setdefault(column, []).append(len(rows) - 1)
        self._rest = self._rest[used:]
        self._line += sum(count for _, _, count in found)
        if not found:
            return None
        columns = list(zip(*rows, strict=True)) if rows else [()] * width
        return RowBlock(columns, lines, texts, quoted, refused, self._line)

    def _join_lines(self, data: bytes, count: int | None = None) -> tuple[list[tuple[int, bytes, int]], int]:
        """For each complete row, at most ``count``, the lines before it, its bytes and its lines; and the bytes of all
        these rows. A quoted cell may span several lines."""
        found: list[tuple[int, bytes, int]] = []
        used = number = 0
        pieces = self._iterate_lines(data)
        for line in pieces:
            begin = number
            number += 1
            parts = [line]
            size = len(line)
            if self.dialect.quotes and line.count(b'"') % 2:
                for more in pieces:
                    parts.append(more)
                    size += len(more)
                    number += 1
                    if more.count(b'"') % 2 or size >= MAX_ROW_BYTES:
                        break
                else:
                    if not self._ended and size < MAX_ROW_BYTES:
                        break
            row = b"".join(parts)
            used += size
            found.append((begin, row.rstrip(b"\r\n") if row.endswith((b"\n", b"\r")) else row, number - begin))
            if count is not None and len(found) == count:
                break
        return found, used

    def _iterate_lines(self, data: bytes) -> Iterator[bytes]:
        """The complete lines of ``data`` with their ends; at the end of the input including the last one."""
        if self._universal:
            # A carriage return may be followed by a line feed.
            stop = len(data) - (not self._ended and data.endswith(b"\r"))
            at = 0
            for match in _LINE_PATTERN.finditer(data, 0, stop):
                at = match.end()
                yield match[0]
        else:
            at = 0
            while stop := data.find(b"\n", at) + 1:
                yield data[at:stop]
                at = stop
        if at < len(data) and (self._ended or len(data) - at >= MAX_ROW_BYTES):
            yield data[at:]


def _has_bare_return(line: bytes) -> bool:
    """True if a carriage return outside quotation marks is not followed by the line feed that ends the line."""
    if b"\r" not in line:
        return False
    # Quotation marks are kept, so that no carriage return before them becomes adjacent to a line feed.
    return b"\r" in _QUOTED_PATTERN.sub(b'""', line).removesuffix(b"\r\n")


def find_separator(heading: bytes, separator: str) -> tuple[str, int, int] | None:
    """Return another separator that occurs more often in the header than ``separator``, with both counts; None if there
    is none.

    Text in quotation marks does not count.
    """
    bare = _QUOTED_PATTERN.sub(b"", heading)
    own = bare.count(separator.encode())
    others = [(bare.count(one.encode()), one) for one in SEPARATORS if one != separator]
    most, other = max(others)
    return (other, most, own) if most > own else None


def cut_cells(text: str, dialect: Dialect) -> list[Cell]:
    """The cells of one row. Raises RowRefused."""
    return _build_cell_cutter(dialect)(text)[0]


def _build_cell_cutter(dialect: Dialect) -> Callable[[str], tuple[list[Cell], list[int]]]:
    """Return the function that splits a row into cells, and reports which are quoted. It raises
    RowRefused."""
    separator, nulls = dialect.separator, dialect.nulls
    # Possessive: for a cell of many MiB, backtracking positions would need a hundred times as much memory.
    cell = re.compile(rf'(?:"((?:[^"]++|"")*+)"|([^"{re.escape(separator)}]*))({re.escape(separator)}|$)', re.DOTALL)

    def cut(text: str) -> tuple[list[Cell], list[int]]:
        if "\r" in text and "\r" in _QUOTED_TEXT_PATTERN.sub("", text):
            raise RowRefused("it has a carriage return outside of quotes")
        if '"' not in text:
            return [None if one in nulls else one for one in text.split(separator)], []
        found: list[Cell] = []
        marked: list[int] = []
        at = 0
        while True:
            match = cell.match(text, at)
            if match is None:
                raise RowRefused(f"cell {len(found) + 1}: a quote is not closed, or is within a cell")
            quoted, plain, end = match.groups()
            if quoted is None:
                found.append(None if plain in nulls else plain)
            else:
                marked.append(len(found))
                found.append(quoted.replace('""', '"'))
            at = match.end()
            if not end:
                return found, marked

    def cut_escaped(text: str) -> tuple[list[Cell], list[int]]:
        if "\r" in text:
            raise RowRefused("it has a carriage return, which TSV writes as \\r")
        cells = text.split(separator)
        if "\\" not in text:
            return [None if one in nulls else one for one in cells], []
        return [
            None if one in nulls else _ESCAPE_PATTERN.sub(lambda match: _ESCAPED_CHARACTERS[match[1]], one)
            for one in cells
        ], []

    return cut if dialect.quotes else cut_escaped


def build_converter(kind: str, form: Form) -> Callable[[str], Any]:
    """Return the converter of a cell to a value of a message; it raises ValueError. ``form``: the form of numbers in
    the format.
    """
    made: dict[str, Callable[[str], Any]] = {
        "text": str,
        "integer": lambda cell: parse_integer(cell, form.decimal),
        "number": lambda cell: convert_number(cell, form),
        "boolean": _parse_truth,
        "json": parse_json,
    }
    return made[kind]


def parse_integer(cell: str, decimal: Callable[[Decimal], Any]) -> Any:
    """Parse an integer, by ``decimal`` if it exceeds 64 bits. Raises ValueError."""
    if not _WHOLE_NUMBER_PATTERN.fullmatch(cell) or len(cell) > 4000:
        raise ValueError("is not an integer")
    number = int(cell)
    return number if -(1 << 63) <= number < 1 << 64 else decimal(Decimal(number))


def parse_number(cell: str) -> Decimal:
    """Parse a number. Raises ValueError."""
    try:
        found = Decimal(cell)
    except InvalidOperation:
        raise ValueError("is not a number") from None
    if not found.is_finite() or abs(found.adjusted()) > MAX_EXPONENT or not cell.isascii() or "_" in cell:
        raise ValueError("is not a number that a message can have")
    return found


def convert_number(text: str, form: Form) -> Any:
    """Convert the text of a number to a value of a message. Raises ValueError."""
    value = parse_number(text)
    is_integer = not text.strip("-0123456789")
    made = form.number(text) if form.number is not None and not is_integer else None
    return form.decimal(value) if made is None else made


def _parse_truth(cell: str) -> bool:
    found = _TRUTH_VALUES.get(cell.lower())
    if found is None:
        raise ValueError("is neither true nor false")
    return found


def parse_json(text: str) -> msgspec.Raw:
    """Convert a text of JSON to a value of a message, with all its digits. Raises ValueError."""
    data = text.encode()
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("is not JSON") from None
    return msgspec.Raw(data)


def parse_json_value(text: str, form: Form) -> Any:
    """Convert a text of JSON to a value of a message that is not JSON: numbers keep their digits. Raises ValueError."""
    try:
        return convert_json_value(jsontree.parse_json(text), form)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError:
        raise ValueError("is not JSON") from None


def convert_json_value(value: Any, form: Form) -> Any:
    """Convert a JSON value to a member of a message: 64-bit integers, others by :func:`convert_number`."""
    if isinstance(value, jsontree.NumberText):
        is_integer = not value.strip("-0123456789")
        return parse_integer(value, form.decimal) if is_integer else convert_number(value, form)
    if isinstance(value, dict):
        return {name: convert_json_value(inner, form) for name, inner in value.items()}
    return [convert_json_value(inner, form) for inner in value] if isinstance(value, list) else value


__all__ = [
    "TEXT_KINDS",
    "DelimitedReader",
    "Dialect",
    "Row",
    "RowBlock",
    "RowRefused",
    "build_converter",
    "convert_json_value",
    "cut_cells",
    "find_separator",
    "parse_integer",
    "parse_json",
    "parse_json_value",
    "parse_number",
]

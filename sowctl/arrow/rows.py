"""Rows of CSV and TSV as Python values, line by line.

CSV as RFC 4180, with a heading: an empty cell is null, a quoted empty one the empty text. TSV with the escapes that
:mod:`sowctl.output.delimited` writes; an empty cell is null. In both a cell is a text unless a type is stated. Lines
end in a line feed, a carriage return and a line feed, or, where those of the heading do, in carriage returns alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, BinaryIO, TypeAlias

import msgspec
from msgspec import Struct

from sowctl.errors import StorageError
from sowctl.messages.framing.encodings import HEAD_BYTES, refuse_encoding
from sowctl.messages.framing.frames import UNREADABLE_CODE

TEXT_KINDS = ("text", "integer", "number", "boolean", "json")
"""What a column of text can be said to hold."""
_WHOLE_NUMBER_PATTERN = re.compile(r"[-+]?[0-9]+")
_ESCAPE_PATTERN = re.compile(r"\\([tnr\\])")
_ESCAPED_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
_TRUTH_VALUES = {"true": True, "false": False, "1": True, "0": False}
MAX_ROW_BYTES = 64 << 20
"""Bytes of one row, at most: an open quote would take the rest of the file for one cell."""

_HEADING_BYTES = 1 << 20
"""Bytes in which the first line of a file ends, if it ends in a line feed."""
SEPARATORS = (",", ";", "\t", "|")
"""What separates the cells of files that are called csv."""
_QUOTED_PATTERN = re.compile(rb'"(?:[^"]|"")*"')
_QUOTED_TEXT_PATTERN = re.compile(r'"(?:[^"]|"")*"')
_LINE_PATTERN = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)")
MAX_EXPONENT = 400
"""The largest power of ten of a number that becomes a message's."""

Cell: TypeAlias = "str | None"


class RowRefused(ValueError):
    """Why a row makes no message."""


class Row(Struct, frozen=True):
    """The ``line`` where a row begins, from 1, its bytes, and its cells, or why it has none."""

    line: int
    raw: bytes
    cells: Sequence[Cell] | None
    problem: str = ""


class Dialect(Struct, frozen=True):
    """The separator, quotes and empty texts of a file of delimited text.

    ``separator`` stands between cells; ``quotes``: cells may stand in quotation marks, else they have the escapes of
    TSV. A cell without quotation marks that is one of ``nulls`` is null.
    """

    separator: str = ","
    quotes: bool = True
    nulls: frozenset[str] = frozenset({""})


def read_delimited_rows(name: str, stream: BinaryIO, dialect: Dialect) -> Iterator[Row]:
    """The rows of CSV or TSV, the heading first; blank lines are passed over.

    Raises StorageError ``SOW-INP-005``, and InputError ``SOW-INP-006`` for UTF-16.
    """
    read_line = _LineReader(name, stream).read
    cut = _build_cell_cutter(dialect)
    first = True
    number = 0
    while True:
        line = read_line()
        if not line:
            return
        number += 1
        begin = number
        if first:
            refuse_encoding(line[:HEAD_BYTES], name)
            line = line.removeprefix(b"\xef\xbb\xbf")
        # A cell in quotes may go over several lines.
        while dialect.quotes and line.count(b'"') % 2 and len(line) < MAX_ROW_BYTES:
            more = read_line()
            if not more:
                break
            line += more
            number += 1
        raw = line.rstrip(b"\r\n") if line.endswith((b"\n", b"\r")) else line
        if not raw.strip(b" \t") and not first:
            continue
        first = False
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            yield Row(begin, raw, None, "it is not UTF-8")
            continue
        try:
            yield Row(begin, raw, cut(text))
        except RowRefused as problem:
            yield Row(begin, raw, None, str(problem))


class _LineReader:
    """Lines with their ends. Where the heading ends in a carriage return alone, each such one ends a line."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self._name = name
        self._stream = stream
        self._is_first = True
        self._lines: Iterator[bytes] | None = None

    def read(self) -> bytes:
        """The next line, :data:`MAX_ROW_BYTES` bytes of it at most; empty at the end. Raises StorageError
        ``SOW-INP-005``."""
        try:
            if self._is_first:
                return self._read_first()
            if self._lines is not None:
                return next(self._lines, b"")
            return self._stream.readline(MAX_ROW_BYTES)
        except OSError as problem:
            words = f"cannot read the input: {problem.strerror or problem}"
            raise StorageError(UNREADABLE_CODE, words, place=self._name) from None

    def _read_first(self) -> bytes:
        self._is_first = False
        line = self._stream.readline(_HEADING_BYTES)
        if _has_bare_return(line):
            self._lines = _iterate_universal_lines(line, self._stream)
            return next(self._lines, b"")
        if len(line) == _HEADING_BYTES and not line.endswith(b"\n"):
            line += self._stream.readline(MAX_ROW_BYTES - len(line))
        return line


def _has_bare_return(line: bytes) -> bool:
    """True where a carriage return outside quotation marks ends no line with a line feed."""
    if b"\r" not in line:
        return False
    return b"\r" in _QUOTED_PATTERN.sub(b"", line).removesuffix(b"\r\n")


def _iterate_universal_lines(data: bytes, stream: BinaryIO) -> Iterator[bytes]:
    """Lines that end in a line feed, a carriage return, or both; ``data`` comes before what ``stream`` has."""
    while data:
        lines = _LINE_PATTERN.findall(data)
        rest = data[sum(map(len, lines)) :]
        # Behind a carriage return a line feed may come.
        if not rest and data.endswith(b"\r"):
            rest = lines.pop()
        yield from lines
        if len(rest) >= MAX_ROW_BYTES:
            yield rest
            rest = b""
        more = stream.read(_HEADING_BYTES)
        if rest and not more:
            yield rest
        data = rest + more if more else b""


def find_separator(heading: bytes, separator: str) -> tuple[str, int, int] | None:
    """Return another separator that occurs more often in the heading than ``separator``, with both counts; None where
    there is none.

    What stands in quotation marks does not count.
    """
    bare = _QUOTED_PATTERN.sub(b"", heading)
    own = bare.count(separator.encode())
    others = [(bare.count(one.encode()), one) for one in SEPARATORS if one != separator]
    most, other = max(others)
    return (other, most, own) if most > own else None


def _build_cell_cutter(dialect: Dialect) -> Callable[[str], list[Cell]]:
    """Return the function that cuts the text of a row into its cells. It raises RowRefused."""
    separator, nulls = dialect.separator, dialect.nulls
    cell = re.compile(rf'(?:"((?:[^"]|"")*)"|([^"{re.escape(separator)}]*))({re.escape(separator)}|$)', re.DOTALL)

    def cut(text: str) -> list[Cell]:
        if "\r" in text and "\r" in _QUOTED_TEXT_PATTERN.sub("", text):
            raise RowRefused("it has a carriage return outside of quotes")
        if '"' not in text:
            return [None if one in nulls else one for one in text.split(separator)]
        found: list[Cell] = []
        at = 0
        while True:
            match = cell.match(text, at)
            if match is None:
                raise RowRefused(f"cell {len(found) + 1}: a quote is not closed, or is within a cell")
            quoted, plain, end = match.groups()
            found.append((None if plain in nulls else plain) if quoted is None else quoted.replace('""', '"'))
            at = match.end()
            if not end:
                return found

    def cut_escaped(text: str) -> list[Cell]:
        if "\r" in text:
            raise RowRefused("it has a carriage return, which TSV writes as \\r")
        cells = text.split(separator)
        if "\\" not in text:
            return [None if one in nulls else one for one in cells]
        return [
            None if one in nulls else _ESCAPE_PATTERN.sub(lambda match: _ESCAPED_CHARACTERS[match[1]], one)
            for one in cells
        ]

    return cut if dialect.quotes else cut_escaped


def build_converter(kind: str, decimal: Callable[[Decimal], Any]) -> Callable[[str], Any]:
    """Return the converter of a cell to a value of a message; it raises ValueError. ``decimal``: how a format has
    numbers.
    """
    made: dict[str, Callable[[str], Any]] = {
        "text": str,
        "integer": lambda cell: _parse_integer(cell, decimal),
        "number": lambda cell: decimal(_parse_number(cell)),
        "boolean": _parse_truth,
        "json": parse_json,
    }
    return made[kind]


def _parse_integer(cell: str, decimal: Callable[[Decimal], Any]) -> Any:
    if not _WHOLE_NUMBER_PATTERN.fullmatch(cell) or len(cell) > 4000:
        raise ValueError("is not an integer")
    number = int(cell)
    return number if -(1 << 63) <= number < 1 << 64 else decimal(Decimal(number))


def _parse_number(cell: str) -> Decimal:
    try:
        found = Decimal(cell)
    except InvalidOperation:
        raise ValueError("is not a number") from None
    if not found.is_finite() or abs(found.adjusted()) > MAX_EXPONENT or not cell.isascii() or "_" in cell:
        raise ValueError("is not a number that a message can have")
    return found


def _parse_truth(cell: str) -> bool:
    found = _TRUTH_VALUES.get(cell.lower())
    if found is None:
        raise ValueError("is neither true nor false")
    return found


def parse_json(text: str) -> msgspec.Raw:
    """A text that is JSON as a value of a message, with all its digits. Raises ValueError."""
    data = text.encode()
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("is not JSON") from None
    return msgspec.Raw(data)


__all__ = [
    "TEXT_KINDS",
    "Dialect",
    "Row",
    "RowRefused",
    "build_converter",
    "find_separator",
    "parse_json",
    "read_delimited_rows",
]

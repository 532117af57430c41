"""Rows of files as Python values: CSV and TSV line by line, Parquet and Arrow batch by batch.

CSV as RFC 4180, with a heading: an empty cell is null, a quoted empty one the empty text. TSV with the escapes that
:mod:`sowctl.output.delimited` writes; an empty cell is null. In both a cell is a text unless a type is stated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import msgspec
from msgspec import Struct

from sowctl.errors import InputError, StorageError
from sowctl.messages.framing.frames import UNREADABLE

if TYPE_CHECKING:
    import pyarrow

KINDS = ("text", "integer", "number", "boolean", "json")
"""What a column of text can be said to hold."""
_WHOLE = re.compile(r"[-+]?[0-9]+")
_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|$)', re.DOTALL)
_ESCAPE = re.compile(r"\\([tnr\\])")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
MOST = 64 << 20
"""Bytes of one row, at most: an open quote would take the rest of the file for one cell."""

Cell: TypeAlias = "str | None"


class RowRefused(Exception):
    """Why a row makes no message."""


class Row(Struct, frozen=True):
    """The ``line`` where a row begins, from 1, its bytes, and its cells, or why it has none."""

    line: int
    raw: bytes
    cells: Sequence[Cell] | None
    problem: str = ""


def delimited_rows(name: str, stream: BinaryIO, *, tabs: bool) -> Iterator[Row]:
    """The rows of CSV or TSV, the heading first; blank lines are passed over. Raises StorageError ``SOW-INP-005``."""
    first = True
    number = 0
    while True:
        line = _line(name, stream)
        if not line:
            return
        number += 1
        begin = number
        if first and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        # A cell in quotes may go over several lines.
        while not tabs and line.count(b'"') % 2 and len(line) < MOST:
            more = _line(name, stream)
            if not more:
                break
            line += more
            number += 1
        raw = line.rstrip(b"\r\n") if line.endswith(b"\n") else line
        if not raw.strip(b" \t") and not first:
            continue
        first = False
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            yield Row(begin, raw, None, "it is not UTF-8")
            continue
        try:
            yield Row(begin, raw, _tabbed(text) if tabs else _cells(text))
        except RowRefused as problem:
            yield Row(begin, raw, None, str(problem))


def _line(name: str, stream: BinaryIO) -> bytes:
    try:
        return stream.readline(MOST)
    except OSError as problem:
        words = f"the input cannot be read: {problem.strerror or problem}"
        raise StorageError(UNREADABLE, words, place=name) from None


def _cells(text: str) -> list[Cell]:
    if '"' not in text:
        return [cell or None for cell in text.split(",")]
    found: list[Cell] = []
    at = 0
    while True:
        match = _CELL.match(text, at)
        if match is None:
            raise RowRefused(f"cell {len(found) + 1}: a quote is not closed, or stands within a cell")
        quoted, plain, end = match.groups()
        found.append(plain or None if quoted is None else quoted.replace('""', '"'))
        at = match.end()
        if not end:
            return found


def _tabbed(text: str) -> list[Cell]:
    cells = text.split("\t")
    if "\\" not in text:
        return [cell or None for cell in cells]
    return [_ESCAPE.sub(lambda match: _ESCAPED[match[1]], cell) or None for cell in cells]


def converter(kind: str, decimal: Callable[[Decimal], Any]) -> Callable[[str], Any]:
    """What makes of a cell what a message holds; raises ValueError. ``decimal``: how a format has numbers."""
    made: dict[str, Callable[[str], Any]] = {
        "text": str,
        "integer": _integer,
        "number": lambda cell: decimal(_number(cell)),
        "boolean": _truth,
        "json": _json,
    }
    return made[kind]


def _integer(cell: str) -> int:
    if not _WHOLE.fullmatch(cell) or len(cell) > 4000:
        raise ValueError("is no whole number")
    return int(cell)


def _number(cell: str) -> Decimal:
    try:
        found = Decimal(cell)
    except InvalidOperation:
        raise ValueError("is no number") from None
    if not found.is_finite() or abs(found.adjusted()) > 400 or not cell.isascii() or "_" in cell:
        raise ValueError("is no number that a message can hold")
    return found


def _truth(cell: str) -> bool:
    found = _TRUTHS.get(cell.lower())
    if found is None:
        raise ValueError("is neither true nor false")
    return found


def _json(cell: str) -> Any:
    try:
        msgspec.json.decode(cell)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("is no JSON") from None
    return msgspec.Raw(cell.encode())


def column_batches(name: str, stream: BinaryIO, *, parquet: bool) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a Parquet or Arrow file. Raises InputError ``SOW-EXC-012`` for what is none, or is damaged."""
    import pyarrow as pa
    from pyarrow import ipc
    from pyarrow import parquet as pq

    try:
        if parquet:
            yield from map(_sound, pq.ParquetFile(stream).iter_batches(1000))
            return
        begin = stream.read(6)
        stream.seek(0)
        reader = ipc.open_file(stream) if begin == b"ARROW1" else ipc.open_stream(stream)
        batches = map(reader.get_batch, range(reader.num_record_batches)) if begin == b"ARROW1" else iter(reader)
        for batch in map(_sound, batches):
            for start in range(0, len(batch), 1000):
                yield batch.slice(start, 1000)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        words = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        what = "Parquet" if parquet else "Arrow"
        raise InputError("SOW-EXC-012", f"the file cannot be read as {what}: {words}", place=name) from None


def _sound(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """A batch whose names and texts are UTF-8, and whose parts fit each other: files say it, and are not asked.

    Raises ArrowException, UnicodeDecodeError.
    """
    batch.validate(full=True)
    # Names are read when they are asked for.
    assert len(batch.schema.names) == batch.num_columns
    return batch


__all__ = ["KINDS", "Row", "RowRefused", "column_batches", "converter", "delimited_rows"]

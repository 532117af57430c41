"""Record batches of one schema as a table of an SQLite database.

Whole numbers, doubles and texts are SQLite's own; truth values are 0 and 1, decimals their digits as text, times
ISO-8601 texts, structs and arrays JSON. NaN, which SQLite would store as NULL, becomes its text. The database is
created in a temporary directory and returned as bytes.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.arrow.message_encoder import build_json_encoder, format_timestamp
from sowctl.arrow.metadata import MARK_KEY, ColumnMark, parse_mark
from sowctl.errors import InputError
from sowctl.values.paths import fold_case
from sowctl.work_directories import create_work_directory

if TYPE_CHECKING:
    import pyarrow


MAX_COLUMNS = 2_000
"""Maximum number of columns of a table in SQLite's default build."""
JSON_COLUMN_TYPE = "JSON"
"""Declared type of columns with JSON, by which readers distinguish it from texts. SQLite stores it as text."""
_MARK_PATTERN = re.compile(r'CREATE TABLE "(?:[^"]|"")*" \(/\* sowctl (\{.*?\}) \*/', re.DOTALL)
_PROBE_BYTES = 4096
"""Size of a page, the unit in which SQLite writes."""


class SqliteTable:
    """A :class:`~sowctl.arrow.files.ColumnWriter`; ``table`` is the table's name.

    Raises OSError if the database cannot be written, also in its methods.
    """

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema, table: str) -> None:
        _refuse_names(schema.names)
        self._out = out
        columns = [f"{quote_identifier(field.name)} {_sqlite_type(field.type)}" for field in schema]
        self._insert = f"INSERT INTO {quote_identifier(table)} VALUES ({', '.join('?' * max(len(schema), 1))})"
        self._cells = [_cell_converter(field.type) for field in schema]
        self._held = ExitStack()
        self._path = self._held.enter_context(create_work_directory()) / "export.sqlite"
        try:
            self._create_table(table, columns, (schema.metadata or {}).get(MARK_KEY))
        except BaseException:
            self.abandon()
            raise

    def _create_table(self, table: str, columns: Sequence[str], mark: bytes | None) -> None:
        # SQLite keeps the statement with its comments, even if a table is copied by it.
        comment = "" if mark is None else f"/* sowctl {_escape_comment(mark)} */ "
        with convert_errors(self._path):
            self._database = sqlite3.connect(self._path, isolation_level=None)
            self._held.callback(_close_database, self._database)
            # The file is new, and deleted if it is not finished: no journal is needed.
            self._database.execute("PRAGMA journal_mode = OFF")
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute(
                f"CREATE TABLE {quote_identifier(table)} ({comment}{', '.join(columns) or quote_identifier('nothing')})"
            )
            self._database.execute("BEGIN")

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Insert some rows."""
        columns = []
        for column, cell in zip(batch.columns, self._cells, strict=True):
            values = column.to_pylist()
            columns.append(values if cell is None else [None if one is None else cell(one) for one in values])
        rows = zip(*columns, strict=True) if columns else [(None,)] * len(batch)
        with convert_errors(self._path):
            self._database.executemany(self._insert, rows)

    def close(self) -> None:
        """Commit, and write the database's bytes."""
        with self._held:
            with convert_errors(self._path):
                self._database.execute("COMMIT")
                self._database.close()
            with self._path.open("rb") as made:
                shutil.copyfileobj(made, self._out, 1 << 20)

    def abandon(self) -> None:
        """Remove the database."""
        self._held.close()


def _close_database(database: sqlite3.Connection) -> None:
    # Its file is removed next, whatever could not be written.
    with suppress(sqlite3.Error):
        database.close()


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Raise OSError if SQLite cannot write the file ``path``."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        # An error in a statement is no error of the file.
        if problem.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            raise
        raise _find_system_error(path, problem) from problem


def _find_system_error(path: Path, problem: sqlite3.OperationalError) -> OSError:
    """Find the operating system's error, which SQLite does not report: a write at the end of the file fails
    likewise."""
    place = os.fspath(path.parent.parent)
    try:
        with path.open("ab", buffering=0) as file:
            # The first write may be partial if there is space for a part of it.
            for _ in range(2):
                file.write(bytes(_PROBE_BYTES))
    except OSError as found:
        return OSError(found.errno, found.strerror, place)
    number = errno.ENOSPC if problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL else errno.EIO
    return OSError(number, os.strerror(number), place)


def build_sqlite_writer(table: str) -> Callable[[BinaryIO, pyarrow.Schema], SqliteTable]:
    """Return the function that creates writers of a table."""
    return partial(SqliteTable, table=table)


def quote_identifier(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _escape_comment(mark: bytes) -> str:
    """JSON without the end of a comment."""
    return mark.decode().replace("/", "\\/")


def read_table_mark(statement: str | None) -> ColumnMark | None:
    """Return the mark in the statement that created a table; None if it is not from export."""
    found = _MARK_PATTERN.match(statement or "")
    return None if found is None else parse_mark(found[1])


def _refuse_names(names: Sequence[str]) -> None:
    """Refuse names that SQLite does not support in a table. Raises InputError ``SOW-EXC-025``."""
    hint = "choose other columns with --columns, or use .parquet, .arrow or .ndjson"
    if len(names) > MAX_COLUMNS:
        words = f"the records have {len(names):,} members, and a table of SQLite has {MAX_COLUMNS:,} columns at most"
        raise InputError("SOW-EXC-025", words, hint=hint)
    found: dict[str, str] = {}
    for name in names:
        if "\0" in name:
            words = f"the name of member {name!r} has a NUL character, which SQLite does not support"
            raise InputError("SOW-EXC-025", words, hint=hint)
        other = found.setdefault(fold_case(name), name)
        if other != name:
            words = f"members {other!r} and {name!r} differ only in case, which SQLite ignores"
            raise InputError("SOW-EXC-025", words, hint=hint)


def _sqlite_type(kind: pyarrow.DataType) -> str:
    import pyarrow.types as t

    if t.is_boolean(kind):
        # Its affinity keeps 0 and 1 integers, and readers know their meaning.
        return "BOOLEAN"
    if t.is_nested(kind):
        return JSON_COLUMN_TYPE
    if t.is_integer(kind):
        return "INTEGER"
    if t.is_binary(kind):
        return "BLOB"
    return "REAL" if t.is_floating(kind) else "TEXT"


def _cell_converter(kind: pyarrow.DataType) -> Callable[[Any], Any] | None:
    import pyarrow.types as t

    if t.is_nested(kind):
        made = build_json_encoder(kind)
        return lambda value: msgspec.json.encode(made(value)).decode()
    if t.is_floating(kind):
        return lambda value: value if value == value else format_non_finite(value)
    return _format_text if t.is_decimal(kind) or t.is_temporal(kind) else None


def _format_text(value: Any) -> str | None:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return format_timestamp(value) if isinstance(value, datetime) else str(value)

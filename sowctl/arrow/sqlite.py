"""Record batches of one schema as a table of an SQLite database.

Whole numbers, doubles and texts are SQLite's own; truth values are 0 and 1, decimals their digits as text, times
ISO-8601 texts, structs and arrays JSON. Of NaN, which SQLite would store as NULL, there is the text. The database is
made in a temporary directory and handed on as bytes.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.arrow.message_encoder import build_json_encoder, format_timestamp
from sowctl.errors import InputError
from sowctl.values.paths import fold_case

if TYPE_CHECKING:
    import pyarrow


MAX_COLUMNS = 2_000
"""Columns of a table, as SQLite is built unless told otherwise."""


class SqliteTable:
    """A :class:`~sowctl.arrow.files.ColumnWriter`; ``table`` is the table's name."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema, table: str) -> None:
        _refuse_names(schema.names)
        self._out = out
        self._directory = tempfile.TemporaryDirectory(prefix="sowctl-")
        self._path = Path(self._directory.name) / "export.sqlite"
        self._database = sqlite3.connect(self._path, isolation_level=None)
        # The file is new, and thrown away where it is not finished: no journal is needed.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        columns = [f"{_quote_identifier(field.name)} {_sqlite_type(field.type)}" for field in schema]
        self._database.execute(
            f"CREATE TABLE {_quote_identifier(table)} ({', '.join(columns) or _quote_identifier('nothing')})"
        )
        self._insert = f"INSERT INTO {_quote_identifier(table)} VALUES ({', '.join('?' * max(len(schema), 1))})"
        self._cells = [_cell_converter(field.type) for field in schema]
        self._database.execute("BEGIN")

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Insert some rows."""
        columns = []
        for column, cell in zip(batch.columns, self._cells, strict=True):
            values = column.to_pylist()
            columns.append(values if cell is None else [None if one is None else cell(one) for one in values])
        self._database.executemany(self._insert, zip(*columns, strict=True) if columns else [(None,)] * len(batch))

    def close(self) -> None:
        """Commit, and write the database's bytes."""
        self._database.execute("COMMIT")
        self._database.close()
        with self._path.open("rb") as made:
            shutil.copyfileobj(made, self._out, 1 << 20)
        self._directory.cleanup()

    def abandon(self) -> None:
        """Remove the database."""
        self._database.close()
        self._directory.cleanup()


def build_sqlite_writer(table: str) -> Callable[[BinaryIO, pyarrow.Schema], SqliteTable]:
    """Makes writers of a table."""
    return partial(SqliteTable, table=table)


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refuse_names(names: Sequence[str]) -> None:
    """Refuse names that a table of SQLite cannot have. Raises InputError ``SOW-EXC-025``."""
    hint = "choose members with --select, or take .parquet, .arrow or .ndjson"
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

    if t.is_integer(kind) or t.is_boolean(kind):
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

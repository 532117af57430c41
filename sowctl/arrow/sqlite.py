"""Record batches of one schema as a table of an SQLite database.

Whole numbers, doubles and texts are SQLite's own; truth values are 0 and 1, decimals their digits as text, times
ISO-8601 texts, structs and arrays JSON. The database is made in a temporary directory and handed on as bytes.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from sowctl.arrow.build import json_cell, stamp

if TYPE_CHECKING:
    import pyarrow


class SqliteTable:
    """A :class:`~sowctl.arrow.files.ColumnWriter`; ``table`` is the table's name."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema, table: str) -> None:
        self._out = out
        self._directory = tempfile.TemporaryDirectory(prefix="sowctl-")
        self._path = Path(self._directory.name) / "export.sqlite"
        self._database = sqlite3.connect(self._path, isolation_level=None)
        # The file is new, and thrown away where it is not finished: no journal is needed.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        # Names of columns are told apart by case in messages, and not by SQLite.
        columns = [f"{_quoted(name)} {_type(field.type)}" for name, field in zip(_names(schema), schema, strict=True)]
        self._database.execute(f"CREATE TABLE {_quoted(table)} ({', '.join(columns) or 'nothing'})")
        self._insert = f"INSERT INTO {_quoted(table)} VALUES ({', '.join('?' * max(len(schema), 1))})"
        self._cells = [_cell(field.type) for field in schema]
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


def sqlite_writer(table: str) -> Callable[[BinaryIO, pyarrow.Schema], SqliteTable]:
    """Makes writers of a table."""
    return partial(SqliteTable, table=table)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _names(schema: pyarrow.Schema) -> list[str]:
    """Names that differ in more than case: a later one gets a number behind it."""
    found: dict[str, str] = {}
    for name in schema.names:
        made, number = name, 1
        while made.lower() in found:
            made, number = f"{name}_{number}", number + 1
        found[made.lower()] = made
    return list(found.values())


def _type(kind: pyarrow.DataType) -> str:
    import pyarrow.types as t

    if t.is_integer(kind) or t.is_boolean(kind):
        return "INTEGER"
    return "REAL" if t.is_floating(kind) else "TEXT"


def _cell(kind: pyarrow.DataType) -> Callable[[Any], Any] | None:
    import pyarrow.types as t

    if t.is_nested(kind):
        made = json_cell(kind)
        return lambda value: msgspec.json.encode(made(value)).decode()
    return _text if t.is_decimal(kind) or t.is_temporal(kind) else None


def _text(value: Any) -> str | None:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return stamp(value) if isinstance(value, datetime) else str(value)

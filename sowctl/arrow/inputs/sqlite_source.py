"""Tables of SQLite databases as messages, including those that :mod:`sowctl.arrow.sqlite` writes."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sowctl.arrow.inputs.columntypes import are_json
from sowctl.arrow.inputs.delimited_source import RowTarget
from sowctl.arrow.inputs.rows import make_changes_error, parse_json, parse_json_value
from sowctl.arrow.inputs.table_source import CHUNK_ROWS, chunk_messages
from sowctl.arrow.message_encoder import MessageEncoder
from sowctl.arrow.metadata import CHANGE_TYPE_COLUMN, find_metadata
from sowctl.arrow.sqlite import JSON_COLUMN_TYPE, read_table_mark
from sowctl.errors import InputError, UsageError
from sowctl.messages.framing.chunks import Chunk
from sowctl.messages.framing.envelope import Envelope
from sowctl.messages.native_values import Cell, Form, convert_scalar
from sowctl.values.scalars import MAX_EXACT_INTEGER

_LIST_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)


_HEADER_BYTES = 100
_MAX_PAGE_BYTES = 1 << 16


def iterate_sqlite_chunks(name: str, path: Path, target: RowTarget, table: str | None) -> Iterator[Chunk]:
    """The messages of one table: ``table``, or the one with the topic's name, or the only one.

    Texts of columns declared as JSON are parsed as such; for type json, if no column is, and the table is not from
    export, so are those of columns whose texts are all JSON objects or arrays. Raises InputError ``SOW-EXC-012`` for a
    file that is no database or is truncated, UsageError ``SOW-EXC-010`` if the table is not unique.
    """
    _refuse_truncated(name, path)
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            yield from _iterate_table(name, database, target, table)
    except sqlite3.Error as problem:
        raise InputError("SOW-EXC-012", f"cannot read the file as SQLite: {problem}", place=name) from None


def _refuse_truncated(name: str, path: Path) -> None:
    """Refuse a database that is shorter than its header states: SQLite reads the missing bytes as zeros."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        size = file.seek(0, os.SEEK_END)
    log = Path(f"{path}-wal")
    # A write-ahead log may contain pages that are not in the file yet.
    if len(header) < _HEADER_BYTES or (log.exists() and log.stat().st_size):
        return
    (page_size,) = struct.unpack_from(">H", header, 16)
    changes, pages = struct.unpack_from(">II", header, 24)
    (valid_for,) = struct.unpack_from(">I", header, 92)
    # Versions of SQLite before 3.7 changed a file without updating the number of its pages.
    if changes == valid_for and size < (expected := pages * (_MAX_PAGE_BYTES if page_size == 1 else page_size)):
        words = f"the database is truncated: it has {size:,} of {expected:,} bytes"
        raise InputError("SOW-EXC-012", words, place=name)


def _iterate_table(name: str, database: sqlite3.Connection, target: RowTarget, table: str | None) -> Iterator[Chunk]:
    chosen = _choose_table(name, [row[0] for row in database.execute(_LIST_TABLES)], target.topic, table)
    query = f'SELECT * FROM "{chosen.replace(chr(34), chr(34) * 2)}"'
    cursor = database.execute(query)
    names = [one[0] for one in cursor.description]
    declared = _read_types(database, chosen)
    booleans = frozenset(at for at, one in enumerate(names) if declared.get(one) in ("BOOLEAN", "BOOL"))
    mark = read_table_mark(_read_statement(database, chosen))
    metadata = find_metadata(names, mark)
    if CHANGE_TYPE_COLUMN in metadata:
        raise make_changes_error(name)
    fields = [at for at, one in enumerate(names) if one not in metadata]
    structured = frozenset(at for at in fields if declared.get(names[at]) == JSON_COLUMN_TYPE)
    # If the table does not declare JSON, its texts decide, but only if messages are JSON, too: one value of a flat
    # message may be such a text, and export declares all columns that contain JSON.
    if target.kind.json_text and not structured and mark is None:
        structured = _find_json_columns(database.execute(query), fields)
    encoder = MessageEncoder(target.kind, [names[at] for at in fields], target.root)
    form = encoder.form if target.kind.typed else Form(encoder.form.binary, partial(_drop_zeros, encoder.form.decimal))
    keys = [names.index(one) for one in ("_user_key", "_sow_key") if one in metadata] if target.by_user else []
    correlations = [names.index(one) for one in ("_correlation_id",) if one in metadata]

    def message(row: Sequence[Any]) -> tuple[bytes, Envelope | None]:
        members: dict[str, Any] = {}
        for at in fields:
            value = row[at]
            if value is None:
                continue
            if at in structured and isinstance(value, str):
                try:
                    value = parse_json(value) if target.kind.json_text else parse_json_value(value, form)
                except ValueError as problem:
                    raise ValueError(f"column {names[at]}: {problem}") from None
            elif at in booleans and value in (0, 1):
                value = bool(value)
            else:
                value = convert_scalar(value, encoder.form)
            members[names[at]] = value
        payload = encoder.encode(members)
        if not keys and not correlations:
            return payload, None
        return payload, Envelope(sow_key=_read_text(row, keys), correlation_id=_read_text(row, correlations))

    yield from chunk_messages(cursor, message)


def _read_text(row: Sequence[Any], places: Sequence[int]) -> str | None:
    """The first value of some columns of a row, as text."""
    return next((str(row[at]) for at in places if row[at] is not None), None)


def _drop_zeros(decimal: Cell, value: Decimal) -> Any:
    """A number of a column in an untyped format: 1.0, the double of such a column, becomes the number 1."""
    whole = value.to_integral_value()
    return int(whole) if whole == value and abs(whole) <= MAX_EXACT_INTEGER else decimal(value)


def _choose_table(name: str, found: Sequence[str], topic: str, table: str | None) -> str:
    if table is not None:
        if table in found:
            return table
        words = f"{name} has no table {table!r}"
    elif topic in found:
        return topic
    elif len(found) == 1:
        return found[0]
    else:
        words = f"{name} has {len(found)} tables, none of them called {topic!r}"
    hint = f"choose one with --table: {', '.join(found)}" if found else None
    raise UsageError("SOW-EXC-010", words, hint=hint)


def _read_statement(database: sqlite3.Connection, table: str) -> str | None:
    row = database.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).fetchone()
    return None if row is None else row[0]


def _read_types(database: sqlite3.Connection, table: str) -> dict[str, str]:
    """The declared types of the columns, in upper case."""
    rows = database.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
    return {name: kind.upper() for name, kind in rows}


def _find_json_columns(cursor: sqlite3.Cursor, fields: Sequence[int]) -> frozenset[int]:
    """The columns whose values are all texts with JSON objects or arrays."""
    candidates, seen = set(fields), set[int]()
    while candidates and (rows := cursor.fetchmany(CHUNK_ROWS)):
        for at in [*candidates]:
            values = [row[at] for row in rows if row[at] is not None]
            if not values:
                continue
            seen.add(at)
            if not all(isinstance(value, str) for value in values) or not are_json("", values):
                candidates.discard(at)
    return frozenset(candidates & seen)

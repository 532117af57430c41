"""Tables of SQLite databases as messages, also those that :mod:`sowctl.arrow.sqlite` writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sowctl.arrow.inputs.columntypes import are_json
from sowctl.arrow.inputs.delimited_source import RowTarget
from sowctl.arrow.inputs.rows import parse_json
from sowctl.arrow.inputs.table_source import CHUNK_ROWS, MARKER_COLUMNS, METADATA_COLUMNS, chunk_messages
from sowctl.arrow.message_encoder import MessageEncoder
from sowctl.errors import InputError, UsageError
from sowctl.messages.framing.chunks import Chunk
from sowctl.messages.framing.envelope import Envelope
from sowctl.messages.native_values import convert_scalar

_LIST_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)


def iterate_sqlite_chunks(name: str, path: Path, target: RowTarget, table: str | None) -> Iterator[Chunk]:
    """The messages of one table: ``table``, or the one with the topic's name, or the only one.

    Columns of texts that are all JSON objects or arrays become these. Raises InputError ``SOW-EXC-012`` for what is no
    database, UsageError ``SOW-EXC-010`` where no table, or more than one, is meant.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            yield from _iterate_table(name, database, target, table)
    except sqlite3.Error as problem:
        raise InputError("SOW-EXC-012", f"cannot read the file as SQLite: {problem}", place=name) from None


def _iterate_table(name: str, database: sqlite3.Connection, target: RowTarget, table: str | None) -> Iterator[Chunk]:
    chosen = _choose_table(name, [row[0] for row in database.execute(_LIST_TABLES)], target.topic, table)
    query = f'SELECT * FROM "{chosen.replace(chr(34), chr(34) * 2)}"'
    cursor = database.execute(query)
    names = [one[0] for one in cursor.description]
    declared = _read_booleans(database, chosen)
    is_ours = not MARKER_COLUMNS.isdisjoint(names)
    fields = [at for at, one in enumerate(names) if not (is_ours and one in METADATA_COLUMNS)]
    structured = _find_json_columns(database.execute(query), fields) if target.kind.json_text else frozenset()
    encoder = MessageEncoder(target.kind, [names[at] for at in fields], target.root)
    keys = [names.index(one) for one in ("_user_key", "_sow_key") if one in names] if target.by_user else []

    def message(row: Sequence[Any]) -> tuple[bytes, Envelope | None]:
        members: dict[str, Any] = {}
        for at in fields:
            value = row[at]
            if value is None:
                continue
            if at in structured:
                value = parse_json(value)
            elif names[at] in declared and value in (0, 1):
                value = bool(value)
            else:
                value = convert_scalar(value, encoder.form)
            members[names[at]] = value
        key = next((row[at] for at in keys if row[at] is not None), None)
        return encoder.encode(members), None if not keys else Envelope(sow_key=None if key is None else str(key))

    yield from chunk_messages(cursor, message)


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


def _read_booleans(database: sqlite3.Connection, table: str) -> frozenset[str]:
    """The columns whose declared type says that 0 and 1 are truth values."""
    rows = database.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
    return frozenset(name for name, kind in rows if kind.upper() in ("BOOLEAN", "BOOL"))


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

"""Combine tables of several SQLite databases: for an export of several topics to one file, new or existing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sowctl.arrow.sqlite import convert_errors, quote_identifier
from sowctl.errors import RefusedError


def build_database(path: Path, parts: Sequence[tuple[str, Path]]) -> None:
    """Create the database ``path`` from tables, each in a database of its own; these may be deleted afterwards.

    Raises OSError if it cannot be written.
    """
    if len(parts) == 1:
        parts[0][1].rename(path)
        return
    with convert_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as database:
        # The file is new, and deleted if it is not finished: no journal is needed.
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        for name, part in parts:
            database.execute("ATTACH ? AS part", (str(part),))
            _copy_table(database, name)
            database.execute("DETACH part")


def refuse_tables(path: Path, names: Sequence[str]) -> None:
    """Raise RefusedError ``SOW-EXC-027`` if a database has one of these tables, ``SOW-EXC-028`` if it is no
    database."""
    with _open_database(path) as database:
        _refuse_present(database, path, names)


def add_tables(path: Path, made: Path, names: Sequence[str], *, overwrite: bool) -> None:
    """Copy these tables of the database ``made`` into an existing one, in one transaction.

    With ``overwrite``, tables of these names are replaced. Raises as :func:`refuse_tables`.
    """
    with _open_database(path) as database:
        database.execute("ATTACH ? AS part", (str(made),))
        database.execute("BEGIN IMMEDIATE")
        if not overwrite:
            _refuse_present(database, path, names)
        for name in names:
            database.execute(f"DROP TABLE IF EXISTS main.{quote_identifier(name)}")
            _copy_table(database, name)
        database.execute("COMMIT")


def _copy_table(database: sqlite3.Connection, name: str) -> None:
    """Copy a table of the attached database ``part``."""
    (statement,) = database.execute("SELECT sql FROM part.sqlite_master WHERE name = ?", (name,)).fetchone()
    # It creates the table in the main database, because it names none.
    database.execute(statement)
    table = quote_identifier(name)
    database.execute(f"INSERT INTO main.{table} SELECT * FROM part.{table}")


@contextmanager
def _open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an existing database. Uncommitted changes are rolled back. Raises RefusedError ``SOW-EXC-028``."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            yield database
    except sqlite3.Error as problem:
        raise make_unwritable_error(path, str(problem)) from None


def _refuse_present(database: sqlite3.Connection, path: Path, names: Sequence[str]) -> None:
    rows = database.execute("SELECT name, type FROM main.sqlite_master").fetchall()
    present = {str(name).lower(): str(kind) for name, kind in rows}
    for name in names:
        if kind := present.get(name.lower()):
            raise make_present_error(path, name, kind)


def make_unwritable_error(path: Path, reason: str) -> RefusedError:
    """Return the error for a database whose tables cannot be changed, or for another file."""
    # Replacing the file is no remedy: a database that is locked, or has a view of this name, has other tables.
    return RefusedError(
        "SOW-EXC-028",
        f"the tables cannot be written to the database: {reason}",
        place=str(path),
        hint="export to a new file; if another program uses the database, close it and run the command again",
    )


def make_present_error(path: Path, name: str, kind: str = "table") -> RefusedError:
    """Return the error for a database that has a table of this name, or a view or index, which is not replaced."""
    hint = "--overwrite replaces the table" if kind == "table" else f"remove the {kind}, or export to another file"
    return RefusedError("SOW-EXC-027", f"the database has a {kind} {name!r}", place=str(path), hint=hint)

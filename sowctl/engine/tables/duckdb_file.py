"""DuckDB database files: adding tables from Parquet files to a new or existing one, as an export does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sowctl.arrow.sqlite_tables import make_present_error, make_unwritable_error


def build_database(path: Path, parts: Sequence[tuple[str, Path]]) -> None:
    """Create the database ``path`` with a table for each Parquet file. Raises as :func:`add_tables`."""
    with _open_database(path) as database:
        for name, part in parts:
            table = _quote_identifier(name)
            if _has_columns(part):
                database.execute(f"CREATE TABLE {table} AS FROM read_parquet({_quote_text(str(part))})")
            else:
                # A topic without records has no columns, which DuckDB does not support.
                database.execute(f"CREATE TABLE {table} (nothing INTEGER)")


def refuse_tables(path: Path, names: Sequence[str]) -> None:
    """Raise RefusedError ``SOW-EXC-027`` if a database has one of these tables, ``SOW-EXC-028`` if it is not a
    database."""
    with _open_database(path) as database:
        _refuse_present(database, path, names)


def add_tables(path: Path, made: Path, names: Sequence[str], *, overwrite: bool) -> None:
    """Copy these tables of the database ``made`` into an existing one, in one transaction.

    With ``overwrite``, tables with these names are replaced. Raises as :func:`refuse_tables`.
    """
    with _open_database(path) as database:
        database.execute(f"ATTACH {_quote_text(str(made))} AS part (READ_ONLY)")
        database.execute("BEGIN")
        if not overwrite:
            _refuse_present(database, path, names)
        for name in names:
            table = _quote_identifier(name)
            database.execute(f"CREATE OR REPLACE TABLE {table} AS FROM part.main.{table}")
        database.execute("COMMIT")


def _has_columns(part: Path) -> bool:
    import pyarrow.parquet

    return bool(pyarrow.parquet.read_schema(part).names)


@contextmanager
def _open_database(path: Path) -> Iterator[Any]:
    """Open a database; uncommitted changes are rolled back. Raises RefusedError ``SOW-EXC-028``."""
    import duckdb

    try:
        with duckdb.connect(str(path)) as database:
            yield database
    except duckdb.Error as problem:
        raise make_unwritable_error(path, str(problem).partition("\n")[0]) from None


def _refuse_present(database: Any, path: Path, names: Sequence[str]) -> None:
    # An attached database is in the information schema, too.
    rows = database.execute(
        "SELECT table_name, table_type FROM information_schema.tables "
        "WHERE table_catalog = current_database() AND table_schema = 'main'"
    ).fetchall()
    present = {str(name).lower(): str(kind) for name, kind in rows}
    for name in names:
        if kind := present.get(name.lower()):
            raise make_present_error(path, name, "view" if kind == "VIEW" else "table")


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

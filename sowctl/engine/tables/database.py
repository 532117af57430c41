"""Statements of SQL, one after the other, each over just the tables and columns that it names.

DuckDB runs in memory and, unless files are allowed, has no way out: it reads and writes no file, attaches no database,
loads no extension, and its settings are locked. Tables are read when a statement names them, and forgotten behind it;
what a statement creates stays for those behind it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.arrow.needed import need
from sowctl.engine.tables.statement import Names, names_of
from sowctl.errors import MissingError, UsageError

if TYPE_CHECKING:
    import pyarrow

    from sowctl.engine.instance import Instance

BATCH = 10_000
"""Rows of a result that are made at a time."""
HISTORY = "history"
JOURNAL = "journal"
_LATER = re.compile(r"\s*CREATE\s+(OR\s+REPLACE\s+)?(TEMP(ORARY)?\s+)?(VIEW|MACRO|FUNCTION)\b", re.IGNORECASE)
_SILENT = (
    *("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "CREATE_FUNC", "ALTER", "DROP", "TRANSACTION", "COPY"),
    *("SET", "VARIABLE_SET", "PREPARE", "ATTACH", "DETACH", "LOAD", "EXPORT", "COPY_DATABASE", "VACUUM", "ANALYZE"),
)
"""Kinds of statements that only do something: what DuckDB says of them are no rows."""
_CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Database:
    """DuckDB over an instance. A context manager. Raises ConfigError ``SOW-EXC-001`` where a package is missing."""

    def __init__(self, instance: Instance, *, files: bool = False) -> None:
        need("sql", "duckdb", "pyarrow")
        import duckdb

        # One clock for the whole run: a record does not expire between two statements.
        now = instance.now
        self._instance = replace(instance, clock=lambda: now)
        self._error: type[Exception] = duckdb.Error
        settings: dict[str, Any] = {} if files else dict(_CLOSED)
        self._connection: Any = duckdb.connect(":memory:", config=settings)
        # Names are those of topics, never those of variables of this program.
        self._connection.execute("SET python_enable_replacements = false")
        # Times are shown as they are everywhere else, wherever this runs.
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET lock_configuration = true")
        self._lasting: set[str] = set()
        self._directory = tempfile.TemporaryDirectory(prefix="sowctl-sql-")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._directory.cleanup()

    def results(self, text: str) -> Iterator[pyarrow.RecordBatchReader]:
        """Run the statements of a text: the rows of each that has some, to be read before the next one is asked for.

        Raises UsageError ``SOW-EXC-020`` for what DuckDB refuses, and what reading topics raises.
        """
        # Bytes of a command line that are no UTF-8 come as half surrogates, which DuckDB does not take.
        for kind, statement in self._statements(text.encode("utf-8", "replace").decode()):
            registered = self._register(names_of(self._connection, statement))
            try:
                found = self._connection.sql(statement)
                if found is not None and kind not in _SILENT:
                    yield self._reader(found)
                    del found
            except self._error as problem:
                raise self._explained(problem) from None
            # Not behind an error: then the connection is closed at once.
            self._forget(statement, registered)

    def _statements(self, text: str) -> list[tuple[str, str]]:
        """Kind and text of each."""
        try:
            return [(one.type.name, one.query) for one in self._connection.extract_statements(text)]
        except self._error as problem:
            raise self._explained(problem) from None

    def _reader(self, found: Any) -> pyarrow.RecordBatchReader:
        import pyarrow as pa

        # The name in DuckDB from 1.4 on, and the one before.
        read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        reader: pyarrow.RecordBatchReader = read(BATCH)

        def batches() -> Iterator[pyarrow.RecordBatch]:
            while True:
                try:
                    yield reader.read_next_batch()
                except StopIteration:
                    return
                except pa.ArrowException as problem:
                    raise self._explained(problem) from None

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _register(self, names: Names) -> list[str]:
        made = []
        for name in names.tables:
            if name.lower() in self._lasting:
                continue
            table = self._table(name, names)
            if table is not None:
                self._connection.register(name, table)
                made.append(name)
        return made

    def _forget(self, statement: str, registered: list[str]) -> None:
        # A view reads its tables when it is asked.
        if _LATER.match(statement):
            self._lasting |= {name.lower() for name in registered}
            return
        for name in registered:
            self._connection.unregister(name)

    def _table(self, name: str, names: Names) -> pyarrow.Table | None:
        """The table that a name stands for; None where it is none of ours."""
        from sowctl.engine.tables.topic import topic_table
        from sowctl.engine.topics.logplaces import read_moment
        from sowctl.engine.topics.targets import find_topic, resolve

        instance, place = self._instance, Path(self._directory.name)
        base, at, when = name.rpartition("@")
        try:
            if not at or self._is_topic(name):
                (target,) = resolve(instance, name, literal=True, derived=True)
                return topic_table(instance, target, None, names, place)
            if when.lower() == HISTORY:
                from sowctl.engine.tables.journal import history_table

                return history_table(instance, find_topic(instance, base), names, place)
            (target,) = resolve(instance, base, literal=True, derived=True)
            return topic_table(instance, target, read_moment(when, instance.clock).of(instance), names, place)
        except (MissingError, UsageError) as problem:
            # Of nothing by this name, or of a file that is no store, DuckDB says more.
            if problem.code not in ("SOW-ENG-012", "SOW-ENG-013", "SOW-ENG-015", "SOW-ENG-080"):
                raise
        if name.lower() == JOURNAL:
            from sowctl.engine.tables.journal import journal_table

            return journal_table(instance, names, place)
        # A name of the statement itself, or of a table that an earlier one has made; or of nothing, as DuckDB will say.
        return None

    def _is_topic(self, name: str) -> bool:
        config = self._instance.config
        return config is not None and any(entry.name == name for entry in config.sow)

    def _explained(self, problem: Exception) -> UsageError:
        words, _, rest = str(problem).partition("\n")
        hint = None
        if "does not exist" in words and "Table" in words and self._instance.config is not None:
            known = ", ".join(entry.name for entry in self._instance.config.sow)
            hint = f'tables: {known}, journal; as of a time "NAME@TIME", all entries "NAME@history"'
        more = " ".join(line.strip() for line in rest.splitlines() if line.strip() and set(line.strip()) != {"^"})
        return UsageError("SOW-EXC-020", f"{words}{': ' + more if more else ''}", hint=hint)

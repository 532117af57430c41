"""Running SQL statements one after the other, each on only the tables and columns that it names.

DuckDB runs in memory and, unless files are allowed, is isolated: it reads and writes no file, attaches no database,
loads no extension, and its settings are locked. Tables are read when a statement names them, all as of one instant, and
dropped after it; objects that a statement creates stay for later statements, and its views read their tables again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from difflib import get_close_matches
from functools import partial
from itertools import chain
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from sowctl.arrow.requirements import require_packages
from sowctl.engine.tables.members import select_named_members
from sowctl.engine.tables.results import Result, choose_fetch_type
from sowctl.engine.tables.statement import StatementNames, parse_names, parse_words
from sowctl.engine.tables.table_names import JOURNAL_TABLE, NamedTable, find_table, list_fields
from sowctl.engine.tables.topic import TableRead
from sowctl.engine.views.instant import ViewInstant, run_with_topics
from sowctl.engine.views.openers import open_derived_entry
from sowctl.errors import UsageError
from sowctl.work_directories import create_work_directory

if TYPE_CHECKING:
    import pyarrow

    from sowctl.engine.instance import Instance

T = TypeVar("T")
BATCH_ROWS = 10_000
"""Rows of a result per batch."""
_DEFINITION_PATTERN = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?(?:VIEW|MACRO|FUNCTION)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"(?:[\w.]*\.)?(?:\"(?P<quoted>(?:[^\"]|\"\")+)\"|(?P<plain>\w+))",
    re.IGNORECASE,
)
"""The start of a statement that creates a view or macro, with its name."""
_SILENT_KINDS = (
    *("INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE", "CREATE_FUNC", "ALTER", "DROP", "TRANSACTION", "COPY"),
    *("SET", "VARIABLE_SET", "PREPARE", "ATTACH", "DETACH", "LOAD", "EXPORT", "COPY_DATABASE", "VACUUM", "ANALYZE"),
)
"""Kinds of statements without a result set: DuckDB's status rows for them are ignored."""
_SHOW_TABLES_PATTERN = re.compile(r"\s*SHOW\s+(ALL\s+)?TABLES\s*;?\s*", re.IGNORECASE)
_NO_COLUMN_PATTERN = re.compile(r'Referenced column "([^"]+)" not found')
_LINE_PATTERN = re.compile(r"LINE (\d+): ")
_CLOSED_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Database:
    """DuckDB on an instance. A context manager. Raises ConfigError ``SOW-EXC-001`` if a package is missing."""

    def __init__(self, instance: Instance, *, files: bool = False) -> None:
        require_packages("sql", "duckdb", "pyarrow")
        import duckdb

        # One clock for the whole run: a record does not expire between two statements.
        now = instance.now
        self._instance = replace(instance, clock=lambda: now)
        self._error: type[Exception] = duckdb.Error
        settings: dict[str, Any] = {} if files else dict(_CLOSED_SETTINGS)
        self._connection: Any = duckdb.connect(":memory:", config=settings)
        # Names in statements are topics, never Python variables of this program.
        self._connection.execute("SET python_enable_replacements = false")
        # Times are displayed as everywhere else, independent of the local time zone.
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET lock_configuration = true")
        self.reads: list[TableRead] = []
        """How the tables of the last statement were read."""
        self._made: dict[str, tuple[str, ...]] = {}
        self._empty: list[str] = []
        self._held = ExitStack()
        self._directory = self._held.enter_context(create_work_directory())

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._held.close()

    def run_statements(self, text: str) -> Iterator[Result]:
        """Run the statements of a text; yield the rows of each that has a result, to be read before the next one is
        requested.

        Raises UsageError ``SOW-EXC-020`` for errors of DuckDB, LockedError ``SOW-VIW-001`` if tables are changed faster
        than they can be opened together, and what reading topics raises.
        """
        # Bytes of a command line that are not UTF-8 arrive as half surrogates, which DuckDB rejects.
        for kind, statement in self._statements(text.encode("utf-8", "replace").decode()):
            # DuckDB knows tables only while a statement names them.
            statement = self._build_listing() if _SHOW_TABLES_PATTERN.fullmatch(statement) else statement
            names = self._collect_names(statement)
            registered = self._register(names)
            try:
                found = self._await_result(partial(self._connection.sql, statement))
                if found is not None and kind not in _SILENT_KINDS:
                    yield self._result(found)
                    del found
            except self._error as problem:
                raise self._explain_error(problem, names) from None
            self._remember(statement)
            # Not after an error: then the connection is closed immediately.
            for name in registered:
                self._connection.unregister(name)

    def _await_result(self, work: Callable[[], T]) -> T:
        """Return the result of a DuckDB call, which a signal interrupts.

        The call runs in a separate thread: Python's signal handlers run in this one, which would otherwise not handle a
        signal before the call has returned.
        """
        results: list[T] = []
        problems: list[BaseException] = []
        done = Event()

        def run() -> None:
            try:
                results.append(work())
            except BaseException as problem:  # raised below, in the calling thread
                problems.append(problem)
            finally:
                done.set()

        Thread(target=run, name="duckdb").start()
        try:
            done.wait()
        except BaseException:
            # Repeated: DuckDB ignores a call that comes before it has started to work.
            while not done.wait(0.05):
                self._connection.interrupt()
            raise
        if problems:
            raise problems[0]
        return results[0]

    def _collect_names(self, statement: str) -> StatementNames:
        """Return the names in a statement, and those in the views and macros of earlier statements that it uses."""
        names = parse_names(self._connection, statement)
        words = parse_words(statement)
        within = [tables for name, tables in self._made.items() if name in words]
        if not within:
            return names
        # The columns that a view or macro needs are not known here, so it gets all columns and all rows of its tables.
        tables = dict.fromkeys((*names.tables, *chain.from_iterable(within)))
        return replace(names, tables=tuple(tables), columns=None, occurrences={})

    def _remember(self, statement: str) -> None:
        """Remember a view or macro, which reads its tables when it is used: later statements with its name need them,
        too."""
        match = _DEFINITION_PATTERN.match(statement)
        if match is not None:
            name = (match["quoted"] or match["plain"]).replace('""', '"').lower()
            self._made[name] = self._collect_names(statement).tables

    def _statements(self, text: str) -> list[tuple[str, str]]:
        """Return kind and text of each statement."""
        try:
            return [(one.type.name, one.query) for one in self._connection.extract_statements(text)]
        except self._error as problem:
            raise self._explain_error(problem) from None

    def _result(self, found: Any) -> Result:
        """Return the rows of a relation, fetched in types that can represent every value."""
        import pyarrow as pa

        names, types = list(found.columns), list(found.types)
        sent = [choose_fetch_type(kind) for kind in types]
        if any(sent):
            casts = [f"#{at}" if one is None else f"CAST(#{at} AS {one})" for at, one in enumerate(sent, 1)]
            found = found.project(", ".join(f'{one} AS "{at}"' for at, one in enumerate(casts)))
        # The name in DuckDB from 1.4 on, and the one before.
        read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        reader: pyarrow.RecordBatchReader = self._await_result(partial(read, BATCH_ROWS))

        def batches() -> Iterator[pyarrow.RecordBatch]:
            none = True
            while True:
                try:
                    yield self._await_result(reader.read_next_batch)
                    none = False
                except StopIteration:
                    break
                except pa.ArrowException as problem:
                    raise self._explain_error(problem) from None
            if none:
                # An empty result still has column types.
                schema = reader.schema
                yield pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)

        return Result(names, types, batches())

    def _register(self, names: StatementNames) -> list[str]:
        """Register the tables that a statement names, all as of one instant; return their names."""
        instance, place = self._instance, self._directory
        tables = [found for name in names.tables if (found := find_table(instance, name)) is not None]
        first: dict[str, NamedTable] = {}
        for one in tables:
            other = first.setdefault(one.name.lower(), one)
            if not other.is_same(one):
                words = f"tables {other.name!r} and {one.name!r} differ only in case, which SQL ignores"
                hint = "use one of them in a separate statement: CREATE TABLE x AS SELECT ..."
                raise UsageError("SOW-EXC-020", words, hint=hint)

        def read_tables(moment: ViewInstant) -> dict[str, pyarrow.Table]:
            self.reads = []
            read = {one.name: one.read(moment, names, place, self.reads.append) for one in tables}
            self._empty = [name for name, table in read.items() if not table.num_rows]
            return {name: select_named_members(table, name, names) for name, table in read.items()}

        self._empty = []
        made: dict[str, pyarrow.Table] = {}
        if tables:
            refs = dict.fromkeys(chain.from_iterable(one.list_refs(instance) for one in tables))
            made = run_with_topics(
                instance, list(refs), None, open_derived_entry, read_tables, what="the tables of the statement"
            )
        for name, table in made.items():
            self._connection.register(name, table)
        return list(made)

    def _build_listing(self) -> str:
        """Return the statement that replaces SHOW TABLES."""
        config = self._instance.config
        names = [*(() if config is None else (entry.name for entry in config.sow)), JOURNAL_TABLE]
        texts = ", ".join("('" + name.replace("'", "''") + "')" for name in names)
        return f"SELECT name FROM (VALUES {texts}) AS tables(name)"

    def _explain_error(self, problem: Exception, names: StatementNames | None = None) -> UsageError:
        words, _, rest = str(problem).partition("\n")
        hint = None
        if names is not None and (match := _NO_COLUMN_PATTERN.search(words)) is not None:
            # DuckDB's candidates are only columns that the statement itself names: no others were read.
            if self._empty:
                words = f"{match[0]}, and table {self._empty[0]!r} has no records, so its columns are unknown"
                hint = "without records, only count(*) and the names of its key fields can be used"
                return UsageError("SOW-EXC-024", words, hint=hint)
            fields = [one for name in names.tables for one in list_fields(self._instance, name)]
            near = get_close_matches(match[1].lower(), fields, n=1)
            known = f"fields: {', '.join(dict.fromkeys(fields))}" if fields else None
            return UsageError("SOW-EXC-020", match[0], hint=f"did you mean {near[0]}?" if near else known)
        if "does not exist" in words and "Table" in words and self._instance.config is not None:
            known = ", ".join(entry.name for entry in self._instance.config.sow)
            hint = f'tables: {known}, journal; as of a time "NAME@TIME", all entries "NAME@history"'
        lines = [line for line in rest.splitlines() if line.strip()]
        excerpt = None
        # DuckDB shows the line of the statement as "LINE 3: ...", and in the next line the position, marked by ^.
        for number, line in enumerate(lines):
            if (place := _LINE_PATTERN.match(line)) is not None:
                words += f" at line {place[1]}"
                marks = lines[number + 1] if lines[number + 1 :] and set(lines[number + 1].strip()) == {"^"} else ""
                excerpt = f"  {line[place.end() :]}" + (f"\n  {marks[place.end() :]}" if marks else "")
                del lines[number : number + 1 + bool(marks)]
                break
        more = " ".join(line.strip() for line in lines)
        return UsageError("SOW-EXC-020", f"{words}{': ' + more if more else ''}", hint=hint, excerpt=excerpt)

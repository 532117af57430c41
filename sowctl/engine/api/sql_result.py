"""The rows of an SQL statement: a typed table, dicts, a data frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sowctl.engine.api.arguments import require_choice
from sowctl.errors import UsageError, convert_memory_errors

if TYPE_CHECKING:
    from sowctl.arrow.tables import DataFrame, Table
    from sowctl.engine.instance import Instance


@convert_memory_errors
class SqlResult:
    """The rows of one statement, completely read. ``names`` are those of its columns; duplicate names get a number."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __dir__(self) -> list[str]:
        """Return the names that are meant for programs."""
        return sorted(name for name in super().__dir__() if not name.startswith("_"))

    def __repr__(self) -> str:
        return f"<{len(self)} rows of SQL: {', '.join(self.names)}>"

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self._table.column_names)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts; times are aware datetimes, numbers that are not doubles are Decimal."""
        return list(self._table.to_pylist())

    def to_arrow(self) -> Table:
        """Return the rows as a pyarrow.Table, with the types of the statement."""
        return self._table

    def to_pandas(self, *, dtype_backend: Literal["numpy", "pyarrow"] = "numpy") -> DataFrame:
        """Return the rows as a pandas.DataFrame, as :meth:`Result.to_pandas`. Raises MissingPackageError
        ``SOW-EXC-001`` without pandas.
        """
        from sowctl.arrow.requirements import require_packages
        from sowctl.arrow.tables import convert_to_pandas

        require_packages("to_pandas()", "pandas")
        require_choice("dtype_backend", dtype_backend, ("numpy", "pyarrow"))
        return convert_to_pandas(self._table, dtype_backend)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table to libraries that read Arrow data without a copy: Polars, DuckDB, pandas."""
        return self._table.__arrow_c_stream__(requested_schema)


def run_sql(instance: Instance, statement: str, *, allow_files: bool) -> SqlResult:
    """Run statements and return the rows of the one that has a result; without any, a result without columns.

    Raises UsageError ``SOW-EXC-021`` if several have rows, and as :meth:`Database.run_statements`.
    """
    from sowctl.arrow.tables import build_table
    from sowctl.engine.tables.database import Database

    with Database(instance, files=allow_files) as database:
        table: Table | None = None
        for result in database.run_statements(statement):
            if table is not None:
                raise UsageError(
                    "SOW-EXC-021",
                    "several statements return rows, but a result has those of one statement",
                    hint="create tables for the earlier results: CREATE TABLE t AS SELECT ...",
                )
            table = result.open_reader().read_all()
    return SqlResult(build_table(lambda: ()) if table is None else table)

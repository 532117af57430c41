"""Results of a query: records one by one or in batches, dicts, Arrow data, and a notebook table.

The columns of Arrow data are those of ``query --format arrow``, built by :mod:`sowctl.arrow`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from sowctl.engine.api.arguments import require_choice
from sowctl.errors import UsageError, convert_memory_errors
from sowctl.values.display import format_count
from sowctl.values.jsontree import parse_plain

if TYPE_CHECKING:
    from sowctl.arrow.column_passes import MessageBlock
    from sowctl.arrow.tables import DataFrame, Table
    from sowctl.engine.records import RecordBatch, StoredRecord
    from sowctl.engine.reports import QueryStatistics
    from sowctl.engine.search.plan import Plan
    from sowctl.engine.verbs.query import QueryResult

MAX_SHOWN_RECORDS = 20
"""Maximum number of records of a result that a notebook shows."""
_MAX_SHOWN_CHARACTERS = 200
"""Maximum number of characters of a value that a notebook shows."""


@convert_memory_errors
class Result:
    """The result of a query, to be read once. ``statistics`` are complete afterwards.

    Iterate for batches of records, or call :meth:`records`, :meth:`to_dicts` or :meth:`count`. Records shown in a
    notebook are still returned by these. Close a result that is not read to its end; garbage collection closes it, too.
    Reading it again, or after it was closed, raises UsageError ``SOW-ENG-090``.
    """

    def __init__(self, found: QueryResult, name: str) -> None:
        self._found = found
        self._name = name
        self._ahead: list[RecordBatch] = []
        self._begun = False
        self._over: str | None = None
        self._held: list[RecordBatch] | None = None
        self._tables: dict[bool, Table] = {}

    def __dir__(self) -> list[str]:
        """Return the names that are meant for programs."""
        return sorted(name for name in super().__dir__() if not name.startswith("_"))

    def __repr__(self) -> str:
        state = "begun" if self._begun else "not read yet"
        return f"<result of a query of {self._name!r}: {state}>"

    @property
    def statistics(self) -> list[QueryStatistics]:
        """Counts of examined, matched and returned records of each topic."""
        return self._found.statistics

    def __iter__(self) -> Generator[RecordBatch]:
        # Without an error, a program that reads twice would count no records.
        if self._over is not None:
            raise UsageError(
                "SOW-ENG-090",
                f"the result of a query of {self._name!r} {self._over}",
                hint="run the query again, or keep the records, for example with list(result.records())",
            )
        self._begun = True
        # Batches that a notebook has shown come first, each once.
        while self._ahead:
            yield self._ahead.pop(0)
        # Not delegated: leaving a loop early would end the query, and the caller may want the rest.
        for batch in self._found:  # noqa: UP028
            yield batch
        self._over = "was already consumed"

    def records(self) -> Iterator[StoredRecord]:
        """Yield the records one by one."""
        return chain.from_iterable(batch.records for batch in self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the messages as dicts, for any type in their JSON form; one that is not an object as ``{"value":
        it}``.

        Numbers that are neither 64-bit integers nor doubles become the nearest double.
        """
        return [_read_fields(view) for batch in self for view in map(batch.view, batch.payloads)]

    def to_arrow(self, *, meta: bool = False) -> Table:
        """Return the messages as a pyarrow.Table: a column for each field, with a type that can represent every value.

        ``meta``: adds columns such as ``_sow_key`` and ``_timestamp``. Later calls return the same table.

        Raises MissingPackageError ``SOW-EXC-001`` without pyarrow, LimitError ``SOW-SPK-083`` for more fields than
        there can be columns.
        """
        if meta not in self._tables:
            from sowctl.arrow.requirements import require_packages

            require_packages("to_arrow()", "pyarrow")
            from sowctl.arrow.tables import build_table

            if self._held is None:
                self._held = list(self)
            held = self._held
            self._tables[meta] = build_table(lambda: (_build_block(batch, meta=meta) for batch in held))
        return self._tables[meta]

    def to_pandas(self, *, meta: bool = False, dtype_backend: Literal["numpy", "pyarrow"] = "numpy") -> DataFrame:
        """Return the messages as a pandas.DataFrame, converted with :meth:`to_arrow`.

        With ``dtype_backend="pyarrow"`` columns keep their types. With numpy, pandas converts integer columns with
        missing values to doubles, so that large integers lose digits.

        Raises MissingPackageError ``SOW-EXC-001`` without pyarrow or pandas, before a record is read.
        """
        from sowctl.arrow.requirements import require_packages
        from sowctl.arrow.tables import convert_to_pandas

        require_packages("to_pandas()", "pyarrow", "pandas")
        require_choice("dtype_backend", dtype_backend, ("numpy", "pyarrow"))
        return convert_to_pandas(self.to_arrow(meta=meta), dtype_backend)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table of :meth:`to_arrow` to libraries that read Arrow data without a copy: Polars, DuckDB,
        pandas."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the table's schema, for libraries that request it first."""
        return self.to_arrow().schema.__arrow_c_schema__()

    def count(self) -> int:
        """Count the records, without reading them if indexes suffice; call it instead of iterating."""
        return self._found.count_records()

    def plans(self) -> list[Plan]:
        """Return the plan for each topic; call it instead of iterating."""
        return self._found.list_plans()

    def close(self) -> None:
        """End the query early: close snapshots and remove temporary files."""
        self._over = self._over or "is closed"
        self._found.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """Return a table of the first records for a notebook; markup in messages is escaped."""
        rows = 0
        seen: list[tuple[int, dict[str, Any]]] = []
        while rows <= MAX_SHOWN_RECORDS and (batch := next(iter(self._found), None)) is not None:
            self._ahead.append(batch)
            rows += len(batch)
        for batch in self._ahead:
            for key, payload in zip(batch.keys, batch.payloads, strict=True):
                seen.append((int.from_bytes(key, "big"), _read_fields(batch.members_view(payload))))
                if len(seen) > MAX_SHOWN_RECORDS:
                    return _format_table(self._name, seen[:MAX_SHOWN_RECORDS], more=True)
        return _format_table(self._name, seen, more=False)


def _build_block(batch: RecordBatch, *, meta: bool) -> MessageBlock:
    """Return a batch in the form from which columns are built."""
    from sowctl.arrow.column_passes import MessageBlock
    from sowctl.arrow.metadata import DEFAULT_COLUMNS

    views = batch.payloads if batch.is_own_view else list(map(batch.exact_view or batch.members_view, batch.payloads))
    if not meta:
        return MessageBlock(views, repeatable=batch.repeatable)
    of_batch = {"_topic": batch.topic, "_message_type": batch.message_type}
    names = [name for name in DEFAULT_COLUMNS if name not in of_batch]
    facts = [of_batch | {name: getattr(one, name[1:]) for name in names} for one in batch.records]
    return MessageBlock(views, facts, batch.repeatable)


def _read_fields(view: bytes) -> dict[str, Any]:
    found = parse_plain(view)
    return found if isinstance(found, dict) else {"value": found}


def _format_table(name: str, rows: list[tuple[int, dict[str, Any]]], *, more: bool) -> str:
    names = list(dict.fromkeys(column for _, row in rows for column in row))
    head = "".join(f"<th>{_escape_value(column)}</th>" for column in ("sow_key", *names))
    body = "".join(
        f"<tr><td>{key}</td>" + "".join(f"<td>{_escape_value(row.get(column, ''))}</td>" for column in names) + "</tr>"
        for key, row in rows
    )
    shown = format_count(len(rows), "record")
    if more:
        shown = f"the first {shown}"
    caption = f"<caption>{_escape_value(name)}: {shown}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _escape_value(value: Any) -> str:
    """Return a value as HTML text: markup is escaped, and invisible characters are shown as escape sequences."""
    import json
    from html import escape

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "…"
    visible = (
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in text
    )
    return escape("".join(visible))

"""Output of the rows of ``sowctl sql``: in the formats of records, or in typed formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from sowctl.cli.context import Invocation
from sowctl.cli.io.output_sink import Sink
from sowctl.cli.parsing.options import OutputChoice
from sowctl.errors import UsageError
from sowctl.output.records import Batch, OutputBatch, OutputRecord

if TYPE_CHECKING:
    from sowctl.engine.tables.database import Database
    from sowctl.engine.tables.results import Result
    from sowctl.engine.tables.topic import TableRead

TYPED_WRITERS = {"parquet": "Parquet", "arrow": "ArrowStream"}
"""Formats with types of their own, and their writers: rows keep their SQL types."""
NAN_FORMATS = ("msgpack",)
"""Formats based on JSON that nevertheless have NaN and infinities."""


class ResultWriter:
    """Output of the rows of statements; created before anything is read, so that invalid options fail early."""

    def __init__(self, invocation: Invocation, choice: OutputChoice) -> None:
        self._sink = sink = Sink(invocation, choice)
        if sink.options.columns and sink.format in TYPED_WRITERS:
            raise UsageError(
                "SOW-OUT-012",
                f"--columns cannot be used with format {sink.format} in SQL",
                hint="name the columns in the statement: SELECT id, price FROM ...",
            )

    def write(self, database: Database, text: str) -> None:
        """Write the rows of all statements of a text; a file holds those of one statement, and their number is
        printed."""
        sink, written = self._sink, 0
        with ExitStack() as held:
            out: BinaryIO = sink.invocation.streams.stdout
            if sink.path is not None:
                out = held.enter_context(sink.open_file())
            number = -1
            for number, result in enumerate(database.run_statements(text)):
                for read in database.reads:
                    sink.invocation.note_detail(_format_table_read(read))
                if number and (sink.path is not None or sink.format in (*TYPED_WRITERS, "json")):
                    raise UsageError(
                        "SOW-EXC-021",
                        "several statements return rows, but a file, stream or array has those of one statement",
                        hint="create tables for the earlier results: CREATE TABLE t AS SELECT ...",
                    )
                if sink.format == "table" and sink.path is None:
                    sink.invocation.start_paging()
                    # A table has colours, and its cells are escaped one by one.
                    out = sink.invocation.streams.painted_stdout
                if number and sink.format in ("table", "csv", "tsv"):
                    out.write(b"\n")
                written += self._write_result(result, out)
            if number < 0 and sink.format == "json":
                out.write(b"[]\n")
        sink.note_file(written, "row")

    def _write_result(self, result: Result, out: BinaryIO) -> int:
        """Write the rows of a result; returns their number."""
        if self._sink.format in TYPED_WRITERS:
            from sowctl.arrow import files

            reader = result.open_reader(self._sink.format)
            name = "ArrowFile" if self._sink.is_arrow_file else TYPED_WRITERS[self._sink.format]
            writer = getattr(files, name)(out, reader.schema)
            rows = 0
            for batch in reader:
                writer.write(batch)
                rows += batch.num_rows
            writer.close()
            out.flush()
            return rows
        from msgspec.structs import replace

        from sowctl.values.paths import Path, Step

        # Results are no records: columns with names of metadata are ordinary columns.
        options = replace(self._sink.options, facts=True)
        if not options.columns and self._sink.format in ("table", "csv", "tsv"):
            options = replace(options, columns=tuple(Path((Step(name),)) for name in result.names))
        rendered = self._sink.make_renderer(options).write(_iterate_batches(result, self._sink.format), out)
        for note in rendered.notes:
            self._sink.invocation.note(note)
        return rendered.records


def _format_table_read(read: TableRead) -> str:
    records = f"{read.decoded:,} record{'' if read.decoded == 1 else 's'} decoded"
    return f"{read.name}: {read.way}, {records}" + ("" if read.filter is None else f" for {read.filter}")


def _iterate_batches(result: Result, name: str) -> Iterator[Batch]:
    from sowctl.arrow.jsoncolumns import format_non_finite
    from sowctl.engine.tables.results import format_odd_number

    exact = name in NAN_FORMATS
    for rows in result.iterate_rows(format_odd_number if exact else format_non_finite):
        records = [OutputRecord(row) for row in rows]
        yield OutputBatch("", "json", _identity_view, records, exact_view=_identity_view if exact else None)


def _identity_view(payload: bytes) -> bytes:
    return payload

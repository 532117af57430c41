"""Record batches of one schema into a file or stream: Parquet, Arrow's file format, Arrow's stream format.

A writer is made with the stream and the schema; nothing can be read before :meth:`ColumnWriter.close`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    import pyarrow

ROWS = 122_880
"""Rows of a row group of Parquet, as DuckDB makes them: readers skip whole groups by what they hold."""
BYTES = 64 << 20
"""Bytes of columns that are held for one, at most."""


class ColumnWriter(Protocol):
    """Where the record batches of one schema go."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None: ...

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write some rows."""
        ...

    def close(self) -> None:
        """Finish the file; the stream stays open."""
        ...

    def abandon(self) -> None:
        """Let go of what is held, where the file is not to be finished: what the stream gets counts for nothing."""
        ...


class Parquet:
    """A Parquet file, compressed with Zstandard."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        from pyarrow import parquet

        self._writer: Any = parquet.ParquetWriter(out, schema, compression="zstd")
        self._held: list[pyarrow.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Hold rows until they are a row group."""
        self._held.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= ROWS or self._bytes >= BYTES:
            self._group()

    def _group(self) -> None:
        import pyarrow as pa

        held, self._held = self._held, []
        self._rows = self._bytes = 0
        self._writer.write_table(pa.Table.from_batches(held), row_group_size=ROWS)

    def close(self) -> None:
        """Write what is held, and the end of the file."""
        if self._held:
            self._group()
        self._writer.close()

    def abandon(self) -> None:
        """Close the writer while its stream is open: it would do that when it is forgotten, and complain."""
        self._writer.close()


class ArrowFile:
    """Arrow's file format, also called Feather, which is read from any place of it."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        from pyarrow import ipc

        self._writer: Any = ipc.new_file(out, schema)

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write some rows."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()

    def abandon(self) -> None:
        """As :meth:`close`."""
        self._writer.close()


class ArrowStream(ArrowFile):
    """Arrow's stream format, which is read from its beginning."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        from pyarrow import ipc

        self._writer = ipc.new_stream(out, schema)

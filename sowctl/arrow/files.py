"""Write record batches of one schema to a file or stream: Parquet, Arrow's file format, Arrow's stream format.

A writer is created with the stream and the schema; nothing can be read before :meth:`ColumnWriter.close`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    import pyarrow

ROW_GROUP_ROWS = 122_880
"""Rows of a row group of Parquet, as in DuckDB: readers skip whole groups by their statistics."""
MAX_ROW_GROUP_BYTES = 64 << 20
"""Maximum size of buffered columns for one group."""


class ColumnWriter(Protocol):
    """Protocol of writers of the record batches of one schema."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None: ...

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write some rows."""
        ...

    def close(self) -> None:
        """Finish the file; the stream stays open."""
        ...

    def abandon(self) -> None:
        """Release all resources if the file will not be finished: the output of the stream is discarded."""
        ...


def _parquet_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The Parquet type for a type of messages: Parquet has no structs without fields, which become texts."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_struct(kind):
        fields = [field.with_type(_parquet_type(field.type)) for field in kind]
        return pa.struct(fields) if fields else pa.string()
    if t.is_list(kind):
        return pa.list_(kind.value_field.with_type(_parquet_type(kind.value_type)))
    if t.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(_parquet_type(kind.item_type)))
    return kind


def _name_empty_objects(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """The rows in the types of :func:`_parquet_type`; an object without members becomes the text ``{}``.

    Columns with such objects are converted through Python values: topics have few of them.
    """
    import pyarrow as pa

    columns = [
        one
        if one.type.equals(field.type)
        else pa.array([_column_name(value, one.type) for value in one.to_pylist()], field.type)
        for one, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column_name(value: Any, kind: pyarrow.DataType) -> Any:
    import pyarrow.types as t

    if value is None:
        return None
    if t.is_struct(kind):
        return {field.name: _column_name(value[field.name], field.type) for field in kind} if kind.num_fields else "{}"
    if t.is_list(kind):
        return [_column_name(item, kind.value_type) for item in value]
    if t.is_map(kind):
        return [(key, _column_name(item, kind.item_type)) for key, item in value]
    return value


class Parquet:
    """A Parquet file, compressed with Zstandard."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._schema = pa.schema([field.with_type(_parquet_type(field.type)) for field in schema], schema.metadata)
        self._is_same = self._schema.equals(schema)
        self._writer: Any = parquet.ParquetWriter(out, self._schema, compression="zstd")
        self._held: list[pyarrow.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Buffer rows until they form a row group."""
        if not self._is_same:
            batch = _name_empty_objects(batch, self._schema)
        self._held.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= MAX_ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        held, self._held = self._held, []
        self._rows = self._bytes = 0
        self._writer.write_table(pa.Table.from_batches(held), row_group_size=ROW_GROUP_ROWS)

    def close(self) -> None:
        """Write the buffered rows, and the end of the file."""
        if self._held:
            self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Close the writer while its stream is open; otherwise it would be closed when collected, with an error
        message."""
        self._writer.close()


class ArrowFile:
    """Arrow's file format, also called Feather, which supports random access."""

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

"""Selected columns of a table, in an order and with names of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from sowctl.arrow.inference import Inference
from sowctl.arrow.metadata import MARK_KEY, build_mark, find_column_type

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.files import ColumnWriter


class ChosenColumn(Struct, frozen=True):
    """A column to write: its name, its name in the table, and whether it is metadata."""

    name: str
    source: str
    is_metadata: bool


def arrange_columns(
    make: Callable[[BinaryIO, pyarrow.Schema], ColumnWriter], columns: Sequence[ChosenColumn]
) -> Callable[[BinaryIO, pyarrow.Schema], ColumnWriter]:
    """Return a function that creates writers for a table, which pass these columns to the writers of ``make``.

    A column that the table does not have becomes one of nulls.
    """
    return lambda out, schema: _ArrangedWriter(out, schema, make, columns)


class _ArrangedWriter:
    def __init__(
        self,
        out: BinaryIO,
        schema: pyarrow.Schema,
        make: Callable[[BinaryIO, pyarrow.Schema], ColumnWriter],
        columns: Sequence[ChosenColumn],
    ) -> None:
        import pyarrow as pa

        self._sources = [one.source if one.source in schema.names else None for one in columns]
        kinds = [
            schema.field(one.source).type if one.source in schema.names else _find_missing_type(one) for one in columns
        ]
        # Selected metadata may have any name, under which it is read back as a field.
        mark = build_mark([one.name for one in columns if not one.is_metadata], ())
        fields = [(one.name, kind) for one, kind in zip(columns, kinds, strict=True)]
        self._schema = pa.schema(fields, {MARK_KEY: mark})
        self._writer = make(out, self._schema)

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write some rows."""
        import pyarrow as pa

        columns = [
            pa.nulls(len(batch), field.type) if source is None else batch.column(source)
            for source, field in zip(self._sources, self._schema, strict=True)
        ]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def abandon(self) -> None:
        """Release all resources."""
        self._writer.abandon()


def _find_missing_type(column: ChosenColumn) -> pyarrow.DataType:
    """The type of metadata, or of a field that is null in all messages."""
    if column.is_metadata:
        return find_column_type(column.source)
    found = Inference()
    found.add([b'{"a":null}'])
    return found.build_struct().field(0).type

"""Blocks of messages as a table in memory, for programs (sowctl-python(7), ARROW)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from sowctl.arrow.column_passes import MessageBlock, write_columns

if TYPE_CHECKING:
    import pandas
    import pyarrow

Table: TypeAlias = "pyarrow.Table"
DataFrame: TypeAlias = "pandas.DataFrame"


class _BatchList:
    """Writer that keeps the batches of one pass in a list."""

    def __init__(self, out: BinaryIO, schema: pyarrow.Schema) -> None:
        self.schema = schema
        self.batches: list[pyarrow.RecordBatch] = []

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Keep some rows."""
        self.batches.append(batch)

    def close(self) -> None:
        """Do nothing: there is nothing to write."""

    def abandon(self) -> None:
        """Do nothing: only memory is held."""


def build_table(blocks: Callable[[], Iterable[MessageBlock]]) -> Table:
    """The table of the messages of ``blocks``, which is called for each pass. Raises as :func:`write_columns`."""
    import pyarrow as pa

    passes: list[_BatchList] = []

    def begin(out: BinaryIO, schema: pyarrow.Schema) -> _BatchList:
        # Batches of an earlier pass, whose types did not hold a later message, are discarded.
        passes[:] = [_BatchList(out, schema)]
        return passes[0]

    write_columns(blocks, begin, io.BytesIO())
    (last,) = passes
    return pa.Table.from_batches(last.batches, last.schema)


def convert_to_pandas(table: Table, dtype_backend: str) -> DataFrame:
    """A table as a data frame; with the ``dtype_backend`` pyarrow, columns keep their types."""
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype) if dtype_backend == "pyarrow" else table.to_pandas()

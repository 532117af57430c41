"""Several stores or journals as one table: what ``load([...])`` of a list of paths reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sowctl.spark.samecode import SameCode

if TYPE_CHECKING:
    import pyarrow


def combine_readers(readers: Sequence[DataSourceReader]) -> DataSourceReader:
    """One reader of all of them."""
    return readers[0] if len(readers) == 1 else MultiReader(readers)


class ReaderPartition(InputPartition):
    """A partition of the reader with this number."""

    def __init__(self, number: int, inner: InputPartition) -> None:
        self.number = number
        self.inner = inner


class MultiReader(SameCode, DataSourceReader):
    """The partitions of several readers, in the order of the readers."""

    def __init__(self, readers: Sequence[DataSourceReader]) -> None:
        self._readers = readers

    def partitions(self) -> Sequence[InputPartition]:
        """All partitions; the plans are made one after the other."""
        return [ReaderPartition(number, part) for number, one in enumerate(self._readers) for part in one.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read a partition with the reader that it belongs to."""
        if isinstance(partition, ReaderPartition):
            yield from self._readers[partition.number].read(partition.inner)

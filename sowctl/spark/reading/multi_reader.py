"""Several stores or journals as one table, for ``load([...])`` with a list of paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sowctl.spark.samecode import SameCode

if TYPE_CHECKING:
    import pyarrow


def combine_readers(readers: Sequence[DataSourceReader]) -> DataSourceReader:
    """Return one reader for the partitions of all readers."""
    return readers[0] if len(readers) == 1 else MultiReader(readers)


class ReaderPartition(InputPartition):
    """A partition ``inner`` of the reader with index ``number``."""

    def __init__(self, number: int, inner: InputPartition) -> None:
        self.number = number
        self.inner = inner


class MultiReader(SameCode, DataSourceReader):
    """The partitions of several readers, in the order of the readers."""

    def __init__(self, readers: Sequence[DataSourceReader]) -> None:
        self._readers = readers

    def partitions(self) -> Sequence[InputPartition]:
        """Return all partitions; the readers plan one after another."""
        return [ReaderPartition(number, part) for number, one in enumerate(self._readers) for part in one.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read a partition with its reader."""
        if isinstance(partition, ReaderPartition):
            yield from self._readers[partition.number].read(partition.inner)

"""Several stores or journals as one table: what ``load([...])`` of a list of paths reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sowctl.spark.samecode import SameCode

if TYPE_CHECKING:
    import pyarrow


def several(readers: Sequence[DataSourceReader]) -> DataSourceReader:
    """One reader of all of them."""
    return readers[0] if len(readers) == 1 else SeveralReader(readers)


class PartOf(InputPartition):
    """A partition of the reader with this number."""

    def __init__(self, number: int, inner: InputPartition) -> None:
        self.number = number
        self.inner = inner


class SeveralReader(SameCode, DataSourceReader):
    """The partitions of several readers, in the order of the readers."""

    def __init__(self, readers: Sequence[DataSourceReader]) -> None:
        self._readers = readers

    def partitions(self) -> Sequence[InputPartition]:
        """All partitions; the plans are made one after the other."""
        return [PartOf(number, part) for number, one in enumerate(self._readers) for part in one.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """What the reader of this partition reads."""
        if isinstance(partition, PartOf):
            yield from self._readers[partition.number].read(partition.inner)

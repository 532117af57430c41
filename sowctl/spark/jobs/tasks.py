"""Running one function per item on the executors, and reading files that tasks have left (for the jobs).

A task may run twice, at once too. Whatever it leaves in a staging directory carries the attempt's name, and only the
names that come back from the attempts that Spark counts are ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.accumulators import AccumulatorParam

from sowctl.spark.errors import carried, translated

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD, Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from sowctl.journal.block import Gap

T = TypeVar("T")
R = TypeVar("R")


def run(spark: SparkSession, items: Sequence[T], work: Callable[[T], R], *, what: str) -> list[R]:
    """``work(item)`` for every item, each a task of its own; the results in the order of the items.

    ``what`` describes the stage in Spark's own page. An error of ours in a task is raised as the same error here.
    """
    if not items:
        return []
    describe(spark, what)
    with translated():
        # As many partitions as items, so that each is retried by itself and the results keep the order of the items.
        return spark.sparkContext.parallelize(list(items), len(items)).map(_Carried(work)).collect()


def frame_of(
    spark: SparkSession, items: Sequence[T] | RDD[T], read: Callable[[T], Iterator[pyarrow.RecordBatch]], schema: str
) -> DataFrame:
    """A DataFrame of what ``read`` yields for each of ``items`` on the executors, a partition for every item; of items
    that the executors make themselves, in their partitions and their order."""
    if isinstance(items, Sequence):
        rows = [_row(item) for item in items]
        pieces = spark.sparkContext.parallelize(rows, max(1, len(rows)))
    else:
        pieces = items.map(_row)
    return map_batches(spark.createDataFrame(pieces, "item binary"), _Read(read), schema)


def _row(item: object) -> tuple[bytearray]:
    """An item as a row: rows of a frame are columns of plain types, so it travels as bytes."""
    import pickle

    return (bytearray(pickle.dumps(item)),)


class _Read(Generic[T]):
    """Reads the items in the rows of a task."""

    def __init__(self, read: Callable[[T], Iterator[pyarrow.RecordBatch]]) -> None:
        self._read = read

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pickle

        items = (pickle.loads(cell.as_py()) for batch in batches for cell in batch.column(0))
        return carried_iterator(found for item in items for found in self._read(item))


def map_batches(
    frame: DataFrame, work: Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]], schema: str
) -> DataFrame:
    """``frame.mapInArrow(work, schema)``, which would insist on pandas though it needs only Arrow."""
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    columns = [frame[f"`{name}`"] for name in frame.columns]
    made = UserDefinedFunction(work, StructType.fromDDL(schema), evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    mapped = frame._jdf.mapInArrow(made(*columns)._jc, False, None)
    return DataFrame(mapped, frame.sparkSession)


class _Gaps(AccumulatorParam[Any]):
    """Adds up the gaps that tasks have come upon."""

    def zero(self, value: list[Gap]) -> list[Gap]:
        """None."""
        return []

    def addInPlace(self, value1: list[Gap], value2: list[Gap]) -> list[Gap]:  # noqa: N802 - Spark's name
        """Those of both."""
        return value1 + value2


def gaps_of(spark: SparkSession) -> Accumulator[Any]:
    """What tasks add lists of gaps of a journal to."""
    return spark.sparkContext.accumulator([], _Gaps())


def tell_gaps(found: Accumulator[Any], on_gap: Callable[[Gap], None]) -> None:
    """Tell of the gaps that tasks have come upon, each once, in their order: a task may have run twice."""
    for gap in sorted(set(found.value), key=attrgetter("first_txid")):
        on_gap(gap)


def describe(spark: SparkSession, what: str) -> None:
    """Say what the stages that follow are about."""
    spark.sparkContext.setJobDescription(what)


def attempt() -> str:
    """A name that no other attempt of any task in the session has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    # Spark counts task attempts through the whole application; stage and partition are there for people.
    return f"{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}"


class _Carried(Generic[T, R]):
    """A function whose errors reach the driver as they are."""

    def __init__(self, work: Callable[[T], R]) -> None:
        self._work = work

    def __call__(self, item: T) -> R:
        with carried():
            return self._work(item)


def carried_iterator(found: Iterable[T]) -> Iterator[T]:
    """What ``found`` yields, its errors carried."""
    with carried():
        yield from found

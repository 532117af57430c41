"""Run a function once per item on the executors (for the jobs).

A task may run twice, even concurrently. So the names of its staged files contain the name of the attempt, and only
files named in the results of successful attempts are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.accumulators import AccumulatorParam

from sowctl.spark.errors import carry_errors, translate_errors
from sowctl.spark.jobs.progress import Measure, WorkCounter, WorkWatch, count_all, create_work_counter, measure_batch

if TYPE_CHECKING:
    import pyarrow
    from pyspark import RDD, Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from sowctl.journal.block import Gap

T = TypeVar("T")
R = TypeVar("R")


def run_tasks(
    spark: SparkSession, items: Sequence[T], work: Callable[[T], R], *, what: str, measure: Measure[R] | None = None
) -> list[R]:
    """Call ``work(item)`` for every item, each in a separate task, and return the results in the order of the items.

    ``what`` describes the stage in Spark's web UI. A SowError in a task is raised here as the same error.
    """
    if not items:
        return []
    describe_stages(spark, what)
    with translate_errors():
        # One partition per item, so that each is retried separately and the results have the order of the items.
        carrier = _ErrorCarrier(work, create_work_counter(measure))
        return spark.sparkContext.parallelize(list(items), len(items)).map(carrier).collect()


class TaskRows(Generic[T]):
    """Rows that tasks read from items. Each item of a sequence is a separate task; items of an RDD keep their
    partitions and order. ``read`` yields the batches of an item, with the columns of ``schema``, a DDL."""

    def __init__(
        self,
        spark: SparkSession,
        items: Sequence[T] | RDD[T],
        read: Callable[[T], Iterator[pyarrow.RecordBatch]],
        schema: str,
    ) -> None:
        self.spark = spark
        self.schema = schema
        self._read = read
        self._items = items

    @property
    def partitions(self) -> int:
        """Number of tasks that read the rows."""
        return max(1, len(self._items)) if isinstance(self._items, Sequence) else self._items.getNumPartitions()

    def build_frame(self) -> DataFrame:
        """Return the rows as a DataFrame."""
        pieces: Any = self._items
        if isinstance(pieces, Sequence):
            pieces = self.spark.sparkContext.parallelize(list(map(_row, pieces)), self.partitions)
        else:
            pieces = pieces.map(_row)
        reader = _ItemReader(self._read, create_work_counter(measure_batch))
        return map_batches(self.spark.createDataFrame(pieces, "item binary"), reader, self.schema)

    def collect_results(self, work: Callable[[Iterable[pyarrow.RecordBatch]], Iterable[R]]) -> list[R]:
        """Apply ``work`` to the batches of each task, in the process that reads them, so they do not pass through
        Spark."""
        items = self._items
        pieces = self.spark.sparkContext.parallelize(items, self.partitions) if isinstance(items, Sequence) else items
        with translate_errors():
            return pieces.mapPartitions(_ItemWork(self._read, work, create_work_counter(measure_batch))).collect()


class _ItemWork(Generic[T, R]):
    """Reads the items of a task, and applies ``work`` to their batches."""

    def __init__(
        self,
        read: Callable[[T], Iterator[pyarrow.RecordBatch]],
        work: Callable[[Iterable[pyarrow.RecordBatch]], Iterable[R]],
        counter: WorkCounter[pyarrow.RecordBatch] | None,
    ) -> None:
        self._read = read
        self._work = work
        self._counter = counter

    def __call__(self, items: Iterable[T]) -> Iterator[R]:
        return carry_iterator(
            self._work(count_all((found for item in items for found in self._read(item)), self._counter))
        )


def _row(item: object) -> tuple[bytearray]:
    """Return an item as a row with its pickled bytes, because a frame has only columns of plain types."""
    import pickle

    return (bytearray(pickle.dumps(item)),)


class _ItemReader(Generic[T]):
    """Unpickles the items in the rows of a task, and reads them."""

    def __init__(
        self, read: Callable[[T], Iterator[pyarrow.RecordBatch]], counter: WorkCounter[pyarrow.RecordBatch] | None
    ) -> None:
        self._read = read
        self._counter = counter

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pickle

        items = (pickle.loads(cell.as_py()) for batch in batches for cell in batch.column(0))
        return carry_iterator(count_all((found for item in items for found in self._read(item)), self._counter))


def map_batches(
    frame: DataFrame, work: Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]], schema: str
) -> DataFrame:
    """Return ``frame.mapInArrow(work, schema)``, without pandas, which that method requires but does not use."""
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    columns = [frame[f"`{name}`"] for name in frame.columns]
    made = UserDefinedFunction(work, StructType.fromDDL(schema), evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    mapped = frame._jdf.mapInArrow(made(*columns)._jc, False, None)
    return DataFrame(mapped, frame.sparkSession)


def collect_frame(
    frame: DataFrame,
    work: Callable[[Iterable[pyarrow.RecordBatch]], Iterable[R]],
    *,
    measure: Measure[R] | None = None,
) -> list[R]:
    """Apply ``work`` to the rows of each partition of a frame, and return the results."""
    import pickle

    with translate_errors():
        rows = map_batches(frame, _PickledWork(work, create_work_counter(measure)), "made binary").collect()
    return [pickle.loads(row.made) for row in rows]


class _PickledWork(Generic[R]):
    """Applies ``work`` to the rows of a task, and yields its results as rows of pickled bytes."""

    def __init__(
        self, work: Callable[[Iterable[pyarrow.RecordBatch]], Iterable[R]], counter: WorkCounter[R] | None
    ) -> None:
        self._work = work
        self._counter = counter

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pickle

        import pyarrow as pa

        for made in carry_iterator(count_all(self._work(batches), self._counter)):
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(made)], pa.binary())], ["made"])


class _Gaps(AccumulatorParam[Any]):
    """Collects the gaps that tasks have found."""

    def zero(self, value: list[Gap]) -> list[Gap]:
        """Return an empty list."""
        return []

    def addInPlace(self, value1: list[Gap], value2: list[Gap]) -> list[Gap]:  # noqa: N802 - Spark's name
        """Return the gaps of both lists."""
        return value1 + value2


def create_gap_accumulator(spark: SparkSession) -> Accumulator[Any]:
    """Create the accumulator to which tasks add lists of gaps of a journal."""
    return spark.sparkContext.accumulator([], _Gaps())


def report_gaps(found: Accumulator[Any], on_gap: Callable[[Gap], None]) -> None:
    """Report each gap once, in txid order. A gap may have been added twice, because tasks may run twice."""
    for gap in sorted(set(found.value), key=attrgetter("first_txid")):
        on_gap(gap)


def describe_stages(spark: SparkSession, what: str) -> None:
    """Set the description of the following stages."""
    spark.sparkContext.setJobDescription(what)
    if WorkWatch.current is not None:
        WorkWatch.current.begin_stages(what)


def format_attempt_name() -> str:
    """Return a name for this task attempt that is unique in the session."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    # The task attempt id is unique in the application; stage and partition are for readers.
    return f"{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}"


class _ErrorCarrier(Generic[T, R]):
    """Calls ``work`` so that its errors are raised unchanged on the driver, and counts its results."""

    def __init__(self, work: Callable[[T], R], counter: WorkCounter[R] | None) -> None:
        self._work = work
        self._counter = counter

    def __call__(self, item: T) -> R:
        with carry_errors():
            result = self._work(item)
        if self._counter is not None:
            self._counter.add(result)
        return result


def carry_iterator(found: Iterable[T]) -> Iterator[T]:
    """Yield the items of ``found``, with :func:`carry_errors`."""
    with carry_errors():
        yield from found

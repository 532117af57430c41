"""Progress of a job: the tasks of the running stages, and the rows and bytes that finished tasks have processed.

Tasks count with a Spark accumulator, which is sent to the driver at the end of each task. Without a
:class:`WorkWatch`, tasks do not count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    import pyarrow
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

R = TypeVar("R")
POLL_INTERVAL_SECONDS = 0.3
"""Seconds between two polls of Spark's status."""
BYTES_COLUMN = "_payload_bytes"
"""The column with the message size of each row. It is counted, but not written."""
Work: TypeAlias = tuple[int, int]
"""Rows, and bytes of their messages."""
Measure: TypeAlias = Callable[[R], Work]
"""Function that returns the work done for a result of a task; runs on the executor."""


class StageProgress(Struct, frozen=True):
    """Progress of the running stages: ``done`` of ``tasks`` have finished. ``rows``, and ``bytes`` of their messages,
    count the finished tasks of all stages with the same description, ``stage``."""

    stage: str
    done: int
    tasks: int
    rows: int = 0
    bytes: int = 0


class _WorkSum(AccumulatorParam[Any]):
    """Adds up rows and bytes."""

    def zero(self, value: Work) -> Work:
        """Return zero rows and bytes."""
        return 0, 0

    def addInPlace(self, value1: Work, value2: Work) -> Work:  # noqa: N802 - Spark's name
        """Return the sum of both values."""
        return value1[0] + value2[0], value1[1] + value2[1]


class WorkCounter(Generic[R]):
    """Counts the work of tasks, on executors; the driver sees the counts of finished tasks."""

    def __init__(self, sums: Accumulator[Any], measure: Measure[R]) -> None:
        self._sums = sums
        self._measure = measure

    def add(self, result: R) -> None:
        """Count the work done for a result."""
        self._sums.add(self._measure(result))


def count_all(results: Iterable[R], counter: WorkCounter[R] | None) -> Iterable[R]:
    """Return ``results`` as an iterable that counts the work as it is consumed; unchanged without a counter."""
    if counter is None:
        return results
    return _count_each(results, counter)


def _count_each(results: Iterable[R], counter: WorkCounter[R]) -> Iterator[R]:
    for result in results:
        counter.add(result)
        yield result


def measure_batch(batch: pyarrow.RecordBatch) -> Work:
    """Return the rows of a batch, and the sum of their message sizes (0 without :data:`BYTES_COLUMN`)."""
    import pyarrow.compute as pc

    if BYTES_COLUMN not in batch.schema.names:
        return batch.num_rows, 0
    return batch.num_rows, pc.sum(batch.column(BYTES_COLUMN)).as_py() or 0


class WorkWatch:
    """Collects the work of the stages with the current description, on the driver. At most one is active per process.

    Without one, tasks do not count: programs that show no progress avoid the cost.
    """

    current: WorkWatch | None = None

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.stage = ""
        self.sums: Accumulator[Any] | None = None

    def __enter__(self) -> WorkWatch:
        WorkWatch.current = self
        return self

    def __exit__(self, *_: object) -> None:
        WorkWatch.current = None

    def begin_stages(self, what: str) -> None:
        """Start counting for the stages that ``what`` describes."""
        self.stage = what
        self.sums = self._context.accumulator((0, 0), _WorkSum())

    @property
    def work(self) -> Work:
        """The work of the finished tasks."""
        rows, size = (0, 0) if self.sums is None else self.sums.value
        return rows, size


def create_work_counter(measure: Measure[R] | None) -> WorkCounter[R] | None:
    """Return a counter for the tasks of the stages described last; None without a :class:`WorkWatch` or measure."""
    watch = WorkWatch.current
    if watch is None or watch.sums is None or measure is None:
        return None
    return WorkCounter(watch.sums, measure)


@contextmanager
def watch_progress(spark: SparkSession, tell: Callable[[StageProgress], None]) -> Iterator[None]:
    """Call ``tell`` periodically while stages run, with task counts from Spark's status tracker."""
    done = threading.Event()
    with WorkWatch(spark) as work:
        # A separate thread, because the main thread blocks in Spark.
        watcher = threading.Thread(target=_watch, args=(spark, work, tell, done), name="sowctl-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join(5)


def _watch(spark: SparkSession, work: WorkWatch, tell: Callable[[StageProgress], None], done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(POLL_INTERVAL_SECONDS):
        try:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        except Exception:
            return  # the session is stopping
        found = [stage for stage in stages if stage is not None]
        if tasks := sum(stage.numTasks for stage in found):
            tell(StageProgress(work.stage, sum(stage.numCompletedTasks for stage in found), tasks, *work.work))

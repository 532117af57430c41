"""Progress of a job: the tasks of the stages under way, and the rows and bytes that ended tasks have dealt with.

Tasks count by an accumulator of Spark's, which reaches the driver with the end of each task. Nothing is counted where
nobody watches.
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
"""Seconds between two looks."""
BYTES_COLUMN = "_payload_bytes"
"""The column of rows that says how long their messages are. It is counted, and not written."""
Work: TypeAlias = tuple[int, int]
"""Rows, and bytes of their messages."""
Measure: TypeAlias = Callable[[R], Work]
"""Returns how much work is behind a result of a task; on the executor."""


class StageProgress(Struct, frozen=True):
    """Of the running stages, ``done`` of ``tasks`` have ended. ``rows``, and ``bytes`` of their messages, are those of
    the ended tasks of all stages that have the same description, ``stage``."""

    stage: str
    done: int
    tasks: int
    rows: int = 0
    bytes: int = 0


class _WorkSum(AccumulatorParam[Any]):
    """Adds up rows and bytes."""

    def zero(self, value: Work) -> Work:
        """None of either."""
        return 0, 0

    def addInPlace(self, value1: Work, value2: Work) -> Work:  # noqa: N802 - Spark's name
        """Those of both."""
        return value1[0] + value2[0], value1[1] + value2[1]


class WorkCounter(Generic[R]):
    """Counts the work behind results of tasks, on executors; the driver sees that of tasks that have ended."""

    def __init__(self, sums: Accumulator[Any], measure: Measure[R]) -> None:
        self._sums = sums
        self._measure = measure

    def add(self, result: R) -> None:
        """Count the work behind a result."""
        self._sums.add(self._measure(result))


def count_all(results: Iterable[R], counter: WorkCounter[R] | None) -> Iterable[R]:
    """Yield ``results``, counted."""
    if counter is None:
        return results
    return _count_each(results, counter)


def _count_each(results: Iterable[R], counter: WorkCounter[R]) -> Iterator[R]:
    for result in results:
        counter.add(result)
        yield result


def measure_batch(batch: pyarrow.RecordBatch) -> Work:
    """Rows of a batch, and what their column of bytes says."""
    import pyarrow.compute as pc

    if BYTES_COLUMN not in batch.schema.names:
        return batch.num_rows, 0
    return batch.num_rows, pc.sum(batch.column(BYTES_COLUMN)).as_py() or 0


class WorkWatch:
    """Watches the work of the stages of one description after another, on the driver; one at a time in a process.

    Nothing is counted without one: tasks of programs that show no progress send no counts.
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
        """Begin to count the stages that ``what`` describes."""
        self.stage = what
        self.sums = self._context.accumulator((0, 0), _WorkSum())

    @property
    def work(self) -> Work:
        """The work of the tasks that have ended."""
        rows, size = (0, 0) if self.sums is None else self.sums.value
        return rows, size


def create_work_counter(measure: Measure[R] | None) -> WorkCounter[R] | None:
    """A counter for the tasks of the stages that were described last; None where nobody watches."""
    watch = WorkWatch.current
    if watch is None or watch.sums is None or measure is None:
        return None
    return WorkCounter(watch.sums, measure)


@contextmanager
def watch_progress(spark: SparkSession, tell: Callable[[StageProgress], None]) -> Iterator[None]:
    """Call ``tell`` now and then while stages are under way, with their tasks from Spark's status tracker."""
    done = threading.Event()
    with WorkWatch(spark) as work:
        # A thread of its own, because the main one waits for Spark until the work is done.
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
            return  # the session ends
        found = [stage for stage in stages if stage is not None]
        if tasks := sum(stage.numTasks for stage in found):
            tell(StageProgress(work.stage, sum(stage.numCompletedTasks for stage in found), tasks, *work.work))

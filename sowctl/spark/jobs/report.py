"""Report of a job as a value; its progress, and Spark's own errors in plain words, for a command."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from sowctl.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_INTERVAL_SECONDS = 0.3
"""Seconds between two looks."""


class JobReport(Struct):
    """One run of a job: ``records`` and ``bytes`` (of payload) that it wrote, ``partitions`` worked on, seconds.

    ``read`` are the records or entries that it was given, ``rejected`` those it refused, ``already_expired`` those that
    it wrote although they were over at the clock. ``details`` holds what only this job has to say, as plain values.
    """

    job: str
    topics: tuple[str, ...]
    output: str | None = None
    read: int = 0
    records: int = 0
    bytes: int = 0
    rejected: int = 0
    already_expired: int = 0
    partitions: int = 0
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Raise errors of Spark itself as StorageError ``SOW-SPK-070`` with the first line that it says."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        words = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise StorageError(
            "SOW-SPK-070", f"Spark job failed: {words}", hint="--verbose prints all output of Spark"
        ) from error


@contextmanager
def watch_progress(spark: SparkSession, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``tell(done, all)`` now and then with the tasks of the stages under way, from Spark's status tracker."""
    done = threading.Event()
    # A thread of its own, because the main one waits for Spark until the work is done.
    watcher = threading.Thread(target=_watch, args=(spark, tell, done), name="sowctl-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(5)


def _watch(spark: SparkSession, tell: Callable[[int, int], None], done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(POLL_INTERVAL_SECONDS):
        try:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        except Exception:
            return  # the session ends
        found = [stage for stage in stages if stage is not None]
        if tasks := sum(stage.numTasks for stage in found):
            tell(sum(stage.numCompletedTasks for stage in found), tasks)

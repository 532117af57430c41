"""Around a job that a command runs: how far it is, and Spark's own errors in plain words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sowctl.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = 0.3
"""Seconds between two looks."""


@contextmanager
def in_plain_words() -> Iterator[None]:
    """What Spark itself cannot do is a StorageError ``SOW-SPK-070`` with the first line that it says."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        words = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise StorageError(
            "SOW-SPK-070", f"Spark gave up: {words}", hint="--verbose shows all that Spark says"
        ) from error


@contextmanager
def watched(spark: SparkSession, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``tell(done, all)`` now and then with the tasks of the stages under way, from Spark's status tracker."""
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, tell, done), name="sowctl-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(5)


def _watch(spark: SparkSession, tell: Callable[[int, int], None], done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not done.wait(EVERY):
        try:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        except Exception:
            return  # the session ends
        found = [stage for stage in stages if stage is not None]
        if tasks := sum(stage.numTasks for stage in found):
            tell(sum(stage.numCompletedTasks for stage in found), tasks)

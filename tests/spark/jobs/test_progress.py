"""What jobs tell of their progress: the rows and bytes of messages behind the tasks that have ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from sowctl.engine.options import ReplayOptions
from sowctl.spark.jobs.export import export
from sowctl.spark.jobs.load import load
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.progress import StageProgress, WorkWatch, watch_progress
from sowctl.spark.jobs.rebuild import rebuild
from sowctl.spark.jobs.tasks import run_tasks
from sowctl.spark.jobs.view import AdHocView, view
from tests.support.instances import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Recorder(WorkWatch):
    """A watch that forgets no stage."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.past: list[tuple[str, tuple[int, int]]] = []

    def begin_stages(self, what: str) -> None:
        self.past.append((self.stage, self.work))
        super().begin_stages(what)


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
def test_a_load_counts_its_messages(spark: SparkSession, lab: Lab, tmp_path: Path, kind: str) -> None:
    rows = range(300)
    text = (
        "".join(f'{{"id":{row}}}\n' for row in rows)
        if kind == "ndjson"
        else "id\n" + "".join(f"{row}\n" for row in rows)
    )
    file = tmp_path / f"in.{kind}"
    file.write_text(text)
    told: list[tuple[str, int, int]] = []
    instance = replace(lab.open(), watch=lambda *words: told.append(words))
    with WorkWatch(spark) as watch:
        report = load(spark, instance, instance.topic("orders").config, [str(file)])
    assert watch.stage == "load orders"
    assert watch.work == (report.records, report.bytes) == (300, report.bytes)
    # What the driver does by itself, which Spark's tasks do not show.
    assert {what: done for what, done, _ in told if what.startswith("messages")} == {
        "messages to journal": 300,
        "messages to apply": 300,
    }


def test_a_rebuild_counts_entries_and_then_records(spark: SparkSession, stocked: Lab, tmp_path: Path) -> None:
    into = ReplayOptions(into=str(tmp_path / "a"))
    with WorkWatch(spark) as watch:
        report = rebuild(spark, stocked.open(), [stocked.open().topic("orders").config], into)
    assert (watch.stage, watch.work) == ("take the last entries", (report.records, report.bytes))
    into = ReplayOptions(into=str(tmp_path / "b"))
    with WorkWatch(spark) as watch:
        report = rebuild(spark, stocked.open(), [stocked.open().topic("past").config], into)
    assert watch.stage == "fold past"
    assert watch.work[0] == report.read > report.records


def test_exports_and_views_count_records(spark: SparkSession, stocked: Lab, tmp_path: Path) -> None:
    instance = stocked.open()
    with WorkWatch(spark) as watch:
        orders = [instance.topic("orders").config]
        report = export(spark, instance, orders, Output(str(tmp_path / "a"), "parquet"))
    assert watch.work == (report.records, report.bytes)
    wanted = AdHocView("orders", ("COUNT(/id) AS /n", "/step AS /step"), ("/step",))
    with Recorder(spark) as watch:
        groups = view(spark, instance, wanted, Output(str(tmp_path / "b"), "ndjson"))
    assert watch.work == (groups.records, groups.bytes)
    assert ("view ", report.records) in [(stage[:5], work[0]) for stage, work in watch.past]


def test_stages_are_told_while_they_run(spark: SparkSession, tmp_path: Path) -> None:
    mark = tmp_path / "told"
    told: list[StageProgress] = []

    def tell(progress: StageProgress) -> None:
        told.append(progress)
        if (progress.done, progress.rows) == (2, 7):
            mark.touch()

    # The last task ends when the work of both others has been told.
    items = [(3, None), (4, None), (5, str(mark))]
    with watch_progress(spark, tell):
        assert run_tasks(spark, items, _wait, what="wait", measure=_measure) == [3, 4, 5]
    assert StageProgress("wait", 2, 3, 7, 70) in told
    assert {(one.stage, one.tasks) for one in told} == {("wait", 3)}
    assert run_tasks(spark, [(1, None)], _wait, what="nobody watches", measure=_measure) == [1]


def _wait(item: tuple[int, str | None]) -> int:
    number, path = item
    for _ in range(600 if path else 0):
        if Path(path or "").exists():
            break
        time.sleep(0.1)
    return number


def _measure(number: int) -> tuple[int, int]:
    return number, 10 * number

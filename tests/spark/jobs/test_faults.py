"""Tasks that fail after writing, fail for good, drivers that are killed: no duplicate, no loss, nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sowctl.engine.bulk.staging import StagedAttempt, StagePlan
from sowctl.errors import InputError
from sowctl.spark.jobs import load as loading
from sowctl.spark.jobs.folds import distributed_fold, two_pass_fold
from sowctl.spark.jobs.inputs import InputSplit
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.load import LoadOptions, load
from sowctl.spark.jobs.rebuild import rebuild
from sowctl.spark.reading.journalplan import PlannedStretch
from tests.support.instances import Lab, config_xml, message, topic_xml, verified
from tests.support.processes import MARK, machines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
XML = config_xml(topic_xml("log") + topic_xml("alone"), ("log",))


def lines(path: Path, count: int = 60) -> str:
    path.write_text("".join(message(id=n % 20, v=n) + "\n" for n in range(count)))
    return str(path)


@pytest.mark.parametrize("topic", ["log", "alone"])
def test_a_task_that_fails_after_writing_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    stage, marks = loading.stage_lines, str(tmp_path)

    def flaky(plan: StagePlan, split: InputSplit) -> StagedAttempt:
        done = stage(plan, split)
        mark = Path(marks) / f"failed-{split.start}"
        if not mark.exists():
            mark.touch()
            raise RuntimeError("the executor was lost")
        return done

    monkeypatch.setattr(loading, "stage_lines", flaky)
    source = lines(tmp_path / "in.ndjson")
    with verified(Lab(tmp_path / "lab", XML)) as lab, verified(Lab(tmp_path / "plain", XML)) as plain:
        instance = lab.open()
        told = load(spark, instance, instance.topic(topic).config, [source], LoadOptions(split_bytes=300))
        plain.publish(topic, *Path(source).read_text().splitlines())
        assert told.records == 60
        assert told.details["commit"]["segments"] == told.partitions
        assert lab.digest(topic) == plain.digest(topic)
        assert len(list(tmp_path.glob("failed-*"))) == told.partitions
        assert not list(lab.directory.rglob("*.staging*"))


def test_a_task_that_fails_for_good(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: StagePlan, split: InputSplit) -> StagedAttempt:
        if split.start:
            raise InputError("SOW-TST-001", "words of a task", place="here", hint="a hint", line=7)
        return stage(plan, split)

    stage = loading.stage_lines
    source = lines(tmp_path / "in.ndjson")
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        instance = lab.open()
        config = instance.topic("log").config
        monkeypatch.setattr(loading, "stage_lines", broken)
        with pytest.raises(InputError, match="words of a task") as caught:
            load(spark, instance, config, [source], LoadOptions(split_bytes=300))
        assert (caught.value.code, caught.value.hint, caught.value.facts["line"]) == ("SOW-TST-001", "a hint", 7)
        assert not lab.journals()
        assert not list(lab.directory.rglob("*.staging*"))
        monkeypatch.setattr(loading, "stage_lines", stage)
        assert load(spark, instance, config, [source]).records == 60


def test_a_fold_whose_tasks_fail_after_writing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = str(tmp_path)
    real: Any = distributed_fold._Reducer

    class Flaky(real):  # type: ignore[misc]
        def reduce_runs(self, index: int, runs: list[Any]) -> Iterator[Any]:
            done = list(super().reduce_runs(index, runs))
            _fail_once(marks, f"fold-{index}")
            yield from done

    monkeypatch.setattr(distributed_fold, "_Reducer", Flaky)
    monkeypatch.setattr(JOB_LIMITS, "part_bytes", 4000)
    # no journal is small enough for the way without a shuffle
    monkeypatch.setattr(JOB_LIMITS, "max_gather_txids", 0)
    _rebuilt(spark, tmp_path)
    assert list(tmp_path.glob("failed-fold-*"))


def test_both_looks_of_a_rebuild_whose_tasks_fail_after_writing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = str(tmp_path)
    looker: Any = two_pass_fold._KeyScanner
    taker: Any = two_pass_fold._RecordTaker

    class FlakyLooker(looker):  # type: ignore[misc]
        def __call__(self, stretch: PlannedStretch) -> Any:
            done = super().__call__(stretch)
            _fail_once(marks, "look")
            return done

    class FlakyTaker(taker):  # type: ignore[misc]
        def __call__(self, wanted: Any) -> Any:
            done = super().__call__(wanted)
            _fail_once(marks, "take")
            return done

    monkeypatch.setattr(two_pass_fold, "_KeyScanner", FlakyLooker)
    monkeypatch.setattr(two_pass_fold, "_RecordTaker", FlakyTaker)
    _rebuilt(spark, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("failed-*")) == ["failed-look", "failed-take"]


def _fail_once(marks: str, name: str) -> None:
    """Raise an error in the first attempt."""
    mark = Path(marks) / f"failed-{name}"
    if not mark.exists():
        mark.touch()
        raise RuntimeError("the executor was lost")


def _rebuilt(spark: SparkSession, place: Path) -> None:
    """Rebuild a store, which is what it was then."""
    with verified(Lab(place / "lab", XML)) as lab:
        lab.publish("log", *[message(id=n % 70, v=n) for n in range(200)])
        before = lab.digest("log")
        instance = lab.open()
        rebuild(spark, instance, instance.topics)
        assert lab.digest("log") == before


KILLED = """
import os, signal, sys
from pathlib import Path
from sowctl.journal.writer import JournalWriter
from sowctl.spark.jobs.load import LoadOptions, load
from sowctl.spark.sessions import open_session
from tests.support.instances import Lab
from tests.spark.jobs.test_faults import XML
from tests.support.processes import QUICK

append = JournalWriter.append_group

def dying(self, *args, **kwargs):
    append(self, *args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

lab = Lab(Path(sys.argv[1]), XML)
instance = lab.open()
with open_session("local[1]", environment=os.environ, conf={"spark.driver.extraJavaOptions": QUICK}) as spark:
    JournalWriter.append_group = dying
    load(spark, instance, instance.topic("log").config, [sys.argv[2]], LoadOptions(split_bytes=300))
"""


def test_a_driver_killed_during_commit(spark: SparkSession, tmp_path: Path) -> None:
    source = lines(tmp_path / "in.ndjson")
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        lab.publish("log", message(id=-1))
        # What a killed driver leaves goes with the test's directory.
        marked = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), MARK: "faults"}
        command = [sys.executable, "-c", KILLED, str(lab.directory), source]
        ended = subprocess.run(command, cwd=ROOT, env=marked, capture_output=True, timeout=120)
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
        assert lab.query("log") == [message(id=-1)]
        assert list(lab.directory.rglob("run-*/*.segment"))
        instance = lab.open()
        told = load(spark, instance, instance.topic("log").config, [source], LoadOptions(split_bytes=300))
        assert told.records == 60
        assert len(lab.query("log")) == 21
        assert not list(lab.directory.rglob("*.staging*"))
    for _ in range(100):
        if not machines("faults"):
            break
        time.sleep(0.1)
    assert not machines("faults")

"""The pipeline on a standalone cluster: what it makes is what the engine makes, also where processes are killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.topics.positions import open_log
from tests.spark.cluster.conftest import WAIT, Cluster, until
from tests.spark.cluster.driver import lab_in
from tests.spark.jobs.test_outputs import read_lines
from tests.support.instances import START, Lab, message

COUNT = 12_000


def lines(seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        message(id=rng.randrange(COUNT // 3), n=n, desk=f"d{rng.randrange(9)}", qty=rng.randrange(100), pad="x" * 90)
        for n in range(COUNT)
    ]


def engine(directory: Path, messages: list[str]) -> Lab:
    """The same messages, published by one process."""
    lab = lab_in(directory)
    lab.publish("orders", *messages)
    return lab


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.ndjson"
    path.write_text("".join(f"{line}\n" for line in lines(1)))
    return path


def killed_when(cluster: Cluster, true: Callable[[], object], what: str) -> int:
    """Kill one executor, once something is so; its number."""
    until(lambda: true() and cluster.executors(), what)
    pid = min(cluster.executors())
    os.kill(pid, signal.SIGKILL)
    return pid


def test_jobs_on_a_cluster_make_what_the_engine_makes(cluster: Cluster, tmp_path: Path, source: Path) -> None:
    directory = tmp_path / "lab"
    expected = engine(tmp_path / "expected", lines(1))
    lab = lab_in(directory)
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    jobs = ["load", str(source), ",", "stream", str(checkpoint), "5000", ",", "view", f"{out}-view"]
    cluster.run(jobs[0], directory, *jobs[1:])
    assert lab.query("orders") == expected.query("orders")
    assert lab.query("copy") == expected.query("orders")
    assert read_lines(Path(f"{out}-view")) == expected.query("totals")
    digest = lab.digest("orders")
    lab.clock.tick(60)
    # The driver's clock stands where it began, so that this is the future there, and the present here.
    lab.publish("orders", message(id=1, late=True))
    lab.forget("orders")
    jobs = ["rebuild", ",", "export", f"{out}-export", ",", "snapshot", str(START), f"{out}-past"]
    cluster.run(jobs[0], directory, *jobs[1:])
    assert lab.digest("orders") != digest
    assert read_lines(Path(f"{out}-export")) == lab.query("orders")
    assert read_lines(Path(f"{out}-past")) == expected.query("orders")
    assert lab.findings() == []
    assert not list(directory.rglob("*.staging*"))


def test_an_executor_that_is_killed_costs_nothing(cluster: Cluster, tmp_path: Path, source: Path) -> None:
    directory = tmp_path / "lab"
    lab = lab_in(directory)
    driver = cluster.start("load", directory, str(source), ",", "rebuild")
    killed = killed_when(cluster, lambda: len(list(directory.rglob("*.segment"))) > 1, "a staged segment")
    assert driver.wait(WAIT) == 0, cluster.said(driver)
    assert killed not in cluster.executors()
    assert lab.query("orders") == engine(tmp_path / "expected", lines(1)).query("orders")
    assert lab.findings() == []
    assert not list(directory.rglob("*.staging*"))


def test_a_driver_that_is_killed_leaves_all_or_nothing(cluster: Cluster, tmp_path: Path, source: Path) -> None:
    directory = tmp_path / "lab"
    lab = lab_in(directory)
    lab.publish("orders", message(id=-1))
    driver = cluster.start("load", directory, str(source))
    until(lambda: len(list(directory.rglob("*.segment"))) > 1, "a staged segment")
    driver.kill()
    driver.wait()
    assert lab.query("orders") == [message(id=-1)]
    until(lambda: not cluster.executors(), "the end of the dead driver's executors")
    assert list(directory.rglob("run-*"))
    cluster.run("load", directory, str(source))
    expected = engine(tmp_path / "expected", [message(id=-1), *lines(1)])
    assert lab.query("orders") == expected.query("orders")
    assert lab.findings() == []
    assert not list(directory.rglob("*.staging*"))


def test_a_stream_whose_driver_is_killed_goes_on_where_it_was(cluster: Cluster, tmp_path: Path, source: Path) -> None:
    directory = tmp_path / "lab"
    lab = engine(directory, lines(1))
    first = lab.open().topic("orders").digest()
    for most in ("1000", "1500"):
        seen = lab.digest("copy") if lab.store("copy").exists() else ""
        driver = cluster.start("stream", directory, str(tmp_path / "checkpoint"), most)
        until(lambda seen=seen: lab.store("copy").exists() and lab.digest("copy") != seen, "a batch")  # type: ignore[misc]
        driver.kill()
        driver.wait()
    cluster.run("stream", directory, str(tmp_path / "checkpoint"), "5000")
    assert lab.query("copy") == lab.query("orders")
    assert lab.open().topic("orders").digest() == first
    with_both = lab.open().topic("copy").digest()
    assert with_both.records == first.records
    # Every entry arrived once: the journal holds as many of one topic as of the other.
    with open_log(lab.open()) as log:
        names = [entry.topic[0] for block in log.blocks() for entry in block.entries()]
    counts = [names.count(name) for name in ("orders", "copy")]
    assert counts == [COUNT, COUNT]
    assert lab.findings() == []

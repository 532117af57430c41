"""The pipeline on a standalone cluster: what it makes is what the engine makes, also where processes are killed."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import site
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target
from tests.spark.cluster.conftest import WAIT, Cluster, until
from tests.spark.cluster.driver import lab_in
from tests.spark.cluster.environment import ROOT
from tests.spark.jobs.test_outputs import read_lines
from tests.spark.test_remote import with_key
from tests.support.instances import START, Lab, message
from tests.support.objectstore import ObjectStore, serving

COUNT = 12_000
DEVELOPED = (ROOT, Path(sys.prefix), *map(Path, site.getsitepackages()))
"""Where the tests and the driver have their modules."""


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


def published(lab: Lab, topic: str) -> list[str]:
    """What the journal has of a topic, in its order: what was committed, as often as it was."""
    with open_log(lab.open()) as log:
        entries = [entry for block in log.iter_blocks() for entry in block.iter_entries() if entry.topic[0] == topic]
    return [entry.payload.decode() for entry in entries]


def killed_when(cluster: Cluster, true: Callable[[], object], what: str) -> int:
    """Kill one executor, once something is so; its number."""
    until(lambda: true() and cluster.executors(), what)
    pid = min(cluster.executors())
    os.kill(pid, signal.SIGKILL)
    return pid


def test_executors_run_what_they_have_unpacked_and_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    said = cluster.run("where", tmp_path / "lab")
    found = json.loads(said[said.index("[[") :].splitlines()[0])
    assert len(found) == 8
    homes = set()
    for prefix, package, library, path, programs in found:
        home = Path(prefix)
        # in the directory of an executor, which is in that of its worker
        assert home.name == "environment" and home.parents[2] in (cluster.work / "one", cluster.work / "two"), prefix
        assert Path(package).is_relative_to(home) and Path(library).is_relative_to(home)
        homes.add(home)
        # Spark's own archives lie in the package of the tests, because that is the Spark that there is.
        modules = [Path(one) for one in path if not Path(one).is_relative_to(cluster.spark)]
        assert [one for one in modules if any(one.is_relative_to(root) for root in DEVELOPED)] == []
        # PATH also has the driver's directory, behind the one that was unpacked: Spark plans by the same variable.
        assert programs[:2] == ["./environment/bin", str(Path(sys.executable).parent)]
    assert len(homes) == 2


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


@pytest.mark.parametrize("when", ["staging", "committed"])
def test_a_driver_that_is_killed_leaves_all_or_nothing(
    cluster: Cluster, tmp_path: Path, source: Path, when: str
) -> None:
    directory = tmp_path / "lab"
    lab = lab_in(directory)
    lab.publish("orders", message(id=-1))
    expected = engine(tmp_path / "expected", [message(id=-1), *lines(1)])
    driver = cluster.start("load", directory, str(source))
    if when == "staging":
        until(lambda: len(list(directory.rglob("*.segment"))) > 1, "a staged segment")
    else:
        until(lambda: len(lab.query("orders")) > 1, "the commit")
    driver.kill()
    driver.wait()
    assert lab.query("orders") == ([message(id=-1)] if when == "staging" else expected.query("orders"))
    assert published(lab, "orders") == [message(id=-1), *([] if when == "staging" else lines(1))]
    until(lambda: not cluster.executors(), "the end of the dead driver's executors")
    if when == "staging":
        assert list(directory.rglob("run-*"))
    cluster.run("load", directory, str(source))
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
    assert [published(lab, name) for name in ("orders", "copy")] == [lines(1)] * 2
    assert lab.findings() == []


def test_an_executor_that_is_killed_under_a_stream_costs_nothing(
    cluster: Cluster, tmp_path: Path, source: Path
) -> None:
    lab = engine(tmp_path / "lab", lines(1))
    driver = cluster.start("stream", lab.directory, str(tmp_path / "checkpoint"), "1500")
    killed = killed_when(cluster, lambda: lab.store("copy").exists() and lab.query("copy"), "a batch")
    status, said = cluster.end(driver)
    assert status == 0 and f"stream {COUNT}" in said, said
    assert killed not in cluster.executors()
    assert lab.query("copy") == lab.query("orders")
    assert published(lab, "copy") == lines(1)
    assert lab.findings() == []


@pytest.fixture
def shore(cluster: Cluster) -> Iterator[ObjectStore]:
    with serving() as store:
        yield store


def there(shore: ObjectStore, prefix: str) -> dict[str, bytes]:
    """What readers see of a data set at a URL."""
    names = [name for name in shore.names(prefix + "/") if name and name[-1] != "/" and not name.startswith("_temp")]
    return {name: shore.objects[f"lake/{prefix}/{name}"] for name in names}


def rows(files: dict[str, bytes]) -> list[str]:
    return [line for name in sorted(files) if name.startswith("part-") for line in files[name].decode().splitlines()]


def begun(shore: ObjectStore, prefix: str) -> list[str]:
    """The files that attempts have written, and that are in no data set yet."""
    return [name for name in shore.names(f"{prefix}/_temporary-") if "/part-" in name]


def test_outputs_at_a_url_need_no_directory_that_is_shared(
    cluster: Cluster, tmp_path: Path, shore: ObjectStore
) -> None:
    lab = engine(tmp_path / "lab", lines(1))
    stage, out = with_key(shore, "stage"), lambda name: with_key(shore, name)
    jobs = ["export", out("lines"), stage, ",", "export", out("columns"), stage, "parquet", "700"]
    jobs += [",", "export", out("csv"), stage, "csv", "700", ",", "export", out("orders.sow"), stage, "sow"]
    jobs += [",", "view", out("view"), stage, ",", "snapshot", str(START), out("past"), stage]
    cluster.run(jobs[0], lab.directory, *jobs[1:])
    wanted = lab.query("orders")
    assert rows(there(shore, "lines")) == wanted == rows(there(shore, "past"))
    assert rows(there(shore, "view")) == lab.query("totals")
    pq = pytest.importorskip("pyarrow.parquet")
    files = there(shore, "columns")
    assert len(files) == len(wanted) // 700 + 2 and "_SUCCESS" in files
    tables = [pq.read_table(io.BytesIO(files[name])) for name in sorted(files) if name.startswith("part-")]
    assert [cell.decode() for one in tables for cell in one["payload"].to_pylist()] == wanted
    table = [
        line for name, text in sorted(there(shore, "csv").items()) if name != "_SUCCESS" for line in text.split()[1:]
    ]
    assert [int(line.split(b",")[0]) for line in table] == [json.loads(line)["id"] for line in wanted]
    (tmp_path / "orders.sow").write_bytes(shore.objects["lake/orders.sow"])
    copy = Target(path=tmp_path / "orders.sow")
    assert compute_digest(Instance(clock=lab.clock), copy).records == len(wanted)
    # Executors have left nothing on this machine, nor at the place of staging but marks of directories.
    assert not [name for name in shore.names("stage/") if shore.objects["lake/stage/" + name]]
    assert not list(lab.directory.rglob("*.staging*"))


def test_killed_under_an_export_to_a_url(cluster: Cluster, tmp_path: Path, shore: ObjectStore) -> None:
    """An executor costs nothing; of a driver the old output stays, and the next run removes what it has left."""
    lab = engine(tmp_path / "lab", lines(1))
    stage, url = with_key(shore, "stage"), with_key(shore, "out")
    driver = cluster.start("export", lab.directory, url, stage, "ndjson", "50")
    killed = killed_when(cluster, lambda: len(begun(shore, "out")) > 3, "a part file at the URL")
    status, said = cluster.end(driver)
    assert status == 0 and killed not in cluster.executors(), said
    first = there(shore, "out")
    assert rows(first) == lab.query("orders") and "_SUCCESS" in first
    assert len(first) == len(lab.query("orders")) // 50 + 2 and begun(shore, "out") == []
    lab.publish("orders", message(id=-1))
    driver = cluster.start("export", lab.directory, url, stage, "ndjson", "50")
    until(lambda: len(begun(shore, "out")) > 3, "a part file at the URL")
    driver.kill()
    driver.wait()
    until(lambda: not cluster.executors(), "the end of the dead driver's executors")
    assert there(shore, "out") == first and begun(shore, "out")
    cluster.run("export", lab.directory, url, stage)
    assert rows(there(shore, "out")) == lab.query("orders") != rows(first)
    assert len(there(shore, "out")) == 2 and begun(shore, "out") == []


@pytest.mark.parametrize("job", ["rebuild", "count"])
def test_executors_with_an_older_release_are_refused(cluster: Cluster, tmp_path: Path, job: str) -> None:
    """A job asks before it begins; of a data source the tasks say so."""
    lab = engine(tmp_path / "lab", [message(id=1)])
    before = lab.digest("orders")
    status, said = cluster.end(cluster.start(job, lab.directory, packed=cluster.older))
    assert status == 4 and "SOW-SPK-166: on " in said, said
    assert " older sowctl 0.0.9," in said
    assert lab.digest("orders") == before and lab.findings() == []

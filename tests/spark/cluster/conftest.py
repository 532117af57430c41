"""A standalone cluster on this machine: a master and two workers, each a process with a directory of its own.

Master and workers know nothing of the environment of the tests: neither their PYTHONPATH nor their PATH leads there.
What executors run is in an archive that Spark gives them (:mod:`tests.spark.cluster.environment`). Deep only: every
driver of a test is a process with a virtual machine, and so is every executor.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.spark.cluster.environment import ROOT, make, make_older, pack
from tests.support.processes import MARK, QUICK, machines

NAME = "cluster"
WAIT = 900.0
"""Seconds within which anything happens, on a machine that others use, too."""
OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/java.util")
"""What Spark's classes look into; its launcher, which is not used here, adds more that a master does not need."""


def until(true: Callable[[], object], what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end, f"{what} did not happen within {WAIT} seconds"
        time.sleep(0.05)


@dataclass
class Cluster:
    """``work`` holds the directories of master and workers, ``environment`` is that of drivers; ``packed`` is what
    executors unpack, ``older`` the same with an older release; ``spark`` is where Spark lies."""

    work: Path
    master: str
    environment: dict[str, str]
    packed: Path
    older: Path
    spark: Path
    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, job: str, lab: Path, *arguments: str, packed: Path | None = None) -> subprocess.Popen[bytes]:
        """A driver that does one job of :mod:`tests.spark.cluster.driver`."""
        place = [self.master, str(packed or self.packed), str(lab)]
        command = [sys.executable, "-m", "tests.spark.cluster.driver", *place, job, *arguments]
        log = (self.work / f"driver-{len(self.drivers)}.log").open("wb")
        driver = subprocess.Popen(command, cwd=self.work, env=self.environment, stdout=log, stderr=log)
        log.close()
        self.drivers.append(driver)
        return driver

    def said(self, driver: subprocess.Popen[bytes]) -> str:
        return (self.work / f"driver-{self.drivers.index(driver)}.log").read_text("utf-8", "replace")

    def run(self, job: str, lab: Path, *arguments: str) -> str:
        """What the driver says; it must end well."""
        status, said = self.end(self.start(job, lab, *arguments))
        assert status == 0, said
        return said

    def end(self, driver: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Wait for the end of a driver: its status, and what it said."""
        try:
            status = driver.wait(WAIT)
        finally:
            driver.kill()
            driver.wait()
        return status, self.said(driver)

    def executors(self) -> set[int]:
        """The virtual machines of executors."""
        found = set()
        for pid in machines(NAME):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in words:
                found.add(pid)
        return found


@pytest.fixture(scope="module")
def cluster(deep: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers of one core each; all of it is ended, and no virtual machine is left."""
    if not deep:
        pytest.skip("--deep runs this")
    for name in ("pyspark", "pyarrow", "venv_pack"):
        if find_spec(name) is None:
            pytest.skip(f"the extras 'spark' and 'test' are not installed (no {name})")
    work = tmp_path_factory.mktemp("cluster")
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    from sowctl.spark.jvm.java import find_java

    home = Path(spec.origin).parent
    java = find_java(os.environ, cache=work / "java")
    common = {"JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(work), MARK: NAME}
    bare = {
        **common,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work),
        "SPARK_HOME": str(home),
        # Spark's shell scripts would say so; its classes look for the directories of a build otherwise.
        "SPARK_SCALA_VERSION": next((home / "jars").glob("spark-core_*.jar")).name.split("_")[1].split("-")[0],
    }
    site = make(work / "environment")
    packed = pack(work / "environment", work / "environment.tar.gz")
    make_older(site)
    older = pack(work / "environment", work / "older.tar.gz")
    # Nothing but the archives is left of it.
    shutil.rmtree(work / "environment")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    driven = {**os.environ, **common, "PYTHONPATH": str(ROOT)}
    made = Cluster(work, f"spark://127.0.0.1:{port}", driven, packed, older, home)
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
    started = [_java(work, bare, "master", *master)]
    try:
        until(lambda: _answers(port), "the master's answer")
        for name in ("one", "two"):
            (work / name).mkdir()
            started.append(_java(work, bare, name, *worker, "--work-dir", str(work / name), made.master))
        until(lambda: all("registered with master" in _said(work, name) for name in ("one", "two")), "two workers")
        yield made
    finally:
        for process in [*made.drivers, *reversed(started)]:
            process.terminate()
        for process in [*made.drivers, *started]:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # Executors end with their worker; one that was asked for while it ended is ended by its number.
        end = time.monotonic() + 20
        while machines(NAME) and time.monotonic() < end:
            time.sleep(0.1)
        left = machines(NAME)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert not left


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _java(work: Path, environment: dict[str, str], name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A master or a worker. Workers remove what ended applications have unpacked."""
    opened = [f"--add-opens={one}=ALL-UNNAMED" for one in OPENED]
    cleanup = ["-Dspark.worker.cleanup.enabled=true", "-Dspark.worker.cleanup.interval=20"]
    command = [f"{environment['JAVA_HOME']}/bin/java", *QUICK.split(), "-Xmx256m", *opened, *cleanup]
    command += ["-Dspark.worker.cleanup.appDataTtl=20", "-cp", f"{environment['SPARK_HOME']}/jars/*"]
    with (work / f"{name}.log").open("wb") as log:
        whole = [*command, f"org.apache.spark.deploy.{kind}", *arguments]
        return subprocess.Popen(whole, cwd=work, env=environment, stdout=log, stderr=log)


def _said(work: Path, name: str) -> str:
    return (work / f"{name}.log").read_text("utf-8", "replace")

"""A standalone cluster on this machine: a master and two workers, each a process with a directory of its own.

Deep only: every driver of a test is a process with a virtual machine, and so is every executor.
"""

from __future__ import annotations

import os
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

from tests.support.processes import MARK, QUICK, machines

ROOT = Path(__file__).parents[3]
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
    """``work`` holds the directories of master and workers; ``environment`` is that of every process."""

    work: Path
    master: str
    environment: dict[str, str]
    drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, job: str, lab: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """A driver that does one job of :mod:`tests.spark.cluster.driver`."""
        command = [sys.executable, "-m", "tests.spark.cluster.driver", self.master, str(lab), job, *arguments]
        log = (self.work / f"driver-{len(self.drivers)}.log").open("wb")
        driver = subprocess.Popen(command, cwd=self.work, env=self.environment, stdout=log, stderr=log)
        log.close()
        self.drivers.append(driver)
        return driver

    def said(self, driver: subprocess.Popen[bytes]) -> str:
        return (self.work / f"driver-{self.drivers.index(driver)}.log").read_text("utf-8", "replace")

    def run(self, job: str, lab: Path, *arguments: str) -> str:
        """What the driver says; it must end well."""
        driver = self.start(job, lab, *arguments)
        try:
            status = driver.wait(WAIT)
        finally:
            driver.kill()
            driver.wait()
        assert status == 0, self.said(driver)
        return self.said(driver)

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
    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            pytest.skip(f"the extra 'spark' is not installed (no {name})")
    work = tmp_path_factory.mktemp("cluster")
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    from sowctl.spark.jvm.java import find_java

    home = Path(spec.origin).parent
    java = find_java(os.environ, cache=work / "java")
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(home),
        # Spark's shell scripts would say so; its classes look for the directories of a build otherwise.
        "SPARK_SCALA_VERSION": next((home / "jars").glob("spark-core_*.jar")).name.split("_")[1].split("-")[0],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(work),
        MARK: NAME,
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Cluster(work, f"spark://127.0.0.1:{port}", environment)
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
    started = [_java(made, "master", *master)]
    try:
        until(lambda: _answers(port), "the master's answer")
        for name in ("one", "two"):
            (work / name).mkdir()
            started.append(_java(made, name, *worker, "--work-dir", str(work / name), made.master))
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


def _java(cluster: Cluster, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = cluster.environment["SPARK_HOME"]
    opened = [f"--add-opens={one}=ALL-UNNAMED" for one in OPENED]
    command = [f"{cluster.environment['JAVA_HOME']}/bin/java", *QUICK.split(), "-Xmx256m", *opened]
    command += ["-cp", f"{home}/jars/*", f"org.apache.spark.deploy.{kind}", *arguments]
    with (cluster.work / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, cwd=cluster.work, env=cluster.environment, stdout=log, stderr=log)


def _said(work: Path, name: str) -> str:
    return (work / f"{name}.log").read_text("utf-8", "replace")

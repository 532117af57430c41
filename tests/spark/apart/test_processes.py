"""The commands in processes with a Java of their own: quiet, interrupted, submitted, and without pyspark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.demo import NOW, ROOT, make_demo
from tests.support.processes import MARK, QUICK, machines


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_demo(tmp_path_factory.mktemp("processes"))


@pytest.fixture
def place(demo: Path, tmp_path: Path) -> Path:
    """A copy of the demo, to be written to."""
    return shutil.copytree(demo, tmp_path / "here")


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SOWCTL")}
    return kept | {"PYTHONPATH": str(ROOT), "SOWCTL_NOW": NOW, "SOWCTL_CONFIG": "sowctl.xml"}


def test_a_process_is_quiet_and_leaves_no_java(place: Path) -> None:
    command = [sys.executable, "-m", "sowctl", "pipeline", "export", "orders", "--output", "o", "--master", "local[1]"]
    command += ["--conf", f"spark.driver.extraJavaOptions={QUICK}"]
    marked = environment() | {MARK: "commands"}
    done = subprocess.run(command, cwd=place, env=marked, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("export orders: ")
    assert not machines("commands")


def test_an_interrupt_ends_java_and_leaves_nothing(place: Path) -> None:
    command = [sys.executable, "-m", "sowctl", "pipeline", "stream", "orders", "--console", "--master", "local[1]"]
    command += ["--conf", f"spark.driver.extraJavaOptions={QUICK}"]
    marked = environment() | {MARK: "commands"}
    running = subprocess.Popen(command, cwd=place, env=marked, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"{")
        running.send_signal(signal.SIGINT)
        running.stdout.close()
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, said.decode()
    assert b"Traceback" not in said
    assert said.strip() == b"interrupted"
    for _ in range(50):
        if not machines("commands"):
            break
        time.sleep(0.1)
    assert not machines("commands")


def test_without_pyspark(demo: Path) -> None:
    hidden = "import sys; sys.modules['pyspark'] = None\nfrom sowctl.cli.main import run\nrun()"
    for job in ("load orders fills.ndjson", "export orders --output x"):
        command = [sys.executable, "-c", hidden, "pipeline", *job.split()]
        done = subprocess.run(command, cwd=demo, env=environment(), capture_output=True, timeout=60)
        assert done.returncode == 12, done.stderr.decode()
        assert b"error[SOW-SPK-001]" in done.stderr
        assert b"sowctl[spark]" in done.stderr


def test_the_line_of_submit_args_runs_as_it_is_printed(place: Path, tmp_path: Path) -> None:
    """In a shell that knows nothing: another directory, no Java, no Python environment, no variable."""
    job = ["submit-args", "--master", "local[1]", "--conf", f"spark.driver.extraJavaOptions={QUICK}"]
    job += ["--", "rebuild", "orders", "--summary", "json"]
    bare = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "sowctl", "pipeline", *job]
    asking = {**bare, "PATH": "", "PYTHONPATH": str(ROOT)}
    told = subprocess.run(command, cwd=place, env=asking, capture_output=True, timeout=60)
    assert told.returncode == 0, told.stderr.decode()
    assert told.stdout.startswith(b"JAVA_HOME=")
    assert b" --config " + bytes(place / "sowctl.xml") in told.stdout
    done = subprocess.run(["/bin/sh", "-c", told.stdout], cwd="/", env=bare, capture_output=True, timeout=180)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])["records"] > 0

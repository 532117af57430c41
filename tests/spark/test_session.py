"""The session: quiet, with our settings, on the Java that the extra brings, gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import SparkSession

import sowctl.spark
from sowctl.errors import MissingPackageError
from sowctl.spark.jvm.java import find_java
from sowctl.spark.jvm.masters import is_local
from sowctl.spark.sessions import QUICK_COMPILE_FLAG, build_settings, open_session, require_pyspark
from tests.support.instances import Lab

# a whole life of a session in a process of its own: with the wheel's Java, quiet, and without anything left
PROGRAM = """
import os, sys, time
import sowctl.spark
environment = {"PATH": "", "HOME": os.environ["HOME"], "TMPDIR": os.environ["TMPDIR"]}
with sowctl.spark.session("local[1]", environment=environment, conf={"spark.driver.memory": "512m"}) as spark:
    print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"), spark.range(3).count(), flush=True)
    from pyspark import SparkContext
    for wrong in ("SELECT 1 / 0", "SELECT nothing FROM nowhere"):
        try:
            spark.sql(wrong).collect()
        except Exception:
            pass
    print(SparkContext._gateway.proc.pid, flush=True)
    if len(sys.argv) > 1:
        time.sleep(60)
"""


def gone(pid: int) -> bool:
    """Whether a process has ended, soon."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_a_short_session_compiles_quickly_unless_told_otherwise(tmp_path: Path) -> None:
    name = "spark.driver.extraJavaOptions"
    given = {name: "-XX:TieredStopAtLevel=4"}
    short = build_settings("local[2]", tmp_path, given, app="a", verbose=False, short=True)[name].split()
    assert [one for one in short if "Tiered" in one] == [QUICK_COMPILE_FLAG, given[name]]  # Java takes the last one
    assert QUICK_COMPILE_FLAG not in build_settings("local[2]", tmp_path, {}, app="a", verbose=False)[name]
    assert (
        QUICK_COMPILE_FLAG
        not in build_settings("spark://h:7077", tmp_path, {}, app="a", verbose=False, short=True)[name]
    )


def test_what_is_given_wins_over_our_settings(tmp_path: Path) -> None:
    given = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.driver.extraJavaOptions": "-Dx=1"}
    made = build_settings("local[2]", tmp_path, given, app="a", verbose=False)
    assert made["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert made["spark.driver.extraJavaOptions"].endswith(" -Dx=1")
    assert "log4j2.properties" in made["spark.driver.extraJavaOptions"]
    assert "spark.driver.host" not in build_settings("spark://h:7077", tmp_path, {}, app="a", verbose=False)
    assert is_local("local") and is_local("local[*]") and not is_local("yarn")


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"\bpyspark\b") as caught:
        require_pyspark()
    assert caught.value.code == "SOW-SPK-001" and str(caught.value.hint).endswith("'sowctl[spark]'")


def test_a_session_that_exists_is_joined_and_left_running(spark: SparkSession) -> None:
    with open_session("local[1]", environment=os.environ) as joined:
        assert joined.sparkContext is spark.sparkContext
    assert spark.range(2).count() == 2
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master.startswith("local[2")


def test_a_session_needs_no_word(spark: SparkSession) -> None:
    with sowctl.spark.session() as joined:
        assert joined.sparkContext is spark.sparkContext
    one = sowctl.spark.session("local[1]", conf={"spark.sql.session.timeZone": "UTC"})
    assert one.start() is one.start()
    one.stop()
    one.stop()
    assert spark.read.format("sow-journal") is not None and spark.range(2).count() == 2


def test_the_wheels_java_runs_a_session_and_an_interrupt_leaves_no_machine(tmp_path: Path, deep: bool) -> None:
    if not deep:
        pytest.skip("Java machines of its own: with --deep; test_commands interrupts one that the machine has")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "wait"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            home, count = process.stdout.readline().rsplit(None, 1)
            machine = int(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
            process.wait(60)
        finally:
            process.kill()
    assert (Path(home), count) == (find_java({"PATH": "", "TMPDIR": str(tmp_path)}).runtime, "3")
    assert said.strip().endswith("KeyboardInterrupt") and "WARN" not in said
    assert "ContextLogger" not in said and '"level"' not in said
    assert gone(machine)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("sowctl-spark-")] == []


def test_a_session_of_ones_own_runs_our_processes_by_this_python(
    stocked: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an environment is not activated: the python3 of PATH has no sowctl."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python3")
    sowctl.spark.register(spark)
    assert spark.sparkContext.pythonExec == "/nowhere/python3"  # what the user's own functions run by
    assert spark.read.format("sow").options(config=str(stocked.config), topic="past").load().count() > 0
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python3")
    sowctl.spark.register(spark)
    with pytest.raises(Exception, match="/nowhere/python3"):
        spark.read.format("sow").options(config=str(stocked.config), topic="orders").load()
    monkeypatch.undo()
    sowctl.spark.register(spark)


WARNED = """
import pandas, sys
pandas.__version__ = "3.0.1"
if sys.argv[1] == "session":
    from sowctl.errors import UsageError
    from sowctl.spark.sessions import open_session
    try:
        with open_session(environment={}, packed="no-such-environment"):
            pass
    except UsageError as error:
        assert error.code == "SOW-SPK-135"
import pyspark.testing.utils
"""


@pytest.mark.parametrize("opened", [False, True])
def test_pyspark_does_not_warn_of_pandas(opened: bool) -> None:
    """It imports this module when the first argument is handed to Java; no data frame of pandas is used here."""
    pytest.importorskip("pandas")
    words = [sys.executable, "-c", WARNED, "session" if opened else "none"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert (said.returncode, "FutureWarning" in said.stderr) == (0, not opened), said.stderr


FORGOTTEN = """
from contextlib import contextmanager
import sowctl.spark.sessions as sessions

@contextmanager
def open_nothing(*words, **options):
    try:
        yield "spark"
    finally:
        import colorsys
        print("ended")

sessions.open_session = open_nothing
spark = sessions.Session("local", environment={}).start()
print(spark)
"""


def test_a_session_that_nobody_stops_ends_with_the_program() -> None:
    done = subprocess.run([sys.executable, "-c", FORGOTTEN], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["spark", "ended"], "", 0)

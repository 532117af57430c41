"""The notebook of sowctl-spark(7) and the sample script, on the demo instance; the page itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import SparkSession

from sowctl import open as open_instance
from sowctl.spark import schema, sources
from sowctl.spark.jvm.java import find_java
from tests.support.processes import QUICK

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "man" / "sowctl-spark.7"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A demo instance."""
    command = [sys.executable, "-m", "sowctl", "demo", str(tmp_path / "demo")]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=120)
    return tmp_path / "demo"


def notebook() -> list[str]:
    """The cells of the example."""
    section = PAGE.read_text().split(".SH EXAMPLE")[1].split(".SH ")[0]
    return [cell.replace("\\-", "-") for cell in re.findall(r"\.EX\n(.*?)\.EE", section, re.DOTALL)]


def test_the_notebook_does_what_it_says(
    demo: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(demo)
    names: dict[str, object] = {}
    for cell in notebook():
        # Spark's processes were started elsewhere: paths of the notebook count from where it runs
        absolute = re.sub(r'"(sowctl\.xml|orders\.\w+)"', lambda match: f'"{demo / match[1]}"', cell)
        exec(absolute, names)
    topic = open_instance(str(demo / "sowctl.xml")).topic("orders")
    payloads = [json.loads(record.payload) for record in topic.query().records()]
    assert payloads and all(message["audited"] is True for message in payloads if message["qty"] > 0)
    assert "publish" in capsys.readouterr().out
    assert spark.read.parquet(str(demo / "orders.parquet")).count() > len(payloads)


def test_the_sample_runs_under_spark_submit(demo: Path, deep: bool) -> None:
    if not deep:
        pytest.skip("two Java machines: with --deep; test_commands runs the line of submit-args")
    place = find_spec("pyspark")
    assert place is not None and place.origin is not None
    submit = Path(place.origin).parent / "bin" / "spark-submit"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")},
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    options = ["--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false"]
    options += ["--conf", "spark.sql.shuffle.partitions=2", "--driver-java-options", QUICK]
    script = [str(ROOT / "samples" / "orders_on_spark.py"), str(demo / "sowctl.xml"), str(demo / "out.parquet")]
    done = subprocess.run([submit, *options, *script], env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    topic = open_instance(str(demo / "sowctl.xml")).topic("orders")
    expected = Counter(json.loads(record.payload)["symbol"] for record in topic.query("/qty > 0").records())
    assert {row["symbol"]: row["orders"] for row in found} == expected
    assert all(row["changes"] >= row["orders"] and row["value"] > 0 for row in found)


def test_the_page_names_every_option_and_column() -> None:
    text = PAGE.read_text().replace("\\-", "-")
    known = {*sources.STORE_OPTIONS, *sources.JOURNAL_OPTIONS, *sources.STREAM_OPTIONS, *sources.WRITE_OPTIONS}
    assert [name for name in sorted(known) if name not in text] == []
    assert [name for name in (*schema.STORE_COLUMNS, *schema.JOURNAL_COLUMNS) if name not in text] == []


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_clean() -> None:
    done = subprocess.run(["groff", "-t", "-man", "-Tascii", "-ww", PAGE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

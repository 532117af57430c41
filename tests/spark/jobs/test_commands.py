"""The commands, in one session: every example, statuses, moments; and the line of submit-args."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sowctl.cli.main import main
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS, PIPELINE_GROUP
from sowctl.spark.jvm.java import find_java
from tests.support.demo import NOW, make_demo
from tests.support.instances import Lab, config_xml, message, topic_xml

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = [
    line
    for command in COMMANDS
    if command.group == PIPELINE_GROUP and "submit" not in command.name
    for line in load_command(command).examples
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_demo(tmp_path_factory.mktemp("pipeline"))
    (place / "day.csv").write_text("orderId,qty,status\n1,10,new\n2,,new\n")
    (place / "lake" / "day=2026-01-01").mkdir(parents=True)
    shutil.copy(place / "day.csv", place / "lake" / "day=2026-01-01" / "part-0.csv")
    (place / "bad.ndjson.in").write_text('{"orderId":1}\nnonsense\n')
    return place


def here(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = shutil.copytree(demo, tmp_path / "here")
    monkeypatch.chdir(place)
    return place


def call(line: str) -> tuple[int, bytes, str]:
    out, err = io.BytesIO(), io.BytesIO()
    environ = {**os.environ, "SOWCTL_CONFIG": "sowctl.xml", "SOWCTL_NOW": NOW}
    status = main(shlex.split(line)[1:], environ=environ, stdin=io.BytesIO(), stdout=out, stderr=err)
    return status, out.getvalue(), err.getvalue().decode()


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_does_what_it_says(
    spark: SparkSession, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    place = here(demo, tmp_path, monkeypatch)
    status, out, said = call(line + " --summary json")
    assert status == 0, said
    report = json.loads(out.splitlines()[-1])
    assert report["records"] > 0
    assert report["seconds"] > 0
    assert not list(place.rglob("*.staging"))


def test_statuses_of_one_process_each(
    spark: SparkSession, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = here(demo, tmp_path, monkeypatch)
    bad = "sowctl pipeline load orders bad.ndjson.in --input-format ndjson"
    status, _, said = call(bad)
    assert (status, "Nothing was published" in said) == (3, True)
    status, _, said = call(bad + " --on-error skip --rejects bad")
    assert (status, len((place / "bad").read_text().splitlines())) == (3, 1)
    assert "1 record, 1 rejected" in said
    for line, expected in (
        ("load orders nothing.ndjson", 10),
        ("load orders bad.ndjson.in", 2),
        ("load nobody fills.ndjson", 10),
        ("rebuild --until 5", 2),
        ("snapshot orders --output sow", 8),
        ("snapshot orders --at 2020-01-01T00:00:00Z --output x", 0),
        ("snapshot orders --at 99999 --output y", 10),
        ("snapshot orders --at nonsense --output y", 2),
        ("view orders --output z", 2),
        ("export --from 5 --output z", 2),
        ("export orders --output z --conf nonsense", 2),
        ("stream orders --output z", 2),
        ("stream orders --console --latest --from-state", 2),
        ("stream --console --from-state", 2),
        ("load orders fills.ndjson --reader a", 2),
    ):
        status, _, said = call(f"sowctl pipeline {line}")
        assert status == expected, (line, said)
        assert "Traceback" not in said


@pytest.mark.parametrize("at", ["5", "3000", "EPOCH", "0|1|", "2026-01-05T10:00:00Z"])
def test_a_snapshot_is_of_the_same_moment_as_a_query(
    spark: SparkSession, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    place = here(demo, tmp_path, monkeypatch)
    status, _, said = call(f"sowctl pipeline snapshot orders --at '{at}' --output then --output-format ndjson")
    assert status == 0, said
    status, wanted, said = call(f"sowctl query orders --at '{at}' --format ndjson")
    assert status == 0, said
    found = [line for file in sorted((place / "then").glob("part-*")) for line in file.read_bytes().splitlines()]
    assert sorted(found) == sorted(wanted.splitlines())


def test_submit_args(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOWCTL_CONFIG", raising=False)
    status, out, _ = call("sowctl pipeline submit-args --master yarn --conf a=b -- rebuild orders --staging /shared")
    assert status == 0
    words = shlex.split(out.decode())
    assert words[0] == f"JAVA_HOME={find_java(os.environ).home}"
    while "=" in words[0]:
        words.pop(0)
    assert words[0].endswith("spark-submit")
    assert words[1:5] == ["--master", "yarn", "--deploy-mode", "client"]
    assert words[words.index("--py-files") + 1] == str(tmp_path / "sowctl.zip")
    assert words[-5:] == ["pipeline", "rebuild", "orders", "--staging", "/shared"]
    script = words[words.index("--py-files") + 2]
    assert Path(script).is_file()
    probe = [sys.executable, "-c", "import sowctl.engine.bulk.commit, sowctl; print(sowctl.__file__)"]
    done = subprocess.run(probe, env={"PYTHONPATH": str(tmp_path / "sowctl.zip")}, cwd="/", capture_output=True)
    assert b"sowctl.zip" in done.stdout, done.stderr.decode()
    assert call("sowctl pipeline submit-args nothing")[0] == 2


def test_a_rebuild_without_the_oldest_files_warns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)), journal_size=1500)
    for number in range(20):
        lab.publish("t", message(id=number, text="x" * 40))
    monkeypatch.chdir(tmp_path)
    lab.forget("t")
    whole, _, said = call("sowctl pipeline rebuild t --quiet")
    assert (whole, said) == (0, "")
    lab.journals()[0].unlink()
    lab.forget("t")
    status, _, said = call("sowctl pipeline rebuild t --quiet")
    assert (status, "warning: topic 't': the rebuilt store is incomplete" in said) == (0, True)

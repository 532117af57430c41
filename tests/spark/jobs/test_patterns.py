"""Topics of many names and topics without stores: every job takes what is meant, and says which record is whose."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sowctl.cli.main import main
from sowctl.errors import UsageError
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.view import AdHocView, view
from sowctl.values.times import format_time
from tests.spark.jobs.test_outputs import read_lines
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

XML = config_xml(topic_xml("all", "<Pattern>^/[a-z]</Pattern>") + topic_xml("plain"), ("all", "plain", "events"))
LATER = START + 5_000_000


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Two logical topics with equal keys, and a topic that only the transaction log names."""
    monkeypatch.setattr(JOB_LIMITS, "records_per_part", 5)
    monkeypatch.setattr(JOB_LIMITS, "min_task_bytes", 1)
    monkeypatch.setattr(JOB_LIMITS, "part_bytes", 400)
    made = Lab(tmp_path / "lab", XML)
    for step in range(2):
        for topic in ("/a", "/b", "events", "plain"):
            rows = [message(id=n % 8, step=step, of=topic) for n in range(10)]
            out = call(made, f"publish {topic}", "\n".join(rows).encode())
            assert out == b""
        made.clock.tick(10)
    return made


def call(lab: Lab, line: str, stdin: bytes = b"") -> bytes:
    """What a command prints, in the lab's directory and at its time."""
    out, err = io.BytesIO(), io.BytesIO()
    environ = {"SOWCTL_CONFIG": str(lab.config), "SOWCTL_NOW": format_time(lab.clock.at)}
    status = main(shlex.split(line), environ=environ, stdin=io.BytesIO(stdin), stdout=out, stderr=err)
    assert status == 0, err.getvalue().decode()
    return out.getvalue()


def lines(text: bytes) -> list[str]:
    return sorted(text.decode().splitlines())


@pytest.mark.parametrize("topic", ["/a", "all"])
def test_records_of_a_logical_topic(spark: SparkSession, lab: Lab, tmp_path: Path, topic: str) -> None:
    with verified(lab):
        call(lab, f"pipeline export {topic} --output {tmp_path}/now --output-format ndjson --meta")
        assert sorted(read_lines(tmp_path / "now")) == lines(call(lab, f"query {topic} --meta --format ndjson"))
        at = format_time(LATER)
        call(lab, f"pipeline snapshot {topic} --at {at} --output {tmp_path}/then --output-format ndjson")
        assert sorted(read_lines(tmp_path / "then")) == lines(call(lab, f"query {topic} --at {at} --format ndjson"))
        assert len(read_lines(tmp_path / "then")) == (8 if topic == "/a" else 16)
        call(lab, f"pipeline snapshot {topic} --output {tmp_path}/now.sow")
        assert lines(call(lab, f"query {tmp_path}/now.sow")) == lines(call(lab, f"query {topic} --format ndjson"))
        call(lab, f"pipeline export {topic} --output {tmp_path}/p")
        for row in spark.read.parquet(str(tmp_path / "p")).collect():
            assert (row["_topic"], row["_logical_topic"]) == ("all", json.loads(bytes(row["payload"]))["of"])


def test_a_rebuild_keeps_names_and_passes_over_what_has_no_key(spark: SparkSession, lab: Lab) -> None:
    with verified(lab):
        before = {topic: lab.digest(topic) for topic in ("all", "plain")}
        for topic in before:
            lab.forget(topic)
        call(lab, "pipeline rebuild")
        assert {topic: lab.digest(topic) for topic in before} == before
        assert len(lab.query("/a")) == len(lab.query("/b")) == 8


@pytest.mark.parametrize("topic_names", ["", "/a", "events", "/a events", "all plain"])
def test_entries(spark: SparkSession, lab: Lab, tmp_path: Path, topic_names: str) -> None:
    named = [line for name in topic_names.split() or [""] for line in call(lab, dumped(name)).decode().splitlines()]
    call(lab, f"pipeline export {topic_names} --journal --output {tmp_path}/n --output-format ndjson")
    assert sorted(read_lines(tmp_path / "n")) == sorted(named)
    call(lab, f"pipeline export {topic_names} --journal --output {tmp_path}/p")
    rows = spark.read.parquet(str(tmp_path / "p")).collect()
    assert len(rows) == len(named)
    for row in rows:
        name = json.loads(bytes(row["payload"]))["of"]
        assert (row["_topic"], row["_logical_topic"]) == (("all", name) if name in ("/a", "/b") else (name, None))
        assert (row["_sow_key"] is None) == (name == "events")


def dumped(name: str) -> str:
    return f"journal dump --topic {name} --format ndjson" if name else "journal dump --format ndjson"


@pytest.mark.parametrize("topic", ["/a", "events"])
def test_streams(spark: SparkSession, lab: Lab, tmp_path: Path, topic: str) -> None:
    shown = call(lab, f"pipeline stream {topic} --console --available-now")
    wanted = [json.loads(line)["data"] for line in call(lab, dumped(topic)).splitlines()]
    assert [json.loads(line) for line in shown.splitlines()] == wanted
    place = f"--output {tmp_path}/s --checkpoint {tmp_path}/c"
    told = json.loads(call(lab, f"pipeline stream {topic} {place} --available-now --summary json"))
    assert (told["records"], told["bytes"]) == (20, len(shown) - 20)
    found = spark.read.parquet(str(tmp_path / "s")).orderBy("_txid").collect()
    assert [json.loads(bytes(row["payload"])) for row in found] == wanted
    again = json.loads(call(lab, f"pipeline stream {topic} {place} --available-now --summary json"))
    assert (again["records"], again["bytes"]) == (0, 0)


def test_the_data_sources(spark: SparkSession, lab: Lab) -> None:
    given = {"config": str(lab.config), "now": format_time(lab.clock.at)}
    for extra in ({}, {"numPartitions": "3"}, {"at": format_time(LATER)}):
        frame = spark.read.format("sow").options(**given, **extra, topic="/a", columns="payload,_logical_topic").load()
        assert sorted(row["_logical_topic"] for row in frame.collect()) == ["/a"] * 8
    frame = spark.read.format("sow-journal").options(**given, columns="_topic,_sow_key,_logical_topic").load()
    assert frame.where("_sow_key IS NULL").select("_topic").distinct().collect() == [("events",)]
    assert frame.where("_logical_topic = '/b'").count() == 20


def test_a_view_is_over_a_whole_topic(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    output = Output(str(tmp_path / "v"), "ndjson")
    with pytest.raises(UsageError) as caught:
        view(spark, lab.open(), AdHocView("/a", ("/id",), ("/id",)), output)
    assert caught.value.code == "SOW-SPK-069"
    view(spark, lab.open(), AdHocView("all", ("/id, COUNT(/of) AS /n",), ("/id",)), output)
    assert {json.loads(line)["n"] for line in read_lines(tmp_path / "v")} == {2}

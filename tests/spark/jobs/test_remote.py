"""Data sets, stores and inputs at URLs: the same as in a directory of this machine."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from sowctl.errors import ConfigError, MissingError, RefusedError
from sowctl.spark.jobs import visibility
from sowctl.spark.jobs.export import ExportSelection, export, export_journal
from sowctl.spark.jobs.load import LoadOptions, load
from sowctl.spark.jobs.outputs.delivery import hadoop_supports
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.snapshot import snapshot
from tests.spark.test_remote import with_key
from tests.support.instances import Lab, message
from tests.support.objectstore import ObjectStore, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def shore(spark: SparkSession) -> Iterator[ObjectStore]:
    with serving() as store:
        yield store


def topic_of(lab: Lab, name: str):  # type: ignore[no-untyped-def]
    instance = lab.open()
    return instance, next(one for one in instance.config.topics if one.name == name)


def test_hadoop_knows_its_own_schemes(spark: SparkSession) -> None:
    assert hadoop_supports(spark, "file:///x") and hadoop_supports(spark, "hdfs://a/x")
    assert not hadoop_supports(spark, "s3://a/x") and not hadoop_supports(spark, "nothing://a/x")


def test_data_sets_and_stores(spark: SparkSession, stocked: Lab, shore: ObjectStore, tmp_path: Path) -> None:
    instance, topic = topic_of(stocked, "orders")
    here = Output(str(tmp_path / "here"), "ndjson", meta=True)
    there = replace(here, path=with_key(shore, "out/orders"))
    made = export(spark, instance, [topic], here), export(spark, instance, [topic], there)
    assert made[0].records == made[1].records > 0
    files = sorted(path for path in (tmp_path / "here").iterdir() if path.name[0] not in "._")
    # besides them there is a mark of the directory
    sent = [name for name in shore.names("out/orders/") if name[:1] not in ("", ".", "_")]
    lines = b"".join(path.read_bytes() for path in files)
    assert b"".join(shore.objects["lake/out/orders/" + name] for name in sent) == lines
    # the mark of a whole data set came last
    written = [key for method, key in shore.requests if method in ("PUT", "POST") and "out/orders/" in key]
    assert written[-1] == "lake/out/orders/_SUCCESS"
    with pytest.raises(RefusedError) as caught:
        export(spark, instance, [topic], there)
    assert caught.value.code == "SOW-SPK-064" and "secret" not in str(caught.value)
    store = Output(with_key(shore, "out/orders.sow"))
    report = snapshot(spark, instance, topic, None, store)
    assert store.kind == "sow" and report.records == made[0].records
    (tmp_path / "copy.sow").write_bytes(shore.objects["lake/out/orders.sow"])
    frame = spark.read.format("sow").load(str(tmp_path / "copy.sow"))
    assert frame.count() == report.records
    assert not list(Path(instance.log.directory).parent.glob("**/sowctl-output-*"))


def test_entries_by_directories(spark: SparkSession, stocked: Lab, shore: ObjectStore) -> None:
    instance, _ = topic_of(stocked, "orders")
    output = Output(with_key(shore, "entries"), "parquet", partition_by=("_topic",), force=True)
    for _ in range(2):
        report = export_journal(spark, instance, ExportSelection(to_txid=200), output)
    assert report.records == 200
    assert {name.partition("/")[0] for name in shore.names("entries/")} >= {"_topic=orders", "_topic=past", "_SUCCESS"}
    fs = pytest.importorskip("pyarrow.fs")
    system, path = fs.FileSystem.from_uri(with_key(shore, "entries"))
    dataset = pytest.importorskip("pyarrow.dataset").dataset(
        path, filesystem=system, partitioning="hive", ignore_prefixes=["_S"]
    )
    assert dataset.count_rows() == 200


def test_loads(spark: SparkSession, lab: Lab, shore: ObjectStore, tmp_path: Path) -> None:
    rows = [message(id=number, price=number / 4) for number in range(300)]
    for part in range(3):
        shore.objects[f"lake/in/day={part}/rows.ndjson"] = b"".join(row.encode() + b"\n" for row in rows[part::3])
    instance, topic = topic_of(lab, "orders")
    report = load(spark, instance, topic, [with_key(shore, "in/*/rows.ndjson")], LoadOptions(split_bytes=1000))
    assert (report.read, report.records) == (300, 300) and report.partitions > 6
    assert sorted(json.loads(row)["id"] for row in lab.query("orders")) == list(range(300))
    assert "secret" not in str(report.details)
    frame = spark.createDataFrame([(number, "x") for number in range(40)], "id BIGINT, name STRING")
    frame.repartition(2).write.parquet(str(tmp_path / "frame"))
    for path in (tmp_path / "frame").glob("part-*"):
        shore.objects["lake/in/frame/" + path.name] = path.read_bytes()
    report = load(spark, instance, topic, [with_key(shore, "in/frame")])
    assert report.records == 40
    assert sum('"name"' in row for row in lab.query("orders")) == 40
    with pytest.raises(MissingError) as caught:
        load(spark, instance, topic, [with_key(shore, "in/nothing")])
    assert caught.value.code == "SOW-SPK-040" and "secret" not in str(caught.value)


def test_a_job_begins_where_executors_see_the_files(
    spark: SparkSession, stocked: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, topic = topic_of(stocked, "orders")
    output = Output(str(tmp_path / "out"), "ndjson")
    # as on a cluster, whose executors see the same files here
    monkeypatch.setattr(visibility, "is_local", lambda master: False)
    assert export(spark, instance, [topic], output).records > 0
    monkeypatch.setattr(
        visibility, "list_probes", lambda *_: [visibility.Probe("a store", tmp_path / "elsewhere.sow", 0, "")]
    )
    with pytest.raises(ConfigError) as caught:
        export(spark, instance, [topic], replace(output, path=str(tmp_path / "more")))
    assert caught.value.code == "SOW-SPK-141" and socket.gethostname() in caught.value.message
    assert caught.value.place == str(tmp_path / "elsewhere.sow") and not (tmp_path / "more").exists()
    # with a local master nothing is looked at
    monkeypatch.undo()
    monkeypatch.setattr(visibility, "list_probes", lambda *_: pytest.fail("looked"))
    visibility.require_visibility(spark, instance)

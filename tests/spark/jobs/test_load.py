"""load: files of every format become what a publish of the same messages in their order makes of them."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from sowctl.engine.options import PublishOptions
from sowctl.errors import InputError, MissingError, UsageError
from sowctl.spark.jobs.inputs import expand_paths, read_lines, split_files
from sowctl.spark.jobs.load import DEFAULT_OPTIONS, load
from tests.support.instances import Lab, config_xml, message, topic_xml, verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

XML = config_xml(topic_xml("log") + topic_xml("alone"), ("log",))
SKIP = replace(DEFAULT_OPTIONS, publish=PublishOptions(on_error="skip"))


def report(spark: SparkSession, lab: Lab, topic: str, *paths: Path | str, **options: Any) -> Any:
    instance = lab.open()
    chosen = replace(DEFAULT_OPTIONS, **options)
    return load(spark, instance, instance.topic(topic).config, [str(path) for path in paths], chosen)


def rows(count: int, first: int = 0) -> list[str]:
    return [message(id=n % 37, v=n, pad="ä" * (n % 5)) for n in range(first, first + count)]


@pytest.mark.parametrize("topic", ["log", "alone"])
def test_lines_equal_a_publish(spark: SparkSession, tmp_path: Path, topic: str) -> None:
    texts = rows(150), rows(90, 1000)
    for number, part in enumerate(texts):
        (tmp_path / f"in{number}.ndjson").write_text("\n".join(part) + ("\n" if number else "\n\n"))
    with verified(Lab(tmp_path / "one", XML)) as bulk, verified(Lab(tmp_path / "two", XML)) as plain:
        bulk.publish(topic, message(id=1, v="before"))
        plain.publish(topic, message(id=1, v="before"))
        told = report(spark, bulk, topic, tmp_path / "in*.ndjson", split_bytes=1000)
        plain.publish(topic, *texts[0], *texts[1])
        assert bulk.digest(topic) == plain.digest(topic)
        assert (told.records, told.read, told.rejected) == (240, 240, 0)
        assert told.details["commit"]["blank"] == 1
        assert told.partitions > 4
        assert not list(bulk.directory.rglob("*.staging*"))


def test_every_line_belongs_to_one_split(tmp_path: Path) -> None:
    """Line breaks, blank lines, CRs and byte order marks at every distance from the cuts."""
    path = tmp_path / "a.ndjson"
    for data in (b"", b"\n", b"{}", b"a\nbb\n\nccc\r\n\n", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", b"long" * 10 + b"\nx\n"):
        path.write_bytes(data)
        whole = [found for split in split_files([str(path)], 1 << 20) for found in read_lines(split)]
        wanted = [message for part in whole for message in zip(part.payloads, part.offsets, strict=True)]
        at = [line for part in whole for line in part.lines]
        for size in range(1, len(data) + 2):
            parts = [found for split in split_files([str(path)], size) for found in read_lines(split)]
            found = [m for part in parts for m in zip(part.payloads, part.offsets, strict=True)]
            assert found == wanted, (data, size)
            assert sum(part.blank for part in parts) == sum(part.blank for part in whole)
            lines, before = [], 0
            for split in split_files([str(path)], size):
                for part in read_lines(split):
                    lines += [before + line for line in part.lines]
                before += sum(len(part.payloads) + part.blank + len(part.refused) for part in read_lines(split))
            assert lines == at, (data, size)


@pytest.mark.parametrize("kind", ["csv", "parquet", "orc"])
def test_rows_become_messages(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    data = [(n % 20, n, f"name {n}" if n % 3 else None) for n in range(100)]
    frame = spark.createDataFrame(data, "id int, v int, name string").repartition(3).sortWithinPartitions("v")
    frame.write.mode("overwrite").options(header=True).format(kind).save(str(tmp_path / "data"))
    options = {"reader": {"inferSchema": "true"}} if kind == "csv" else {}
    files = sorted((tmp_path / "data").glob(f"*.{kind}"))
    with verified(Lab(tmp_path / "one", XML)) as bulk, verified(Lab(tmp_path / "two", XML)) as plain:
        told = report(spark, bulk, "log", *[f"{tmp_path}/data/*.{kind}"], format=kind, **options)
        assert (told.records, told.rejected) == (100, 0)
        order = [
            row.v
            for file in files
            for row in spark.read.options(header=True, inferSchema=True).format(kind).load(str(file)).collect()
        ]
        texts = [
            json.dumps({k: v for k, v in zip(("id", "v", "name"), data[n], strict=True) if v is not None})
            for n in order
        ]
        plain.publish("log", *[text.replace(": ", ":").replace(", ", ",") for text in texts])
        assert bulk.digest("log") == plain.digest("log")


def test_a_column_payload_is_the_message(spark: SparkSession, tmp_path: Path) -> None:
    texts = ['{"id":1, "odd" : 1.0}', '{"id":2}', None]
    spark.createDataFrame([(t,) for t in texts], "payload string").coalesce(1).write.parquet(str(tmp_path / "p"))
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        told = report(spark, lab, "alone", tmp_path / "p", publish=PublishOptions(on_error="skip"))
        assert (told.records, told.rejected) == (2, 1)
        assert sorted(lab.query("alone")) == sorted(texts[:2])  # type: ignore[type-var]


def test_rows_with_values_that_no_message_can_hold(spark: SparkSession, tmp_path: Path) -> None:
    day = "CASE WHEN id % 2 = 0 THEN date'2026-01-02' ELSE date'+12026-01-02' END"
    spark.range(4).selectExpr("id", f"map('on', {day}) AS days").coalesce(1).write.parquet(str(tmp_path / "p"))
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        rejects = tmp_path / "bad.ndjson"
        told = report(spark, lab, "alone", tmp_path / "p", publish=SKIP.publish, rejects=str(rejects))
        assert (told.records, told.rejected) == (2, 2)
        assert sorted(lab.query("alone")) == [message(id=n, days={"on": "2026-01-02"}) for n in (0, 2)]
        kept = [json.loads(line) for line in rejects.read_text().splitlines()]
        assert [(row["code"], "column days/on" in row["error"]) for row in kept] == [("SOW-SPK-045", True)] * 2


def test_bad_lines(spark: SparkSession, tmp_path: Path) -> None:
    lines = [message(id=1), "{bad", message(id=2), '{"x":1}']
    (tmp_path / "in.ndjson").write_text("\n".join(lines))
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        with pytest.raises(InputError, match="Nothing was published") as caught:
            report(spark, lab, "log", tmp_path / "in.ndjson")
        assert caught.value.place == f"{tmp_path}/in.ndjson:2"
        assert not lab.journals()
        rejects = tmp_path / "bad.ndjson"
        told = report(
            spark, lab, "log", tmp_path / "in.ndjson", publish=SKIP.publish, rejects=str(rejects), split_bytes=10
        )
        assert (told.records, told.rejected) == (2, 2)
        kept = [json.loads(line) for line in rejects.read_text().splitlines()]
        assert [(row["line"], row["byte"], row["input"]) for row in kept] == [
            (2, 9, lines[1]),
            (4, 23, lines[3]),
        ]
        assert not list(lab.directory.rglob("*.staging*"))


def test_a_load_with_a_number_is_done_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.ndjson").write_text("\n".join(rows(20)))
    named = PublishOptions(client="loader", sequence=4)
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        assert report(spark, lab, "log", tmp_path / "in.ndjson", publish=named).records == 20
        lab.forget("log")
        assert report(spark, lab, "log", tmp_path / "in.ndjson", publish=named).records == 0
        with pytest.raises(UsageError):
            report(spark, lab, "log", tmp_path / "in.ndjson", publish=PublishOptions(client="loader"))


def test_deltas_and_deletions(spark: SparkSession, tmp_path: Path) -> None:
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        lab.publish("log", message(id=1, a=1), message(id=2, a=1))
        (tmp_path / "d.ndjson").write_text(message(id=1, b=2) + "\n" + message(id=3, b=2))
        assert report(spark, lab, "log", tmp_path / "d.ndjson", operation="delta").records == 2
        assert sorted(lab.query("log")) == [message(id=1, a=1, b=2), message(id=2, a=1), message(id=3, b=2)]
        (tmp_path / "x.ndjson").write_text(message(id=1) + "\n" + message(id=9))
        told = report(spark, lab, "log", tmp_path / "x.ndjson", operation="delete")
        assert told.details["commit"]["deleted"] == 1
        assert sorted(lab.query("log")) == [message(id=2, a=1), message(id=3, b=2)]


def test_paths(tmp_path: Path) -> None:
    for name in ("b.ndjson", "a.ndjson", "_SUCCESS", ".hidden"):
        (tmp_path / name).touch()
    assert expand_paths([str(tmp_path)]) == [f"{tmp_path}/a.ndjson", f"{tmp_path}/b.ndjson"]
    assert expand_paths([f"file:{tmp_path}/b*", "s3a://x/y"]) == [f"{tmp_path}/b.ndjson", "s3a://x/y"]
    with pytest.raises(MissingError):
        expand_paths([f"{tmp_path}/c*"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_several_files_by_every_way_to_write_a_path(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their order is that in which they are given, or by name, however their paths are written."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    data = tmp_path / "lake é"
    (tmp_path / "other" / "deep").mkdir(parents=True)
    data.mkdir()
    names = [f"{name}.{kind}" for name in ("a b", "b#c", "c%20d", "d?e", "é")]
    for number, name in enumerate(names):
        table = pa.table({"id": [1, 10 + number], "v": [number, number]})
        if kind == "csv":
            csv.write_csv(table, data / name)
        else:
            parquet.write_table(table, data / name)
    (tmp_path / "other" / "link").symlink_to(data)
    monkeypatch.chdir(tmp_path / "other")
    # Behind a link, ".." is the directory that the link leads to.
    (tmp_path / "link").symlink_to(tmp_path / "other" / "deep")
    ways = ("../lake é", "link", "link/../lake é", "../other/deep/../../lake é", f"{tmp_path}/link/../link")
    for number, way in enumerate(ways):
        with verified(Lab(tmp_path / f"lab{number}", XML)) as lab:
            told = report(spark, lab, "log", f"{way}/*.{kind}" if number % 2 else way)
            assert told.records == 2 * len(names), way
            # The last file by name was published last.
            assert lab.query("log")[0].replace('"', "") == "{id:1,v:4}", way
    with verified(Lab(tmp_path / "backwards", XML)) as lab:
        report(spark, lab, "log", *[f"../lake é/{name}" for name in reversed(names) if "?" not in name])
        assert lab.query("log")[0].replace('"', "") == "{id:1,v:0}"
    with verified(Lab(tmp_path / "twice", XML)) as lab, pytest.raises(UsageError) as caught:
        report(spark, lab, "log", f"../lake é/{names[0]}", f"link/{names[0]}")
    assert caught.value.code == "SOW-SPK-049"


def test_files_of_a_directory_come_in_a_stable_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "day=9/b",
        "day=10/a",
        "day=9/a",
        "day=9/_SUCCESS",
        "day=9/.a.crc",
        "_temporary/x",
        "part-10",
        "part-9",
    ):
        (tmp_path / "lake" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lake" / name).touch()
    wanted = ["day=9/a", "day=9/b", "day=10/a", "part-9", "part-10"]
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    (tmp_path / "lake" / "day=9" / "loop").symlink_to(tmp_path / "lake")
    monkeypatch.chdir(tmp_path / "lake")
    for way in (f"{tmp_path}/lake", "../lake", "../link", "."):
        assert [os.path.relpath(name, way) for name in expand_paths([way])] == wanted, way
    assert expand_paths(["day*/a"]) == ["day=9/a", "day=10/a"]
    (tmp_path / "lake" / "empty").mkdir()
    with pytest.raises(MissingError):
        expand_paths(["empty"])


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_partition_columns_are_loaded(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a directory, of one of its partitions, and of a pattern, with the types of publish --from."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from sowctl.cli.main import main

    for number, (day, hour) in enumerate((("2026-01-01", "9"), ("2026-01-01", "10"), ("2026-01-02", "07"))):
        place = tmp_path / "lake" / f"day={day}" / f"hour={hour}"
        place.mkdir(parents=True)
        table = pa.table({"id": [number, 9], "v": [number, number]})
        if kind == "csv":
            csv.write_csv(table, place / "part-0.csv")
        else:
            parquet.write_table(table, place / "part-0.parquet")
    (tmp_path / "lake" / "_SUCCESS").touch()
    reader = {"inferSchema": "true"} if kind == "csv" else {}
    monkeypatch.chdir(tmp_path)
    whole = [
        message(id=0, v=0, day="2026-01-01", hour=9),
        message(id=1, v=1, day="2026-01-01", hour=10),
        message(id=2, v=2, day="2026-01-02", hour=7),
        message(id=9, v=2, day="2026-01-02", hour=7),
    ]
    part = [message(id=0, v=0, day="2026-01-01", hour=9), message(id=1, v=1, day="2026-01-01", hour=10)]
    part.append(message(id=9, v=1, day="2026-01-01", hour=10))
    ways = (("lake", whole), ("./lake/day=2026-01-01", part), (f"lake/*/*/*.{kind}", whole))
    for number, (way, wanted) in enumerate(ways):
        with verified(Lab(tmp_path / f"lab{number}", XML)) as lab:
            report(spark, lab, "log", way, reader=reader)
            assert sorted(map(json.loads, lab.query("log")), key=str) == sorted(map(json.loads, wanted), key=str), way
        if "*" not in way:
            with verified(Lab(tmp_path / f"own{number}", XML)) as lab:
                words = ["publish", "log", "--from", way, "-c", str(lab.config), "--quiet"]
                assert main(words, environ={}, stdin=io.BytesIO(), stdout=io.BytesIO(), stderr=io.BytesIO()) == 0
                assert sorted(map(json.loads, lab.query("log")), key=str) == sorted(map(json.loads, wanted), key=str)


def test_a_base_path_leaves_the_partition_columns_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(2).selectExpr("id", "'07' AS day").coalesce(1).write.partitionBy("day").parquet(f"{tmp_path}/lake")
    for number, reader in enumerate(({"basePath": f"{tmp_path}/lake"}, {})):
        with verified(Lab(tmp_path / f"lab{number}", XML)) as lab:
            report(spark, lab, "log", f"{tmp_path}/lake/*/*.parquet", reader=reader)
            assert [json.loads(record)["day"] for record in lab.query("log")] == [7, 7]


def test_messages_of_lines_get_no_columns_and_a_note_says_so(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake" / "day=1").mkdir(parents=True)
    (tmp_path / "lake" / "day=1" / "a.ndjson").write_text(message(id=1) + "\n")
    said: list[str] = []
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        instance = replace(lab.open(), notify=said.append)
        load(spark, instance, instance.topic("log").config, [f"{tmp_path}/lake"])
        assert lab.query("log") == [message(id=1)]
    assert any("day" in text for text in said)


def test_files_are_numbered_by_the_names_that_spark_reports(tmp_path: Path) -> None:
    """On the driver, before a task runs; a file that was not given has no place in the order."""
    from sowctl.spark.jobs.load import number_reported_files

    (tmp_path / "real é").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real é")
    given = {f"{tmp_path}/real é/b.csv": 0, f"{tmp_path}/real é/a#1.csv": 1}
    names = [f"file://{tmp_path}/real%20%C3%A9/a%231.csv", f"file://{tmp_path}/link/b.csv"]
    assert list(number_reported_files(names, given).values()) == [1, 0]
    with pytest.raises(UsageError) as caught:
        number_reported_files([f"file://{tmp_path}/other.csv"], given)
    assert caught.value.code == "SOW-SPK-049"

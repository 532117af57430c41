"""snapshot and export: what they write equals what the engine reads on the same files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from sowctl.engine.instance import Instance
from sowctl.engine.options import DeleteOptions
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import delete_records
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.snapshot import write_snapshot
from sowctl.errors import InputError, LockedError, MissingError, RefusedError, UsageError
from sowctl.output.ndjson import encode_values
from sowctl.spark.jobs import state
from sowctl.spark.jobs.export import ExportSelection, export, export_journal
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.outputs.output_spec import Output
from sowctl.spark.jobs.snapshot import snapshot
from sowctl.spark.origin import Origin
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.positions import PlannedState
from sowctl.store.codec import extract_payloads
from sowctl.values.times import format_time
from tests.support.instances import START, Lab, config_xml, message, topic_xml, verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = (
    topic_xml("log"),
    topic_xml("past", "<History><Window>1h</Window><Granularity>1s</Granularity></History>"),
    topic_xml("brief", "<Expiration>30s</Expiration>"),
    topic_xml("alone"),
)
XML = config_xml("".join(TOPICS), ("log", "past", "brief"))


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Some minutes in the life of four topics, with tiny parts."""
    monkeypatch.setattr(JOB_LIMITS, "records_per_part", 10)
    monkeypatch.setattr(JOB_LIMITS, "min_task_bytes", 1)
    monkeypatch.setattr(PARTITION_LIMITS, "partition_bytes", 1200)
    monkeypatch.setattr(JOB_LIMITS, "fold_batch_bytes", 3000)
    monkeypatch.setattr(JOB_LIMITS, "part_bytes", 6000)
    made = Lab(tmp_path / "lab", XML)
    for minute in range(4):
        for topic in ("log", "past", "brief", "alone"):
            rows = [message(id=n % 23, v=n, kind="ab"[n % 2], deep={"x": [n]}) for n in range(minute * 7, 40)]
            made.publish(topic, *rows)
            target = Target(topic=made.open().topic(topic).config)
            delete_records(made.open(), [target], DeleteOptions(filter=f"/id = {minute}"))
        made.clock.tick(20)
    return made


def read_lines(path: Path) -> list[str]:
    return [line for file in sorted(path.rglob("part-*")) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_inferred_fields_hold_what_only_late_records_have(
    spark: SparkSession, lab: Lab, tmp_path: Path, kind: str
) -> None:
    """Parts of ten records each: what stands in one of them widens the type for all."""
    rows = [{"id": n, "x": n, "y": 0.5} for n in range(60)]
    rows[40] |= {"x": "text157", "late": 1}
    rows[50] |= {"y": 12345678901234567.5, "x": 2**70}
    instance = lab.open()
    lab.publish("alone", *[message(**row) for row in rows])
    told = export(spark, instance, [instance.topic("alone").config], Output(str(tmp_path / "out"), kind, fields=""))
    assert told.records == 60
    if kind == "parquet":
        frame = spark.read.parquet(str(tmp_path / "out")).select("payload.*")
    else:
        frame = spark.read.option("header", "true").csv(str(tmp_path / "out"))
    found = {int(row["id"]): row.asDict() for row in frame.collect()}
    assert len(found) == 60
    assert {n: row["x"] for n, row in found.items()} == {row["id"]: str(row["x"]) for row in rows}
    assert {n: float(row["y"]) for n, row in found.items()} == {row["id"]: row["y"] for row in rows}
    assert [n for n, row in found.items() if row["late"] is not None] == [40]


def publish_after_plan(monkeypatch: pytest.MonkeyPatch, lab: Lab, topic: str, payload: str) -> None:
    """Publish to a topic whenever its store has been planned, as a busy publisher does."""
    plan = state.plan_position

    def planned(origin: Origin) -> PlannedState | None:
        found = plan(origin)
        if origin.topic is not None and origin.topic.name == topic:
            lab.publish(topic, payload)
        return found

    monkeypatch.setattr(state, "plan_position", planned)


def move_every_plan(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    """Have every task find another store than the plan of this topic, of a copy of it as well."""
    plan = state.plan_position

    def planned(origin: Origin) -> PlannedState | None:
        found = plan(origin)
        is_meant = found is not None and (origin.topic is None or origin.topic.name == topic)
        return replace(found, lineage=b"x" * 16, until=None) if is_meant else found

    monkeypatch.setattr(state, "plan_position", planned)


@pytest.mark.parametrize(("topic", "kind"), [("log", "parquet"), ("alone", "ndjson"), ("log", "sow")])
def test_an_export_of_a_store_that_is_written_has_one_state(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str, kind: str
) -> None:
    publish_after_plan(monkeypatch, lab, topic, message(id=100))
    instance, out = lab.open(), tmp_path / "out"
    told = export(spark, instance, [instance.topic(topic).config], Output(str(out), kind))
    # The record that was published after the first plan is in the copy.
    assert told.records == len(lab.query(topic))
    if kind == "ndjson":
        assert sorted(read_lines(out)) == sorted(one.payload.decode() for one in lab.records(topic))
    assert not list(lab.directory.rglob("*.staging*"))


def test_a_snapshot_of_a_store_that_is_written(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_after_plan(monkeypatch, lab, "log", message(id=100))
    instance = lab.open()
    told = snapshot(spark, instance, instance.topic("log").config, None, Output(str(tmp_path / "out")))
    assert told.records == len(lab.query("log"))


def test_an_export_that_fails_leaves_nothing(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, out = lab.open(), tmp_path / "out"
    log, alone = (instance.topic(name).config for name in ("log", "alone"))
    with monkeypatch.context() as patched:
        move_every_plan(patched, "alone")
        for topics in ([alone], [log, alone]):
            with pytest.raises(LockedError) as moved:
                export(spark, instance, topics, Output(str(out)))
            assert moved.value.code == "SOW-SPK-020"
            assert not out.exists()
        # What was there before stays.
        out.mkdir()
        with pytest.raises(LockedError):
            export(spark, instance, [log, alone], Output(str(out), force=True))
        assert (out / "_topic=log").is_dir() and not (out / "_topic=alone").exists()
    assert export(spark, instance, [log, alone], Output(str(tmp_path / "new"))).records > 0


def test_a_message_without_fields_ends_an_export_of_inferred_ones(spark: SparkSession, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("chosen", key=None), ("chosen",)))
    lab.publish("chosen", message(a=1), sow_key="one")
    lab.publish("chosen", "[1, 2]", sow_key="two")
    instance = lab.open()
    config = instance.topic("chosen").config
    with pytest.raises(InputError, match=r"record \d+ of topic chosen\b.* is not an object") as misfit:
        export(spark, instance, [config], Output(str(tmp_path / "out"), fields=""))
    assert misfit.value.code == "SOW-SPK-082"
    told = export(spark, instance, [config], Output(str(tmp_path / "out"), fields="a INT", force=True))
    assert told.records == 2
    # nor is there a file whose columns differ only in case; parts of the records are looked at apart
    lab.publish("chosen", '{"A":2}', sow_key="two")
    with pytest.raises(UsageError, match=r"/(a and /A|A and /a)\b") as caught:
        export(spark, lab.open(), [config], Output(str(tmp_path / "out"), fields="", force=True))
    assert caught.value.code == "SOW-SPK-164"


@pytest.mark.parametrize("point", ["behind", "epoch", "now"])
def test_a_transient_topic_begins_at_its_recovery_point(spark: SparkSession, tmp_path: Path, point: str) -> None:
    """At an instant of the past as now: what stood in the journal before the point is no part of any of its states."""
    text = {"behind": format_time(START + 2_500_000)}.get(point, point)
    more = f"<Durability>transient</Durability><RecoveryPoint>{text}</RecoveryPoint>"
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("x", more, file=None), ("x",)))
    for second in range(6):
        lab.publish("x", message(id=second), message(id=second + 100))
        lab.clock.tick(1)
    lab.publish("x", message(id=1, late=True))
    instance = lab.open()
    at = START + 4_500_000
    wanted = lab.query("x", at=at)
    assert len(wanted) == {"behind": 4, "epoch": 10, "now": 0}[point]
    config = instance.topic("x").config
    told = snapshot(spark, instance, config, at, Output(str(tmp_path / "lines"), "ndjson"))
    assert sorted(read_lines(tmp_path / "lines")) == sorted(wanted)
    assert told.records == len(wanted)


def test_what_had_expired_at_an_instant_is_no_part_of_its_state(spark: SparkSession, tmp_path: Path) -> None:
    """At instants that only a fold of the journal answers: as it was to see then, while the clock stood there."""
    lab = Lab(tmp_path / "lab", XML)
    seen: dict[int, list[str]] = {}

    def look(at: int) -> None:
        lab.clock.at = at
        seen[at] = lab.query("brief")

    lab.publish("brief", *(message(id=n) for n in range(10)))
    lab.clock.tick(20)
    lab.publish("brief", *(message(id=n, v=2) for n in range(5, 15)))
    ends = START + 30_000_000
    look(ends - 1)
    look(ends)
    lab.clock.tick(30)
    lab.publish("brief", message(id=99))
    assert [len(texts) for texts in seen.values()] == [15, 10]
    instance = lab.open()
    for at, texts in seen.items():
        found = state.list_parts(spark, instance, instance.topic("brief").config, at, tmp_path)
        assert all(isinstance(part, state.FoldedPart) for part in found)
        values = [value for part in found for _, some in part.iterate_pairs() for value in extract_payloads(some)]
        assert [value.decode() for value in values] == texts


@pytest.mark.parametrize("topic", ["log", "past", "brief"])
@pytest.mark.parametrize("at", [START + 5, START + 25_000_000, START + 100_000_000])
def test_snapshots(spark: SparkSession, lab: Lab, tmp_path: Path, topic: str, at: int) -> None:
    instance = lab.open()
    config = instance.topic(topic).config
    wanted = lab.query(topic, at=at)
    told = snapshot(spark, instance, config, at, Output(str(tmp_path / "lines"), "ndjson"))
    assert read_lines(tmp_path / "lines") == wanted
    assert told.records == len(wanted)
    assert told.bytes == sum(map(len, wanted))
    snapshot(spark, instance, config, at, Output(str(tmp_path / "then.sow")))
    write_snapshot(instance, Target(topic=config), at, tmp_path / "other.sow")
    bare = Instance(clock=lab.clock)
    then, other = (compute_digest(bare, Target(path=tmp_path / name)) for name in ("then.sow", "other.sow"))
    assert (then.digest, then.records, then.txid) == (other.digest, other.records, other.txid)
    assert not list(lab.directory.rglob("*.staging*"))


def test_what_cannot_be_known(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    instance = lab.open()
    with pytest.raises(MissingError) as caught:
        snapshot(spark, instance, instance.topic("alone").config, START, Output(str(tmp_path / "x"), "parquet"))
    assert caught.value.code == "SOW-ENG-050"
    (tmp_path / "there").mkdir()
    with pytest.raises(RefusedError):
        snapshot(spark, instance, instance.topic("log").config, None, Output(str(tmp_path / "there"), "parquet"))
    with pytest.raises(UsageError):
        Output("x", "xlsx").check()


def test_parquet(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    instance = lab.open()
    config = instance.topic("log").config
    told = export(spark, instance, [config], Output(str(tmp_path / "p"), partition_by=("/kind",)))
    rows = spark.read.parquet(str(tmp_path / "p")).collect()
    records = {record.sow_key: record for record in lab.records("log")}
    assert told.records == len(rows) == len(records)
    for row in rows:
        record = records[int(row["_sow_key"])]
        assert (bytes(row.payload), row["_txid"]) == (record.payload, record.txid)
        assert row.kind == json.loads(record.payload)["kind"]
    fields = Output(str(tmp_path / "f"), "parquet", fields="id INT, deep STRUCT<x: ARRAY<INT>>")
    export(spark, instance, [config], fields)
    found = {(row.payload.id, tuple(row.payload.deep.x)) for row in spark.read.parquet(str(tmp_path / "f")).collect()}
    assert found == {(m["id"], tuple(m["deep"]["x"])) for m in map(json.loads, lab.query("log"))}


def test_csv_and_several_topics(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    instance = lab.open()
    topics = [instance.topic(name).config for name in ("log", "alone")]
    told = export(spark, instance, topics, Output(str(tmp_path / "c"), "csv"))
    assert told.records == len(lab.query("log")) + len(lab.query("alone"))
    files = sorted((tmp_path / "c" / "_topic=log").glob("part-*"))
    found = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
    wanted = [json.loads(text) for text in lab.query("log")]
    assert [(row["id"], row["v"], json.loads(row["deep"])) for row in found] == [
        (str(row["id"]), str(row["v"]), row["deep"]) for row in wanted
    ]


def test_csv_keeps_the_spaces_around_a_value(spark: SparkSession, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    texts = ["  sp ", "\ttab", 'a "b" ', "end\n", "plain"]
    lab.publish("t", *(message(id=number, text=text) for number, text in enumerate(texts)))
    for name, writer, wanted in (("kept", {}, texts[0]), ("cut", {"ignoreLeadingWhiteSpace": "true"}, "sp ")):
        output = Output(str(tmp_path / name), "csv", fields="id INT, text STRING", writer=writer)
        export(spark, lab.open(), [lab.open().topic("t").config], output)
        found: dict[str, str] = {}
        for file in (tmp_path / name).glob("part-*"):
            with file.open(newline="") as lines:
                found |= {row["id"]: row["text"] for row in csv.DictReader(lines)}
        assert found["0"] == wanted
        assert name == "cut" or [found[str(number)] for number in range(len(texts))] == texts


def test_journal(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    instance = lab.open()
    told = export_journal(spark, instance, ExportSelection(), Output(str(tmp_path / "j"), "ndjson"))
    wanted = [
        line.decode() for batch in dump_entries(instance, EntryFilter()) for line in encode_values(batch, meta=True)
    ]
    assert read_lines(tmp_path / "j") == wanted
    assert told.records == len(wanted)
    some = ExportSelection((("log", "json"), ("past", "json")), 20, 90, START, START + 30_000_000)
    parquet = Output(str(tmp_path / "p"), partition_by=("_topic",))
    export_journal(spark, instance, some, parquet)
    rows = sorted(
        (row["_txid"], row["_topic"], row["_operation"]) for row in spark.read.parquet(parquet.path).collect()
    )
    assert rows == [
        (record.txid, batch.topic, record.extra["operation"])
        for batch in dump_entries(
            instance, EntryFilter(from_txid=20, to_txid=90, from_time=START, to_time=START + 30_000_000)
        )
        for record in batch.records
        if batch.topic != "brief"
    ]
    one = Output(str(tmp_path / "k"), "csv", partition_by=("/kind",))
    export_journal(spark, instance, ExportSelection((("log", "json"),)), one)
    assert {path.name for path in (tmp_path / "k").glob("kind=*")} >= {"kind=a", "kind=b"}
    with pytest.raises(UsageError):
        export_journal(spark, instance, ExportSelection(), replace(one, path=str(tmp_path / "l")))


def test_expired_records_are_left_out(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    with verified(lab):
        lab.clock.tick(25)
        instance = lab.open()
        export(spark, instance, [instance.topic("brief").config], Output(str(tmp_path / "b"), "ndjson"))
        assert read_lines(tmp_path / "b") == lab.query("brief")


def test_a_format_whose_package_is_missing_is_named_and_one_that_is_there_is_used(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    instance = lab.open()
    topic = instance.topic("log").config
    for kind, package in (("delta", "io.delta:delta-spark"), ("iceberg", "org.apache.iceberg:iceberg-spark-runtime")):
        with pytest.raises(UsageError, match=package) as caught:
            export(spark, instance, [topic], Output(str(tmp_path / kind), kind))
        assert caught.value.code == "SOW-SPK-114"
        assert "spark.jars.packages=" in str(caught.value.hint)
        assert not (tmp_path / kind).exists()
    spark.dataSource.register(stand_in(str(tmp_path / "written")))
    # As a directory, and as a table of the catalog.
    report = export(spark, instance, [topic], Output(str(tmp_path / "lake"), "iceberg", force=True))
    assert (report.records, report.details["format"]) == (len(lab.query("log")), "iceberg")
    export(spark, instance, [topic], Output("spark_catalog.default.lake", "iceberg"))
    spark.sql("DROP TABLE spark_catalog.default.lake")
    written = (tmp_path / "written").read_text().splitlines()
    assert sorted(written) == sorted(lab.query("log") * 2)
    with pytest.raises(UsageError) as caught:
        export(spark, instance, [topic, instance.topic("past").config], Output("a.b.c", "iceberg"))
    assert caught.value.code == "SOW-SPK-065"


def stand_in(path: str) -> type[DataSource]:
    """In place of a lake, whose package is not here: what is written to it goes to a file."""

    class Writer(DataSourceWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write("".join(bytes(row["payload"]).decode() + "\n" for row in iterator))
            return WriterCommitMessage()

    class Lake(DataSource):
        @classmethod
        def name(cls) -> str:
            return "iceberg"

        def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
            return Writer()

    return Lake

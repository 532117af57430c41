"""Views, conflated topics and queues as sources: the rows that queries print, read from one copy by all tasks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import SparkSession

import sowctl.spark
from sowctl.errors import UsageError
from sowctl.spark.errors import CarriedError, decode_error, translate_errors
from sowctl.values.times import format_time
from tests.spark.reading import read, reader_of, rows_of, schema_of, source
from tests.support.instances import START, Lab, config_xml, message, topic_xml

JSON = "<MessageType>json</MessageType>"
VIEW = (
    f"<View><Name>%s</Name>{JSON}<UnderlyingTopic>%s</UnderlyingTopic><Projection><Field>/user</Field>"
    "<Field>SUM(/qty) AS /qty</Field></Projection><Grouping><Field>/user</Field></Grouping></View>"
)
ENTRIES = "".join(
    (
        topic_xml("orders", file="sow/%n.sow"),
        VIEW % ("totals", "orders"),
        VIEW % ("over", "totals"),
        f"<ConflatedTopic><Topic>slow</Topic>{JSON}<UnderlyingTopic>orders</UnderlyingTopic>"
        "<Interval>10s</Interval></ConflatedTopic>",
        f"<Queue><Name>work</Name>{JSON}<UnderlyingTopic>orders</UnderlyingTopic></Queue>",
    )
)
DERIVED = ("totals", "over", "slow", "work")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path, config_xml(ENTRIES, ("orders",)))
    for step in range(3):
        made.publish("orders", *[message(id=i, user=f"u{i % 7}", qty=step + 1) for i in range(step, 40)])
        made.clock.tick(60)
    return made


def queried(lab: Lab, name: str, at: int | None = None) -> list[tuple[Any, ...]]:
    """What ``query`` says of a topic: key, txid and message of each record."""
    return sorted((one.sow_key, one.txid, one.payload) for one in lab.records(name, at=at))


def listed(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((int(row["_sow_key"]), row["_txid"], row["payload"]) for row in rows)


def error_of(lab: Lab, spark: SparkSession, topic: str, **options: object) -> Any:
    with pytest.raises(CarriedError) as caught:
        read(source(lab, topic=topic, **options), spark)
    return decode_error(str(caught.value))


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_are_those_of_a_query(lab: Lab, spark: SparkSession, name: str, partitions: int) -> None:
    rows = read(source(lab, topic=name, numPartitions=partitions), spark)
    assert listed(rows) == queried(lab, name) and {row["_topic"] for row in rows} == {name}
    assert len(rows) == (7 if name in ("totals", "over") else 40 if name == "slow" else len(rows)) > 0


@pytest.mark.parametrize("name", ["totals", "over", "slow"])
def test_the_past_is_that_of_a_query(lab: Lab, spark: SparkSession, name: str) -> None:
    at = START + 65_000_000
    rows = read(source(lab, topic=name, at=format_time(at)), spark)
    assert listed(rows) == queried(lab, name, at) != queried(lab, name)


@pytest.mark.parametrize("name", DERIVED)
def test_tasks_read_nothing_but_the_copy_of_the_plan(lab: Lab, spark: SparkSession, name: str) -> None:
    """Not the cache of the view either, which the next reader brings up to date."""
    before = queried(lab, name)
    reader = reader_of(source(lab, topic=name, numPartitions=2), spark)
    planned = list(reader.partitions())
    lab.publish("orders", message(id=100, user="u100", qty=1))
    lab.clock.tick(60)
    assert queried(lab, name) != before
    shutil.rmtree(lab.directory / "sow")
    for file in lab.journals():
        file.unlink()
    assert listed(rows_of(reader, planned)) == before


def test_a_present_state_is_copied_once(lab: Lab, spark: SparkSession) -> None:
    one = source(lab, topic="totals")
    first = reader_of(one, spark).partitions()[0].plan.origin.path  # type: ignore[attr-defined]
    again = reader_of(one, spark).partitions()[0].plan.origin.path  # type: ignore[attr-defined]
    lab.publish("orders", message(id=100, user="u100", qty=1))
    other = reader_of(one, spark).partitions()[0].plan.origin.path  # type: ignore[attr-defined]
    assert first == again != other and first.exists()


def test_a_state_is_pinned_in_a_file(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    before = queried(lab, "totals")
    for _ in range(2):
        rows = read(source(lab, topic="totals", pin=tmp_path / "pinned.sow", filter="/qty > 0"), spark)
        assert listed(rows) == before
        lab.publish("orders", message(id=100, user="u100", qty=1))


def test_a_filter_and_inferred_fields(lab: Lab, spark: SparkSession) -> None:
    one = source(lab, topic="totals", payload="struct", filter="/qty > 17")
    assert schema_of(one, spark)["payload"].dataType.simpleString() == "struct<user:string,qty:bigint>"
    rows = [row["payload"] for row in read(one, spark)]
    assert {row["user"]: row["qty"] for row in rows} == {"u2": 18, "u3": 18, "u4": 18}


def test_what_has_no_entries_is_empty(tmp_path: Path, spark: SparkSession) -> None:
    lab = Lab(tmp_path, config_xml(ENTRIES, ("orders",)))
    for name in ("totals", "over"):
        assert read(source(lab, topic=name), spark) == []


def test_what_a_query_refuses_is_refused(lab: Lab, spark: SparkSession) -> None:
    assert error_of(lab, spark, "work", at=format_time(START)).code == "SOW-QUE-014"
    times = f"{format_time(START)},{format_time(START + 1)}"
    several = error_of(lab, spark, "totals", at=times)
    assert several.code == "SOW-SPK-172" and "is a View" in several.message
    missing = error_of(lab, spark, "total")
    assert (missing.code, missing.hint) == ("SOW-ENG-012", "did you mean totals?")


def test_spark_itself(lab: Lab, spark: SparkSession) -> None:
    """Tables, joins, SQL, a frame that outlives a publish, and rows, which views do not accept."""
    given = {"config": str(lab.config), "now": format_time(lab.clock.at)}
    totals = sowctl.spark.table(spark, "totals", select=["user", "qty"], numPartitions=2, **given)  # type: ignore[arg-type]
    before = sorted(tuple(row) for row in totals.collect())
    assert len(before) == 7
    lab.publish("orders", message(id=100, user="u100", qty=1))
    assert sorted(tuple(row) for row in totals.collect()) == before
    orders = spark.read.format("sow").options(topic="orders", payload="struct", **given).load()
    joined = orders.join(totals, orders.payload.user == totals.user).where("payload.id < 7").select("payload.id", "qty")
    assert sorted(tuple(row) for row in joined.collect()) == [(i, dict(before)[f"u{i}"]) for i in range(7)]
    words = ", ".join(f"{name} '{text}'" for name, text in given.items())
    spark.sql(f"CREATE TEMPORARY VIEW totals USING sow OPTIONS ({words}, topic 'totals')")
    try:
        assert spark.sql("SELECT count(*) FROM totals").collect() == [(8,)]
        with pytest.raises(UsageError) as caught, translate_errors():
            spark.sql("INSERT INTO totals (payload) VALUES (CAST('{}' AS BINARY))")
        assert caught.value.code == "SOW-ENG-031"
    finally:
        spark.catalog.dropTempView("totals")

"""Tables of Spark's catalog and views of SQL: read, written and refused as sowctl-spark(7) says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import SparkSession

from sowctl.errors import UsageError
from sowctl.spark.errors import translate_errors
from tests.support.instances import Lab, message

Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def sql(spark: SparkSession) -> Iterator[Sql]:
    """Runs SQL; what a test made in the catalog is gone afterwards."""

    def run(text: str) -> list[tuple[Any, ...]]:
        with translate_errors():
            return [tuple(row) for row in spark.sql(text).collect()]

    yield run
    for _, name, temporary in run("SHOW TABLES"):
        run(f"DROP {'VIEW' if temporary else 'TABLE'} {name}")


def options(lab: Lab, topic: str, **more: str) -> str:
    given = {"config": str(lab.config), "topic": topic} | more
    return f"OPTIONS ({', '.join(name + repr(text) for name, text in given.items())})"


def test_a_table_is_read_and_inserted_into(lab: Lab, spark: SparkSession, sql: Sql) -> None:
    lab.publish("loose", *[message(id=i, step=1) for i in range(3)])
    sql(f"CREATE TABLE loose USING sow {options(lab, 'loose', payload='struct', onError='skip')}")
    sql(f"CREATE TABLE past USING sow {options(lab, 'past')}")
    assert sql("SELECT count(*), max(a.payload.id) FROM loose a JOIN loose b ON a.payload.id > b._txid") == [(1, 2)]
    # Spark would read both sides with the filter of the first.
    with pytest.raises(UsageError, match=r"\bfilter\b") as caught:
        sql("SELECT count(*) FROM loose WITH (filter = '/id > 0') AS a JOIN loose AS b ON true")
    assert caught.value.code == "SOW-SPK-112"
    sql("INSERT INTO loose (payload) SELECT named_struct('id', payload.id + 10, 'step', 2L) FROM loose")
    sql("INSERT INTO past (payload) VALUES (CAST('{\"id\":7}' AS BINARY))")
    assert sorted(lab.query("loose", "/step = 2")) == [message(id=i, step=2) for i in (10, 11, 12)]
    # All columns of one table into another: they go where the statement says, not where they came from.
    sql(f"CREATE TABLE copy USING sow {options(lab, 'loose')}")
    sql("INSERT INTO copy SELECT * FROM past")
    assert lab.query("past") == ['{"id":7}'] and lab.query("loose", "/id = 7") == ['{"id":7}']
    spark.table("past").write.insertInto("copy", overwrite=True)
    assert lab.query("loose") == ['{"id":7}']
    spark.sql("SELECT CAST('{\"id\":8}' AS BINARY) AS payload").writeTo("past").append()
    spark.sql("SELECT CAST('{\"id\":9}' AS BINARY) AS payload").write.format("sow").mode("append").saveAsTable("past")
    assert sorted(lab.query("past")) == ['{"id":7}', '{"id":8}', '{"id":9}']
    sql(f"CREATE TABLE before USING sow {options(lab, 'past', at='8')}")
    assert sql("SELECT CAST(payload AS STRING) FROM before ORDER BY 1") == [('{"id":7}',), ('{"id":8}',)]


def test_a_journal_is_a_table_too_and_views_take_what_both_directions_need(
    lab: Lab, spark: SparkSession, sql: Sql
) -> None:
    lab.publish("past", message(id=1), message(id=2))
    sql(f"CREATE TABLE entries USING `sow-journal` {options(lab, 'past', fromTxid='2')}")
    assert sql("SELECT _operation, count(*) FROM entries GROUP BY 1") == [("publish", 1)]
    sql(f"CREATE TEMPORARY VIEW past USING sow {options(lab, 'past', payload='struct')}")
    sql("INSERT INTO past (payload) SELECT named_struct('id', payload.id + 2) FROM past")
    assert sql("SELECT payload.id, (SELECT count(*) FROM past WHERE payload.id < 2) FROM past ORDER BY 1") == [
        (1, 1), (2, 1), (3, 1), (4, 1)
    ]  # fmt: skip
    query = spark.readStream.table("entries").writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.lastProgress["numInputRows"] == 3
    sql(f"CREATE TABLE changes USING `sow-journal` {options(lab, 'past', changes='true')}")
    assert sql("SELECT _change_type, count(*) FROM changes GROUP BY 1") == [("insert", 4)]
    assert len(sql("SELECT * FROM changes")) == 4


def test_a_table_that_does_not_know_its_options_is_refused(lab: Lab, sql: Sql) -> None:
    with pytest.raises(UsageError) as caught:
        sql(f"CREATE TABLE made USING sow {options(lab, 'loose')} AS SELECT 5 AS id")
    assert caught.value.code == "SOW-SPK-012" and "INSERT INTO" in str(caught.value.hint)
    assert sql("SHOW TABLES") == [] and not lab.store("loose").exists()
    sql(f"CREATE TABLE declared (payload BINARY) USING sow {options(lab, 'loose')}")
    for statement in ("SELECT * FROM declared", "INSERT INTO declared VALUES (X'00')"):
        with pytest.raises(UsageError, match="is given"):
            sql(statement)


def test_what_spark_does_not_do_with_tables_is_refused_with_another_way(lab: Lab, sql: Sql) -> None:
    lab.publish("loose", message(id=1))
    sql(f"CREATE TABLE loose USING sow {options(lab, 'loose')}")
    for statement in (
        "DELETE FROM loose WHERE _txid = 1",
        "UPDATE loose SET payload = NULL",
        "MERGE INTO loose USING loose AS s ON s._txid = loose._txid WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE loose",
        "SELECT * FROM loose TIMESTAMP AS OF '2026-01-01'",
        "SELECT * FROM loose VERSION AS OF 1",
    ):
        with pytest.raises(Exception) as caught:
            sql(statement)
        assert caught.value.__notes__[0].startswith("hint: ") or "TRUNCATE" in statement
        assert "Traceback" not in str(caught.value) and len(str(caught.value).splitlines()) == 1
    assert lab.query("loose") == ['{"id":1}']

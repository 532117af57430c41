"""sowctl.spark.table: only the fields that a query needs are decoded, and what it finds is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sowctl.spark
from sowctl.errors import UsageError
from sowctl.spark.errors import translate_errors
from tests.spark.conftest import XML
from tests.support.instances import Lab, message

DECLARED = "id BIGINT, who STRUCT<name: STRING, age: INT>, legs ARRAY<STRUCT<q: INT, p: INT>>, `a.b` INT, bad BIGINT"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Messages of which field ``bad`` is no number: whoever decodes it with FAILFAST ends there."""
    lab = Lab(tmp_path_factory.mktemp("pruning"), XML)
    legs = [{"q": 1, "p": 2}, {"q": 3, "p": 4}]
    rows = [{"id": i, "who": {"name": f"n{i % 3}", "age": i}, "legs": legs, "a.b": i, "bad": "x"} for i in range(12)]
    lab.publish("loose", *[message(**row) for row in rows])
    return lab


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    with translate_errors():
        return sorted(tuple(row) for row in frame.collect())


def strict(lab: Lab) -> dict[str, str]:
    """Options with which the field ``bad`` cannot be read."""
    return {"config": str(lab.config), "payloadSchema": DECLARED, "mode": "FAILFAST"}


def test_fields_that_are_selected_are_columns(filled: Lab, spark: SparkSession) -> None:
    select = ["who.age", "_txid", "legs.q", "`a.b`", "id"]
    frame = sowctl.spark.table(spark, "loose", select=select, where="/id < 2", **strict(filled))
    assert frame.columns == ["age", "_txid", "q", "a.b", "id"]
    assert rows(frame) == [(0, 1, [1, 3], 0, 0), (1, 2, [1, 3], 1, 1)]


def totals(frame: DataFrame) -> DataFrame:
    return frame.where("id >= 6").groupBy("who.name").agg(f.sum("`a.b`"), f.max("_txid"))


QUERIES: list[Callable[[DataFrame], DataFrame]] = [
    totals,
    lambda frame: frame.groupBy().count(),
    lambda frame: frame.alias("l").join(frame.alias("r"), f.expr("l.id = r.`a.b` + 1")).select("l.who.age", "r.legs"),
    # Columns keep their places, though the values of some are not read.
    lambda frame: frame.toDF(*[f"c{n}" for n in range(len(frame.columns))]).select("c0", f.col("c1.age")),
    lambda frame: frame.select("*").union(frame.select("*")).selectExpr("id + 1 AS id").distinct(),
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_decodes_what_it_needs(
    filled: Lab, spark: SparkSession, query: Callable[[DataFrame], DataFrame]
) -> None:
    whole = sowctl.spark.table(spark, "loose", config=filled.config, payloadSchema=DECLARED)
    assert rows(sowctl.spark.table(spark, "loose", query, **strict(filled))) == rows(query(whole)) != []


def test_the_text_of_messages_that_do_not_fit_depends_on_all_fields(filled: Lab, spark: SparkSession) -> None:
    given = strict(filled) | {"mode": "PERMISSIVE"}
    frame = sowctl.spark.table(spark, "loose", select=["id", "_corrupt_record"], **given)
    assert frame.where("_corrupt_record IS NULL").count() == 0 and frame.count() == 12


def test_what_is_inferred_stays_exact(spark: SparkSession, tmp_path: Path) -> None:
    lab = Lab(tmp_path, XML)
    lab.publish("loose", message(id=1, v=1, w="a"), message(id=2, v=2, w="b"))
    given = {"config": lab.config, "samples": 1}
    assert rows(sowctl.spark.table(spark, "loose", select=["v"], **given)) == [(1,), (2,)]
    lab.publish("loose", message(id=3, v="x", w="c", new=1))
    assert rows(sowctl.spark.table(spark, "loose", select=["w"], **given)) == [("a",), ("b",), ("c",)]
    with pytest.raises(Exception, match="SOW-SPK-133"):
        sowctl.spark.table(spark, "loose", select=["v"], **given).collect()


def test_what_there_is_not(filled: Lab, spark: SparkSession) -> None:
    for text in ("nosuch", "who.nosuch", "id.x", "a.b", ""):
        with pytest.raises(UsageError, match="unknown column") as caught:
            sowctl.spark.table(spark, "loose", select=[text], **strict(filled))
        assert caught.value.code == "SOW-SPK-015" and "id, who, legs" in str(caught.value.hint)
    with pytest.raises(TypeError, match="int"):
        sowctl.spark.table(spark, "loose", lambda frame: frame.count(), **strict(filled))  # type: ignore[arg-type, return-value]

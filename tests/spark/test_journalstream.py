"""A journal as a stream: offsets, limits, restarts, and what happens to a checkpoint when its journal is gone."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.errors import DamageError, MissingError, SowError
from sowctl.spark.errors import CarriedError, decode_error, translate_errors
from sowctl.spark.reading.journalstream import MAX_BATCH_ENTRIES, JournalStreamReader
from tests.spark.reading import journal, rows_of, schema_of
from tests.support.instances import Lab, message


def stream(lab: Lab, spark: SparkSession, **options: object) -> JournalStreamReader:
    """A streaming reader."""
    one = journal(lab, **options)
    reader = one.streamReader(schema_of(one, spark))
    assert isinstance(reader, JournalStreamReader)
    return reader


def txids(reader: JournalStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """The txids of one batch."""
    return [row["_txid"] for row in rows_of(reader, list(reader.partitions(start, end)))]  # type: ignore[arg-type]


def error_of(error: BaseException) -> SowError:
    found = decode_error(str(error))
    assert found is not None
    return found


def test_batches_are_whole_groups_within_the_limit(lab: Lab, spark: SparkSession) -> None:
    for size in (10, 1, 30, 5, 5, 5):
        lab.publish("orders", *[message(id=i) for i in range(size)])
    reader = stream(lab, spark, maxEntries=12)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(12)
    at, ends = reader.initialOffset(), []
    assert at["txid"] == 0
    found: list[int] = []
    while (end := reader.latestOffset(at, limit)) != at:
        found += txids(reader, at, end)
        ends.append(end["txid"])
        at = end
    assert ends == [11, 41, 51, 56]
    assert found == list(range(1, 57))
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["txid"] == 56
    assert txids(reader, at, at) == []


def test_a_stream_may_begin_before_there_is_a_journal(lab: Lab, spark: SparkSession) -> None:
    reader = stream(lab, spark)
    start = reader.initialOffset()
    assert start == {"txid": 0, "lineage": ""} and reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.reportLatestOffset() is None
    lab.publish("orders", message(id=1))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert txids(reader, start, end) == [1]
    assert reader.reportLatestOffset() == {name: end[name] for name in start} | {"entriesBehind": 0, "bytesBehind": 0}


def test_where_a_stream_begins(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", *[message(id=i) for i in range(10)])
    assert stream(lab, spark, start="latest").initialOffset()["txid"] == 10
    assert stream(lab, spark, fromTxid=5).initialOffset()["txid"] == 4
    bounded = stream(lab, spark, toTxid=7)
    assert bounded.latestOffset(bounded.initialOffset(), ReadAllAvailable())["txid"] == 7


def test_batches_are_bounded_unless_told_otherwise(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", message(id=1))
    assert stream(lab, spark).getDefaultReadLimit() == ReadMaxRows(MAX_BATCH_ENTRIES)
    assert stream(lab, spark, maxEntries=MAX_BATCH_ENTRIES * 9).getDefaultReadLimit() == ReadMaxRows(
        MAX_BATCH_ENTRIES * 9
    )


def test_available_now_ends_where_the_journal_ended(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", message(id=1))
    reader = stream(lab, spark)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    lab.publish("orders", message(id=2))
    assert reader.latestOffset(start, ReadAllAvailable())["txid"] == 1


def test_a_checkpoint_of_another_journal_is_damage(lab: Lab, spark: SparkSession) -> None:
    lab.publish("orders", *[message(id=i) for i in range(3)])
    reader = stream(lab, spark)
    here = reader.reportLatestOffset()
    assert here is not None
    for offset in ({"txid": 1, "lineage": "00" * 16}, here | {"txid": 9}):
        with pytest.raises(CarriedError) as caught:
            reader.latestOffset(offset, ReadAllAvailable())
        error = error_of(caught.value)
        assert isinstance(error, DamageError) and error.code == "SOW-SPK-021"


def test_lost_files_are_said_unless_they_may_be(lab: Lab, spark: SparkSession) -> None:
    lab.journal_size = 1000
    for step in range(30):
        lab.publish("orders", *[message(id=i, step=step) for i in range(20)])
    start = {"txid": 10, "lineage": str((stream(lab, spark).reportLatestOffset() or {})["lineage"])}
    files = lab.journals()
    assert len(files) > 3
    files[0].unlink()
    with pytest.raises(CarriedError) as caught:
        stream(lab, spark).latestOffset(start, ReadAllAvailable())
    error = error_of(caught.value)
    assert isinstance(error, MissingError) and error.code == "SOW-SPK-022"
    going_on = stream(lab, spark, failOnDataLoss=False)
    end = going_on.latestOffset(start, ReadAllAvailable())
    found = txids(going_on, start, end)
    assert found == list(range(found[0], 601)) and found[0] > 11


def test_a_query_goes_on_from_its_checkpoint(lab: Lab, spark: SparkSession) -> None:
    """The whole way: a limit, AvailableNow, a restart, and nothing twice."""
    target, checkpoint = lab.directory / "out", lab.directory / "checkpoint"

    def run() -> list[int]:
        frame = spark.readStream.format("sow-journal").options(config=str(lab.config), maxEntries="150").load()
        query = (
            frame.select("_txid", "payload")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(target))
        )
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress]

    for _ in range(3):
        lab.publish("orders", *[message(id=i) for i in range(100)])
    assert run() == [100, 100, 100]
    lab.publish("orders", *[message(id=i) for i in range(50)])
    assert [rows for rows in run() if rows] == [50]
    assert sorted(row._txid for row in spark.read.parquet(str(target)).collect()) == list(range(1, 351))


def test_a_first_batch_is_run_again_from_where_it_began(lab: Lab, spark: SparkSession) -> None:
    """Spark has kept its end alone, and asks a restarted query for the beginning anew."""
    lab.publish("orders", message(id=0))
    reader = stream(lab, spark, start="latest")
    start = reader.initialOffset()
    lab.publish("orders", *[message(id=i) for i in range(5)])
    end = reader.latestOffset(start, ReadAllAvailable())
    lab.publish("orders", *[message(id=i) for i in range(3)])
    assert reader.initialOffset() == start
    restarted = stream(lab, spark, start="latest")
    assert txids(restarted, restarted.initialOffset(), end) == [2, 3, 4, 5, 6]
    assert txids(restarted, end, restarted.latestOffset(end, ReadAllAvailable())) == [7, 8, 9]


def test_a_first_batch_that_was_pruned_is_said(lab: Lab, spark: SparkSession) -> None:
    """It was planned and not committed: its entries are gone, and a new beginning is behind them."""
    lab.journal_size = 1000
    for step in range(10):
        lab.publish("orders", *[message(id=i, step=step) for i in range(20)])
    reader = stream(lab, spark, maxEntries=100)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert end["txid"] == 100
    assert prune_files(lab.open(), KeepRule(before_txid=70)).first_txid > 1
    restarted = stream(lab, spark, maxEntries=100)
    with pytest.raises(CarriedError) as caught:
        restarted.partitions(restarted.initialOffset(), end)
    assert error_of(caught.value).code == "SOW-SPK-022"
    going_on = stream(lab, spark, maxEntries=100, failOnDataLoss=False)
    found = txids(going_on, going_on.initialOffset(), end)
    assert found == list(range(found[0], 101)) and found[0] > 1


@pytest.mark.parametrize("changes", ["false", "true"])
def test_a_restart_behind_a_prune(lab: Lab, spark: SparkSession, changes: str) -> None:
    """Through Spark: an error with its hint, and what the hint says."""
    lab.journal_size = 1000
    found: list[int] = []

    def run(**options: str) -> None:
        reader = spark.readStream.format("sow-journal").options(config=str(lab.config), topic="past", changes=changes)
        frame = reader.options(**options).load()
        writer = frame.writeStream.foreachBatch(lambda batch, _: found.extend(row._txid for row in batch.collect()))
        query = (
            writer.option("checkpointLocation", str(lab.directory / "checkpoint")).trigger(availableNow=True).start()
        )
        query.awaitTermination(120)

    lab.publish("past", *[message(id=i, step=0) for i in range(20)])
    run()
    assert sorted(found) == list(range(1, 21))
    for step in range(1, 9):
        lab.publish("past", *[message(id=i, step=step) for i in range(20 * step, 20 * step + 20)])
    first = prune_files(lab.open(), KeepRule(before_txid=100)).first_txid
    assert first > 40
    with pytest.raises(MissingError) as caught, translate_errors():
        run()
    error = caught.value
    assert error.code == "SOW-SPK-022" and error.exit_status == 10
    assert f"at txid 20, but the oldest journal file begins at txid {first}" in error.message
    assert "failOnDataLoss=false" in str(error.hint) and error.place == str(lab.directory / "journal")
    found.clear()
    run(failOnDataLoss="false")
    assert sorted(found) == list(range(first, 181))

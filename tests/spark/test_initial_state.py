"""Streams that begin with the records of a topic: option ``start=state``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructType

from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.errors import MissingError
from sowctl.spark.errors import CarriedError, translate_errors
from sowctl.values.times import format_time
from tests.spark.reading import journal, rows_of
from tests.spark.test_journalstream import error_of, stream
from tests.spark.test_storereader import plain, refused
from tests.support.instances import Lab, message

Offset = dict[str, Any]


def stock(lab: Lab) -> None:
    """Records that were inserted, updated and deleted, and one that expires later."""
    lab.publish("orders", *[message(id=i, step=0) for i in range(40)])
    lab.publish("orders", *[message(id=i, step=1) for i in range(20)])
    lab.publish("orders", message(id=90), expiration=30.0)
    lab.open().topic("orders").delete(filter="/id IN (3, 30)")


def read_batches(reader: Any, at: Offset | None = None, limit: Any = None) -> tuple[list[list[dict[str, Any]]], Offset]:
    """The rows of each batch up to the present, and where the last one ends."""
    at = reader.initialOffset() if at is None else at
    found = []
    while (end := reader.latestOffset(at, limit or reader.getDefaultReadLimit())) != at:
        found.append(rows_of(reader, list(reader.partitions(at, end))))
        at = end
    return found, at


def join(batches: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch]


def fold(rows: list[dict[str, Any]]) -> dict[int, bytes]:
    """The state that rows make."""
    state: dict[int, bytes] = {}
    for row in rows:
        state.pop(int(row["_sow_key"]), None)
        if row["_operation"] == "publish":
            state[int(row["_sow_key"])] = row["payload"]
    return state


def present(lab: Lab, topic: str = "orders") -> dict[int, bytes]:
    return {one.sow_key: one.payload for one in lab.records(topic)}


@pytest.mark.parametrize("topic", ["orders", "past"])
def test_records_come_first_and_then_the_entries(lab: Lab, spark: SparkSession, topic: str) -> None:
    lab.publish(topic, *[message(id=i, step=0) for i in range(40)])
    lab.publish("chosen", message(id=1), sow_key="k")
    reader = stream(lab, spark, topic=topic, start="state")
    state = [(r.sow_key, r.payload, r.txid, r.timestamp, r.expiration, topic) for r in lab.records(topic)]
    (rows,), at = read_batches(reader)
    assert plain(rows) == sorted(state)
    assert {(r["_operation"], r["_message_type"], r["_client"], r["_sequence"]) for r in rows} == {
        ("publish", "json", None, None)
    }
    lab.publish(topic, *[message(id=i, step=1) for i in range(3)], client="feed", sequence=1)
    lab.open().topic(topic).delete(filter="/id = 39")
    (more,), at = read_batches(reader, at)
    assert [(r["_operation"], r["_client"]) for r in more] == [("publish", "feed")] * 3 + [("delete", None)]
    assert fold(rows + more) == present(lab, topic)
    assert read_batches(reader, at) == ([], at)


def test_a_limit_bounds_the_batches_of_records(lab: Lab, spark: SparkSession) -> None:
    stock(lab)
    reader = stream(lab, spark, topic="orders", start="state", maxEntries=10)
    found, at = read_batches(reader)
    assert len(found) == 4 and fold(join(found)) == present(lab)
    assert at["part"] == at["parts"] == 4
    # Without a limit, what is left comes at once, whatever the limit was before.
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    rest, end = read_batches(reader, first, ReadAllAvailable())
    assert end == at and fold(found[0] + join(rest)) == present(lab) and len(rest) == 1
    by_size = stream(lab, spark, topic="orders", start="state", maxBytesPerTrigger="8KB")
    assert len(read_batches(by_size)[0]) > 1


@pytest.mark.parametrize("changes", [False, True])
def test_a_restarted_query_reads_the_same_state(lab: Lab, spark: SparkSession, changes: bool) -> None:
    """In the middle of the records, after publishing, deleting and expiring; all offsets but the ends are lost."""
    stock(lab)
    options: dict[str, Any] = {"topic": "orders", "start": "state", "maxEntries": 10, "changes": changes}
    reader = stream(lab, spark, **options)
    initial = reader.initialOffset()
    first = reader.latestOffset(initial, reader.getDefaultReadLimit())
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    expected = [rows_of(reader, list(reader.partitions(*span))) for span in ((initial, first), (first, second))]
    lab.publish("orders", *[message(id=i, step=2) for i in range(5, 50)])
    lab.open().topic("orders").delete(filter="/id = 12")
    lab.clock.tick(60)
    # The copy goes with the session of a driver that was killed.
    shutil.rmtree(lab.directory / "journal" / "test.staging")
    restarted = stream(lab, spark, **options)
    # Spark asks for the beginning anew if the first batch was not committed.
    again = restarted.initialOffset()
    assert again != initial
    assert [
        rows_of(restarted, list(restarted.partitions(*span))) for span in ((again, first), (first, second))
    ] == expected
    rest, _ = read_batches(restarted, second)
    rows = join(expected + rest)
    keys = [int(row["_sow_key"]) for row in join(expected + rest[:2])]
    assert len(keys) == len(set(keys)) == 39
    if changes:
        assert {row["_change_type"] for row in rows[:39]} == {"insert"}
        rows = [row for row in rows if row["_change_type"] not in ("update_preimage", "delete")]
        # Deletions show the record that is gone; of it, nothing is said in the rest of these rows.
        assert {row["payload"] for row in rows} >= set(present(lab).values())
    else:
        ended = {key: text for key, text in fold(rows).items() if text != message(id=90).encode()}
        assert ended == present(lab)


def test_of_an_empty_topic_the_entries_are_all(lab: Lab, spark: SparkSession) -> None:
    reader = stream(lab, spark, topic="orders", start="state")
    assert reader.initialOffset() == {"txid": 0, "lineage": ""}
    lab.publish("past", message(id=1))
    assert len(read_batches(reader)[0]) == 1
    reader = stream(lab, spark, topic="orders", start="state")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    lab.publish("orders", message(id=1))
    assert [[row["_txid"] for row in batch] for batch in read_batches(reader)[0]] == [[2]]


def test_filters_and_columns_of_records(lab: Lab, spark: SparkSession) -> None:
    stock(lab)
    columns = "payload,_txid,_bookmark,_correlation_id"
    schema = "id BIGINT, step BIGINT"
    reader = stream(lab, spark, topic="orders", start="state", filter="/id < 5", columns=columns, payloadSchema=schema)
    (rows,), _ = read_batches(reader)
    assert sorted(row["payload"]["id"] for row in rows) == [0, 1, 2, 4]
    assert {(row["payload"]["step"], row["_bookmark"], row["_correlation_id"]) for row in rows} == {(1, None, None)}


def test_a_state_that_is_gone_is_said(lab: Lab, spark: SparkSession) -> None:
    """A restart between prune and publish: nothing has the records that were replaced."""
    lab.journal_size = 1000
    stock(lab)
    reader = stream(lab, spark, topic="orders", start="state")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    for step in range(2, 9):
        lab.publish("orders", *[message(id=i, step=step) for i in range(50)])
    for file in lab.journals()[:-2]:
        file.unlink()
    lab.directory.joinpath("journal", "test.staging").rename(lab.directory / "gone")
    restarted = stream(lab, spark, topic="orders", start="state")
    with pytest.raises(CarriedError) as caught:
        restarted.partitions(restarted.initialOffset(), end)
    error = error_of(caught.value)
    assert isinstance(error, MissingError) and error.code == "SOW-SPK-174" and "another checkpoint" in str(error.hint)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "SOW-SPK-013"),
        ({"topic": "loose"}, "SOW-SPK-173"),
        ({"topic": "orders", "fromTxid": 3}, "SOW-SPK-173"),
        ({"topic": "orders", "toTime": "2026-01-01"}, "SOW-SPK-173"),
        ({"topic": "orders", "operation": "delete"}, "SOW-SPK-173"),
    ],
)
def test_what_cannot_begin_with_records(lab: Lab, spark: SparkSession, options: dict[str, Any], code: str) -> None:
    lab.publish("orders", message(id=1))
    with pytest.raises(CarriedError) as caught:
        journal(lab, start="state", **options).streamReader(StructType().add("_txid", LongType())).initialOffset()
    assert refused(caught.value) == code


def run_query(lab: Lab, spark: SparkSession, checkpoint: Path, take: Callable[[DataFrame, int], None]) -> None:
    """One run of a query up to the present."""
    options = {"config": str(lab.config), "topic": "orders", "start": "state", "maxEntries": "20"}
    options["now"] = format_time(lab.clock.at)
    frame = spark.readStream.format("sow-journal").options(**options).load()
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(240)
    finally:
        query.stop()


def test_spark_itself_delivers_each_row_once_whatever_fails(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    """Each batch fails once after it was taken, and the topic goes on meanwhile: a batch that is run again has the
    same rows, and all batches together have the state and every later entry once."""
    stock(lab)
    taken: dict[int, list[list[tuple[Any, ...]]]] = {}

    def take(batch: DataFrame, number: int) -> None:
        rows = sorted((int(row._sow_key), row._txid, row._operation) for row in batch.collect())
        taken.setdefault(number, []).append(rows)
        if len(taken[number]) == 1:
            raise RuntimeError("killed")

    for step in range(2, 12):
        try:
            run_query(lab, spark, tmp_path / "checkpoint", take)
            break
        except StreamingQueryException as error:
            assert "killed" in str(error)
        if step < 5:
            lab.publish("orders", *[message(id=i, step=step) for i in range(30, 45)])
    assert all(len(runs) == 2 and runs[0] == runs[1] for runs in taken.values()) and len(taken) > 3
    rows = [row for runs in taken.values() for row in runs[0]]
    state = [row for row in rows if row[1] <= 63]
    assert len({key for key, _, _ in state}) == len(state) == 39
    assert [txid for _, txid, _ in sorted(rows, key=lambda row: row[1]) if txid > 63] == list(range(64, 64 + 45))


def test_a_checkpoint_before_the_oldest_entry_is_said_by_spark(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    """A prune beyond the checkpoint; the way out that the hint names."""
    lab.journal_size = 1000
    stock(lab)
    seen: list[int] = []
    run_query(lab, spark, tmp_path / "checkpoint", lambda batch, _: seen.extend(row._txid for row in batch.collect()))
    assert len(seen) == 39
    for step in range(2, 9):
        lab.publish("orders", *[message(id=i, step=step) for i in range(50)])
    assert prune_files(lab.open(), KeepRule(keep_size=0)).first_txid > 64
    with pytest.raises(MissingError) as caught, translate_errors():
        run_query(lab, spark, tmp_path / "checkpoint", lambda batch, _: None)
    assert caught.value.code == "SOW-SPK-022" and "failOnDataLoss=false" in str(caught.value.hint)
    again: list[int] = []
    run_query(lab, spark, tmp_path / "new", lambda batch, _: again.extend(row._txid for row in batch.collect()))
    assert len(again) == len(present(lab))

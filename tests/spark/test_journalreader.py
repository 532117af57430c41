"""The source sow-journal: entries as the engine's dump shows them, in parts, within bounds."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark.sql import SparkSession

from sowctl.engine.maintenance.journal_search.entries import EntryRecord
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.errors import DamageError, UsageError
from sowctl.spark.errors import CarriedError, decode_error, translate_errors
from sowctl.spark.options import Options
from sowctl.spark.origin import find_journal
from sowctl.spark.reading.journalplan import compute_partition_bytes, open_journal, plan_stretches
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.values.times import format_time
from tests.spark.reading import journal, read, reader_of, schema_of
from tests.spark.test_storereader import micros
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml


def refused(action: Callable[[], object]) -> str:
    """The code of the error that an action ends with."""
    with pytest.raises(CarriedError) as caught:
        action()
    found = decode_error(str(caught.value))
    assert found is not None
    return found.code


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as tuples, in txid order."""
    return sorted(
        (
            row["_txid"],
            row["_operation"],
            row["payload"],
            int(row["_sow_key"]),
            micros(row["_timestamp"]),
            micros(row["_expiration"]),
            row["_topic"],
            row["_message_type"],
            row["_client"],
            row["_sequence"],
        )
        for row in rows
    )


def engine(lab: Lab, **wanted: Any) -> list[tuple[Any, ...]]:
    """The same of the engine's dump."""

    def row(topic: str, kind: str, one: EntryRecord) -> tuple[Any, ...]:
        published = one.has_data
        entry = one.entry
        return (
            one.txid,
            "publish" if published else "delete",
            one.payload if published else None,
            one.sow_key,
            one.timestamp,
            one.expiration,
            topic,
            kind,
            entry.client,
            entry.sequence if entry.publisher is not None else None,
        )

    batches = dump_entries(lab.open(), EntryFilter(**wanted))
    return [row(batch.topic, batch.message_type, one) for batch in batches for one in batch.records]


def test_all_entries_in_many_partitions(stocked: Lab, spark: SparkSession) -> None:
    expected = engine(stocked)
    one = journal(stocked, partitionBytes="2KB")
    assert len(reader_of(one, spark).partitions()) > 5
    assert plain(read(one, spark)) == expected
    assert {row[1] for row in expected} == {"publish", "delete"} and len(expected) > 600
    assert plain(read(journal(stocked), spark)) == expected


def test_a_directory_of_journals_without_any_configuration(stocked: Lab, spark: SparkSession) -> None:
    found = read(journal(stocked, config=None, path=stocked.directory / "journal"), spark)
    assert plain(found) == engine(stocked)


def test_every_entry_has_the_bookmark_that_a_dump_prints(stocked: Lab, spark: SparkSession) -> None:
    batches = dump_entries(stocked.open(), EntryFilter())
    expected = [(record.txid, record.bookmark) for batch in batches for record in batch.records]
    for where in ({}, {"config": None, "path": stocked.directory / "journal"}):
        found = read(journal(stocked, columns="_txid,_bookmark", **where), spark)
        assert sorted((row["_txid"], row["_bookmark"]) for row in found) == expected


def test_an_archive_beside_a_directory_of_journals(stocked: Lab, spark: SparkSession, tmp_path: Path) -> None:
    *older, last = stocked.journals()
    (tmp_path / "journal").mkdir()
    shutil.copy(last, tmp_path / "journal")
    for path in older:
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    where = {"config": None, "path": tmp_path / "journal", "archive": tmp_path}
    assert plain(read(journal(stocked, partitionBytes="2KB", **where), spark)) == engine(stocked)


@pytest.mark.parametrize(
    ("options", "wanted", "keep"),
    [
        ({"topic": "past"}, {"topic_names": ("past",)}, None),
        ({"topic": "orders", "operation": "delete"}, {"topic_names": ("orders",)}, "delete"),
        ({"operation": "publish"}, {}, "publish"),
        ({"fromTxid": 100, "toTxid": 333}, {"from_txid": 100, "to_txid": 333}, None),
        (
            {"fromTime": format_time(START + 120 * SECOND), "toTime": format_time(START + 240 * SECOND)},
            {"from_time": START + 120 * SECOND, "to_time": START + 240 * SECOND},
            None,
        ),
    ],
)
def test_bounds(
    stocked: Lab, spark: SparkSession, options: dict[str, Any], wanted: dict[str, Any], keep: str | None
) -> None:
    expected = [row for row in engine(stocked, **wanted) if keep in (None, row[1])]
    assert plain(read(journal(stocked, partitionBytes="8KB", **options), spark)) == expected


@pytest.mark.parametrize("options", [{"topic": "ordres"}, {"topic": "orders", "messageType": "xml"}])
def test_a_topic_that_is_nowhere_is_an_error(lab: Lab, spark: SparkSession, options: dict[str, str]) -> None:
    assert refused(lambda: read(journal(lab, **options), spark)) == "SOW-JRN-001"
    lab.publish("past", message(id=1))
    assert read(journal(lab, topic="orders"), spark) == []  # configured, and nothing was published yet
    assert refused(lambda: read(journal(lab, **options), spark)) == "SOW-ENG-012"
    bare: dict[str, object] = {"config": None, "path": lab.journals()[0].parent}
    assert refused(lambda: read(journal(lab, **bare, **options), spark)) == "SOW-ENG-012"
    assert len(read(journal(lab, **bare, topic="past"), spark)) == 1
    streaming = journal(lab, **options)
    assert refused(lambda: streaming.streamReader(schema_of(streaming, spark)).initialOffset()) == "SOW-ENG-012"
    # nor is a table made of it, nor are fields inferred
    table = {"provider": "sow-journal"} | {f"option.{name}": text for name, text in options.items()}
    assert refused(lambda: journal(lab, **table, **{"option.config": lab.config}).schema()) == "SOW-ENG-012"
    assert refused(lambda: journal(lab, **options, payload="struct").schema()) == "SOW-ENG-012"
    # who follows a journal without a configuration may name a topic that is yet to come
    journal(lab, **bare, **options).streamReader(schema_of(streaming, spark))


def test_a_logical_topic_is_no_topic_of_a_journal(tmp_path: Path, spark: SparkSession) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("all", "<Pattern>^sales/</Pattern>"), ("all",)))
    lab.publish("sales/a", message(id=1))
    assert refused(lambda: read(journal(lab, topic="sales/a"), spark)) == "SOW-SPK-100"


def test_a_filter_is_the_engines_and_leaves_out_deletions(stocked: Lab, spark: SparkSession) -> None:
    found = plain(read(journal(stocked, filter="/price > 50 AND /step != 3", partitionBytes="8KB"), spark))
    whole = [row for row in engine(stocked) if row[2] is not None and b"price" in row[2]]
    expected = [row for row in whole if float(row[2].split(b'"price":')[1].split(b",")[0]) > 50]
    assert found == [row for row in expected if b'"step":3,' not in row[2]] != []


@pytest.mark.parametrize("form", ["sow", "sow-journal"])
def test_one_load_serves_many_scans(stocked: Lab, spark: SparkSession, form: str) -> None:
    """Spark offers its filters in this session; those of one scan must not be seen in another."""
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    options = {"config": str(stocked.config), "topic": "orders", "now": format_time(stocked.clock.at)}
    frame = spark.read.format(form).options(**options).load()
    txids = sorted(row._txid for row in frame.select("_txid").collect())
    middle = txids[len(txids) // 2]
    low, high = frame.filter(f"_txid < {middle}"), frame.filter(f"_txid >= {middle}")
    assert (high.count(), frame.count()) == (sum(txid >= middle for txid in txids), len(txids))
    assert sorted(row._txid for row in low.union(high).select("_txid").collect()) == txids
    assert high.alias("a").join(frame.alias("b"), "_txid").count() == high.count()
    assert frame.alias("a").join(low.alias("b"), "_txid", "left_anti").count() == high.count()
    told = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW twice USING `{form}` OPTIONS ({told})")
    counts = [spark.sql(f"SELECT * FROM twice {where}").count() for where in (f"WHERE _txid = {middle}", "")]
    assert counts == [1, len(txids)]
    both = f"SELECT (SELECT count(*) FROM twice WHERE _txid < {middle}), (SELECT count(*) FROM twice)"
    assert tuple(spark.sql(both).first() or ()) == (low.count(), len(txids))


def test_what_is_planned_is_read_once(stocked: Lab) -> None:
    origin = find_journal(Options("sow-journal", {"config": str(stocked.config)}, ("config",)))
    with open_journal(origin) as log:
        for size in (1, 3000, 1 << 30, None):
            for after, until in ((0, log.read_last_txid()), (77, 99), (0, 1)):
                parts = plan_stretches(log, after, until, size)
                found = [block.first_txid for part in parts for block in part.read_blocks(log, 0, 1 << 62)]
                assert found == [block.first_txid for block in log.iter_blocks(after=after, until=until)]
        assert plan_stretches(log, log.read_last_txid(), None, 1) == []


@pytest.mark.parametrize(("most", "least", "processors", "count"), [(3, 100, 1, 3), (1, 100, 4, 4), (1, 2, 4, 2)])
def test_stretches_are_equal_and_enough_for_all_processors(
    stocked: Lab, monkeypatch: pytest.MonkeyPatch, most: int, least: int, processors: int, count: int
) -> None:
    """``most`` and ``least``: how many partitions of the largest and of the smallest size the journal would fill."""
    origin = find_journal(Options("sow-journal", {"config": str(stocked.config)}, ("config",)))
    with open_journal(origin) as log:
        stored = sum(info.size for info in log.list_files())
        monkeypatch.setattr(PARTITION_LIMITS, "partition_bytes", -(-stored // most))
        monkeypatch.setattr(PARTITION_LIMITS, "min_partition_bytes", 2 * stored // (2 * least + 1))
        monkeypatch.setattr("os.cpu_count", partial(int, processors))
        parts = plan_stretches(log, 0, None, None)
        entries = [sum(map(len, part.read_blocks(log, 0, 1 << 62))) for part in parts]
    assert len(parts) == count
    assert max(entries) < 2 * min(entries)


def test_partitions_grow_with_the_journal() -> None:
    mega, tera = 1 << 20, 1 << 40
    assert compute_partition_bytes(100 * mega, 1) <= 64 * mega
    assert compute_partition_bytes(tera, 1) == 64 * mega
    assert compute_partition_bytes(3 * tera, 1) == -(-3 * tera // 20_000)
    assert compute_partition_bytes(10 * tera, 1000) == 256 * mega
    assert compute_partition_bytes(3 * mega, 100) == 3 * mega


def test_messages_as_structs_where_deletions_have_none(stocked: Lab, spark: SparkSession) -> None:
    found = read(journal(stocked, topic="orders", payloadSchema="id BIGINT, who STRUCT<name: STRING>"), spark)
    expected = engine(stocked, topic_names=("orders",))
    assert [row["payload"] is None for row in found] == [row[1] == "delete" for row in expected]
    for row, one in zip(found, expected, strict=True):
        assert row["payload"] is None or f'"id":{row["payload"]["id"]},'.encode() in one[2]
    assert "`id`: BIGINT" in str(journal(stocked, payload="struct").schema())


def test_a_damaged_block_is_an_error_of_its_own_kind(lab: Lab, spark: SparkSession) -> None:
    for step in range(3):
        lab.publish("orders", *[message(id=i, step=step) for i in range(100)])
    path = lab.journals()[0]
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CarriedError) as caught:
        read(journal(lab), spark)
    assert isinstance(decode_error(str(caught.value)), DamageError)


def test_spark_itself(stocked: Lab, spark: SparkSession) -> None:
    frame = (
        spark.read.format("sow-journal")
        .options(config=str(stocked.config), partitionBytes="8KB")
        .load()
        .filter("_topic = 'past' AND _txid > 100")
    )
    found = frame.groupBy("_client", "_operation").count().collect()
    expected = [row for row in engine(stocked, topic_names=("past",)) if row[0] > 100]
    assert [tuple(row) for row in found] == [("feed", "publish", len(expected))]
    with pytest.raises(UsageError, match="no option 'fromtxit'"), translate_errors():
        spark.read.format("sow-journal").options(config=str(stocked.config), fromTxit="1").load()

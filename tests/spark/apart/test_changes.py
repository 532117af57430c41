"""The option changes of sow-journal, asked of the reader without Spark: rows, columns, filters, streams, refusals."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from sowctl.engine.maintenance.retention.archive import archive_to_url
from sowctl.engine.options import PublishOptions
from sowctl.errors import UsageError
from sowctl.journal.archive import manifest
from sowctl.journal.maintenance.file_compression import compress_file
from sowctl.journal.reader import Journal
from sowctl.remote.place import parse_url
from sowctl.seam import SEAM
from sowctl.spark.errors import CarriedError, decode_error
from sowctl.spark.options import Options
from sowctl.spark.origin import find_origin
from sowctl.spark.reading.journalbatches import JournalQuery
from sowctl.spark.reading.journalchanges import FeedStretch
from sowctl.spark.reading.journalplan import build_origin
from sowctl.spark.reading.journalreader import JournalReader
from sowctl.spark.reading.journalstream import JournalStreamReader
from sowctl.spark.writing.staging import find_staging
from sowctl.spark.writing.writers import WriteRequest
from sowctl.values.times import format_time
from tests.spark.reading import journal, rows_of
from tests.support.instances import START, Lab, config_xml, message, topic_xml

XML = config_xml(topic_xml("a") + topic_xml("b") + topic_xml("own", key=None), ("a", "b", "own", "logged"))
KEYS = StructType().add("_change_type", StringType()).add("_txid", LongType())
ROWS = StructType().add("payload", BinaryType()).add("_change_type", StringType()).add("_txid", LongType())
FIELDS = StructType().add("id", LongType()).add("v", LongType())
STRUCTS = StructType().add("payload", FIELDS).add("_change_type", StringType()).add("_txid", LongType())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Inserts, updates, a deletion, and another topic between them."""
    made = Lab(tmp_path, XML)
    made.publish("a", message(id=1, v=1), message(id=2, v=1))
    made.publish("b", message(id=1, v=0))
    made.publish("a", message(id=1, v=2), client="feed", sequence=1)
    made.clock.tick(10)
    made.open().topic("a").delete(filter="/id = 1")
    made.publish("a", message(id=1, v=3), message(id=1, v=4))
    return made


EXPECTED = [
    ("insert", 1, 1, 1),
    ("insert", 2, 1, 2),
    ("update_preimage", 1, 1, 4),
    ("update_postimage", 1, 2, 4),
    ("delete", 1, 2, 5),
    ("insert", 1, 3, 6),
    ("update_preimage", 1, 3, 7),
    ("update_postimage", 1, 4, 7),
]
"""Type, id, v, txid."""


def reader(lab: Lab, schema: StructType = ROWS, **options: object) -> DataSourceReader:
    return journal(lab, changes="true", **({"topic": "a"} | options)).reader(schema)


def rows(found: DataSourceReader) -> list[dict[str, Any]]:
    return rows_of(found, list(found.partitions()))


def plain(found: list[dict[str, Any]]) -> list[tuple[str, int, int, int]]:
    made = []
    for row in found:
        fields = json.loads(row["payload"]) if isinstance(row["payload"], bytes) else row["payload"]
        made.append((row["_change_type"], fields["id"], fields["v"], row["_txid"]))
    return made


def test_a_feed_has_inserts_both_sides_of_updates_and_what_was_deleted(lab: Lab) -> None:
    assert plain(rows(reader(lab))) == EXPECTED
    assert plain(rows(reader(lab, STRUCTS))) == EXPECTED
    lab.publish("own", message(n=1), sow_key="k")
    lab.publish("own", message(n=2), sow_key="k")
    schema = StructType().add("_change_type", StringType()).add("_user_key", StringType())
    found = rows(reader(lab, schema, topic="own"))
    assert [(row["_change_type"], row["_user_key"]) for row in found] == [
        ("insert", "k"),
        ("update_preimage", "k"),
        ("update_postimage", "k"),
    ]


def write(lab: Lab, topic: str, schema: StructType, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Write rows to a topic as a task and its driver do; the counts."""
    report = lab.directory / "report"
    given = {"config": str(lab.config), "topic": topic, "now": format_time(lab.clock.at)}
    origin = find_origin(Options("sow", given, tuple(given)))
    asked = WriteRequest(origin, find_staging(origin, None, None), PublishOptions(), None, report=report)
    asked.staging.open()
    columns = {name: [row[name] for row in found] for name in schema.names}
    asked.commit([asked.stage_rows([pyarrow.record_batch(columns)], schema)])
    counts: dict[str, Any] = json.loads(report.read_text().splitlines()[-1])
    return counts


def test_changes_keep_their_deletions_in_another_topic_and_entries_do_not(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.open().topic("a").delete(filter="/id = 2")
    entries = StructType().add("payload", BinaryType()).add("_operation", StringType())
    entries.add("_sow_key", DecimalType(20, 0))
    found = rows(journal(lab, topic="a").reader(entries))
    counts = write(lab, "b", entries, found)
    # as in a batch of a stream, which has deletions of records of earlier batches alone
    only = write(lab, "b", entries, [row for row in found if row["_operation"] == "delete"])
    assert (counts["missing"], counts["deleted"], only["missing"]) == (2, 0, 2)
    assert sum("topic b " in one and " 2 deletes" in one for one in caplog.messages) == 2
    lab.open().topic("b").delete(filter="/id > 0")
    caplog.clear()
    feed = StructType(entries.fields[:2]).add("_change_type", StringType())
    kept = [row for row in rows(reader(lab, feed)) if row["_change_type"] != "update_preimage"]
    counts = write(lab, "b", feed, kept)
    assert (counts["missing"], counts["deleted"]) == (0, 2) and not caplog.text
    assert lab.query("b") == lab.query("a") == [message(id=1, v=4)]


@pytest.mark.parametrize("size", [1, 200, "1GB"])
def test_parts_of_any_size_give_the_same(lab: Lab, size: object) -> None:
    assert plain(rows(reader(lab, partitionBytes=size))) == EXPECTED


def test_bounds_choose_rows_and_what_was_before_them_is_known(lab: Lab) -> None:
    assert plain(rows(reader(lab, fromTxid=4, toTxid=6))) == EXPECTED[2:6]
    assert plain(rows(reader(lab, fromTime="2026-01-05T08:00:05Z"))) == EXPECTED[4:]
    assert plain(rows(reader(lab, toTime="2026-01-05T08:00:05Z"))) == EXPECTED[:4]


def test_a_filter_judges_each_row_by_its_own_record(lab: Lab) -> None:
    assert plain(rows(reader(lab, filter="/v = 2"))) == [EXPECTED[3], EXPECTED[4]]
    assert plain(rows(reader(lab, STRUCTS, filter="/id = 2"))) == [EXPECTED[1]]


def test_columns_of_the_change_and_of_the_record(lab: Lab) -> None:
    schema = StructType().add("_change_type", StringType()).add("_operation", StringType()).add("_client", StringType())
    schema = schema.add("_timestamp", TimestampType()).add("_sow_key", DecimalType(20, 0))
    found = rows(reader(lab, schema))
    assert [row["_operation"] for row in found] == ["publish"] * 4 + ["delete"] + ["publish"] * 3
    assert [row["_client"] for row in found] == [None, None, "feed", "feed", None, None, None, None]
    assert len({row["_sow_key"] for row in found}) == 2
    assert [row["_timestamp"].second for row in found] == [0] * 4 + [10] * 4


def test_without_the_record_nothing_before_is_looked_for(lab: Lab) -> None:
    found = reader(lab, KEYS)
    assert [part.before for part in found.partitions()] == [b""]  # type: ignore[attr-defined]
    assert [(row["_change_type"], row["_txid"]) for row in rows(found)] == [(one[0], one[3]) for one in EXPECTED]


def test_a_stream_of_changes_goes_on_where_it_was(lab: Lab) -> None:
    stream = journal(lab, changes="true", topic="a", maxEntries=1).streamReader(ROWS)
    assert isinstance(stream, JournalStreamReader)
    at, found, batches = stream.initialOffset(), list[dict[str, Any]](), list[tuple[Any, Any]]()
    while (end := stream.latestOffset(at, stream.getDefaultReadLimit())) != at:
        batches.append((at, end))
        found += rows_of(stream, list(stream.partitions(at, end)))  # type: ignore[arg-type]
        at = end
    assert plain(found) == EXPECTED and len(batches) > 3
    # after a failure a batch is planned again, by a reader that knows more, or one that knows nothing
    for again in (stream, journal(lab, changes="true", topic="a").streamReader(ROWS)):
        assert isinstance(again, JournalStreamReader)
        some = rows_of(again, list(again.partitions(*batches[2])))  # type: ignore[arg-type]
        assert plain(some) == [row for row in EXPECTED if batches[2][0]["txid"] < row[3] <= batches[2][1]["txid"]]


def test_what_stood_in_a_file_that_is_gone_is_null(tmp_path: Path) -> None:
    lab = Lab(tmp_path, XML, journal_size=1000)
    for step in range(12):
        lab.publish("a", *[message(id=i, v=step) for i in range(10)])
    first, *_ = lab.journals()
    first.unlink()
    found = rows(reader(lab))
    start = found[0]["_txid"]
    assert start > 1 and {row["_change_type"] for row in found} == {"update_preimage", "update_postimage"}
    unknown = [row for row in found if row["payload"] is None]
    assert [row["_change_type"] for row in unknown] == ["update_preimage"] * 10
    assert [row["_txid"] for row in unknown] == list(range(start, start + 10))


def test_a_part_without_entries_of_the_topic_has_no_rows(tmp_path: Path) -> None:
    lab = Lab(tmp_path, XML, journal_size=1000)
    lab.publish("logged", *[message(id=i) for i in range(3)])
    lab.publish("a", message(id=1))
    assert rows(reader(lab, toTxid=3)) == []
    stream = journal(lab, changes="true", topic="a", maxEntries=1).streamReader(ROWS)
    assert isinstance(stream, JournalStreamReader)
    first = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert rows_of(stream, list(stream.partitions(stream.initialOffset(), first))) == []  # type: ignore[arg-type]
    for step in range(30):
        lab.publish("logged", *[message(id=i, v=step) for i in range(10)])
    for path in lab.journals()[:-1]:
        path.unlink()
    # What a topic file still knows of it does not make it a topic without records.
    assert rows(reader(lab)) == []


def refused(lab: Lab, **options: object) -> UsageError:
    with pytest.raises((CarriedError, UsageError)) as caught:
        rows(reader(lab, **options))
    error = decode_error(str(caught.value)) if isinstance(caught.value, CarriedError) else caught.value
    assert isinstance(error, UsageError)
    return error


def test_what_has_no_changes_is_refused(lab: Lab) -> None:
    assert refused(lab, topic=None).code == "SOW-SPK-013"
    assert refused(lab, operation="publish").code == "SOW-SPK-130"
    with pytest.raises(CarriedError, match="SOW-ENG-012"):
        reader(lab, topic="loged")
    lab.publish("logged", message(id=1))
    assert refused(lab, topic="logged").code == "SOW-SPK-131"
    place = {"config": None, "path": lab.directory / "journal"}
    assert refused(lab, topic="logged", **place).code == "SOW-SPK-131"
    with pytest.raises(CarriedError, match="changes=true"):
        journal(lab, topic="a").reader(KEYS)


def test_a_feed_of_an_archive_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    """What was planned of one archive is not read from another: neither its entries nor the records before them."""
    labs = {name: Lab(tmp_path / name, XML, journal_size=700) for name in ("one", "two")}
    for name, lab in labs.items():
        for turn in range(5):
            lab.publish("a", *[message(id=one, of=name, turn=turn) for one in range(8 if turn else 12)])
    far = tmp_path / "far"

    def remade(name: str) -> None:
        shutil.rmtree(far, ignore_errors=True)
        list(archive_to_url(labs[name].open(), parse_url(str(far))))

    remade("one")
    with Journal.open(parse_url(str(far)), "test") as log:
        origin, last = build_origin(log, START), log.read_last_txid()
    begun = JournalReader(JournalQuery(origin, "a", "json", changes=True, partition_bytes=1), ROWS)
    parts: list[FeedStretch] = pickle.loads(pickle.dumps(list(begun.partitions())))
    found = rows_of(begun, parts)
    assert len(found) > 50 and all(b'"one"' in row["payload"] for row in found)
    # Each knows the files of its entries and of the records before them, and no other ones.
    assert [part.after for part in parts[1:]] == [part.until for part in parts[:-1]] and parts[-1].until == last
    assert {len(part.parts) for part in parts if not part.before} == {1}
    assert any(1 < len(part.parts) < len(parts) for part in parts)
    for file in sorted((tmp_path / "one").rglob("*.journal"))[:-1]:
        compress_file(file, ".zst", SEAM)
    remade("one")
    manifest._REMOTE_MANIFESTS.clear()
    assert rows_of(begun, parts) == found  # other files of the same entries
    remade("two")
    manifest._REMOTE_MANIFESTS.clear()
    for part in parts:
        with pytest.raises(CarriedError, match="SOW-JRN-084: "):
            rows_of(begun, [part])

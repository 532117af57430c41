"""Journals and data sets at URLs: what Spark reads there is what the journal holds here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sowctl.engine.maintenance.retention.archive import archive_to_url
from sowctl.engine.topics.positions import open_log
from sowctl.errors import DamageError, MissingError
from sowctl.remote.place import parse_url
from sowctl.spark.errors import translate_errors
from tests.spark.conftest import stock
from tests.support.instances import Lab
from tests.support.objectstore import ENVIRONMENT, ObjectStore, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def shore(spark: SparkSession) -> Iterator[ObjectStore]:
    """An object store that the processes of Spark reach as well: its credentials stand in its URLs."""
    with serving() as store:
        yield store


@pytest.fixture(scope="module")
def sent(shore: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, str]:
    """An instance whose finished files are in an archive, and the oldest there alone; the URL of that."""
    lab = stock(tmp_path_factory.mktemp("sent"))
    url = with_key(shore, "journal")
    files = list(archive_to_url(lab.open(), parse_url(url)))
    for one in files[: len(files) // 2]:
        one.path.unlink()
    return lab, url


def with_key(store: ObjectStore, path: str) -> str:
    return store.url(path).replace("s3://", f"s3://{ENVIRONMENT['AWS_ACCESS_KEY_ID']}:secret@") + "&region=us-east-1"


def entries(lab: Lab, url: str) -> list[tuple[int, str, bytes | None]]:
    """What the journal holds, here and there."""
    with open_log(lab.open(), archive=parse_url(url)) as log:
        return [
            (one.txid, one.topic[0], one.payload or None) for block in log.iter_blocks() for one in block.iter_entries()
        ]


def test_an_archive_and_what_is_still_here(spark: SparkSession, sent: tuple[Lab, str], shore: ObjectStore) -> None:
    lab, url = sent
    whole = entries(lab, url)
    wanted = {"columns": "_txid,_topic,payload"}
    both = spark.read.format("sow-journal").options(config=str(lab.config), archive=url, **wanted).load()
    assert sorted((row[0], row[1], row[2] and bytes(row[2])) for row in both.collect()) == whole
    there = spark.read.format("sow-journal").options(path=url, **wanted).load()
    rows = sorted((row[0], row[1], row[2] and bytes(row[2])) for row in there.collect())
    assert rows == whole[: len(rows)] and len(whole) - 200 < len(rows) < len(whole)
    # in small partitions, of one topic and of a span: as above, row by row
    within = [row for row in whole if row[1] == "past" and 100 <= row[0] <= 400]
    some = spark.read.format("sow-journal").options(
        path=url, topic="past", messageType="json", fromTxid="100", toTxid="400", partitionBytes="4KB"
    )
    found = some.option("columns", "_txid,_topic,payload").load()
    assert found.rdd.getNumPartitions() > 3
    assert sorted((row[0], row[1], bytes(row[2])) for row in found.collect()) == within


def test_segments_that_cannot_match_are_not_read(
    spark: SparkSession, sent: tuple[Lab, str], shore: ObjectStore
) -> None:
    _, url = sent
    shore.requests.clear()
    frame = spark.read.format("sow-journal").options(path=url, columns="_txid", toTime="2001-01-01T00:00:00Z").load()
    assert frame.count() == 0
    assert {key for _, key in shore.requests if "journal/" in key and key.endswith(".journal")} == set()


def test_what_is_not_there_is_said(spark: SparkSession, sent: tuple[Lab, str], shore: ObjectStore) -> None:
    _, url = sent
    with pytest.raises(MissingError) as caught, translate_errors():
        spark.read.format("sow-journal").options(path=with_key(shore, "nowhere")).load().count()
    assert caught.value.code == "SOW-JRN-081" and "secret" not in str(caught.value)
    name = next(name for name in shore.objects if name.endswith(".journal"))
    kept = shore.objects.pop(name)
    try:
        with pytest.raises(DamageError) as lost, translate_errors():
            spark.read.format("sow-journal").options(path=url).load().count()
    finally:
        shore.objects[name] = kept
    assert lost.value.code == "SOW-JRN-083" and name in str(lost.value.place)


def test_a_stream_over_an_archive(spark: SparkSession, sent: tuple[Lab, str], tmp_path: Path) -> None:
    _, url = sent
    stream = spark.readStream.format("sow-journal").options(path=url, columns="_txid,payload", maxEntries="300").load()
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    read = sorted(row[0] for row in spark.read.parquet(str(tmp_path / "out")).select("_txid").collect())
    there = [row[0] for row in spark.read.format("sow-journal").options(path=url, columns="_txid").load().collect()]
    assert read == sorted(there)

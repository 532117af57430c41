"""stream: every entry once, across restarts, to files, to a function, into another topic."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from sowctl.engine.options import DeleteOptions
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.delete import delete_records
from sowctl.errors import RefusedError, UsageError
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.spark.jobs import stream as streaming
from sowctl.spark.jobs.job_table import JOBS, find_job
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.stream import METRIC_NAME, Progress, StreamEntry, StreamOptions, _Totals, stream
from tests.support.instances import Lab, config_xml, message, topic_xml, verified

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = "<KeyDomain>one</KeyDomain>"
XML = config_xml(topic_xml("a", SAME) + topic_xml("b", SAME) + topic_xml("c"), ("a", "b", "c"))


def test_into_another_topic_and_again(spark: SparkSession, tmp_path: Path) -> None:
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        instance = lab.open()
        source, same, other = (instance.topic(name).config for name in "abc")
        lab.publish("a", *[message(id=n, v=0) for n in range(20)])
        lab.publish("a", message(id=3, v=1))
        into = StreamOptions(str(tmp_path / "to-b"), into=same, client="copy", available_now=True, max_entries=15)
        assert stream(spark, instance, source, into).records == 21
        assert lab.query("b") == lab.query("a")
        delete_records(instance, [Target(topic=source)], DeleteOptions(filter="/id < 5"))
        lab.publish("a", message(id=99))
        stream(spark, instance, source, into)
        assert lab.query("b") == lab.query("a")
        last = lab.query("b")
        # The checkpoint is lost: no batch is taken for one that was written under the old one.
        again = replace(into, checkpoint=str(tmp_path / "lost"))
        with pytest.raises(RefusedError) as caught:
            stream(spark, instance, source, again)
        assert caught.value.code == "SOW-SPK-171"
        assert lab.query("b") == last
        to_c = StreamOptions(str(tmp_path / "to-c"), into=other, client="to c", available_now=True)
        stream(spark, instance, source, to_c)
        assert len(lab.query("c")) == 21  # other keys: deletions do not travel


def test_to_files_and_to_a_function(spark: SparkSession, tmp_path: Path) -> None:
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        instance = lab.open()
        lab.publish("a", *[message(id=n) for n in range(10)])
        lab.publish("c", message(id=1))
        files = StreamOptions(str(tmp_path / "check"), output=str(tmp_path / "out"), available_now=True)
        files = replace(files, partition_by=("_topic", "_date"))
        assert stream(spark, instance, None, files).records == 11
        assert [one.parts[-2:] for one in sorted((tmp_path / "out").glob("_topic=*/*"))] == [
            ("_topic=a", "_date=2026-01-05"),
            ("_topic=c", "_date=2026-01-05"),
        ]
        lab.publish("c", message(id=2))
        assert stream(spark, instance, None, files).records == 1
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted((row["_txid"], row["_topic"]) for row in rows) == [
            *((n, "a") for n in range(1, 11)),
            (11, "c"),
            (12, "c"),
        ]
        seen: list[StreamEntry] = []
        told = stream(spark, instance, instance.topic("c").config, StreamOptions(show=seen.extend, available_now=True))
        assert [one[:4] for one in seen] == [("publish", b'{"id":1}', 11, "c"), ("publish", b'{"id":2}', 12, "c")]
        assert len({one.sow_key for one in seen}) == 2
        assert told.records == 2


def test_records_first_and_groups_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    """The limits bound batches of records, and parts of a group that is larger."""
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        instance = lab.open()
        source, same = (instance.topic(name).config for name in "ab")
        for version in range(3):
            lab.publish("a", *[message(id=n, v=version) for n in range(20)])
        delete_records(instance, [Target(topic=source)], DeleteOptions(filter="/id < 5"))
        shown: list[StreamEntry] = []
        options = StreamOptions(start="state", show=shown.extend, available_now=True, max_entries=8)
        assert stream(spark, instance, source, options).read == 15
        assert sorted(one.payload or b"" for one in shown) == sorted(line.encode() for line in lab.query("a"))
        into = StreamOptions(
            str(tmp_path / "to-b"), into=same, client="copy", available_now=True, start="state", max_entries=1000
        )
        assert stream(spark, instance, source, into).read == 15
        # What comes behind the records are the entries, and the checkpoint knows that they were read.
        with patch.object(JOURNAL_LIMITS, "max_block_entries", 10):
            lab.publish("a", *[message(id=n, v=9) for n in range(40)])
        told = stream(spark, instance, source, replace(into, max_entries=15, split_groups=True))
        assert (told.read, told.details["batches"]) == (40, 4)
        assert lab.query("b") == lab.query("a")


def test_fields_of_messages_make_directories(spark: SparkSession, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", XML)
    instance = lab.open()
    lab.publish("a", message(id=1, kind="x"), message(id=2, kind="y"), message(id=3))
    lab.open().topic("a").delete(filter="/id = 1")
    out = tmp_path / "out"
    files = StreamOptions(str(tmp_path / "check"), output=str(out), available_now=True, partition_by=("/kind",))
    assert stream(spark, instance, instance.topic("a").config, files).records == 4
    found = spark.read.parquet(str(out)).selectExpr("_txid", "CAST(payload AS STRING)", "kind").orderBy("_txid")
    assert [tuple(row) for row in found.collect()] == [
        (1, '{"id":1,"kind":"x"}', "x"),
        (2, '{"id":2,"kind":"y"}', "y"),
        (3, '{"id":3}', None),
        (4, None, None),
    ]
    lake = replace(files, format="delta", partition_by=())
    with pytest.raises(UsageError, match=r"\bio\.delta:") as caught:
        stream(spark, instance, instance.topic("a").config, lake)
    assert caught.value.code == "SOW-SPK-114"


def test_partitions_that_there_cannot_be(tmp_path: Path) -> None:
    """Before Spark is asked for anything."""
    lab = Lab(tmp_path / "lab", XML)
    instance = lab.open()
    files = StreamOptions("check", output="out")
    for options, topic, words in (
        (replace(files, partition_by=("/kind",)), None, "partitions by field"),
        (replace(files, partition_by=("_topics",)), None, "'_topics'"),
        (replace(files, output=None, show=print, format="delta"), None, "require an output"),
        (replace(files, output=None, show=print, partition_by=("_topic",)), None, "require an output"),
    ):
        with pytest.raises(UsageError, match=words):
            stream(cast(Any, None), instance, topic, options)


def test_a_stream_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        instance = lab.open()
        lab.publish("a", message(id=1))
        seen: list[StreamEntry] = []
        stream(spark, instance, None, StreamOptions(show=seen.extend), stop=lambda: bool(seen))
        assert len(seen) == 1
        assert not spark.streams.active


def test_a_long_batch_is_shown_in_parts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver holds some rows of a batch, and of many batches no more than their totals."""
    monkeypatch.setattr(JOB_LIMITS, "show_batch_rows", 7)
    with verified(Lab(tmp_path / "lab", XML)) as lab:
        for start in range(0, 30, 10):
            lab.publish("a", *[message(id=n) for n in range(start, start + 10)])
        parts: list[list[StreamEntry]] = []
        options = StreamOptions(show=parts.append, available_now=True, max_entries=20)
        report = stream(spark, lab.open(), None, options)
        assert [len(part) for part in parts] == [7, 7, 6, 7, 3]
        assert [one.txid for part in parts for one in part] == list(range(1, 31))
        assert (report.read, report.records, report.details) == (30, 30, {"batches": 2, "behind": 0, "bytes_behind": 0})


def test_totals_are_counted_once_and_nothing_else_is_kept() -> None:
    told: list[Progress] = []
    totals = _Totals(told.append)
    made = [
        {
            "batchId": n,
            "numInputRows": 10 * (n % 2),
            "observedMetrics": {METRIC_NAME: {"records": 5, "bytes": 7}},
            "sources": [{"latestOffset": json.dumps({"txid": 9, "entriesBehind": 1000 - n, "bytesBehind": 5})}],
        }
        for n in range(1000)
    ]
    for end in (1, 3, 3, 60, 150, 151):
        idle = {"batchId": end, "numInputRows": 0, "observedMetrics": {}, "sources": [{"latestOffset": "null"}]}
        recent = [*made[max(0, end - 100) : end], idle]
        totals.add_progress(cast(Any, SimpleNamespace(recentProgress=recent, lastProgress=recent[-1])))
    assert (totals.batches, totals.read, totals.records, totals.bytes) == (75, 750, 375, 525)
    assert [one.batches for one in told] == [0, 1, 30, 75] and len(vars(totals)) == 9
    totals.add_progress(cast(Any, SimpleNamespace(recentProgress=made[-1:], lastProgress=made[-1])))
    assert (told[-1].behind, told[-1].bytes_behind) == (1, 5)


@pytest.mark.parametrize(
    ("failures", "shown", "starts", "ends"),
    [
        (["Python worker failed to connect back."] * 2, 0, 3, True),
        (["Python worker failed to connect back."] * 3, 0, 3, False),
        (["Python worker failed to connect back."], 7, 1, False),
        (["the journal is damaged"], 0, 1, False),
    ],
)
def test_a_query_is_started_again_where_its_process_was_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: list[str], shown: int, starts: int, ends: bool
) -> None:
    made: list[Any] = []

    class Query:
        isActive, lastProgress, recentProgress = False, None, ()  # noqa: N815 - Spark's names

        def awaitTermination(self, seconds: float) -> bool:
            if len(made) <= len(failures):
                raise RuntimeError(failures[len(made) - 1])
            return True

    def write(*given: Any) -> Query:
        given[-1]._records = shown
        made.append(Query())
        return made[-1]

    monkeypatch.setattr(streaming, "_read", lambda *given: None)
    monkeypatch.setattr(streaming, "_write", write)
    lab = Lab(tmp_path / "lab", XML)
    options = StreamOptions(show=print, available_now=True)
    waits: list[float] = []
    if ends:
        stream(cast(Any, None), lab.open(), None, options, pause=waits.append)
    else:
        with pytest.raises(RuntimeError):
            stream(cast(Any, None), lab.open(), None, options, pause=waits.append)
    assert len(made) == starts
    # Each start waits longer than the one before it.
    assert round(sum(waits)) == {1: 0, 3: 30}[starts]


def test_what_does_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    instance = Lab(tmp_path / "lab", XML).open()
    source, other = (instance.topic(name).config for name in "ac")
    for options in (
        StreamOptions(),
        StreamOptions(output="x"),
        StreamOptions("c", into=source, client="x"),
        StreamOptions("c", into=other),
        StreamOptions("c", output="x", into=other, client="x"),
    ):
        with pytest.raises(UsageError):
            stream(spark, instance, source, options)
    for topic, options in (
        (None, StreamOptions("c", output="x", start="state")),
        (source, StreamOptions("c", output="x", start="state", operation="delete")),
    ):
        with pytest.raises(UsageError) as caught:
            stream(spark, instance, topic, options)
        assert caught.value.code == "SOW-SPK-173"


def test_the_table_of_jobs() -> None:
    assert [find_job(job.name).load_function().__name__ for job in JOBS] == [job.function for job in JOBS]

"""What is told of a job on Spark: while it runs, and at its end in one line."""

from __future__ import annotations

import io
import json
from typing import Any

from sowctl.cli.commands.bodies.pipeline import JobProgress, format_job_report
from sowctl.cli.context import Invocation
from sowctl.cli.settings import Settings
from sowctl.cli.streams import Streams
from sowctl.seam import SEAM
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.stream import Progress


def test_a_view_is_told_by_its_own_name() -> None:
    report = JobReport("view", ("orders", "customers"), "totals", records=3, bytes=90, partitions=2, seconds=1.5)
    report.details["view"] = "totals"
    assert format_job_report(report) == "view totals: 3 records; 90 B in 1.5 s, 2 partitions; totals"


def test_other_jobs_are_told_by_their_topics() -> None:
    report = JobReport("load", ("orders", "customers"), records=3, rejected=1, partitions=2, seconds=1.5)
    assert format_job_report(report) == "load orders, customers: 3 records, 1 rejected; 1.5 s, 2 partitions"


def test_a_load_that_was_there_already_says_so() -> None:
    report = JobReport("load", ("orders",), read=3, partitions=2, seconds=1.5, details={"commit": {"duplicates": 3}})
    words = "load orders: 0 records, 3 duplicates that the publisher had already sent; 1.5 s, 2 partitions"
    assert format_job_report(report) == words


def test_a_count_of_one_is_singular() -> None:
    report = JobReport("load", ("orders",), records=1, partitions=1, seconds=1.5)
    report.details["commit"] = {"duplicates": 1}
    words = "load orders: 1 record, 1 duplicate that the publisher had already sent; 1.5 s, 1 partition"
    assert format_job_report(report) == words
    telling, said, _ = told("always")
    telling.show_batch(Progress(1, 1, 1, 9, 1, 64))
    assert "1 batch, 1 entry, 1 entry (64 B) behind" in said.getvalue().decode()


def told(progress: str) -> tuple[JobProgress, Any, list[float]]:
    """Something that tells, where it does, and its clock."""
    said, now = io.BytesIO(), [100.0]
    invocation = Invocation(Streams(io.BytesIO(), io.BytesIO(), said, {"COLUMNS": "200"}), {}, SEAM, lambda: 0)
    invocation.command = "pipeline stream"
    invocation.settings = Settings(progress=progress)
    return JobProgress(invocation, lambda: now[0]), said, now


def test_progress_begins_before_spark_does_and_tells_how_far_behind_a_stream_is() -> None:
    telling, said, _ = told("always")
    telling.show_start()
    telling.show_batch(Progress(2, 300, 300, 9000, 1200, 65536))
    telling.show_tasks(1, 4)
    telling.erase()
    lines = said.getvalue().decode().split("\r\x1b[K")[1:]
    assert lines == [
        "pipeline stream: starting Spark",
        "pipeline stream: 2 batches, 300 entries, 1,200 entries (64.0 KiB) behind",
        "pipeline stream: 2 batches, 300 entries, 1,200 entries (64.0 KiB) behind; 1 of 4 tasks",
        "",
    ]


def test_progress_as_objects_is_told_of_each_batch_and_once_a_second_of_tasks() -> None:
    telling, said, now = told("json")
    telling.show_start()
    for done in range(5):
        now[0] += 0.4
        telling.show_tasks(done, 4)
    telling.show_batch(Progress(1, 30, 20, 400, 7, 99))
    telling.erase()
    rows = [json.loads(line) for line in said.getvalue().splitlines()]
    assert [row.get("phase", row.get("done")) for row in rows] == ["starting Spark", 2, None]
    assert rows[-1] == {
        "command": "pipeline stream",
        "counted": "batches",
        "batches": 1,
        "read": 30,
        "records": 20,
        "bytes": 400,
        "behind": 7,
        "bytes_behind": 99,
        "seconds": 2.0,
    }


def test_nothing_is_told_where_progress_is_not_shown() -> None:
    telling, said, _ = told("never")
    telling.show_start()
    telling.show_batch(Progress(1))
    telling.erase()
    assert not telling.is_shown and said.getvalue() == b""

"""Reports of a job on Spark: its progress, and one line at its end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from sowctl.cli.commands.bodies.pipeline import JobProgress, SparkOptions, format_job_report, open_job_session
from sowctl.cli.context import Invocation
from sowctl.cli.settings import Settings
from sowctl.cli.streams import Streams
from sowctl.engine.instance import ignore_progress
from sowctl.seam import SEAM
from sowctl.spark.jobs.progress import StageProgress
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


class Tty(io.BytesIO):
    def isatty(self) -> bool:
        return True


def told(
    progress: str, *, columns: int = 200, said: io.BytesIO | None = None, quiet: bool = False
) -> tuple[JobProgress, Any, list[float]]:
    """A progress meter, its output if there is any, and its clock."""
    said, now = said or io.BytesIO(), [100.0]
    streams = Streams(io.BytesIO(), io.BytesIO(), said, {"COLUMNS": str(columns)})
    invocation = Invocation(streams, {"TERM": "xterm"}, SEAM, lambda: 0)
    invocation.command = "pipeline stream"
    invocation.settings = Settings(progress=progress, quiet=quiet)
    return JobProgress(invocation, lambda: now[0]), said, now


def drawn(said: io.BytesIO) -> list[str]:
    return said.getvalue().decode().split("\r\x1b[K")[1:]


def test_progress_begins_before_spark_does_and_tells_how_far_behind_a_stream_is() -> None:
    telling, said, now = told("always")
    telling.show_start()
    telling.show_batch(Progress(2, 300, 300, 9000, 1200, 65536))
    now[0] += 1
    telling.show_tasks(StageProgress("", 1, 4))
    telling.end()
    assert drawn(said) == [
        "pipeline stream: starting Spark",
        "pipeline stream: 2 batches, 300 entries, 1,200 entries (64.0 KiB) behind",
        "pipeline stream: [#####---------------] 2 batches, 300 entries, 1,200 entries (64.0 KiB) behind, 1 of 4 tasks",
        "",
    ]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (16, "3 of 8 tasks"),
        (31, "3 of 8 tasks, 812,000 rows"),
        (40, "3 of 8 tasks, 812,000 rows, 214.0 MiB"),
        (60, "pipeline stream: 3 of 8 tasks, 812,000 rows, 214.0 MiB"),
        (80, "pipeline stream: [#######-------------] 3 of 8 tasks, 812,000 rows, 214.0 MiB"),
        (120, "pipeline stream: [#######-------------] 3 of 8 tasks, 812,000 rows, 214.0 MiB; load orders"),
    ],
)
def test_a_line_has_what_there_is_room_for(columns: int, line: str) -> None:
    telling, said, _ = told("auto", columns=columns, said=Tty())
    telling.show_tasks(StageProgress("load orders", 3, 8, 812_000, 214 << 20))
    assert drawn(said) == [line]


def test_a_note_takes_the_line_away_and_nothing_is_drawn_after_the_end() -> None:
    telling, said, now = told("auto", said=Tty())
    telling.show_phase("messages to journal", 5, 10)
    telling._streams.write_stderr("a note")
    now[0] += 1
    telling.show_phase("messages to journal", 6, 10)
    telling.end()
    telling.show_tasks(StageProgress("late", 1, 1))
    line = "pipeline stream: [##########----------] 50 % of 10 messages to journal"
    assert drawn(said) == [line, "a note\n", line.replace("50 %", "60 %").replace("#--", "###"), ""]


@pytest.mark.parametrize("what", ["messages to journal", "messages to apply"])
def test_a_narrow_line_still_says_what_is_counted(what: str) -> None:
    """Each phase of a load counts from the beginning: a number alone would only seem to go back."""
    telling, said, _ = told("auto", columns=40, said=Tty())
    telling.show_phase(what, 1_200_000, 3_000_000)
    assert drawn(said) == [f"40 % of 3,000,000 {what}"]


def test_a_phase_without_a_known_end_is_a_count() -> None:
    telling, said, _ = told("always")
    telling.show_phase("entries of a topic", 1200, 0)
    assert drawn(said) == ["pipeline stream: 1,200 entries of a topic"]


def test_a_log_file_gets_a_line_now_and_then() -> None:
    telling, said, now = told("auto")
    telling.show_start()
    for done in range(9):
        now[0] += 10
        telling.show_tasks(StageProgress("load orders", done, 9, 100 * done, 1024 * done))
    now[0] += 30
    telling.show_phase("messages to journal", 7, 70)
    assert said.getvalue().decode().splitlines() == [
        "pipeline stream: 2 of 9 tasks, 200 rows, 2.0 KiB, 30 s; load orders",
        "pipeline stream: 5 of 9 tasks, 500 rows, 5.0 KiB, 1 min 00 s; load orders",
        "pipeline stream: 8 of 9 tasks, 800 rows, 8.0 KiB, 1 min 30 s; load orders",
        "pipeline stream: 10 % of 70 messages to journal, 2 min 00 s",
    ]


@pytest.mark.parametrize(("progress", "said"), [("auto", Tty()), ("auto", io.BytesIO()), ("never", Tty())])
def test_nothing_is_told_where_it_is_not_wanted(progress: str, said: io.BytesIO) -> None:
    telling, said, now = told(progress, said=said, quiet=progress == "auto")
    telling.show_start()
    now[0] += 100
    telling.show_batch(Progress(1))
    telling.show_tasks(StageProgress("load orders", 1, 4))
    telling.end()
    assert not telling.is_shown and said.getvalue() == b"" and telling.watch is ignore_progress


def test_progress_as_objects_is_told_of_each_batch_and_once_a_second_of_tasks() -> None:
    telling, said, now = told("json")
    telling.show_start()
    for done in range(5):
        now[0] += 0.4
        telling.show_tasks(StageProgress("load orders", done, 4, 10 * done, 100 * done))
    telling.show_batch(Progress(1, 30, 20, 400, 7, 99))
    telling.end()
    rows = [json.loads(line) for line in said.getvalue().splitlines()]
    assert rows[0]["phase"] == "starting Spark"
    assert rows[1] == {
        "command": "pipeline stream",
        "counted": "tasks",
        "done": 2,
        "total": 4,
        "stage": "load orders",
        "rows": 20,
        "bytes": 200,
        "seconds": 1.2,
    }
    assert rows[2] == {
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


@pytest.mark.parametrize("url", ["http://here:4040", None])
def test_the_address_of_sparks_page_is_told_where_there_is_one(
    url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def open_nothing(*_: object, **options: object) -> Iterator[Any]:
        yield SimpleNamespace(sparkContext=SimpleNamespace(uiWebUrl=url))

    monkeypatch.setattr("sowctl.spark.sessions.open_session", open_nothing)
    telling, said, _ = told("never")
    with open_job_session(SparkOptions(), telling):
        pass
    assert said.getvalue().decode() == ("" if url is None else f"Spark web interface: {url}\n")

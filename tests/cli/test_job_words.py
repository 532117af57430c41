"""What is told of a job on Spark at its end, in one line."""

from __future__ import annotations

from sowctl.cli.commands.bodies.pipeline import in_words
from sowctl.spark.jobs.report import JobReport


def test_a_view_is_told_by_its_own_name() -> None:
    report = JobReport("view", ("orders", "customers"), "totals", records=3, bytes=90, partitions=2, seconds=1.5)
    report.details["view"] = "totals"
    assert in_words(report) == "view totals: 3 records; 90 B in 1.5 s, 2 partitions; totals"


def test_other_jobs_are_told_by_their_topics() -> None:
    report = JobReport("load", ("orders", "customers"), records=3, rejected=1, partitions=2, seconds=1.5)
    assert in_words(report) == "load orders, customers: 3 records, 1 rejected; 1.5 s, 2 partitions"

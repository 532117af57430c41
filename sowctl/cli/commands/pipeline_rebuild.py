"""``sowctl pipeline rebuild``: stores from journals, on Spark."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.commands.bodies.pipeline import SparkOptions
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Archive, Summary, Topics
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import ReplayOptions

EXAMPLES = (
    "sowctl pipeline rebuild",
    "sowctl pipeline rebuild orders --until 2026-01-05T10:00:00Z --into ten-oclock",
)


class PipelineRebuildArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline rebuild``."""

    topic_names: Topics = None
    until: Annotated[
        str | None,
        declare_option("--until", help="Ignore entries written after this time, txid or bookmark.", metavar="WHEN"),
    ] = None
    replay: Annotated[ReplayOptions, declare_part("into", "journal")]
    archive: Archive = None
    force: Annotated[
        bool, declare_option("--force", help="Rebuild even if records that the journals no longer contain are lost.")
    ] = False
    spark: SparkOptions = SparkOptions()
    summary: Summary = None


def run(invocation: Invocation, arguments: PipelineRebuildArguments) -> int:
    """Rebuild stores from the journals with Spark, several topics in one pass.

    Executors reduce the entries to the last one of every key, or keep all of them for topics with History. The driver
    writes the result in key order and replaces the store, including messages published meanwhile. --until requires
    --into, because the stores would be behind their journal. A warning is printed if the beginning of the journals is
    missing, so that the rebuilt store is incomplete.
    """
    from sowctl.cli.commands.bodies.pipeline import (
        JobProgress,
        count_journal_bytes,
        open_job_session,
        parse_staging,
        show_job_report,
    )
    from sowctl.cli.io.report_output import warn_incomplete
    from sowctl.cli.lookup import apply_archive
    from sowctl.cli.lookup import find_topics as topics_of
    from sowctl.cli.parsing.option_values import parse_position
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.rebuild import rebuild

    end = parse_position(invocation, arguments.until)
    progress = JobProgress(invocation)
    with invocation.open_instance(watch=progress.watch) as instance:
        instance = apply_archive(instance, arguments.archive, arguments.replay.journal)
        end = end.resolve(instance, arguments.replay.journal)
        options = replace(arguments.replay, until_txid=end.txid, until_time=end.time, force=arguments.force)
        wanted = topics_of(instance, arguments.topic_names or [])
        with open_job_session(
            arguments.spark, progress, reads=count_journal_bytes(instance, arguments.replay.journal)
        ) as spark:
            report = rebuild(spark, instance, wanted, options, staging_directory=parse_staging(arguments.spark.staging))
    show_job_report(invocation, report, arguments.summary)
    for topic in report.details["topics"]:
        if topic["incomplete"]:
            warn_incomplete(invocation, topic["topic"])
    return 0

"""``sowctl pipeline snapshot``: a topic's state at an instant, on Spark."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.pipeline import DataSetOptions, SparkOptions, Topic
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Archive, MessageType, Meta, Summary
from sowctl.declarations import declare_option

EXAMPLES = (
    "sowctl pipeline snapshot orders --at 2026-01-05T10:00:00Z --output ten.sow",
    "sowctl pipeline snapshot orders --at -30m --output earlier --output-format ndjson",
)


class PipelineSnapshotArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline snapshot``."""

    topic: Topic
    data_set: DataSetOptions
    at: Annotated[str | None, declare_option("--at", help="Time, bookmark or txid. Default: now.", metavar="WHEN")] = (
        None
    )
    meta: Meta = False
    message_type: MessageType = None
    archive: Archive = None
    spark: SparkOptions = SparkOptions()
    summary: Summary = None


def run(invocation: Invocation, arguments: PipelineSnapshotArguments) -> int:
    """Write the state of a topic as of a time with Spark: a data set, or a new .sow file.

    The result is that of sowctl snapshot: from retained history, otherwise from the journals; an error names the
    earliest available instant.
    """
    from sowctl.cli.commands.bodies import pipeline
    from sowctl.cli.lookup import apply_archive
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.snapshot import snapshot

    where = pipeline.build_output(arguments.data_set, arguments.spark, meta=arguments.meta)
    when = parse_at_option(invocation, arguments.at)
    progress = pipeline.JobProgress(invocation)
    with invocation.open_instance(watch=progress.watch) as instance:
        instance = apply_archive(instance, arguments.archive, None)
        wanted = pipeline.resolve_topic(instance, arguments.topic, arguments.message_type)
        with pipeline.open_job_session(
            arguments.spark, progress, reads=pipeline.count_journal_bytes(instance)
        ) as spark:
            report = snapshot(
                spark,
                instance,
                wanted,
                when.resolve_time(instance),
                where,
                staging_directory=pipeline.parse_staging(arguments.spark.staging),
            )
    pipeline.show_job_report(invocation, report, arguments.summary)
    return 0

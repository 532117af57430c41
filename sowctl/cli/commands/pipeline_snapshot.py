"""``sowctl pipeline snapshot``: a topic's state at an instant, on Spark."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.pipeline import (
    Conf,
    Fields,
    Kind,
    Master,
    PartitionBy,
    Replace,
    Staging,
    Topic,
    Where,
    WriterOptions,
)
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import declare_option
from sowctl.cli.parsing.options import Archive, MessageType, Meta, Summary

EXAMPLES = (
    "sowctl pipeline snapshot orders --at 2026-01-05T10:00:00Z --output ten.sow",
    "sowctl pipeline snapshot orders --at -30m --output earlier --output-format ndjson",
)


def run(
    invocation: Invocation,
    topic: Topic,
    output: Where,
    at: Annotated[
        str | None, declare_option("--at", help="Time, bookmark or txid. Default: now.", metavar="WHEN")
    ] = None,
    format: Kind = None,
    fields: Fields = None,
    partition_by: PartitionBy = None,
    meta: Meta = False,
    writer: WriterOptions = None,
    force: Replace = False,
    message_type: MessageType = None,
    archive: Archive = None,
    staging: Staging = None,
    master: Master = None,
    conf: Conf = None,
    summary: Summary = None,
) -> int:
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

    where = pipeline.build_output(
        output, format, partition_by, fields, writer=writer, meta=meta, force=force, staging=staging
    )
    when = parse_at_option(invocation, at)
    with invocation.open_instance() as instance:
        instance = apply_archive(instance, archive, None)
        wanted = pipeline.resolve_topic(instance, topic, message_type)
        with pipeline.open_job_session(invocation, master, conf, reads=pipeline.count_journal_bytes(instance)) as spark:
            report = snapshot(
                spark,
                instance,
                wanted,
                when.resolve_time(instance),
                where,
                staging_directory=pipeline.parse_staging(staging),
            )
    pipeline.show_job_report(invocation, report, summary)
    return 0

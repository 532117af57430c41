"""``sowctl pipeline export``: topics or journal entries as data sets, on Spark."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.pipeline import DataSetOptions, SparkOptions
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Meta, Summary, Topics
from sowctl.declarations import declare_option

EXAMPLES = (
    "sowctl pipeline export orders --output by-side --partition-by /side",
    "sowctl pipeline export --journal --since 1 --until 2026-01-05T10:00:00Z --output log --output-format ndjson",
)


class PipelineExportArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline export``."""

    data_set: DataSetOptions
    topic_names: Topics = None
    journal: Annotated[bool, declare_option("--journal", help="Export journal entries instead of records.")] = False
    since: Annotated[
        str | None,
        declare_option(
            "--since",
            help="With --journal: first time, txid or bookmark.",
            metavar="WHEN",
            old_names=("--from",),
        ),
    ] = None
    until: Annotated[
        str | None,
        declare_option(
            "--until", help="With --journal: last time, txid or bookmark.", metavar="WHEN", old_names=("--to",)
        ),
    ] = None
    meta: Meta = False
    spark: SparkOptions = SparkOptions()
    summary: Summary = None


def run(invocation: Invocation, arguments: PipelineExportArguments) -> int:
    """Write the current records of topics, or journal entries, as data sets with Spark.

    Several topics are written to separate directories. Journal entries are written as envelopes (ndjson) or columns;
    with --journal, topics that exist only in the transaction log can be exported, too.
    """
    from sowctl.cli.commands.bodies import pipeline
    from sowctl.cli.parsing.option_values import parse_position
    from sowctl.errors import UsageError
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.export import ExportSelection, export, export_journal

    if (arguments.since or arguments.until) and not arguments.journal:
        raise UsageError("SOW-CLI-076", "--since and --until select journal entries", hint="add --journal")
    where = pipeline.build_output(arguments.data_set, arguments.spark, meta=arguments.meta)
    first, last = parse_position(invocation, arguments.since), parse_position(invocation, arguments.until)
    progress = pipeline.JobProgress(invocation)
    with invocation.open_instance(watch=progress.watch) as instance:
        first, last = first.resolve(instance), last.resolve(instance)
        chosen = [
            pipeline.resolve_topic(instance, name, logged=arguments.journal) for name in arguments.topic_names or ()
        ]
        with pipeline.open_job_session(
            arguments.spark, progress, reads=pipeline.count_journal_bytes(instance)
        ) as spark:
            if arguments.journal:
                entries = ExportSelection((), first.txid or 1, last.txid, first.time, last.time).with_topics(chosen)
                report = export_journal(spark, instance, entries, where)
            else:
                records = chosen or list(instance.topics)
                report = export(
                    spark, instance, records, where, staging_directory=pipeline.parse_staging(arguments.spark.staging)
                )
    pipeline.show_job_report(invocation, report, arguments.summary)
    return 0

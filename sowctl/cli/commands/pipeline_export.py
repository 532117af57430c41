"""``sowctl pipeline export``: topics or journal entries as data sets, on Spark."""

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
    Where,
    WriterOptions,
)
from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Meta, Summary, Topics

EXAMPLES = (
    "sowctl pipeline export orders --output by-side --partition-by /side",
    "sowctl pipeline export --journal --from 1 --to 2026-01-05T10:00:00Z --output log --output-format ndjson",
)


def run(
    invocation: Invocation,
    output: Where,
    topics: Topics = None,
    journal: Annotated[bool, option("--journal", help="Export journal entries instead of records.")] = False,
    begin: Annotated[
        str | None, option("--from", help="With --journal: first txid, time or bookmark.", metavar="WHEN")
    ] = None,
    end: Annotated[
        str | None, option("--to", help="With --journal: last txid, time or bookmark.", metavar="WHEN")
    ] = None,
    format: Kind = None,
    fields: Fields = None,
    partition_by: PartitionBy = None,
    meta: Meta = False,
    writer: WriterOptions = None,
    force: Replace = False,
    staging: Staging = None,
    master: Master = None,
    conf: Conf = None,
    summary: Summary = None,
) -> int:
    """Write the current records of topics, or journal entries, as data sets with Spark.

    Several topics are written to separate directories. Journal entries are written as envelopes (ndjson) or columns;
    with --journal, topics that exist only in the transaction log can be exported, too.
    """
    from sowctl.cli.commands.bodies import pipeline
    from sowctl.cli.words.when import position
    from sowctl.errors import UsageError
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.export import ExportedEntries, export, export_journal

    if (begin or end) and not journal:
        raise UsageError("SOW-CLI-076", "--from and --to select journal entries", hint="add --journal")
    where = pipeline.output(
        output, format, partition_by, fields, writer=writer, meta=meta, force=force, staging=staging
    )
    first, last = position(invocation, begin), position(invocation, end)
    with invocation.open_instance() as instance:
        first, last = first.found(instance), last.found(instance)
        chosen = [pipeline.topic_of(instance, name, logged=journal) for name in topics or ()]
        with pipeline.session(invocation, master, conf, reads=pipeline.journalled_bytes(instance)) as spark:
            if journal:
                entries = ExportedEntries((), first.txid or 1, last.txid, first.time, last.time).of(chosen)
                report = export_journal(spark, instance, entries, where)
            else:
                records = chosen or list(instance.topics)
                report = export(spark, instance, records, where, staging_directory=pipeline.directory(staging))
    pipeline.show(invocation, report, summary)
    return 0

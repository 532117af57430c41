"""``sowctl pipeline view``: projections with grouping and joins, on Spark."""

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
from sowctl.cli.parsing.declarations import Argument, declare_option
from sowctl.cli.parsing.options import Filter, MessageType, Summary

EXAMPLES = (
    "sowctl pipeline view orders --projection '/symbol, SUM(/qty) AS /qty' --grouping /symbol --output sums.sow",
    "sowctl pipeline view --join '[orders]./customerId = [customers]./customerId'"
    " --projection '[customers]./name AS /name, SUM([orders]./qty) AS /qty' --grouping '[customers]./name'"
    " --output by-name --output-format ndjson",
)


def run(
    invocation: Invocation,
    output: Where,
    source: Annotated[
        str | None, Argument("VIEW", "View of the configuration, or a topic to project.", complete="view")
    ] = None,
    projection: Annotated[
        list[str] | None,
        declare_option("--projection", help="Fields of the result. May be repeated.", metavar="FIELDS"),
    ] = None,
    grouping: Annotated[
        list[str] | None, declare_option("--grouping", help="Fields to group by. May be repeated.", metavar="FIELDS")
    ] = None,
    join: Annotated[
        list[str] | None,
        declare_option(
            "--join",
            help="Join condition instead of a topic, for example '[a]./x = [b]./y'. May be repeated.",
            metavar="JOIN",
        ),
    ] = None,
    filter: Filter = None,
    format: Kind = None,
    fields: Fields = None,
    partition_by: PartitionBy = None,
    writer: WriterOptions = None,
    force: Replace = False,
    message_type: MessageType = None,
    staging: Staging = None,
    master: Master = None,
    conf: Conf = None,
    summary: Summary = None,
) -> int:
    """Compute a view over the current records of its topics with Spark: a data set, or a new .sow file.

    The view is either configured, or defined by --projection and --grouping over a topic or over joined topics. Fields,
    joins and aggregates have the same meaning as in a view.
    """
    from sowctl.cli.commands.bodies import pipeline
    from sowctl.errors import UsageError
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.config.derived_entries import View
    from sowctl.spark.jobs.view import AdHocView, view

    where = pipeline.build_output(output, format, partition_by, fields, writer=writer, force=force, staging=staging)
    with invocation.open_instance() as instance:
        found = instance.config.find_entries(source, message_type) if instance.config is not None and source else ()
        wanted: View | AdHocView
        if len(found) == 1 and isinstance(found[0], View):
            if projection or grouping or join or filter:
                raise UsageError("SOW-CLI-077", f"{source!r} is a view, which has its own projection and filter")
            wanted = found[0]
        elif projection and grouping:
            wanted = AdHocView(source, tuple(projection), tuple(grouping), tuple(join or ()), filter, message_type)
        else:
            what = f"{source!r} is not a view" if source else "no view is given"
            raise UsageError("SOW-CLI-077", what, hint="give --projection and --grouping, or name a view")
        with pipeline.open_job_session(invocation, master, conf, reads=pipeline.count_journal_bytes(instance)) as spark:
            report = view(spark, instance, wanted, where, staging_directory=pipeline.parse_staging(staging))
    pipeline.show_job_report(invocation, report, summary)
    return 0

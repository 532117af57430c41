"""``sowctl pipeline view``: projections with grouping and joins, on Spark."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.pipeline import DataSetOptions, SparkOptions
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, Summary
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import Filter

EXAMPLES = (
    "sowctl pipeline view orders --projection '/symbol, SUM(/qty) AS /qty' --grouping /symbol --output sums.sow",
    "sowctl pipeline view --join '[orders]./customerId = [customers]./customerId'"
    " --projection '[customers]./name AS /name, SUM([orders]./qty) AS /qty' --grouping '[customers]./name'"
    " --output by-name --output-format ndjson",
)


class PipelineViewArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline view``."""

    data_set: DataSetOptions
    source: Annotated[
        str | None, Argument("VIEW", "View of the configuration, or a topic to project.", complete="view")
    ] = None
    projection: Annotated[
        list[str] | None,
        declare_option("--projection", help="Fields of the result. May be repeated.", metavar="FIELDS"),
    ] = None
    grouping: Annotated[
        list[str] | None, declare_option("--grouping", help="Fields to group by. May be repeated.", metavar="FIELDS")
    ] = None
    join: Annotated[
        list[str] | None,
        declare_option(
            "--join",
            help="Join condition instead of a topic, for example '[a]./x = [b]./y'. May be repeated.",
            metavar="JOIN",
        ),
    ] = None
    filter: Filter = None
    message_type: MessageType = None
    spark: SparkOptions = SparkOptions()
    summary: Summary = None


def run(invocation: Invocation, arguments: PipelineViewArguments) -> int:
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

    where = pipeline.build_output(arguments.data_set, arguments.spark)
    progress = pipeline.JobProgress(invocation)
    with invocation.open_instance(watch=progress.watch) as instance:
        found = (
            instance.config.find_entries(arguments.source, arguments.message_type)
            if instance.config is not None and arguments.source
            else ()
        )
        wanted: View | AdHocView
        if len(found) == 1 and isinstance(found[0], View):
            if arguments.projection or arguments.grouping or arguments.join or arguments.filter:
                raise UsageError(
                    "SOW-CLI-077", f"{arguments.source!r} is a view, which has its own projection and filter"
                )
            wanted = found[0]
        elif arguments.projection and arguments.grouping:
            wanted = AdHocView(
                arguments.source,
                tuple(arguments.projection),
                tuple(arguments.grouping),
                tuple(arguments.join or ()),
                arguments.filter,
                arguments.message_type,
            )
        else:
            what = f"{arguments.source!r} is not a view" if arguments.source else "no view is given"
            raise UsageError("SOW-CLI-077", what, hint="give --projection and --grouping, or name a view")
        with pipeline.open_job_session(
            arguments.spark, progress, reads=pipeline.count_journal_bytes(instance)
        ) as spark:
            report = view(
                spark, instance, wanted, where, staging_directory=pipeline.parse_staging(arguments.spark.staging)
            )
    pipeline.show_job_report(invocation, report, arguments.summary)
    return 0

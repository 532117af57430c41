"""``sowctl pipeline rebuild``: stores from journals, on Spark."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.pipeline import Conf, Master, Staging
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Archive, Summary, Topics
from sowctl.declarations import declare_option

EXAMPLES = (
    "sowctl pipeline rebuild",
    "sowctl pipeline rebuild orders --until 2026-01-05T10:00:00Z --into ten-oclock",
)


class PipelineRebuildArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline rebuild``."""

    topics: Topics = None
    until: Annotated[
        str | None,
        declare_option("--until", help="Ignore entries written after this time, txid or bookmark.", metavar="WHEN"),
    ] = None
    into: Annotated[
        str | None, declare_option("--into", help="Write new stores to DIR.", metavar="DIR", complete="directory")
    ] = None
    journal: Annotated[
        str | None,
        declare_option(
            "--journal",
            help="Journal directory, or the URL of an archive. Default: the configured one.",
            metavar="DIR",
        ),
    ] = None
    archive: Archive = None
    force: Annotated[
        bool, declare_option("--force", help="Rebuild even if records that the journals no longer contain are lost.")
    ] = False
    staging: Staging = None
    master: Master = None
    conf: Conf = None
    summary: Summary = None


def run(invocation: Invocation, arguments: PipelineRebuildArguments) -> int:
    """Rebuild stores from the journals with Spark, several topics in one pass.

    Executors reduce the entries to the last one of every key, or keep all of them for topics with History. The driver
    writes the result in key order and replaces the store, including messages published meanwhile. --until requires
    --into, because the stores would be behind their journal.
    """
    from sowctl.cli.commands.bodies.pipeline import (
        count_journal_bytes,
        open_job_session,
        parse_staging,
        show_job_report,
    )
    from sowctl.cli.lookup import apply_archive
    from sowctl.cli.lookup import find_topics as topics_of
    from sowctl.cli.parsing.option_values import parse_position
    from sowctl.engine.options import ReplayOptions
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.rebuild import rebuild

    end = parse_position(invocation, arguments.until)
    with invocation.open_instance() as instance:
        instance = apply_archive(instance, arguments.archive, arguments.journal)
        end = end.resolve(instance, arguments.journal)
        options = ReplayOptions(end.txid, end.time, arguments.into, arguments.journal, force=arguments.force)
        wanted = topics_of(instance, arguments.topics or [])
        with open_job_session(
            invocation, arguments.master, arguments.conf, reads=count_journal_bytes(instance, arguments.journal)
        ) as spark:
            report = rebuild(spark, instance, wanted, options, staging_directory=parse_staging(arguments.staging))
    show_job_report(invocation, report, arguments.summary)
    return 0

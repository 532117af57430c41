"""``sowctl pipeline rebuild``: stores from journals, on Spark."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.pipeline import Conf, Master, Staging
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import declare_option
from sowctl.cli.parsing.options import Archive, Summary, Topics

EXAMPLES = (
    "sowctl pipeline rebuild",
    "sowctl pipeline rebuild orders --until 2026-01-05T10:00:00Z --into ten-oclock",
)


def run(
    invocation: Invocation,
    topics: Topics = None,
    until: Annotated[
        str | None,
        declare_option("--until", help="Ignore entries written after this time, txid or bookmark.", metavar="WHEN"),
    ] = None,
    into: Annotated[
        str | None, declare_option("--into", help="Write new stores to DIR.", metavar="DIR", complete="directory")
    ] = None,
    journal: Annotated[
        str | None,
        declare_option(
            "--journal",
            help="Journal directory, or the URL of an archive. Default: the configured one.",
            metavar="DIR",
        ),
    ] = None,
    archive: Archive = None,
    force: Annotated[
        bool, declare_option("--force", help="Rebuild even if records that the journals no longer contain are lost.")
    ] = False,
    staging: Staging = None,
    master: Master = None,
    conf: Conf = None,
    summary: Summary = None,
) -> int:
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

    end = parse_position(invocation, until)
    with invocation.open_instance() as instance:
        instance = apply_archive(instance, archive, journal)
        end = end.resolve(instance, journal)
        options = ReplayOptions(end.txid, end.time, into, journal, force=force)
        wanted = topics_of(instance, topics or [])
        with open_job_session(invocation, master, conf, reads=count_journal_bytes(instance, journal)) as spark:
            report = rebuild(spark, instance, wanted, options, staging_directory=parse_staging(staging))
    show_job_report(invocation, report, summary)
    return 0

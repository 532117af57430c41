"""``sowctl pipeline rebuild``: stores from journals, on Spark."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.pipeline import Conf, Master, Staging
from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Archive, Summary, Topics

EXAMPLES = (
    "sowctl pipeline rebuild",
    "sowctl pipeline rebuild orders --until 2026-01-05T10:00:00Z --into ten-oclock",
)


def run(
    invocation: Invocation,
    topics: Topics = None,
    until: Annotated[
        str | None, option("--until", help="Ignore entries written after this time, txid or bookmark.", metavar="WHEN")
    ] = None,
    into: Annotated[
        str | None, option("--into", help="Write new stores to DIR.", metavar="DIR", complete="directory")
    ] = None,
    journal: Annotated[
        str | None,
        option(
            "--journal",
            help="Journal directory, or the URL of an archive. Default: the configured one.",
            metavar="DIR",
        ),
    ] = None,
    archive: Archive = None,
    force: Annotated[
        bool, option("--force", help="Rebuild even if records that the journals no longer contain are lost.")
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
    from sowctl.cli.commands.bodies.pipeline import directory, journalled_bytes, session, show
    from sowctl.cli.lookup import archived
    from sowctl.cli.lookup import topics as topics_of
    from sowctl.cli.words.when import position
    from sowctl.engine.options import ReplayOptions
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.rebuild import rebuild

    end = position(invocation, until)
    with invocation.open_instance() as instance:
        instance = archived(instance, archive, journal)
        end = end.found(instance, journal)
        options = ReplayOptions(end.txid, end.time, into, journal, force=force)
        wanted = topics_of(instance, topics or [])
        with session(invocation, master, conf, reads=journalled_bytes(instance, journal)) as spark:
            report = rebuild(spark, instance, wanted, options, staging_directory=directory(staging))
    show(invocation, report, summary)
    return 0

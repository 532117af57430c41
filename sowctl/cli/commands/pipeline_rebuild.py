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
        str | None, option("--until", help="only what was written up to this time, txid or bookmark", metavar="WHEN")
    ] = None,
    into: Annotated[
        str | None, option("--into", help="write new stores into DIR", metavar="DIR", complete="directory")
    ] = None,
    journal: Annotated[
        str | None,
        option(
            "--journal",
            help="directory of the journals, or an archive's URL; default the configured one",
            metavar="DIR",
        ),
    ] = None,
    archive: Archive = None,
    force: Annotated[
        bool, option("--force", help="rebuild although records would be lost that the journals no longer hold")
    ] = False,
    staging: Staging = None,
    master: Master = None,
    conf: Conf = None,
    summary: Summary = None,
) -> int:
    """Build stores anew from the journals with Spark, several topics in one pass.

    Executors fold the entries: the last one of every key counts, or all of them where the topic keeps history. The
    driver writes the result in key order and puts it in place; what was published meanwhile is in it. --until needs
    --into, because live stores would fall behind their journal.
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

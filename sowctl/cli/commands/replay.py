"""``sowctl replay``: stores from journals."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Archive, DryRun, Summary, Topics
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl replay --verify",
    "sowctl replay orders",
    "sowctl replay --until 2026-01-05T10:00:00Z --into ten-oclock",
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
    verify: Annotated[bool, option("--verify", help="compare with the stores and write nothing")] = False,
    rebuild: Annotated[
        bool, option("--rebuild", help="start from the beginning also where catching up would do")
    ] = False,
    rekey: Annotated[
        bool, option("--rekey", help="after Key was changed: give the records the keys that their topic makes now")
    ] = False,
    force: Annotated[
        bool,
        option("--force", help="replace a store although records in it would be lost that the journals no longer hold"),
    ] = False,
    dry_run: DryRun = False,
    summary: Summary = None,
) -> int:
    """Bring stores in line with the journals.

    A store that is behind catches up; one that is missing or damaged is rebuilt beside the old one and takes its place,
    and the damaged file is moved aside and kept. So is a store that followed another copy of the journal, which went on
    by itself. A file that is plainly no store is refused; --force keeps it aside as well. With --until, which would
    leave a store behind its journal, --into or --verify is needed. Topics that are transient, or that no journal
    records, are skipped. Where 20,000 records or
    more changed, half of a topic's, its memo indexes are built anew behind the report.

    Where older journal files are gone, a store that is missing is built of those that are left, and a note says where
    they begin; one that is there, and would lose records, is replaced with --force only.

    Where records stand under keys of another definition than the configured one, a replay is refused. --rekey deletes
    the former keys and publishes the records under theirs, in one group of the journal, then makes the store anew and
    keeps the former file. Of several records that have one key now, the latest stays. Their times are that of the
    group; their expirations stay.

    Ends with status 1 where --verify finds a difference. Where the journals begin later than the topic, --verify
    compares what they hold, and says that the store is not verified; that is no difference.
    """
    if until is not None and not (into or verify):
        raise UsageError(
            "SOW-CLI-015",
            "--until would put stores behind their journal",
            hint="give --into DIR for new stores, or --verify",
        )
    from sowctl.cli.io.loaded import follow
    from sowctl.cli.io.reporting import show_report
    from sowctl.cli.lookup import archived
    from sowctl.cli.lookup import topics as topics_of
    from sowctl.cli.words.when import position
    from sowctl.engine.options import ReplayOptions
    from sowctl.engine.verbs.replay import replay

    end = position(invocation, until)
    with invocation.open_instance() as instance:
        instance = archived(instance, archive, journal)
        end = end.found(instance, journal)
        options = ReplayOptions(end.txid, end.time, into, journal, verify, rebuild, force, dry_run, rekey)
        reports = replay(instance, topics_of(instance, topics or []), options)
    for report in reports:
        show_report(invocation, report, summary)
    if not (into or verify or dry_run):
        changed = {"rebuilt": "records", "caught up": "entries"}
        done = [report for report in reports if report.action in changed]
        follow(invocation, [(one.topic, one.message_type, getattr(one, changed[one.action])) for one in done])
    return 1 if verify and any(report.action == "differs" for report in reports) else 0

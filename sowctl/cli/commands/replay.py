"""``sowctl replay``: stores from journals."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.declare import option
from sowctl.cli.options import DryRun, Summary, Topics
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
        option("--journal", help="journal files or their directory; default the configured one", metavar="PATH"),
    ] = None,
    verify: Annotated[bool, option("--verify", help="compare with the stores and write nothing")] = False,
    dry_run: DryRun = False,
    summary: Summary = None,
) -> int:
    """Rebuild stores from the journals.

    Without --into each store is rebuilt beside the old one and then takes its place; a damaged store is moved aside and
    kept. With --until, which would leave a store behind its journal, --into, --verify or --dry-run is needed. Ends with
    status 1 where --verify finds a difference.
    """
    if until is not None and not (into or verify or dry_run):
        raise UsageError(
            "SOW-CLI-015",
            "--until would put stores behind their journal",
            hint="give --into DIR for new stores, or --verify or --dry-run",
        )
    from sowctl.cli.reporting import show_report
    from sowctl.engine.replay import ReplayOptions, replay

    options = ReplayOptions(until=until, into=into, journal=journal, verify=verify, dry_run=dry_run)
    with invocation.open_instance() as instance:
        reports = replay(instance, topics or [], options)
    for report in reports:
        show_report(invocation, report, summary)
    return 1 if verify and any(report.different for report in reports) else 0

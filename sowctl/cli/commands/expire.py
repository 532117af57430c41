"""``sowctl expire``: what is over, out of the stores."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.options import DryRun, Regex, Summary, Topics

EXAMPLES = (
    "sowctl expire",
    "sowctl expire quotes --dry-run",
    "sowctl expire --now 2026-01-06T00:00:00Z",
)


def run(
    invocation: Invocation,
    topics: Topics = None,
    regex: Regex = False,
    dry_run: DryRun = False,
    summary: Summary = None,
) -> int:
    """Remove the records whose lifetime is over at the clock (--now).

    Such records are invisible already; this gives their room back. So it does with versions of topics with History
    that have not been current for longer than the window. Nothing is journalled, because what is over follows from
    stamps and clock.
    """
    from sowctl.cli.lookup import topics as topics_of
    from sowctl.cli.reporting import show_report
    from sowctl.engine.expire import expire

    with invocation.open_instance() as instance:
        reports = expire(instance, topics_of(instance, topics or [], regex=regex), dry_run=dry_run)
    for report in reports:
        show_report(invocation, report, summary)
    return 0

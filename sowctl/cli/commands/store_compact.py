"""``sowctl store compact``: stores without free pages."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import DryRun, Numbers, Summary, Targets

EXAMPLES = (
    "sowctl store compact orders",
    "sowctl store compact --min-free 50 --dry-run",
)


def run(
    invocation: Invocation,
    targets: Targets = None,
    min_free: Annotated[
        int, option("--min-free", help="only stores of whose pages so many percent are free", metavar="PERCENT")
    ] = 0,
    always: Annotated[bool, option("--always", help="also stores of which a copy is no smaller")] = False,
    dry_run: DryRun = False,
    summary: Summary = None,
    format: Numbers = None,
) -> int:
    """Put a tight copy of each store in its place, and say how large it was before and is afterwards.

    A store does not become smaller when records are deleted: their pages stay free in it, and a reader that stays makes
    it grow. The copy has its records in the order of keys, and no free page. Others may read and write meanwhile;
    writers wait only while the last changes are brought over and the copy takes its place. Every record is verified,
    and counts and digest compared: a damaged store stays as it is, and the command ends with status 5 when the others
    are done. Until the copy is in place both files need room. What killed processes left beside the store is removed.

    A store of which a copy would be no smaller is left as it is. With --always it is replaced all the same: its records
    stand in the order of keys then, in the present format.

    Without TARGET all topics that have a store are taken. With --dry-run it says how large each will be at most.
    Where free pages do not tell whether a copy is smaller, one is made in TMPDIR and removed.
    """
    from sowctl.cli.io.reporting import check_report_options, show_reports
    from sowctl.engine.topics.targets import Target, resolve
    from sowctl.engine.verbs.upkeep.compact import compact
    from sowctl.errors import UsageError

    check_report_options(summary, format)
    if not 0 <= min_free <= 100:
        raise UsageError("SOW-CLI-079", f"--min-free {min_free} is no percentage", hint="give a number from 0 to 100")
    with invocation.open_instance(*(targets or ())) as instance:
        chosen = [target for text in targets or () for target in resolve(instance, text)]
        if not targets:
            chosen = [Target(topic=topic) for topic in instance.topics]
        reports = []
        try:
            for report in compact(instance, chosen, min_free=min_free / 100, always=always, dry_run=dry_run):
                reports.append(report)
        finally:
            # Also where one of the stores failed: the others are done.
            if reports:
                show_reports(invocation, reports, summary, format)
    if not reports:
        invocation.note("there is no store to compact")
    return 0

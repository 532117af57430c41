"""``sowctl store compact``: replace stores by compact copies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Numbers, Summary, Targets
from sowctl.declarations import declare_option
from sowctl.engine.options import DryRun

EXAMPLES = (
    "sowctl store compact orders",
    "sowctl store compact --min-free 50 --dry-run",
)


class StoreCompactArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl store compact``."""

    targets: Targets = None
    min_free: Annotated[
        int,
        declare_option(
            "--min-free", help="Only stores with at least this percentage of free pages.", metavar="PERCENT"
        ),
    ] = 0
    always: Annotated[bool, declare_option("--always", help="Also replace stores whose copy is not smaller.")] = False
    dry_run: DryRun = False
    summary: Summary = None
    format: Numbers = None


def run(invocation: Invocation, arguments: StoreCompactArguments) -> int:
    """Replace each store with a compact copy, and print its size before and after.

    Deleting records does not shrink a store: their pages stay free in it, and a long-running reader makes it grow. The
    copy has its records in key order, and no free pages. Other processes can read and write meanwhile; writers wait
    only while the last changes are copied and the copy replaces the store. Every record is verified, and counts and
    digest are compared: a damaged store is left unchanged, and the command exits with status 5 after the other stores.
    Both files need disk space until the copy is in place. Files left by killed processes are removed.

    A store whose copy would not be smaller is left unchanged. With --always it is replaced anyway, so that its records
    are in key order and in the current format.

    Without TARGET, all topics with a store are compacted. --dry-run prints the maximum size of each copy. If that
    cannot be derived from the free pages, a copy is made in TMPDIR and removed.
    """
    from sowctl.cli.io.report_output import check_report_options, show_reports
    from sowctl.engine.topics.targets import Target, resolve_targets
    from sowctl.engine.verbs.upkeep.compact import compact_stores
    from sowctl.errors import UsageError

    check_report_options(arguments.summary, arguments.format)
    if not 0 <= arguments.min_free <= 100:
        raise UsageError(
            "SOW-CLI-079", f"--min-free {arguments.min_free} is not a percentage", hint="give a number from 0 to 100"
        )
    with invocation.open_instance(*(arguments.targets or ())) as instance:
        chosen = [target for text in arguments.targets or () for target in resolve_targets(instance, text)]
        if not arguments.targets:
            chosen = [Target(topic=topic) for topic in instance.topics]
        reports = []
        try:
            for report in compact_stores(
                instance, chosen, min_free=arguments.min_free / 100, always=arguments.always, dry_run=arguments.dry_run
            ):
                reports.append(report)
        finally:
            # Even if one of the stores failed: the others are finished.
            if reports or arguments.format is not None:
                show_reports(invocation, reports, arguments.summary, arguments.format)
    if not reports:
        invocation.note("no store to compact")
    return 0

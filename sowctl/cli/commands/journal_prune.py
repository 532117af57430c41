"""``sowctl journal prune``: remove old journal files permanently."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Summary, Yes
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import DryRun
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl journal prune --keep-for 7d --dry-run",
    "sowctl journal prune --keep-size 10GB --yes",
    "sowctl journal prune --before 2026-01-05T09:30:00Z --dry-run --format json",
)


class JournalPruneArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal prune``."""

    keep_for: Annotated[
        str | None,
        declare_option("--keep-for", help="Keep files with entries newer than TIME, for example 7d.", metavar="TIME"),
    ] = None
    keep_size: Annotated[
        str | None,
        declare_option(
            "--keep-size", help="Keep the newest files up to a total SIZE, for example 10GB.", metavar="SIZE"
        ),
    ] = None
    before: Annotated[
        str | None,
        declare_option("--before", help="Remove only entries before this txid, time or bookmark.", metavar="WHEN"),
    ] = None
    bookmarks: Annotated[
        list[str] | None,
        declare_option(
            "--bookmarks", help="Additional bookmark store file to consider. May be repeated.", metavar="FILE"
        ),
    ] = None
    dry_run: DryRun = False
    yes: Yes = False
    summary: Summary = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: JournalPruneArguments) -> int:
    """Remove the oldest journal files, including archived ones. This cannot be undone.

    --keep-for, --keep-size or --before selects the files to remove, which are listed. They are removed from the oldest
    up to the first file that is still needed: by a store that is missing or has not applied it, a queue, a subscription
    in a bookmark store, a conflated topic, or the RecoveryPoint of a topic without a store. Each of these is reported,
    with what it needs and the command that releases it. The active file is never removed. If the
    JournalArchiveDirectory is a URL, a file is kept until it has been uploaded; its uploaded segment is kept, and used
    for reading from then on.

    Bookmark stores are found if they are topics of this instance, files used by its subscriptions, or .bookmarks files
    in the directory of the configuration or the working directory; name others with --bookmarks. Subscriptions without
    a bookmark store are not considered.

    Stores are not changed, but synced first. Afterwards they can no longer be rebuilt completely from the journals, and
    earlier states of topics without History are available only from the reported instant on. On a terminal, the command
    asks for confirmation; otherwise --yes is required.
    """
    from sowctl.cli.commands.bodies.retention import build_prune_rule, has_finished_files, report_pruned
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.report_output import check_report_options
    from sowctl.engine.maintenance.retention.prune import prune_files
    from sowctl.output.reports import as_dict
    from sowctl.values.display import format_bytes, format_count

    if sum(given is not None for given in (arguments.keep_for, arguments.keep_size, arguments.before)) != 1:
        raise UsageError("SOW-UPK-002", "give exactly one of --keep-for, --keep-size and --before")
    check_report_options(arguments.summary, arguments.output.format)
    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        # Invalid options are reported before the confirmation is requested.
        rule = build_prune_rule(invocation, instance, arguments.keep_for, arguments.keep_size, arguments.before)
        ask = not arguments.dry_run and invocation.streams.must_confirm(yes=arguments.yes)
        if ask:
            plan = prune_files(instance, rule, bookmarks=arguments.bookmarks or (), dry_run=True)
            if plan.removed:
                gone = f"txids up to {plan.first_txid - 1}"
                invocation.streams.confirm(
                    f"remove {format_count(plan.removed, 'journal file')} ({format_bytes(plan.bytes)}, {gone}) for good"
                )
        report = prune_files(instance, rule, bookmarks=arguments.bookmarks or (), dry_run=arguments.dry_run)
        if arguments.summary != "json":
            sink.write_rows(map(as_dict, report.files))
        has_finished = bool(report.files) or has_finished_files(instance)
    report_pruned(invocation, report, arguments.summary, has_finished=has_finished)
    return 0

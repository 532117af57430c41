"""``sowctl journal prune``: old journal files removed for good."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, DryRun, Format, Summary, Yes
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl journal prune --keep-for 7d --dry-run",
    "sowctl journal prune --keep-size 10GB --yes",
    "sowctl journal prune --before 2026-01-05T09:30:00Z --dry-run --format json",
)


def run(
    invocation: Invocation,
    keep_for: Annotated[
        str | None, option("--keep-for", help="keep files with anything as young as this, such as 7d", metavar="TIME")
    ] = None,
    keep_size: Annotated[
        str | None,
        option("--keep-size", help="keep the youngest files that take so much, such as 10GB", metavar="SIZE"),
    ] = None,
    before: Annotated[
        str | None,
        option("--before", help="remove only entries before this txid, time or bookmark", metavar="WHEN"),
    ] = None,
    bookmarks: Annotated[
        list[str] | None,
        option("--bookmarks", help="a further file of subscriptions' places; may be repeated", metavar="FILE"),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    summary: Summary = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Remove the oldest journal files, in the directory and in the archive. What is removed cannot be read again.

    Listed are the files that --keep-for, --keep-size or --before lets go. Of these the oldest are removed, up to the
    first that something still needs: a store that has not applied it or is missing, a queue, a subscription in a
    bookmark store, a conflated topic, the RecoveryPoint of a topic without a store. Each of them is named, with what it
    needs and the command that would let go. The file that grows always stays. Where the JournalArchiveDirectory is a
    URL, a file stays until it was sent there, and its segment there stays: it is read from then on.

    Bookmark stores are found where they are topics of this instance, and as files that its subscriptions have used, or
    that end with .bookmarks beside the configuration and in the working directory; name others with --bookmarks.
    Subscriptions without a bookmark store are not known.

    Stores stay as they are, and are synced before. What they hold can be made anew from the journals no more, and the
    state of a topic without History can be asked for only from the instant on that is named. On a terminal the command
    asks first; elsewhere it needs --yes.
    """
    from sowctl.cli.commands.bodies.retention import prune_rule, say_pruned
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.reporting import check_report_options
    from sowctl.engine.upkeep.retention.pruning import prune
    from sowctl.output.reports import as_dict, size

    if sum(given is not None for given in (keep_for, keep_size, before)) != 1:
        raise UsageError("SOW-UPK-002", "give exactly one of --keep-for, --keep-size and --before")
    check_report_options(summary, format)
    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        # What was written wrongly is said before anybody is asked for a yes.
        rule = prune_rule(invocation, instance, keep_for, keep_size, before)
        ask = not dry_run and invocation.streams.must_ask(yes=yes)
        if ask:
            plan = prune(instance, rule, bookmarks=bookmarks or (), dry_run=True)
            if plan.removed:
                gone = f"txids up to {plan.first_txid - 1}"
                invocation.streams.confirm(
                    f"remove {plan.removed:,} journal files ({size(plan.bytes)}, {gone}) for good"
                )
        report = prune(instance, rule, bookmarks=bookmarks or (), dry_run=dry_run)
        if summary != "json":
            sink.write_rows(map(as_dict, report.files))
    say_pruned(invocation, report, summary)
    return 0

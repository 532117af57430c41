"""``sowctl restore``: an instance made of a backup."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import DryRun, Summary
from sowctl.errors import UsageError
from sowctl.values.units import MAX_U64

EXAMPLES = (
    "sowctl restore backups --to restored",
    "sowctl restore backups --to yesterday --txid 500 --dry-run",
    "sowctl restore backups --to before --txid 2000 --summary json",
)


def run(
    invocation: Invocation,
    directory: Annotated[str, Argument("DIR", "a directory of backups, or one backup")],
    to: Annotated[str, option("--to", help="where to: a directory that is empty or not there", metavar="EMPTYDIR")],
    name: Annotated[
        str | None, option("--name", help="the backup, as sowctl backup --list shows it", metavar="NAME")
    ] = None,
    at: Annotated[str | None, option("--at", help="without all that is later than this time", metavar="TIME")] = None,
    txid: Annotated[
        int | None, option("--txid", help="without all behind the group of this txid", metavar="N", maximum=MAX_U64)
    ] = None,
    force: Annotated[bool, option("--force", help="restore also where --at leaves out all entries of a topic")] = False,
    dry_run: DryRun = False,
    summary: Summary = None,
) -> int:
    """Make an instance out of a backup: as it was at the backup's instant, or earlier.

    Without --name the newest backup is taken, and with --at or --txid the oldest one that holds that place. A store
    that stands beyond it is taken from an earlier backup, or built from the journal. The state of a queue goes back by
    being made anew, without its leases.

    The journal is cut between groups only, and all messages of one run of publish may be one group. --txid takes the
    whole group of its txid, as query --at does. --at ends before the first group that has a later entry. Entries up to
    the time that are in that group or behind it are left out; the command then says how many of which topics, which
    --txid takes them, and ends with status 3. It refuses to restore where all entries of a topic are left out, unless
    --force is given.

    The restored instance begins a new history above every txid that may have been given since: what a subscriber, a
    store or a queue knows of entries that were undone is refused there, and the error names both histories. Nothing is
    ever restored over an instance: EMPTYDIR holds all of it, read and compared, or nothing.
    """
    import os
    from pathlib import Path

    from sowctl.cli.io.reporting import show_report
    from sowctl.engine.verbs.upkeep.restore import describe_choices, describe_left_out, restore

    if at is not None and txid is not None:
        raise UsageError("SOW-CLI-012", "--at and --txid exclude each other", hint="give one of them")
    report = restore(
        Path(directory),
        Path(to),
        invocation.open_other,
        name=name,
        txid=txid,
        at=None if at is None else invocation.instant(at),
        dry_run=dry_run,
        force=force,
        seam=invocation.seam,
        now=invocation.clock(),
        lineage=os.urandom(16),
        watch=invocation.watch(),
    )
    show_report(invocation, report, summary)
    if not report.entries_left_out:
        return 0
    invocation.warn(
        describe_left_out(report.entries_left_out, report.at),
        code="SOW-BAK-009",
        hint=describe_choices(report.choices),
    )
    return 3

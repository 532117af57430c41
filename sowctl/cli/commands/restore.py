"""``sowctl restore``: restore an instance from a backup."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Summary
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import DryRun
from sowctl.errors import UsageError
from sowctl.values.units import MAX_U64

EXAMPLES = (
    "sowctl restore backups --to restored",
    "sowctl restore backups --to yesterday --txid 500 --dry-run",
    "sowctl restore backups --to before --txid 2000 --summary json",
)


class RestoreArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl restore``."""

    directory: Annotated[str, Argument("DIR", "Directory of backups, or a single backup.")]
    to: Annotated[
        str, declare_option("--to", help="Target directory, which must be empty or missing.", metavar="EMPTYDIR")
    ]
    name: Annotated[
        str | None,
        declare_option("--name", help="Backup to restore, as shown by sowctl backup --list.", metavar="NAME"),
    ] = None
    at: Annotated[
        str | None,
        declare_option(
            "--at", help="Ignore everything after TIME, for example 2026-01-05T10:00:00Z or -2h.", metavar="TIME"
        ),
    ] = None
    txid: Annotated[
        int | None,
        declare_option("--txid", help="Ignore everything after the group of this txid.", metavar="N", maximum=MAX_U64),
    ] = None
    force: Annotated[bool, declare_option("--force", help="Restore even if --at excludes all entries of a topic.")] = (
        False
    )
    dry_run: DryRun = False
    summary: Summary = None


def run(invocation: Invocation, arguments: RestoreArguments) -> int:
    """Restore an instance from a backup, as of the instant of the backup or earlier.

    Without --name, the newest backup is restored; with --at or --txid, the oldest one that contains that position. A
    store that is beyond the position is taken from an earlier backup or rebuilt from the journal. The state of a queue
    is rebuilt, without its leases.

    TIME is ISO 8601 (UTC without a zone), a number with a unit since 1970, or an interval from now; for all forms, see
    sowctl-messages(7), INSTANTS.

    The journal is cut only between groups. A batch of publish is one group, and a whole run of publish may be one
    batch. --txid includes the whole group of its txid. --at never restores part of a group: it ends
    before the first group with an entry after TIME. Earlier entries in that group or after it are excluded; the command
    then prints their number per topic and the --txid that would include them, and exits with status 3. It refuses to
    restore if all entries of a topic would be excluded, unless --force is given.

    The restored instance starts a new history above every txid that may have been assigned since: positions of
    subscribers, stores or queues beyond the restored instant are rejected there, with an error that names both
    histories. Existing instances are never overwritten: EMPTYDIR gets the complete restored and verified instance, or
    nothing.
    """
    import os

    from sowctl.cli.io.report_output import show_report
    from sowctl.engine.verbs.upkeep.restore import describe_choices, describe_left_out, restore_backup
    from sowctl.remote.place import require_local_path

    if arguments.at is not None and arguments.txid is not None:
        raise UsageError("SOW-CLI-012", "--at and --txid exclude each other", hint="give one of them")
    report = restore_backup(
        require_local_path(arguments.directory),
        require_local_path(arguments.to),
        invocation.open_other_instance,
        name=arguments.name,
        txid=arguments.txid,
        at=None if arguments.at is None else invocation.parse_instant(arguments.at),
        dry_run=arguments.dry_run,
        force=arguments.force,
        seam=invocation.seam,
        now=invocation.clock(),
        lineage=os.urandom(16),
        watch=invocation.make_watch(),
    )
    show_report(invocation, report, arguments.summary)
    if not report.entries_left_out:
        return 0
    invocation.warn(
        describe_left_out(report.entries_left_out, report.at),
        code="SOW-BAK-009",
        hint=describe_choices(report.choices),
    )
    return 3

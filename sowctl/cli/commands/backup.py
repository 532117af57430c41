"""``sowctl backup``: a copy of an instance as of one instant."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Summary
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.errors import UsageError

_NICENESS = 10
"""Lower priority than publishers if there are few processors."""
EXAMPLES = (
    "sowctl backup backups",
    "sowctl backup backups --full --summary json",
    "sowctl backup backups --list",
    "sowctl backup backups --verify",
)


class BackupArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl backup``."""

    directory: Annotated[str, Argument("DIR", "Directory of backups; created if missing.")]
    listing: Annotated[bool, declare_option("--list", help="List the backups in DIR, oldest first.")] = False
    verify: Annotated[bool, declare_option("--verify", help="Read an existing backup completely and compare it.")] = (
        False
    )
    name: Annotated[
        str | None,
        declare_option("--name", help="Backup to verify, as shown by --list. Default: the newest.", metavar="NAME"),
    ] = None
    full: Annotated[
        bool, declare_option("--full", help="Make a full backup: copy files that could be linked to an earlier backup.")
    ] = False
    bookmarks: Annotated[
        list[str] | None,
        declare_option(
            "--bookmarks", help="Bookmark store file outside the directory of the instance.", metavar="FILE"
        ),
    ] = None
    summary: Summary = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: BackupArguments) -> int:
    """Back up stores, journals, queue states, bookmark files and the configuration, all as of one instant.

    Publishing continues: locks are held only for the moment in which the instant is chosen. A backup is a directory in
    DIR with all of its files. Finished journal files are hard links if DIR is on the same file system, and files
    unchanged since an earlier backup are links to those of that backup. Each backup can be used and removed
    independently. View caches, memo indexes and sorted runs are omitted, because they can be rebuilt.

    A backup gets its final name only after it was opened as an instance, every byte of its stores was read, and the
    digest of every topic matched that of the instant. --verify repeats this for all files of an existing backup.
    """
    import os
    from pathlib import Path

    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.report_output import show_report
    from sowctl.cli.io.rows import BACKUPS_FIT, build_person_backup_row
    from sowctl.engine.verbs.upkeep.backup import create_backup, list_backups, verify_backup
    from sowctl.output.reports import as_dict
    from sowctl.remote.place import require_local_path

    place = require_local_path(arguments.directory)
    if arguments.listing and arguments.verify:
        raise UsageError("SOW-CLI-012", "--list and --verify exclude each other", hint="give one of them")
    if arguments.listing:
        sink = Sink(invocation, arguments.output, facts=True)
        if sink.is_for_person and arguments.output.columns is None:
            sink.write_rows(
                (build_person_backup_row(row, invocation.clock()) for row in list_backups(place)), BACKUPS_FIT
            )
        else:
            sink.write_rows(as_dict(row) for row in list_backups(place))
        return 0
    if arguments.verify:
        seam, wait, watch = invocation.seam, invocation.lock_wait, invocation.make_watch()
        report = verify_backup(place, arguments.name, invocation.open_other_instance, seam=seam, wait=wait, watch=watch)
    else:
        if invocation.own_process:
            os.nice(_NICENESS)
        with invocation.open_instance() as instance:
            report = create_backup(
                instance, place, bookmarks=[Path(one) for one in arguments.bookmarks or ()], full=arguments.full
            )
    # Only a list has rows, so the flag --json refers to the report.
    summary = "json" if arguments.summary is None and arguments.output.format == "json" else arguments.summary
    show_report(invocation, report, summary)
    return 0

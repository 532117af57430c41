"""``sowctl backup``: all of an instance as of one instant."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import Columns, Format, Summary
from sowctl.errors import UsageError

_NICE = 10
"""What is published meanwhile goes first where processors are few."""
EXAMPLES = (
    "sowctl backup backups",
    "sowctl backup backups --full --summary json",
    "sowctl backup backups --list",
    "sowctl backup backups --verify",
)


def run(
    invocation: Invocation,
    directory: Annotated[str, Argument("DIR", "the directory of backups; made where it is missing")],
    listing: Annotated[bool, option("--list", help="list the backups in DIR, the oldest first")] = False,
    verify: Annotated[bool, option("--verify", help="read all of an existing backup and compare it")] = False,
    name: Annotated[
        str | None, option("--name", help="the backup to verify, as --list shows it; else the newest", metavar="NAME")
    ] = None,
    full: Annotated[
        bool, option("--full", help="build on no earlier backup: copy what could be linked to one")
    ] = False,
    bookmarks: Annotated[
        list[str] | None,
        option("--bookmarks", help="a bookmark store's file besides those in the instance's directory", metavar="FILE"),
    ] = None,
    format: Format = None,
    columns: Columns = None,
    summary: Summary = None,
) -> int:
    """Back up stores, journals, states of queues, files of bookmarks and the configuration, all as of one instant.

    Publishing goes on: the locks of a batch are held for the moment in which the instant is taken. A backup is a
    directory in DIR with all its files: finished journal files are hard links where DIR is on their file system, and
    what has not changed since an earlier backup is a link to its file. Each backup can be used and removed by itself.
    Caches of views, memo indexes and sorted runs are left out, because they follow from the rest.

    A backup gets its name when it was opened as an instance, every byte of its stores read and the digest of every
    topic found to be that of the instant. --verify does this again with an existing backup, for all of its files.
    """
    import os
    from pathlib import Path

    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.reporting import show_report
    from sowctl.engine.verbs.upkeep.backup import backup, list_backups, verify_backup
    from sowctl.output.reports import as_dict

    place = Path(directory)
    if listing and verify:
        raise UsageError("SOW-CLI-012", "--list and --verify exclude each other", hint="give one of them")
    if listing:
        Sink(invocation, Choice(format, columns=columns)).write_rows(as_dict(row) for row in list_backups(place))
        return 0
    if verify:
        seam, wait, watch = invocation.seam, invocation.lock_wait, invocation.watch()
        report = verify_backup(place, name, invocation.open_other, seam=seam, wait=wait, watch=watch)
    else:
        if invocation.own_process:
            os.nice(_NICE)
        with invocation.open_instance() as instance:
            report = backup(instance, place, bookmarks=[Path(one) for one in bookmarks or ()], full=full)
    show_report(invocation, report, summary)
    return 0

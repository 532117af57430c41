"""``sowctl journal archive``: finished journal files to where there is room."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, DryRun, Format, OlderThan

EXAMPLES = (
    "sowctl journal archive --older-than 1d --dry-run",
    "sowctl journal archive --older-than 12h --keep 2",
    "sowctl journal archive --to file:///tmp/morning/journal --older-than 1h",
)


def run(
    invocation: Invocation,
    older_than: OlderThan = None,
    keep: Annotated[
        int, option("--keep", help="Keep the COUNT newest finished files in place.", metavar="N", minimum=0)
    ] = 0,
    to: Annotated[
        str | None,
        option(
            "--to",
            help="Upload to this URL, with a manifest, and keep the local files: s3, gs, abfs, hdfs, file.",
            metavar="URL",
        ),
    ] = None,
    verify: Annotated[
        bool,
        option(
            "--verify", help="With --to: also read the uploaded files, and upload those again whose digests differ."
        ),
    ] = False,
    dry_run: DryRun = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Move finished journal files to the JournalArchiveDirectory, and list them. The active file stays.

    Archived files remain part of the journal: all commands read them in place, compressed or not, and current readers
    are not disturbed. To another file system, a file is copied, synced, read back and compared before the original is
    removed. The command can be interrupted at any time and run again: each file is complete in one of the two places.

    With --to, or if the JournalArchiveDirectory is a URL, files are uploaded and also stay here until sowctl journal
    prune removes them. A manifest at the URL lists them (sow-archive(5)). It is written after the files that it lists,
    so an interrupted run resumes from the last manifest. Spark plans from the manifest alone (sowctl-spark(7)).
    """
    from sowctl.cli.commands.bodies.retention import list_files
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.words.when import seconds
    from sowctl.engine.upkeep.retention.archiving import archive, archive_to
    from sowctl.errors import UsageError
    from sowctl.remote.place import RemotePath, url_of

    age = seconds("--older-than", older_than)
    least = None if age is None else int(age * 1_000_000)
    sink = Sink(invocation, Choice(format, columns=columns, facts=True))
    with invocation.open_instance() as instance:
        configured = None if instance.log is None else instance.log.archive_directory
        there = url_of(to) if to is not None else configured if isinstance(configured, RemotePath) else None
        if verify and there is None:
            raise UsageError("SOW-CLI-037", "--verify requires --to", hint="sowctl journal check reads the files here")
        if there is None:
            moved = archive(instance, older_than=least, keep=keep, dry_run=dry_run)
        else:
            moved = archive_to(instance, there, older_than=least, keep=keep, dry_run=dry_run, verify=verify)
        list_files(invocation, sink, instance, moved, "moved" if there is None else "sent")
    return 0

"""``sowctl journal archive``: move finished journal files to the archive."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OlderThan, OutputChoice
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import DryRun

EXAMPLES = (
    "sowctl journal archive --older-than 1d --dry-run",
    "sowctl journal archive --older-than 12h --keep 2",
    "sowctl journal archive --to file:///tmp/morning/journal --older-than 1h",
)


class JournalArchiveArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal archive``."""

    older_than: OlderThan = None
    keep: Annotated[
        int, declare_option("--keep", help="Keep the N newest finished files in place.", metavar="N", minimum=0)
    ] = 0
    to: Annotated[
        str | None,
        declare_option(
            "--to",
            help="Upload to this URL, with a manifest, and keep the local files: s3, gs, abfs, hdfs, file.",
            metavar="URL",
        ),
    ] = None
    verify: Annotated[
        bool,
        declare_option(
            "--verify", help="With --to: also read the uploaded files, and upload those again whose digests differ."
        ),
    ] = False
    dry_run: DryRun = False
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: JournalArchiveArguments) -> int:
    """Move finished journal files to the JournalArchiveDirectory, and list them. The active file stays.

    Archived files remain part of the journal: all commands read them in place, compressed or not, and current readers
    are not disturbed. To another file system, a file is copied, synced, read back and compared before the original is
    removed. The command can be interrupted at any time and run again: each file is complete in one of the two places.

    With --to, or if the JournalArchiveDirectory is a URL, files are uploaded and also stay here until sowctl journal
    prune removes them. A manifest at the URL lists them (sow-archive(5)). It is written after the files that it lists,
    so an interrupted run resumes from the last manifest. Spark plans from the manifest alone (sowctl-spark(7)).
    """
    from sowctl.cli.commands.bodies.retention import list_files
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.parsing.option_values import parse_interval
    from sowctl.engine.maintenance.retention.archive import archive_files, archive_to_url
    from sowctl.errors import UsageError
    from sowctl.remote.place import parse_url

    age = parse_interval("--older-than", arguments.older_than)
    least = None if age is None else int(age * 1_000_000)
    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        configured = None if instance.log is None else instance.log.archive_url
        there = configured if arguments.to is None else parse_url(arguments.to)
        if arguments.verify and there is None:
            raise UsageError("SOW-CLI-037", "--verify requires --to", hint="sowctl journal check reads the files here")
        if there is None:
            moved = archive_files(instance, older_than=least, keep=arguments.keep, dry_run=arguments.dry_run)
        else:
            moved = archive_to_url(
                instance,
                there,
                older_than=least,
                keep=arguments.keep,
                dry_run=arguments.dry_run,
                verify=arguments.verify,
            )
        list_files(invocation, sink, instance, moved, "moved" if there is None else "sent")
    return 0

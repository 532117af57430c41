"""``sowctl journal archive``: finished journal files to where there is room."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, DryRun, Format, OlderThan

EXAMPLES = (
    "sowctl journal archive --older-than 1d --dry-run",
    "sowctl journal archive --older-than 12h --keep 2",
)


def run(
    invocation: Invocation,
    older_than: OlderThan = None,
    keep: Annotated[
        int, option("--keep", help="so many of the youngest finished files stay where they are", metavar="N", minimum=0)
    ] = 0,
    dry_run: DryRun = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Move finished journal files to the JournalArchiveDirectory, and list them. The file that grows stays.

    They remain part of the journal: every command reads them where they are, compressed or not, and who is reading one
    at the moment goes on. On another file system a file is copied, synced, read again and compared before the original
    goes. The command may be ended at any moment and run again: each file is whole in one of the two places.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.words.when import seconds
    from sowctl.engine.upkeep.retention.archiving import archive
    from sowctl.output.reports import as_dict

    age = seconds("--older-than", older_than)
    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        moved = archive(instance, older_than=None if age is None else int(age * 1_000_000), keep=keep, dry_run=dry_run)
        sink.write_rows(map(as_dict, moved))
    return 0

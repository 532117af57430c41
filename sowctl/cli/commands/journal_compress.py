"""``sowctl journal compress``: finished journal files made smaller."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, DryRun, Format, OlderThan

EXAMPLES = (
    "sowctl journal compress --older-than 1h --dry-run",
    "sowctl journal compress --keep 1",
    "sowctl journal compress --to gz --format json",
)


def run(
    invocation: Invocation,
    to: Annotated[str, option("--to", help="how", choices=("zst", "gz"))] = "zst",
    older_than: OlderThan = None,
    keep: Annotated[
        int, option("--keep", help="so many of the youngest finished files stay as they are", metavar="N", minimum=0)
    ] = 0,
    dry_run: DryRun = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Compress finished journal files, also those in the archive, and list them. The file that grows stays.

    They remain part of the journal: every command reads them compressed, unpacking into TMPDIR as far as it needs. A
    file is compressed beside, synced, unpacked and compared with the plain one, and renamed; then the plain one is
    removed. The command may be ended at any moment and run again.

    Blocks of a journal are compressed one by one when they are written, so that this saves what they have in common,
    which is little where blocks are large. A file of zst can be read from anywhere, by Spark in several tasks; one of
    gz is read from its beginning.
    """
    from sowctl.cli.commands.bodies.retention import list_files
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.words.when import seconds
    from sowctl.engine.upkeep.retention.compressing import compress

    age = seconds("--older-than", older_than)
    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        done = compress(
            instance,
            kind=f".{to}",
            older_than=None if age is None else int(age * 1_000_000),
            keep=keep,
            dry_run=dry_run,
        )
        list_files(invocation, sink, done, "compressed")
    return 0

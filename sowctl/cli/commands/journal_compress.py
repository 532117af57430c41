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
    to: Annotated[str, option("--to", help="Compression format.", choices=("zst", "gz"))] = "zst",
    older_than: OlderThan = None,
    keep: Annotated[
        int, option("--keep", help="Leave the COUNT newest finished files uncompressed.", metavar="N", minimum=0)
    ] = 0,
    dry_run: DryRun = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Compress finished journal files, including archived ones, and list them. The active file is not compressed.

    Compressed files remain part of the journal: all commands read them, decompressing to TMPDIR as needed. A file is
    compressed to a temporary file, synced, decompressed, compared with the original, and renamed; then the original is
    removed. The command can be interrupted at any time and run again.

    The blocks of a journal are already compressed individually when they are written. This command removes redundancy
    between blocks, which is small if blocks are large. A zst file can be read from any position, by Spark in several
    tasks; a gz file can only be read from the beginning.
    """
    from sowctl.cli.commands.bodies.retention import list_files
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.words.when import seconds
    from sowctl.engine.upkeep.retention.compressing import compress

    age = seconds("--older-than", older_than)
    sink = Sink(invocation, Choice(format, columns=columns, facts=True))
    with invocation.open_instance() as instance:
        done = compress(
            instance,
            kind=f".{to}",
            older_than=None if age is None else int(age * 1_000_000),
            keep=keep,
            dry_run=dry_run,
        )
        list_files(invocation, sink, instance, done, "compressed")
    return 0

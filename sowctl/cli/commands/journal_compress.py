"""``sowctl journal compress``: compress finished journal files."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OlderThan, OutputChoice
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import DryRun

EXAMPLES = (
    "sowctl journal compress --older-than 1h --dry-run",
    "sowctl journal compress --keep 1",
    "sowctl journal compress --to gz --format json",
)


class JournalCompressArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal compress``."""

    to: Annotated[str, declare_option("--to", help="Compression format.", choices=("zst", "gz"))] = "zst"
    older_than: OlderThan = None
    keep: Annotated[
        int,
        declare_option("--keep", help="Leave the N newest finished files uncompressed.", metavar="N", minimum=0),
    ] = 0
    dry_run: DryRun = False
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: JournalCompressArguments) -> int:
    """Compress finished journal files, including archived ones, and list them. The active file is not compressed.

    Compressed files remain part of the journal: all commands read them, decompressing to TMPDIR as needed. A file is
    compressed to a temporary file, synced, decompressed, compared with the original, and renamed; then the original is
    removed. The command can be interrupted at any time and run again.

    The blocks of a journal are already compressed individually when they are written. This command removes redundancy
    between blocks, which is small if blocks are large. A zst file can be read from any position, by Spark in several
    tasks; a gz file can only be read from the beginning.
    """
    from sowctl.cli.commands.bodies.retention import list_files
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.parsing.option_values import parse_interval
    from sowctl.engine.maintenance.retention.compression import compress_files

    age = parse_interval("--older-than", arguments.older_than)
    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        done = compress_files(
            instance,
            kind=f".{arguments.to}",
            older_than=None if age is None else int(age * 1_000_000),
            keep=arguments.keep,
            dry_run=arguments.dry_run,
        )
        list_files(invocation, sink, instance, done, "compressed")
    return 0

"""``sowctl journal list``: list journal files."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import JournalPlace, OutputChoice
from sowctl.declarations import declare_part

EXAMPLES = (
    "sowctl journal list",
    "sowctl journal list --format json",
)


class JournalListArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal list``."""

    directory: JournalPlace = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: JournalListArguments) -> int:
    """List journal files with number, size, first and last txid and creation time.

    The list includes files in the JournalArchiveDirectory and compressed files, with their size on disk. A torn end of
    the journal is reported; if acknowledged entries are missing there, the exit status is 5.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.rows import FILES_FIT, build_file_row, build_person_file_row
    from sowctl.engine.verbs.journal import list_files
    from sowctl.remote.place import parse_place

    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        files = list_files(instance, None if arguments.directory is None else parse_place(arguments.directory))
        if sink.is_for_person and arguments.output.columns is None:
            sink.write_rows(map(build_person_file_row, files), FILES_FIT)
        else:
            sink.write_rows(map(build_file_row, files))
    return 0

"""``sowctl journal list``: the files of the log."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format, JournalPlace

EXAMPLES = (
    "sowctl journal list",
    "sowctl journal list --format json",
)


def run(
    invocation: Invocation,
    directory: JournalPlace = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """List journal files with number, size, first and last txid and the time of their creation.

    Those in the JournalArchiveDirectory are among them, and compressed ones, with the size that they have on disk. What
    is torn at the end of the journal is told; where entries are missing there that were acknowledged, it ends with 5.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.rows import file_row
    from sowctl.engine.verbs.journal import list_files
    from sowctl.remote.place import place_of

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        sink.write_rows(map(file_row, list_files(instance, None if directory is None else place_of(directory))))
    return 0

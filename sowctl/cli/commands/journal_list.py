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
    """List journal files with number, size, first and last txid and creation time.

    The list includes files in the JournalArchiveDirectory and compressed files, with their size on disk. A torn end of
    the journal is reported; if acknowledged entries are missing there, the exit status is 5.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.rows import FILES_FIT, file_row, person_file_row
    from sowctl.engine.verbs.journal import list_files
    from sowctl.remote.place import place_of

    sink = Sink(invocation, Choice(format, columns=columns, facts=True))
    with invocation.open_instance() as instance:
        files = list_files(instance, None if directory is None else place_of(directory))
        if sink.is_for_person and columns is None:
            sink.write_rows(map(person_file_row, files), FILES_FIT)
        else:
            sink.write_rows(map(file_row, files))
    return 0

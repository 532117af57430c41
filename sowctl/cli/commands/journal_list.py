"""``sowctl journal list``: the files of the log."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.declare import Argument
from sowctl.cli.options import Columns, Format

EXAMPLES = (
    "sowctl journal list",
    "sowctl journal list --format json",
)


def run(
    invocation: Invocation,
    directory: Annotated[
        str | None, Argument("DIR", "directory of the journals; default the configured one", complete="directory")
    ] = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """List journal files with number, size, first and last txid and the time of their creation."""
    from pathlib import Path

    from sowctl.cli.emit import Choice, Sink
    from sowctl.cli.rows import file_row
    from sowctl.engine.journals import list_files

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        files = list_files(instance, Path(directory) if directory is not None else None)
    sink.write_rows(map(file_row, files))
    return 0

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
    files: Annotated[
        list[str] | None, Argument("FILE", "journal files; default those of the configuration", complete="file")
    ] = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """List journal files with size, first and last txid, first and last time, and state."""
    from sowctl.cli.emit import Choice, Sink
    from sowctl.engine.journals import list_files
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance(*(files or ())) as instance:
        sink.write_rows(as_dict(row) for row in list_files(instance, files or []))
    return 0

"""``sowctl conflate``: kept states of conflated topics, advanced to the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import Columns, Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXAMPLES = (
    "sowctl conflate",
    "sowctl conflate slow-quotes --format ndjson",
    "sowctl conflate --follow slow-quotes",
)


def run(
    invocation: Invocation,
    names: Annotated[
        list[str] | None, Argument("NAME", "names of conflated topics; default all", complete="conflated")
    ] = None,
    follow: Annotated[bool, option("--follow", help="go on until a signal ends it; print only what changed")] = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Bring what conflated topics show up to the clock, and keep it beside the store of their source.

    Where the transaction log records the source, what is shown at any instant follows from the journal, so nothing has
    to run: this only spares the next reader some work. Where it does not, what is shown is what this command kept last.
    It takes what changed since it ran before, so it should run at least once in an interval; with --follow it does.

    A line for each conflated topic says how many messages were shown, are gone, and are pending. The way is advanced,
    computed (from the beginning), as it was, or further on already (by a process with a later clock). SIGTERM and
    Ctrl-C end --follow between two steps; nothing is left half done.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.conflate import conflate, following
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        if not follow:
            sink.write_rows(as_dict(report) for report in conflate(instance, names or ()))
            return 0
        import time

        def rows() -> Iterator[dict[str, Any]]:
            for reports in following(instance, names or (), time.sleep):
                yield from _changed(reports)
                invocation.streams.stdout.flush()

        sink.write_rows(rows())
    return 0


def _changed(reports: Sequence[Any]) -> Iterator[dict[str, Any]]:
    from sowctl.output.reports import as_dict

    return (as_dict(report) for report in reports if report.shown or report.gone)

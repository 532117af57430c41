"""``sowctl conflate``: advance the saved states of conflated topics to the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, StreamJson, choose_stream_output
from sowctl.declarations import Argument, declare_option, declare_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXAMPLES = (
    "sowctl conflate",
    "sowctl conflate slow-quotes --format ndjson",
    "sowctl conflate --follow slow-quotes",
)


class ConflateArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl conflate``."""

    names: Annotated[
        list[str] | None, Argument("NAME", "Names of conflated topics. Default: all.", complete="conflated")
    ] = None
    follow: Annotated[bool, declare_option("--follow", help="Keep running until interrupted; print only changes.")] = (
        False
    )
    json: StreamJson = False
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: ConflateArguments) -> int:
    """Bring conflated topics up to the current time, and store the result beside the store of their source.

    If the source is recorded in the transaction log, the state at any instant follows from the journal, so this command
    is optional and only saves the next reader work. Otherwise, the state is the one that this command stored last. It
    then processes the changes since its last run, so it should run at least once per interval, as it does with
    --follow.

    The output is a line per conflated topic with the number of messages shown, removed and pending. The way is
    advanced, computed (from the beginning), current (nothing to do) or ahead (advanced by a process with a later
    clock). SIGTERM and Ctrl-C stop --follow between two steps, with a consistent state.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.conflate import advance_conflated, follow_conflated
    from sowctl.output.reports import as_dict

    output = choose_stream_output(arguments.output, json=arguments.json, follow=arguments.follow)
    sink = Sink(invocation, output, facts=True)
    with invocation.open_instance() as instance:
        if not arguments.follow:
            sink.write_rows(as_dict(report) for report in advance_conflated(instance, arguments.names or ()))
            return 0
        import time

        def rows() -> Iterator[dict[str, Any]]:
            for reports in follow_conflated(instance, arguments.names or (), time.sleep):
                yield from _iterate_changed(reports)
                invocation.streams.stdout.flush()

        sink.write_rows(rows())
    return 0


def _iterate_changed(reports: Sequence[Any]) -> Iterator[dict[str, Any]]:
    from sowctl.output.reports import as_dict

    return (as_dict(report) for report in reports if report.shown or report.gone)

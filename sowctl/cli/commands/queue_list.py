"""``sowctl queue list``: all queues."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format

EXAMPLES = (
    "sowctl queue list",
    "sowctl queue list --format json",
)


def run(invocation: Invocation, format: Format = None, columns: Columns = None) -> int:
    """List the queues of the configuration: how many messages are in which state, how old the oldest is, and what
    works on them.

    The state of each queue is brought up to the end of the journal first, and leases of workers that have ended return.
    """
    from sowctl.cli.commands.bodies.queue import info_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.queue import list_queues

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        sink.write_rows(info_row(info, brief=sink.format == "table") for info in list_queues(instance))
    return 0

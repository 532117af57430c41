"""``sowctl queue info``: one queue."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format, MessageType, QueueName

EXAMPLES = (
    "sowctl queue info work",
    "sowctl queue info work --json",
)


def run(
    invocation: Invocation,
    name: QueueName,
    message_type: MessageType = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Say what a queue holds: messages by state, the oldest and its age, what was delivered, acknowledged, cancelled
    and expired for which reason, rates over the last ten minutes, and the workers and clients with what they have.

    Where a barrier holds messages up, it is named, and what it waits for. Elements of the configuration that only say
    something to other servers, such as InitialOwner, are listed; they have no effect on files.
    """
    from sowctl.cli.commands.bodies.queue import facts_of, info_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.queue import info_of, open_queue

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        row = info_row(info_of(queue), brief=False)
    if sink.format == "table" and columns is None:
        # One fact a line: a table with forty columns shows nothing.
        sink.write_rows(facts_of(row))
    else:
        sink.write_rows([row])
    return 0

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
    """Print details of a queue: messages by state, age of the oldest message, numbers of delivered, acknowledged,
    cancelled and expired messages with reasons, rates over the last ten minutes, workers, and clients with their
    leases.

    If a barrier blocks messages, it is printed with what it waits for. Configuration elements that apply only to
    servers, such as InitialOwner, are listed; they have no effect on files.
    """
    from sowctl.cli.commands.bodies.queue import facts_of, info_row, person_facts
    from sowctl.cli.io.emit import Choice, Sink, show_facts
    from sowctl.engine.verbs.queue import info_of, open_queue

    sink = Sink(invocation, Choice(format, columns=columns, facts=True))
    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        info = info_of(queue)
    row = info_row(info, brief=False)
    if sink.is_for_person and columns is None:
        show_facts(invocation, list(person_facts(info)))
    elif sink.format == "table" and columns is None:
        # One fact a line: a table with forty columns shows nothing.
        sink.write_rows(facts_of(row))
    else:
        sink.write_rows([row])
    return 0

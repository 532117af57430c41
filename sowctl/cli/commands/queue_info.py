"""``sowctl queue info``: details of one queue."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, OutputChoice, QueueName
from sowctl.declarations import declare_part

EXAMPLES = (
    "sowctl queue info work",
    "sowctl queue info work --json",
)


class QueueInfoArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue info``."""

    name: QueueName
    message_type: MessageType = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: QueueInfoArguments) -> int:
    """Print details of a queue: messages by state, age of the oldest message, numbers of delivered, acknowledged,
    cancelled and expired messages with reasons, rates over the last ten minutes, workers, and clients with their
    leases.

    If a barrier blocks messages, it is printed with what it waits for. Configuration elements that apply only to
    servers, such as InitialOwner, are listed; they have no effect on files.
    """
    from sowctl.cli.commands.bodies.queue import build_info_row, build_person_facts, iterate_facts
    from sowctl.cli.io.output_sink import Sink, show_facts
    from sowctl.engine.verbs.queue import build_queue_info, open_queue

    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        info = build_queue_info(queue)
    row = build_info_row(info, brief=False)
    if sink.is_for_person and arguments.output.columns is None:
        show_facts(invocation, list(build_person_facts(info)))
    elif sink.format == "table" and arguments.output.columns is None:
        # One fact per line: a table with forty columns is unreadable.
        sink.write_rows(iterate_facts(row))
    else:
        sink.write_rows([row])
    return 0

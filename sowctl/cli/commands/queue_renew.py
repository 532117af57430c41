"""``sowctl queue renew``: leases last longer."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Leased, Leaser, MessageType, QueueName

EXAMPLES = ("sowctl queue lease work -n 10 > batch.ndjson; sowctl queue renew work - < batch.ndjson",)


def run(
    invocation: Invocation,
    name: QueueName,
    messages: Leased,
    client: Leaser = "command-line",
    message_type: MessageType = None,
) -> int:
    """Let leases last for another LeasePeriod from now on. Messages are named as for queue ack.

    Ends with status 1 where a lease was over, and says which.
    """
    from sowctl.cli.commands.bodies.queue import handles_of, settle
    from sowctl.engine.verbs.queue import open_queue

    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        return settle(
            invocation, handles_of(invocation, queue, messages), lambda handles: queue.renew(handles, client), "renewed"
        )

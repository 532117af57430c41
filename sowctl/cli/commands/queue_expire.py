"""``sowctl queue expire``: messages dropped unprocessed."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Leased, Leaser, MessageType, QueueName

EXAMPLES = (
    "sowctl queue expire work '11853365263938241052|502|'",
    "sowctl queue peek work -n 0 --format ndjson | grep C0042 | sowctl queue expire work -",
)


def run(
    invocation: Invocation,
    name: QueueName,
    messages: Leased,
    client: Leaser = "command-line",
    message_type: MessageType = None,
) -> int:
    """Drop messages without processing them; they count as expired, with the reason forced_expire.

    Messages are named as for queue ack. The change is durable when the command exits.
    """
    from sowctl.cli.commands.bodies.queue import apply_batches, read_handles
    from sowctl.engine.verbs.queue import open_queue

    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        return apply_batches(
            invocation,
            read_handles(invocation, queue, messages),
            lambda handles: queue.acknowledge(handles, client, expire=True),
            "expired",
        )

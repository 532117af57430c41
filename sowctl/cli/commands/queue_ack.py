"""``sowctl queue ack``: messages are processed."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Leased, Leaser, MessageType, QueueName

EXAMPLES = (
    "sowctl queue ack work '11853365263938241052|502|'",
    "sowctl queue lease work -n 100 | tee batch.ndjson | ./load-lines && sowctl queue ack work - < batch.ndjson",
)


def run(
    invocation: Invocation,
    name: QueueName,
    messages: Leased,
    client: Leaser = "command-line",
    message_type: MessageType = None,
) -> int:
    """Acknowledge messages: they leave the queue. Durable when the command ends.

    A line of standard input is a bookmark, a bookmark and a token, or what queue lease prints as ndjson. Lines are
    acted on as they come: whenever none waits to be read, those before are acknowledged, so that a program may write
    one and wait for its effect. A token must be that of the present lease. A bookmark alone acknowledges a message
    whoever holds it; where Leasing is strict, only one that is not leased or leased to --client. The acknowledgement of
    a message that is not in the journal yet is remembered for DeferredAckExpiration. Ends with status 1 where a message
    was not acknowledged, and says which.
    """
    from sowctl.cli.commands.bodies.queue import handles_of, settle
    from sowctl.engine.verbs.queue import open_queue

    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        return settle(
            invocation,
            handles_of(invocation, queue, messages),
            lambda handles: queue.acknowledge(handles, client),
            "acknowledged",
        )

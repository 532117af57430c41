"""``sowctl queue ack``: acknowledge messages."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Leased, Leaser, MessageType, Outcomes, QueueName

EXAMPLES = (
    "sowctl queue ack work '11853365263938241052|502|'",
    "sowctl queue lease work -n 100 | tee batch.ndjson | ./load-lines && sowctl queue ack work - < batch.ndjson",
)


class QueueAckArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue ack``."""

    name: QueueName
    messages: Leased
    client: Leaser = "command-line"
    message_type: MessageType = None
    json: Outcomes = False


def run(invocation: Invocation, arguments: QueueAckArguments) -> int:
    """Acknowledge messages, which removes them from the queue. The change is durable when the command exits.

    A line of standard input is a bookmark, a bookmark and a token, or a line printed by queue lease as ndjson. Lines
    are processed as they arrive: whenever no further line is waiting, the lines before are acknowledged, so a program
    can write a line and wait for its effect. A token must be that of the current lease. A bookmark alone acknowledges a
    message regardless of who leased it; if Leasing is strict, only a message that is not leased, or leased to --client.
    An acknowledgement of a message that is not in the journal yet is kept for DeferredAckExpiration. Messages that were
    not acknowledged are listed, and the exit status is 1.
    """
    from sowctl.cli.commands.bodies.queue import apply_batches, read_handles
    from sowctl.engine.verbs.queue import open_queue

    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        return apply_batches(
            invocation,
            read_handles(invocation, queue, arguments.messages),
            lambda handles: queue.acknowledge(handles, arguments.client),
            "acknowledged",
            as_json=arguments.json,
        )

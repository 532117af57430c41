"""``sowctl queue expire``: drop messages without processing them."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Leased, Leaser, MessageType, Outcomes, QueueName

EXAMPLES = (
    "sowctl queue expire work '11853365263938241052|502|'",
    "sowctl queue peek work -n 0 --format ndjson | grep C0042 | sowctl queue expire work -",
)


class QueueExpireArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue expire``."""

    name: QueueName
    messages: Leased
    client: Leaser = "command-line"
    message_type: MessageType = None
    json: Outcomes = False


def run(invocation: Invocation, arguments: QueueExpireArguments) -> int:
    """Drop messages without processing them; they count as expired, with the reason forced_expire.

    Messages are named as for queue ack. The change is durable when the command exits.
    """
    from sowctl.cli.commands.bodies.queue import apply_batches, read_handles
    from sowctl.engine.verbs.queue import open_queue

    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        return apply_batches(
            invocation,
            read_handles(invocation, queue, arguments.messages),
            lambda handles: queue.acknowledge(handles, arguments.client, expire=True),
            "expired",
            as_json=arguments.json,
        )

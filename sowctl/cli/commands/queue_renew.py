"""``sowctl queue renew``: extend leases."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Leased, Leaser, MessageType, Outcomes, QueueName

EXAMPLES = ("sowctl queue lease work -n 10 > batch.ndjson; sowctl queue renew work - < batch.ndjson",)


class QueueRenewArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue renew``."""

    name: QueueName
    messages: Leased
    client: Leaser = "command-line"
    message_type: MessageType = None
    json: Outcomes = False


def run(invocation: Invocation, arguments: QueueRenewArguments) -> int:
    """Extend leases by another LeasePeriod from now. Messages are named as for queue ack.

    Messages whose lease has ended are listed, and the exit status is 1.
    """
    from sowctl.cli.commands.bodies.queue import apply_batches, read_handles
    from sowctl.engine.verbs.queue import open_queue

    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        return apply_batches(
            invocation,
            read_handles(invocation, queue, arguments.messages),
            lambda handles: queue.renew(handles, arguments.client),
            "renewed",
            as_json=arguments.json,
        )

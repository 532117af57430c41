"""``sowctl queue cancel``: return leased messages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Leased, Leaser, MessageType, Outcomes, QueueName
from sowctl.declarations import declare_option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl queue cancel work '11853365263938241052|502|,1795442002362920'",
    "sowctl queue lease work > batch.ndjson; sowctl queue cancel work - --delay 30s < batch.ndjson",
)


class QueueCancelArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue cancel``."""

    name: QueueName
    messages: Leased
    delay: Annotated[
        str, declare_option("--delay", help="Do not deliver again before TIME has passed.", metavar="TIME")
    ] = "0s"
    untouched: Annotated[
        bool,
        declare_option(
            "--untouched", help="Count neither a delivery nor a cancel, because processing was not attempted."
        ),
    ] = False
    client: Leaser = "command-line"
    message_type: MessageType = None
    json: Outcomes = False


def run(invocation: Invocation, arguments: QueueCancelArguments) -> int:
    """Return leased messages to the queue for another attempt. Messages are named as for queue ack.

    A message that has been cancelled MaxCancels times or delivered MaxDeliveries times becomes dead: it is not
    delivered again, and queue peek shows it. Messages that were not leased are listed, and the exit status is 1.
    """
    from sowctl.cli.commands.bodies.queue import apply_batches, delay_handles, read_handles
    from sowctl.engine.verbs.queue import open_queue
    from sowctl.values.units import parse_seconds

    try:
        pause = int(parse_seconds(arguments.delay) * 1_000_000)
    except ValueError as error:
        raise UsageError("SOW-CLI-006", f"--delay: {error}", hint="use for example 0, 500ms or 10s") from None
    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        return apply_batches(
            invocation,
            read_handles(invocation, queue, arguments.messages),
            lambda handles: queue.cancel(
                delay_handles(handles, pause), arguments.client, started=not arguments.untouched
            ),
            "given back",
            as_json=arguments.json,
        )

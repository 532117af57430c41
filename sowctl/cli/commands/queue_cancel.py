"""``sowctl queue cancel``: leased messages go back."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import declare_option
from sowctl.cli.parsing.options import Leased, Leaser, MessageType, QueueName
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl queue cancel work '11853365263938241052|502|,1795442002362920'",
    "sowctl queue lease work > batch.ndjson; sowctl queue cancel work - --delay 30s < batch.ndjson",
)


def run(
    invocation: Invocation,
    name: QueueName,
    messages: Leased,
    delay: Annotated[
        str, declare_option("--delay", help="Do not deliver again before TIME has passed. Default: 0s.", metavar="TIME")
    ] = "0s",
    untouched: Annotated[
        bool,
        declare_option(
            "--untouched", help="Count neither a delivery nor a cancel, because processing was not attempted."
        ),
    ] = False,
    client: Leaser = "command-line",
    message_type: MessageType = None,
) -> int:
    """Return leased messages to the queue for another attempt. Messages are named as for queue ack.

    A message that has been cancelled MaxCancels times or delivered MaxDeliveries times becomes dead: it is not
    delivered again, and queue peek shows it. Messages that were not leased are listed, and the exit status is 1.
    """
    from sowctl.cli.commands.bodies.queue import apply_batches, delay_handles, read_handles
    from sowctl.engine.verbs.queue import open_queue
    from sowctl.values.units import parse_seconds

    try:
        pause = int(parse_seconds(delay) * 1_000_000)
    except ValueError as error:
        raise UsageError("SOW-CLI-006", f"--delay: {error}", hint="use for example 0, 500ms or 10s") from None
    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        return apply_batches(
            invocation,
            read_handles(invocation, queue, messages),
            lambda handles: queue.cancel(delay_handles(handles, pause), client, started=not untouched),
            "given back",
        )

"""``sowctl queue lease``: lease messages for another program."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, OutputChoice, QueueName
from sowctl.declarations import declare_option, declare_part

EXAMPLES = (
    "sowctl queue lease work --count 10",
    "sowctl queue lease work --client loader --format ndjson",
    "sowctl queue lease work -n 5 --template '{bookmark},{token}'",
)


class QueueLeaseArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue lease``."""

    name: QueueName
    count: Annotated[int, declare_option("--count", "-n", help="Lease at most N messages.", metavar="N", minimum=1)] = 1
    client: Annotated[str, declare_option("--client", help="Client that leases the messages.", metavar="NAME")] = (
        "command-line"
    )
    message_type: MessageType = None
    output: Annotated[OutputChoice, declare_part("format", "columns", "no_headers", "template")]


def run(invocation: Invocation, arguments: QueueLeaseArguments) -> int:
    """Lease messages and print them as envelopes: bookmark, token, end of the lease, payload.

    A leased message is not delivered to anyone else until its LeasePeriod has passed. Acknowledge it with queue ack, or
    return it with queue cancel; both read the printed lines. The token identifies this lease: after the lease ends, it
    has no effect on the lease of another client. Each printed message counts as delivered; if the messages cannot be
    printed, all of them are returned. A queue with at-most-once delivery removes messages when they are leased. The
    exit status is 1 if no message is ready.
    """
    from contextlib import ExitStack

    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.queue import LEASED_FIELDS, build_handle, build_queue_batch, open_queue

    sink = Sink(
        invocation,
        replace(arguments.output, meta=True),
        front=("bookmark", "token", "deliveries"),
    )
    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        if queue.queue.semantics == "at-most-once":
            invocation.streams.probe_stdout()
        messages = queue.lease_for_client(arguments.count, arguments.client)
        with ExitStack() as unprinted:
            # Messages that could not be printed are returned, and do not count as delivered.
            if leased := [build_handle(message) for message in messages if message.token]:
                unprinted.callback(queue.cancel, leased, arguments.client, started=False)
            sink.write([build_queue_batch(queue, messages, LEASED_FIELDS)])
            invocation.streams.stdout.flush()
            unprinted.pop_all()
    if not messages:
        invocation.note("no message is ready")
    return 0 if messages else 1

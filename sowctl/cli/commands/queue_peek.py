"""``sowctl queue peek``: what is in a queue."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import Columns, Force, Format, MessageType, NoHeaders, Output, QueueName, Template
from sowctl.declarations import declare_option
from sowctl.output.options import TableFit

_TABLE_FIT = TableFit(spare=("deliveries",))
EXAMPLES = (
    "sowctl queue peek work",
    "sowctl queue peek work --count 100 --format table",
)


class QueuePeekArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue peek``."""

    name: QueueName
    count: Annotated[
        int,
        declare_option(
            "--count", "-n", help="Print at most COUNT messages. Default: 10; 0 for all.", metavar="N", minimum=0
        ),
    ] = 10
    message_type: MessageType = None
    format: Format = None
    columns: Columns = None
    no_headers: NoHeaders = False
    template: Template = None
    output: Output = None
    force: Force = False


def run(invocation: Invocation, arguments: QueuePeekArguments) -> int:
    """Print the messages of a queue in delivery order, as envelopes with their states, without leasing them.

    The states are ready, leased, delayed (in back-off after a cancel), blocked (behind a barrier, or a waiting barrier)
    and dead (delivered or cancelled too often; printed last).
    """
    from sowctl.cli.io.output_sink import OutputChoice, Sink
    from sowctl.engine.verbs.queue import PEEKED_FIELDS, build_queue_batch, open_queue

    sink = Sink(
        invocation,
        OutputChoice(
            arguments.format,
            meta=True,
            columns=arguments.columns,
            template=arguments.template,
            output=arguments.output,
            force=arguments.force,
            no_headers=arguments.no_headers,
        ),
        front=("state", "bookmark", "deliveries"),
    )
    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        sink.write([build_queue_batch(queue, queue.peek(arguments.count or None), PEEKED_FIELDS)], fit=_TABLE_FIT)
    return 0

"""``sowctl queue peek``: print the messages of a queue."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, OutputChoice, QueueName
from sowctl.declarations import declare_option, declare_part
from sowctl.output.options import TableFit

_TABLE_FIT = TableFit(spare=("deliveries",))
EXAMPLES = (
    "sowctl queue peek work",
    "sowctl queue peek work --count 100 --format table",
    "sowctl queue peek work --state dead --columns bookmark,reason,deliveries,holder,exit_status,stderr --format table",
)


class QueuePeekArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue peek``."""

    name: QueueName
    count: Annotated[
        int,
        declare_option("--count", "-n", help="Print at most N messages; 0 for all.", metavar="N", minimum=0),
    ] = 10
    state: Annotated[
        str | None,
        declare_option(
            "--state", help="Only messages in this state.", choices=("ready", "leased", "delayed", "blocked", "dead")
        ),
    ] = None
    message_type: MessageType = None
    output: Annotated[OutputChoice, declare_part("format", "columns", "no_headers", "template", "path", "force")]


def run(invocation: Invocation, arguments: QueuePeekArguments) -> int:
    """Print the messages of a queue in delivery order, as envelopes with their states, without leasing them.

    The states are ready, leased, delayed (in back-off after a cancel), blocked (behind a barrier, or a waiting barrier)
    and dead (delivered or cancelled too often; printed last).

    A dead message has the reason, the number of deliveries, the worker or client that had it last as holder, and, if a
    worker ran a command for it, its exit_status and the last lines of its standard error as stderr.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.queue import PEEKED_FIELDS, build_queue_batch, open_queue

    sink = Sink(
        invocation,
        replace(arguments.output, meta=True),
        front=("state", "bookmark", "deliveries"),
    )
    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        found = queue.peek(arguments.count or None, state=arguments.state)
        sink.write([build_queue_batch(queue, found, PEEKED_FIELDS)], fit=_TABLE_FIT)
    return 0

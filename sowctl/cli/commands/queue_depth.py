"""``sowctl queue depth``: the number of pending messages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, QueueName
from sowctl.declarations import declare_option

EXAMPLES = (
    "sowctl queue depth work",
    "sowctl queue depth work --json",
)


class QueueDepthArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue depth``."""

    name: QueueName
    message_type: MessageType = None
    json: Annotated[
        bool, declare_option("--json", help="Print one JSON object with the number of messages per state.")
    ] = False


def run(invocation: Invocation, arguments: QueueDepthArguments) -> int:
    """Print the number of pending messages: ready, leased, delayed after a cancel, or blocked by a barrier.

    The number comes from counters, so the cost does not depend on the depth. With TargetQueueDepth, only messages held
    in the queue state are counted; a note is printed if the journal has more.
    """
    from sowctl.engine.verbs.queue import compute_depth, open_queue
    from sowctl.output.reports import encode_report

    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        depth = compute_depth(queue)
    invocation.streams.stdout.write((encode_report(depth) if arguments.json else str(depth.pending)).encode() + b"\n")
    if not depth.whole:
        invocation.note("TargetQueueDepth is reached: the journal has more messages")
    return 0

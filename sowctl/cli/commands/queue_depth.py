"""``sowctl queue depth``: how many messages are pending."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import declare_option
from sowctl.cli.parsing.options import MessageType, QueueName

EXAMPLES = (
    "sowctl queue depth work",
    "sowctl queue depth work --json",
)


def run(
    invocation: Invocation,
    name: QueueName,
    message_type: MessageType = None,
    json: Annotated[
        bool, declare_option("--json", help="Print one JSON object with the number of messages per state.")
    ] = False,
) -> int:
    """Print the number of pending messages: ready, leased, delayed after a cancel, or blocked by a barrier.

    The number comes from counters, so the cost does not depend on the depth. With TargetQueueDepth, only messages held
    in the queue state are counted; a note is printed if the journal has more.
    """
    from sowctl.engine.verbs.queue import compute_depth, open_queue
    from sowctl.output.reports import encode_report

    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        depth = compute_depth(queue)
    invocation.streams.stdout.write((encode_report(depth) if json else str(depth.pending)).encode() + b"\n")
    if not depth.whole:
        invocation.note("TargetQueueDepth is reached: the journal has more messages")
    return 0

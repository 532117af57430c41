"""``sowctl queue depth``: how many messages are pending."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import MessageType, QueueName

EXAMPLES = (
    "sowctl queue depth work",
    "sowctl queue depth work --json",
)


def run(
    invocation: Invocation,
    name: QueueName,
    message_type: MessageType = None,
    json: Annotated[
        bool, option("--json", help="Print one JSON object with the number of messages per state.")
    ] = False,
) -> int:
    """Print the number of pending messages: ready, leased, delayed after a cancel, or blocked by a barrier.

    The number comes from counters, so the cost does not depend on the depth. With TargetQueueDepth, only messages held
    in the queue state are counted; a note is printed if the journal has more.
    """
    from sowctl.engine.verbs.queue import depth_of, open_queue
    from sowctl.output.reports import as_json

    with invocation.open_instance() as instance, open_queue(instance, name, message_type) as queue:
        depth = depth_of(queue)
    invocation.streams.stdout.write((as_json(depth) if json else str(depth.pending)).encode() + b"\n")
    if not depth.whole:
        invocation.note("TargetQueueDepth is reached: the journal has more messages")
    return 0

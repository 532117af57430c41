"""``sowctl queue requeue``: deliver dead and delayed messages again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, Outcomes, QueueName
from sowctl.declarations import Argument, declare_option
from sowctl.values.display import format_count

EXAMPLES = (
    "sowctl queue lease work > batch.ndjson; sowctl queue cancel work - --delay 1h < batch.ndjson; "
    "sowctl queue requeue work - < batch.ndjson",
    "sowctl queue requeue work --dead",
)


class QueueRequeueArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue requeue``."""

    name: QueueName
    messages: Annotated[list[str] | None, Argument("MESSAGE", "Bookmarks or txids; - reads standard input.")] = None
    dead: Annotated[bool, declare_option("--dead", help="Requeue all dead messages.")] = False
    message_type: MessageType = None
    json: Outcomes = False


def run(invocation: Invocation, arguments: QueueRequeueArguments) -> int:
    """Deliver messages again: dead messages restart with their counters at 0, delayed ones become ready immediately.

    A requeued message returns to its original position. Messages are named as for queue ack; --dead names all dead
    messages. Without either, nothing is requeued.
    """
    from sowctl.cli.commands.bodies.queue import apply_batches, read_handles
    from sowctl.engine.verbs.queue import compute_depth, open_queue
    from sowctl.identity.bookmarks import Bookmark

    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        named = list(arguments.messages or ())
        if arguments.dead:
            named += [str(Bookmark(*one.name)) for one in queue.list_dead()]
        status = apply_batches(
            invocation,
            read_handles(invocation, queue, named),
            lambda handles: queue.requeue([handle.name for handle in handles]),
            "requeued",
            as_json=arguments.json,
        )
        if not arguments.messages and not arguments.dead:
            dead = format_count(compute_depth(queue).dead, "dead message")
            invocation.note(f"no message was named: give bookmarks or --dead; the queue has {dead}")
        return status

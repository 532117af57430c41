"""``sowctl queue purge``: drop all messages of a queue."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, QueueName, Yes
from sowctl.declarations import declare_option
from sowctl.output.display import escape_line
from sowctl.values.display import format_count

EXAMPLES = (
    "sowctl queue purge work --yes",
    "sowctl queue purge work --dead --yes",
)


class QueuePurgeArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue purge``."""

    name: QueueName
    dead: Annotated[bool, declare_option("--dead", help="Remove the dead messages instead.")] = False
    message_type: MessageType = None
    yes: Yes = False
    json: Annotated[
        bool, declare_option("--json", help="Print one JSON object with the number of removed messages.")
    ] = False


def run(invocation: Invocation, arguments: QueuePurgeArguments) -> int:
    """Drop all messages that are not leased, without processing them; with --dead, the dead ones. This cannot be
    undone.

    Dropped messages count as expired, with the reason forced_expire. On a terminal, the command asks for confirmation;
    otherwise --yes is required.
    """
    from sowctl.engine.verbs.queue import compute_depth, open_queue

    with invocation.open_instance() as instance, open_queue(instance, arguments.name, arguments.message_type) as queue:
        depth = compute_depth(queue)
        count = depth.dead if arguments.dead else depth.pending - depth.leased
        one = "dead letter" if arguments.dead else "message"
        if invocation.streams.must_confirm(yes=arguments.yes, look="sowctl queue peek"):
            invocation.streams.confirm(f"remove {format_count(count, one)} from queue {escape_line(arguments.name)}")
        gone = queue.bury() if arguments.dead else queue.purge()
    if arguments.json:
        from sowctl.values.jsonline import format_json_line

        counts = {"removed": 0, "removed_dead": 0} | {"removed_dead" if arguments.dead else "removed": gone}
        row = {"queue": depth.queue, "message_type": depth.message_type} | counts
        invocation.streams.stdout.write(format_json_line(row).encode() + b"\n")
    invocation.note(f"{format_count(gone, one)} removed")
    return 0

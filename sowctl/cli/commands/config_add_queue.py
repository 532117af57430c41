"""``sowctl config add queue``: a queue for an existing configuration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.config_add import EntryType, NoJournal, Writing
from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option
from sowctl.engine.options import Filter

EXAMPLES = (
    "sowctl config add queue fills",
    "sowctl config add queue big-orders --source orders --filter '/qty > 500' --lease-period 1m --max-deliveries 5",
    "sowctl config add queue alerts --source orders --priority /qty --expiration 1h --dry-run",
)
DEFAULT_LEASE = "30s"
DEFAULT_BACKLOG = 2
"""Messages leased to one subscription at a time; with one, it waits after each message for the next."""
CHOSEN_RULES = frozenset({"B042"})
"""Advice that applies only to --max-per-subscription 1."""


class ConfigAddQueueArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config add queue``."""

    queue: Annotated[str, Argument("QUEUE", "Name of the new queue.")]
    source: Annotated[
        str | None,
        declare_option(
            "--source",
            help="Topic whose messages the queue holds, or a pattern of topics. Default: the name of the queue.",
            metavar="TOPIC",
            complete="published",
        ),
    ] = None
    publish_target: Annotated[
        str | None,
        declare_option(
            "--publish-target",
            help="With a pattern as --source: topic that receives messages published to the queue.",
            metavar="TOPIC",
            complete="published",
        ),
    ] = None
    filter: Filter = None
    at_most_once: Annotated[
        bool, declare_option("--at-most-once", help="Remove messages when they are leased, without acknowledgement.")
    ] = False
    lease_period: Annotated[
        str | None,
        declare_option(
            "--lease-period",
            help=f"Time to process a message, after which it is delivered again. Default: {DEFAULT_LEASE}.",
            metavar="INTERVAL",
        ),
    ] = None
    max_deliveries: Annotated[
        int | None,
        declare_option(
            "--max-deliveries", help="Deliveries after which a message is dead. Default: any number.", metavar="COUNT"
        ),
    ] = None
    max_cancels: Annotated[
        int | None,
        declare_option(
            "--max-cancels", help="Returns after which a message is dead. Default: any number.", metavar="COUNT"
        ),
    ] = None
    max_per_subscription: Annotated[
        int,
        declare_option(
            "--max-per-subscription",
            help="Messages that a worker may hold at a time.",
            metavar="COUNT",
            minimum=1,
        ),
    ] = DEFAULT_BACKLOG
    expiration: Annotated[
        str | None,
        declare_option("--expiration", help="Time after which a pending message is dropped.", metavar="INTERVAL"),
    ] = None
    priority: Annotated[
        str | None,
        declare_option("--priority", help="Expression; messages with a higher value come first.", metavar="EXPR"),
    ] = None
    barrier: Annotated[
        str | None,
        declare_option(
            "--barrier",
            help="Filter for messages that wait until all earlier ones are processed.",
            metavar="EXPR",
        ),
    ] = None
    message_type: EntryType = None
    no_journal: NoJournal = False
    writing: Writing = Writing()


def run(invocation: Invocation, arguments: ConfigAddQueueArguments) -> int:
    """Add a queue to a configuration, and its topic to the transaction log unless that records it already.

    The new elements are printed with their places in the file. Comments and formatting of the file stay, and it is
    replaced as a whole. The command is refused, and the file not changed, if sowctl validate would report an error, for
    example because there is no transaction log. A comment beside the new queue disables advice of sowctl lint about
    what was asked for; other new advice is printed as a warning.
    """
    from sowctl.cli.commands.bodies.config_add import add_journal_part, open_config, write_addition
    from sowctl.config.additions import NewPart
    from sowctl.config.new_elements import build_queue
    from sowctl.config.topic_patterns import is_pattern

    config = open_config(invocation, arguments.writing)
    source = arguments.source or arguments.queue
    kind = arguments.message_type or next((entry.message_type for entry in config.config.find_entries(source)), "json")
    lease = arguments.lease_period if arguments.at_most_once else arguments.lease_period or DEFAULT_LEASE
    element = build_queue(
        arguments.queue,
        kind,
        {
            "UnderlyingTopic": arguments.source,
            "DefaultPublishTarget": arguments.publish_target,
            "Semantics": "at-most-once" if arguments.at_most_once else None,
            "LeasePeriod": lease,
            "MaxPerSubscriptionBacklog": str(arguments.max_per_subscription),
            "Expiration": arguments.expiration,
            "Filter": arguments.filter,
            "MaxDeliveries": _format_count(arguments.max_deliveries),
            "MaxCancels": _format_count(arguments.max_cancels),
            "Priority": arguments.priority,
            "BarrierExpression": arguments.barrier,
        },
    )
    parts = [NewPart("SOW", element)]
    if not arguments.no_journal and (arguments.source is None or not is_pattern(source)):
        add_journal_part(config, parts, source, kind)
    change = f"added queue {arguments.queue} with the messages of {source}"
    return write_addition(invocation, config, config.add_parts(parts, CHOSEN_RULES), arguments.writing, change)


def _format_count(count: int | None) -> str | None:
    return None if count is None else str(count)

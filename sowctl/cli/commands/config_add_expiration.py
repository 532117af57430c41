"""``sowctl config add expiration``: a lifetime for the records of a topic."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.config_add import Writing
from sowctl.cli.context import Invocation
from sowctl.declarations import Argument

EXAMPLES = (
    "sowctl config add expiration quotes 10m",
    "sowctl config add expiration quotes enabled --dry-run",
)


class ConfigAddExpirationArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config add expiration``."""

    topic: Annotated[str, Argument("TOPIC", "Topic: NAME or [type].[name].", complete="topic")]
    interval: Annotated[
        str,
        Argument(
            "INTERVAL",
            "Lifetime of records, for example 10m; enabled, for the expirations of publishers alone; or disabled.",
        ),
    ]
    writing: Writing = Writing()


def run(invocation: Invocation, arguments: ConfigAddExpirationArguments) -> int:
    """Let the records of a topic expire, or change their lifetime.

    The Expiration of the topic is added or replaced, and printed with its place in the file. The new lifetime applies
    to messages that are published from then on. Comments and formatting of the file stay, and it is replaced as a
    whole. The command is refused, and the file not changed, if sowctl validate would report an error, for example
    because the topic has a History.
    """
    from sowctl.cli.commands.bodies.config_add import open_config, write_addition
    from sowctl.config.initial_config import split_topic
    from sowctl.config.new_elements import build_elements

    named = split_topic(arguments.topic, "")
    (element,) = build_elements("Expiration", arguments.interval)
    config = open_config(invocation, arguments.writing)
    topic = config.find_topic(named.name, named.message_type or None)
    addition = config.set_children(topic, element)
    change = f"set the expiration of {topic.label} to {arguments.interval}"
    return write_addition(invocation, config, addition, arguments.writing, change)

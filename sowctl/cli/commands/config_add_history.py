"""``sowctl config add history``: earlier versions of the records of a topic."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.config_add import Writing
from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option

EXAMPLES = (
    "sowctl config add history customers 30d --granularity 1m",
    "sowctl config add history customers 1d --dry-run",
)


class ConfigAddHistoryArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl config add history``."""

    topic: Annotated[str, Argument("TOPIC", "Topic: NAME or [type].[name].", complete="topic")]
    window: Annotated[str, Argument("INTERVAL", "Time for which earlier versions are kept, for example 30d.")]
    granularity: Annotated[
        str,
        declare_option(
            "--granularity",
            help="Minimum time between kept versions of a key; 0s keeps all.",
            metavar="INTERVAL",
        ),
    ] = "0s"
    writing: Writing = Writing()


def run(invocation: Invocation, arguments: ConfigAddHistoryArguments) -> int:
    """Keep earlier versions of the records of a topic, or change how long they are kept.

    The History of the topic is added or replaced, and printed with its place in the file. Versions are kept from then
    on; earlier ones are in the journal. Comments and formatting of the file stay, and it is replaced as a whole. The
    command is refused, and the file not changed, if sowctl validate would report an error, for example because the
    topic has an Expiration.
    """
    from sowctl.cli.commands.bodies.config_add import open_config, write_addition
    from sowctl.config.initial_config import split_topic
    from sowctl.config.new_elements import build_history

    named = split_topic(arguments.topic, "")
    element = build_history(arguments.window, arguments.granularity)
    config = open_config(invocation, arguments.writing)
    topic = config.find_topic(named.name, named.message_type or None)
    addition = config.set_children(topic, element)
    change = f"set the history of {topic.label} to {arguments.window} with granularity {arguments.granularity}"
    return write_addition(invocation, config, addition, arguments.writing, change)

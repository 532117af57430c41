"""``sowctl tail``: print messages as they are published."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import EventFormat, FixNames, LiteralTopic, MessageType, ReadTargets, Strict
from sowctl.cli.parsing.place_options import PlaceOptions
from sowctl.declarations import declare_part
from sowctl.engine.options import SubscribeOptions

EXAMPLES = (
    "sowctl tail orders",
    "sowctl tail orders \"/symbol = 'IBM'\" --format raw",
    "sowctl tail '^orders' --until-now --since -15m",
)
COMMON_OPTIONS = ("filter", "bookmark", "until_now", "lasting", "most", "select", "format")


class TailArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl tail``."""

    targets: ReadTargets
    query: Annotated[
        SubscribeOptions,
        declare_part(
            "filter",
            "sow_keys",
            "keys",
            "select",
            "bookmark",
            "bookmark_not_found",
            "rate",
            "rate_max_gap",
            "until_now",
            "lasting",
            "most",
            "deletes",
            "conflation",
            "conflation_key",
        ),
    ]
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    strict: Strict = False
    place: PlaceOptions
    format: EventFormat = None
    fix_names: FixNames = False


def run(invocation: Invocation, arguments: TailArguments) -> int:
    """Print the messages that are published to topics from now on, as sowctl subscribe --no-sow does.

    The command runs until it is interrupted, or until the limit of --until-now, --for or --max. --since starts at an
    earlier position of the journal. --deletes prints deletions and expirations too. For records and what happens to
    them, see sowctl subscribe; for entries of the journal as they were written, sowctl journal tail.
    """
    from sowctl.cli.commands.bodies.subscribe import FollowedTopics, follow_topics

    followed = FollowedTopics(
        arguments.targets, arguments.message_type, arguments.literal_topic, arguments.strict, arguments.fix_names
    )
    asked = replace(arguments.query, sow=False)
    follow_topics(invocation, followed, asked, arguments.place, format=arguments.format)
    return 0

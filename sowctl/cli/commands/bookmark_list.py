"""``sowctl bookmark list``: positions and lags of subscriptions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import declare_option, declare_part

EXAMPLES = (
    "sowctl bookmark list shop.bookmarks",
    "sowctl bookmark list shop.bookmarks --topic orders",
    "sowctl bookmark list shop.bookmarks --client billing --format json",
)


class BookmarkListArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl bookmark list``."""

    store: Store
    client: Client = None
    sub_id: SubId = None
    store_config: StoreConfig = None
    topic: Annotated[
        str | None,
        declare_option(
            "--topic", help="Count only entries of this topic, or of topics that match a pattern.", metavar="TARGET"
        ),
    ] = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: BookmarkListArguments) -> int:
    """List the subscriptions of a bookmark store with their positions and their lag behind the journal.

    A subscription continues after txid; publisher is the client of that message, logged its time. The lag is given as
    the number of entries, their bytes, and the seconds since the first of them. These are null for a position that the
    journals do not contain; sowctl bookmark check prints the reason. A bookmark store does not record the topics of a
    subscription: without --topic, entries of all topics are counted, including those that it does not follow.
    """
    from sowctl.cli.commands.bodies.bookmark import STANDINGS_FIT, build_person_row, build_standing_row, open_bookmarks
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.topics.targets import resolve_followed_topics
    from sowctl.engine.verbs.bookmark import SubscriptionSelection, list_standings

    sink = Sink(invocation, arguments.output, facts=True)
    with open_bookmarks(invocation, arguments.store, arguments.store_config) as (instance, found):
        topics = None if arguments.topic is None else resolve_followed_topics(instance, arguments.topic)
        rows = list_standings(instance, found, SubscriptionSelection(arguments.client, arguments.sub_id), topics)
        if sink.is_for_person and arguments.output.columns is None:
            sink.write_rows((build_person_row(row, instance.now) for row in rows), STANDINGS_FIT)
        else:
            sink.write_rows(map(build_standing_row, rows))
    return 0

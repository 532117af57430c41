"""``sowctl bookmark list``: where subscriptions stand."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, Format

EXAMPLES = (
    "sowctl bookmark list shop.bookmarks",
    "sowctl bookmark list shop.bookmarks --topic orders",
    "sowctl bookmark list shop.bookmarks --client billing --format json",
)


def run(
    invocation: Invocation,
    store: Store,
    client: Client = None,
    sub_id: SubId = None,
    store_config: StoreConfig = None,
    topic: Annotated[
        str | None,
        option(
            "--topic", help="count only entries of this topic, or of those that a pattern matches", metavar="TARGET"
        ),
    ] = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """List the subscriptions of a bookmark store: where each goes on, and how far that is behind the journal.

    A subscription goes on behind txid; publisher is the client whose message that was, logged its time. Behind it
    stand so many entries, with so many bytes of messages; seconds have gone by since the first of them. These are null
    for a place that the journals do not hold: sowctl bookmark check says why. A store does not know what a subscription
    is to: without --topic entries of all topics count, also of those that it does not follow.
    """
    from sowctl.cli.commands.bodies.bookmark import opened, standing_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.topics.targets import followed
    from sowctl.engine.verbs.bookmark import Chosen, standings

    sink = Sink(invocation, Choice(format, columns=columns))
    with opened(invocation, store, store_config) as (instance, found):
        topics = None if topic is None else followed(instance, topic)
        sink.write_rows(map(standing_row, standings(instance, found, Chosen(client, sub_id), topics)))
    return 0

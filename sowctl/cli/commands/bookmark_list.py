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
            "--topic", help="Count only entries of this topic, or of topics that match a pattern.", metavar="TARGET"
        ),
    ] = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """List the subscriptions of a bookmark store with their positions and their lag behind the journal.

    A subscription continues after txid; publisher is the client of that message, logged its time. The lag is given as
    the number of entries, their bytes, and the seconds since the first of them. These are null for a position that the
    journals do not contain; sowctl bookmark check prints the reason. A bookmark store does not record the topics of a
    subscription: without --topic, entries of all topics are counted, including those that it does not follow.
    """
    from sowctl.cli.commands.bodies.bookmark import STANDINGS_FIT, opened, person_row, standing_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.topics.targets import followed
    from sowctl.engine.verbs.bookmark import Chosen, standings

    sink = Sink(invocation, Choice(format, columns=columns, facts=True))
    with opened(invocation, store, store_config) as (instance, found):
        topics = None if topic is None else followed(instance, topic)
        rows = standings(instance, found, Chosen(client, sub_id), topics)
        if sink.is_for_person and columns is None:
            sink.write_rows((person_row(row, instance.now) for row in rows), STANDINGS_FIT)
        else:
            sink.write_rows(map(standing_row, rows))
    return 0

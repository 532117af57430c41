"""``sowctl bookmark list``: where subscriptions stand."""

from __future__ import annotations

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format

EXAMPLES = (
    "sowctl bookmark list shop.bookmarks",
    "sowctl bookmark list shop.bookmarks --client billing --format json",
)


def run(
    invocation: Invocation,
    store: Store,
    client: Client = None,
    sub_id: SubId = None,
    store_config: StoreConfig = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """List the subscriptions of a bookmark store: where each goes on, and how far that is behind the journal.

    A subscription goes on behind txid; publisher is the client whose message that was, logged its time. Behind it
    stand entries of all topics, with so many bytes of messages; seconds have gone by since the first of them. These
    are null for a place that the journals do not hold: sowctl bookmark check says why.
    """
    from sowctl.cli.commands.bodies.bookmark import opened, standing_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.bookmark import Chosen, standings

    sink = Sink(invocation, Choice(format, columns=columns))
    with opened(invocation, store, store_config) as (instance, found):
        sink.write_rows(map(standing_row, standings(instance, found, Chosen(client, sub_id))))
    return 0

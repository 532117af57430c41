"""``sowctl bookmark check``: whether subscriptions can go on."""

from __future__ import annotations

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format

EXAMPLES = ("sowctl bookmark check shop.bookmarks",)


def run(
    invocation: Invocation,
    store: Store,
    client: Client = None,
    sub_id: SubId = None,
    store_config: StoreConfig = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Say of every place whether the journals still hold it, and so what its subscription would do.

    The state is ready: it goes on behind txid; partly: it does, with the members of a list that are there, and the
    others are told; lost: it would end with an error, or begin at the end of the journal and leave messages out. The
    status is 1 if a place is lost.
    """
    from sowctl.cli.commands.bodies.bookmark import checked_row, opened
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.bookmark import Chosen, standings

    sink = Sink(invocation, Choice(format, columns=columns))
    with opened(invocation, store, store_config) as (instance, found):
        places = standings(instance, found, Chosen(client, sub_id))
        sink.write_rows(map(checked_row, places))
    return 1 if any(place.problem is not None for place in places) else 0

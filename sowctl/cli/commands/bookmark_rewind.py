"""``sowctl bookmark rewind``: messages again."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, Format

EXAMPLES = (
    "sowctl bookmark rewind shop.bookmarks --to -1h",
    "sowctl bookmark rewind shop.bookmarks --to 2026-01-05T10:00:00Z --client billing",
)


def run(
    invocation: Invocation,
    store: Store,
    to: Annotated[str, option("--to", help="a time, a bookmark or a txid; 0 is the beginning", metavar="WHEN")],
    client: Client = None,
    sub_id: SubId = None,
    store_config: StoreConfig = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Set subscriptions back to an earlier place, so that they get the messages behind it again, and list them.

    Without --client and --sub-id all subscriptions of the store are meant. Where one of them has not come so far, none
    is changed: messages between would be left out.
    """
    from sowctl.cli.commands.bodies.bookmark import opened, place_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.bookmark import Chosen, rewind

    sink = Sink(invocation, Choice(format, columns=columns))
    with opened(invocation, store, store_config) as (instance, found):
        sink.write_rows(map(place_row, rewind(instance, found, Chosen(client, sub_id), to)))
    return 0

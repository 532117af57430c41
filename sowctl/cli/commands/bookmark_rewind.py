"""``sowctl bookmark rewind``: messages again."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import declare_option
from sowctl.cli.parsing.options import Columns, Format

EXAMPLES = (
    "sowctl bookmark rewind shop.bookmarks --to -1h",
    "sowctl bookmark rewind shop.bookmarks --to 2026-01-05T10:00:00Z --client billing",
)


def run(
    invocation: Invocation,
    store: Store,
    to: Annotated[str, declare_option("--to", help="Time, bookmark or txid; 0 is the beginning.", metavar="WHEN")],
    client: Client = None,
    sub_id: SubId = None,
    store_config: StoreConfig = None,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Move subscriptions back to an earlier position, so that later messages are delivered again, and list them.

    Without --client and --sub-id, all subscriptions of the store are moved. If one of them has not reached the position
    yet, none is changed, because messages would be skipped.
    """
    from sowctl.cli.commands.bodies.bookmark import build_place_row, open_bookmarks
    from sowctl.cli.io.output_sink import OutputChoice, Sink
    from sowctl.engine.verbs.bookmark import SubscriptionSelection, rewind_places

    sink = Sink(invocation, OutputChoice(format, columns=columns, facts=True))
    with open_bookmarks(invocation, store, store_config) as (instance, found):
        sink.write_rows(map(build_place_row, rewind_places(instance, found, SubscriptionSelection(client, sub_id), to)))
    return 0

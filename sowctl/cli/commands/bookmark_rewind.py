"""``sowctl bookmark rewind``: repeat messages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import declare_option, declare_part

EXAMPLES = (
    "sowctl bookmark rewind shop.bookmarks --to -1h",
    "sowctl bookmark rewind shop.bookmarks --to 2026-01-05T10:00:00Z --client billing",
)


class BookmarkRewindArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl bookmark rewind``."""

    store: Store
    to: Annotated[str, declare_option("--to", help="Time, bookmark or txid; 0 is the beginning.", metavar="WHEN")]
    client: Client = None
    sub_id: SubId = None
    store_config: StoreConfig = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: BookmarkRewindArguments) -> int:
    """Move subscriptions back to an earlier position, so that later messages are delivered again, and list them.

    Without --client and --sub-id, all subscriptions of the store are moved. If one of them has not reached the position
    yet, none is changed, because messages would be skipped.
    """
    from sowctl.cli.commands.bodies.bookmark import build_place_row, open_bookmarks
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.bookmark import SubscriptionSelection, rewind_places

    sink = Sink(invocation, arguments.output, facts=True)
    with open_bookmarks(invocation, arguments.store, arguments.store_config) as (instance, found):
        sink.write_rows(
            map(
                build_place_row,
                rewind_places(instance, found, SubscriptionSelection(arguments.client, arguments.sub_id), arguments.to),
            )
        )
    return 0

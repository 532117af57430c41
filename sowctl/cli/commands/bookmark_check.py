"""``sowctl bookmark check``: check that subscriptions can resume."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import declare_part

EXAMPLES = ("sowctl bookmark check shop.bookmarks",)


class BookmarkCheckArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl bookmark check``."""

    store: Store
    client: Client = None
    sub_id: SubId = None
    store_config: StoreConfig = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: BookmarkCheckArguments) -> int:
    """Check for every stored position whether the journals still contain it, and what its subscription would do.

    The states are: ready, it continues after txid; partly, it continues with the available members of a list, and the
    others are reported; lost, it would fail with an error, or start at the end of the journal and skip messages. The
    exit status is 1 if a position is lost.
    """
    from sowctl.cli.commands.bodies.bookmark import build_check_row, open_bookmarks
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.bookmark import SubscriptionSelection, list_standings

    sink = Sink(invocation, arguments.output, facts=True)
    with open_bookmarks(invocation, arguments.store, arguments.store_config) as (instance, found):
        places = list_standings(instance, found, SubscriptionSelection(arguments.client, arguments.sub_id))
        sink.write_rows(map(build_check_row, places))
    return 1 if any(place.problem is not None for place in places) else 0

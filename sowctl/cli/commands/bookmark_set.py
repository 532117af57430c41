"""``sowctl bookmark set``: set the position of a subscription."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.bookmark import OneClient, OneSubId, PlaceJson, Store, StoreConfig
from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option

EXAMPLES = (
    "sowctl bookmark set shop.bookmarks '0|1|' --client billing --sub-id 1",
    "sowctl bookmark set shop.bookmarks now-15m --client billing --sub-id 1",
)


class BookmarkSetArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl bookmark set``."""

    store: Store
    bookmark: Annotated[str, Argument("BOOKMARK", "Bookmark, list, range, txid or time.")]
    client: OneClient
    sub_id: OneSubId
    store_config: StoreConfig = None
    force: Annotated[bool, declare_option("--force", help="Accept a position that the journals do not contain.")] = (
        False
    )
    json: PlaceJson = False


def run(invocation: Invocation, arguments: BookmarkSetArguments) -> int:
    """Set the position of a subscription, forwards or backwards; an unknown subscription is added to the store.

    0 is the beginning of the journal, '0|1|' its end when the subscription starts. Out-of-order acknowledgements
    recorded in a file are discarded. The position is printed as stored: times as instants.
    """
    from sowctl.cli.commands.bodies.bookmark import open_bookmarks, show_place
    from sowctl.engine.subscriptions.bookmark_stores.protocol import Subscriber
    from sowctl.engine.verbs.bookmark import set_place

    who = Subscriber(arguments.client, arguments.sub_id)
    with open_bookmarks(invocation, arguments.store, arguments.store_config, begun=False) as (instance, found):
        set_place(instance, found, who, arguments.bookmark, force=arguments.force)
        show_place(invocation, found, who, as_json=arguments.json)
    return 0

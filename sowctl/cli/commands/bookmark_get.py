"""``sowctl bookmark get``: the position at which one subscription resumes."""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.commands.bodies.bookmark import OneClient, OneSubId, PlaceJson, Store, StoreConfig
from sowctl.cli.context import Invocation

EXAMPLES = ("sowctl bookmark get shop.bookmarks --client billing --sub-id 1",)


class BookmarkGetArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl bookmark get``."""

    store: Store
    client: OneClient
    sub_id: OneSubId
    store_config: StoreConfig = None
    json: PlaceJson = False


def run(invocation: Invocation, arguments: BookmarkGetArguments) -> int:
    """Print the stored position of a subscription: a bookmark, a list, a range or a time.

    For an unknown subscription, and before the bookmark store exists, it is 0, the beginning of the journal; a program
    can therefore ask before its first run.
    """
    from sowctl.cli.commands.bodies.bookmark import open_bookmarks, show_place
    from sowctl.engine.subscriptions.bookmark_stores.protocol import Subscriber

    with open_bookmarks(invocation, arguments.store, arguments.store_config, begun=False) as (_, found):
        show_place(invocation, found, Subscriber(arguments.client, arguments.sub_id), as_json=arguments.json)
    return 0

"""``sowctl bookmark set``: a place, on purpose."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.bookmark import OneClient, OneSubId, Store, StoreConfig
from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option

EXAMPLES = (
    "sowctl bookmark set shop.bookmarks '0|1|' --client billing --sub-id 1",
    "sowctl bookmark set shop.bookmarks now-15m --client billing --sub-id 1",
)


def run(
    invocation: Invocation,
    store: Store,
    bookmark: Annotated[str, Argument("BOOKMARK", "a bookmark, a list, a range, a txid or a time")],
    client: OneClient,
    sub_id: OneSubId,
    store_config: StoreConfig = None,
    force: Annotated[bool, option("--force", help="also a place that the journals do not hold")] = False,
) -> int:
    """Set where a subscription goes on, forwards or backwards, and make it known to the store.

    0 is the beginning of the journal, '0|1|' the end at the time when the subscription begins. What a file remembers of
    messages that were acknowledged out of order is forgotten. The place is printed as it is stored: times as instants.
    """
    from sowctl.cli.commands.bodies.bookmark import opened
    from sowctl.engine.following.stores.protocol import Subscriber
    from sowctl.engine.verbs.bookmark import set_place

    who = Subscriber(client, sub_id)
    with opened(invocation, store, store_config, begun=False) as (instance, found):
        stored = set_place(instance, found, who, bookmark, force=force)
    invocation.streams.stdout.write(f"{stored}\n".encode())
    return 0

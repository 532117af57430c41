"""``sowctl bookmark get``: where one subscription goes on."""

from __future__ import annotations

from sowctl.cli.commands.bodies.bookmark import OneClient, OneSubId, Store, StoreConfig
from sowctl.cli.context import Invocation

EXAMPLES = ("sowctl bookmark get shop.bookmarks --client billing --sub-id 1",)


def run(
    invocation: Invocation, store: Store, client: OneClient, sub_id: OneSubId, store_config: StoreConfig = None
) -> int:
    """Print where a subscription goes on, as it is stored: a bookmark, a list, a range or a time.

    Of a subscription that the store does not know it is 0: the beginning of the journal. So it is before the store has
    begun, so that a program can ask before its first run.
    """
    from sowctl.cli.commands.bodies.bookmark import opened
    from sowctl.engine.following.stores.protocol import Subscriber

    with opened(invocation, store, store_config, begun=False) as (_, found):
        row = found.get(Subscriber(client, sub_id))
    invocation.streams.stdout.write(f"{'0' if row is None else row.bookmark}\n".encode())
    return 0

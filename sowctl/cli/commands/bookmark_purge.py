"""``sowctl bookmark purge``: remove obsolete subscriptions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.bookmark import Client, Store, StoreConfig, SubId
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Yes
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import DryRun
from sowctl.errors import UsageError
from sowctl.values.display import format_count

EXAMPLES = (
    "sowctl bookmark purge shop.bookmarks --client billing --yes",
    "sowctl bookmark purge shop.bookmarks --all --dry-run",
)


class BookmarkPurgeArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl bookmark purge``."""

    store: Store
    client: Client = None
    sub_id: SubId = None
    all: Annotated[bool, declare_option("--all", help="Remove all subscriptions of the store.")] = False
    store_config: StoreConfig = None
    dry_run: DryRun = False
    yes: Yes = False
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: BookmarkPurgeArguments) -> int:
    """Remove subscriptions from a bookmark store, and list them. A removed subscription that returns starts at the
    beginning of the journal.
    """
    from sowctl.cli.commands.bodies.bookmark import build_place_row, open_bookmarks
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.bookmark import SubscriptionSelection, purge_subscriptions

    if arguments.all == (arguments.client is not None or arguments.sub_id is not None):
        raise UsageError(
            "SOW-CLI-032",
            "exactly one selection of subscriptions is required",
            hint="give --client, --sub-id or both, or --all",
        )
    chosen = SubscriptionSelection(arguments.client, arguments.sub_id)
    ask = not arguments.dry_run and invocation.streams.must_confirm(yes=arguments.yes)
    sink = Sink(invocation, arguments.output, facts=True)
    with open_bookmarks(invocation, arguments.store, arguments.store_config) as (instance, found):
        if ask:
            count = len(purge_subscriptions(instance, found, chosen, dry_run=True))
            invocation.streams.confirm(f"remove {format_count(count, 'subscription')}")
        sink.write_rows(map(build_place_row, purge_subscriptions(instance, found, chosen, dry_run=arguments.dry_run)))
    return 0

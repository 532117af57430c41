"""Options of subscriptions about the stored position, from which they resume after a restart."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.declarations import declare_option
from sowctl.engine.options import POSITION_PANEL


class PlaceOptions(Struct, frozen=True):
    """The options about the stored position."""

    store: Annotated[
        str | None,
        declare_option(
            "--store",
            help="Bookmark store: a topic or a .bookmarks file. Start at the stored position.",
            metavar="STORE",
            complete="file",
            panel=POSITION_PANEL,
        ),
    ] = None
    store_config: Annotated[
        str | None,
        declare_option(
            "--store-config",
            help="Configuration of the other instance that holds the bookmark store topic.",
            metavar="FILE",
            panel=POSITION_PANEL,
        ),
    ] = None
    client: Annotated[
        str | None,
        declare_option(
            "--client", help="With --store: client name of the subscription.", metavar="NAME", panel=POSITION_PANEL
        ),
    ] = None
    sub_id: Annotated[
        str | None,
        declare_option(
            "--sub-id",
            help="With --store: ID of the subscription. Default: target and filter.",
            metavar="ID",
            panel=POSITION_PANEL,
        ),
    ] = None
    commit: Annotated[
        bool,
        declare_option(
            "--commit",
            help="With --store: advance the stored position past each printed message.",
            panel=POSITION_PANEL,
        ),
    ] = False
    since_last: Annotated[
        bool,
        declare_option(
            "--since-last",
            help="Start where the last run with this option, target and filter ended, at first at the beginning: same "
            "as --commit with a --client of its own and the --store sowctl.bookmarks beside the configuration.",
            panel=POSITION_PANEL,
        ),
    ] = False
    ack: Annotated[
        bool,
        declare_option(
            "--ack",
            help="With --commit: advance only past bookmarks acknowledged on standard input, one per line.",
            panel=POSITION_PANEL,
        ),
    ] = False
    commit_every: Annotated[
        str | None,
        declare_option(
            "--commit-every",
            help="Store the position after every N moves or TIME. Default: 1s.",
            metavar="N|TIME",
            panel=POSITION_PANEL,
        ),
    ] = None

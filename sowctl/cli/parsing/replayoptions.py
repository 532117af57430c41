"""Options of subscriptions about where they begin, how fast that is replayed, and where they go on after a restart."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from sowctl.declarations import declare_option

POSITION_PANEL = "Position options"

Bookmark: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--bookmark",
        help="Start position: 0, 0|1|, recent, a bookmark, a list, a txid, a time, or a range.",
        metavar="WHERE",
        panel=POSITION_PANEL,
    ),
]
NotFound: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--bookmark-not-found",
        help="What to do if the start position is not in the journal.",
        choices=("fail", "epoch", "now"),
        panel=POSITION_PANEL,
    ),
]
Rate: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--rate",
        help="Replay 1000 messages or 500KB per second, or at 2X the recorded speed.",
        metavar="RATE",
        panel=POSITION_PANEL,
    ),
]
RateMaxGap: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--rate-max-gap", help="Longest pause between two replayed messages.", metavar="TIME", panel=POSITION_PANEL
    ),
]
Store: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--store",
        help="Bookmark store: a topic or a .bookmarks file. Start at the stored position.",
        metavar="STORE",
        complete="file",
        panel=POSITION_PANEL,
    ),
]
StoreConfig: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--store-config",
        help="Configuration of the other instance that holds the bookmark store topic.",
        metavar="FILE",
        panel=POSITION_PANEL,
    ),
]
Client: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--client", help="With --store: client name of the subscription.", metavar="NAME", panel=POSITION_PANEL
    ),
]
SubId: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--sub-id",
        help="With --store: ID of the subscription. Default: target and filter.",
        metavar="ID",
        panel=POSITION_PANEL,
    ),
]
Commit: TypeAlias = Annotated[
    bool,
    declare_option(
        "--commit", help="With --store: advance the stored position past each printed message.", panel=POSITION_PANEL
    ),
]
Ack: TypeAlias = Annotated[
    bool,
    declare_option(
        "--ack",
        help="With --commit: advance only past bookmarks acknowledged on standard input, one per line.",
        panel=POSITION_PANEL,
    ),
]
CommitEvery: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--commit-every",
        help="Store the position after every N moves or TIME. Default: 1s.",
        metavar="N|TIME",
        panel=POSITION_PANEL,
    ),
]

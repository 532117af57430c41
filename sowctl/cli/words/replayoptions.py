"""Options of subscriptions about where they begin, how fast that is replayed, and where they go on after a restart."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from sowctl.cli.words.declare import option

PLACES = "Position options"

Bookmark: TypeAlias = Annotated[
    str | None,
    option(
        "--bookmark",
        help="Start position: 0, 0|1|, recent, a bookmark, a list, a txid, a time, or a range.",
        metavar="WHERE",
        panel=PLACES,
    ),
]
NotFound: TypeAlias = Annotated[
    str | None,
    option(
        "--bookmark-not-found",
        help="What to do if the start position is not in the journal.",
        choices=("fail", "epoch", "now"),
        panel=PLACES,
    ),
]
Rate: TypeAlias = Annotated[
    str | None,
    option(
        "--rate",
        help="Replay 1000 messages or 500KB per second, or at 2X the recorded speed.",
        metavar="RATE",
        panel=PLACES,
    ),
]
RateMaxGap: TypeAlias = Annotated[
    str | None,
    option("--rate-max-gap", help="Longest pause between two replayed messages.", metavar="TIME", panel=PLACES),
]
Store: TypeAlias = Annotated[
    str | None,
    option(
        "--store",
        help="Bookmark store: a topic or a .bookmarks file. Start at the stored position.",
        metavar="STORE",
        complete="file",
        panel=PLACES,
    ),
]
StoreConfig: TypeAlias = Annotated[
    str | None,
    option(
        "--store-config",
        help="Configuration of the other instance that holds the bookmark store topic.",
        metavar="FILE",
        panel=PLACES,
    ),
]
Client: TypeAlias = Annotated[
    str | None,
    option("--client", help="With --store: client name of the subscription.", metavar="NAME", panel=PLACES),
]
SubId: TypeAlias = Annotated[
    str | None,
    option(
        "--sub-id", help="With --store: ID of the subscription. Default: target and filter.", metavar="ID", panel=PLACES
    ),
]
Commit: TypeAlias = Annotated[
    bool, option("--commit", help="With --store: advance the stored position past each printed message.", panel=PLACES)
]
Ack: TypeAlias = Annotated[
    bool,
    option(
        "--ack",
        help="With --commit: advance only past bookmarks acknowledged on standard input, one per line.",
        panel=PLACES,
    ),
]
CommitEvery: TypeAlias = Annotated[
    str | None,
    option(
        "--commit-every",
        help="Store the position after every N moves or TIME. Default: 1s.",
        metavar="N|TIME",
        panel=PLACES,
    ),
]

"""Options of subscriptions about where they begin, how fast that is replayed, and where they go on after a restart."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from sowctl.cli.words.declare import option

PLACES = "Place"

Bookmark: TypeAlias = Annotated[
    str | None,
    option(
        "--bookmark",
        help="begin here: 0, 0|1|, recent, a bookmark, a list, a txid, a time, or a range",
        metavar="WHERE",
        panel=PLACES,
    ),
]
NotFound: TypeAlias = Annotated[
    str | None,
    option(
        "--bookmark-not-found",
        help="what to do about a beginning that is not there",
        choices=("fail", "epoch", "now"),
        panel=PLACES,
    ),
]
Rate: TypeAlias = Annotated[
    str | None,
    option(
        "--rate", help="replay 1000 messages or 500KB a second, or 2X as fast as recorded", metavar="RATE", panel=PLACES
    ),
]
RateMaxGap: TypeAlias = Annotated[
    str | None,
    option("--rate-max-gap", help="longest pause between two replayed messages", metavar="TIME", panel=PLACES),
]
Store: TypeAlias = Annotated[
    str | None,
    option(
        "--store",
        help="bookmark store: a topic, or a .bookmarks file; begin where it says",
        metavar="STORE",
        complete="file",
        panel=PLACES,
    ),
]
StoreConfig: TypeAlias = Annotated[
    str | None,
    option(
        "--store-config",
        help="the store is a topic of another instance, with this configuration",
        metavar="FILE",
        panel=PLACES,
    ),
]
Client: TypeAlias = Annotated[
    str | None,
    option("--client", help="with --store: the client whose subscription this is", metavar="NAME", panel=PLACES),
]
SubId: TypeAlias = Annotated[
    str | None,
    option(
        "--sub-id", help="with --store: the subscription's id; default target and filter", metavar="ID", panel=PLACES
    ),
]
Commit: TypeAlias = Annotated[
    bool, option("--commit", help="with --store: move the place on behind what was printed", panel=PLACES)
]
Ack: TypeAlias = Annotated[
    bool,
    option("--ack", help="with --commit: behind what standard input acknowledges, a bookmark a line", panel=PLACES),
]
CommitEvery: TypeAlias = Annotated[
    str | None,
    option(
        "--commit-every",
        help="store the place after so many moves, or this time; default 1s",
        metavar="N|TIME",
        panel=PLACES,
    ),
]

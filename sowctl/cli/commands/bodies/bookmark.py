"""Shared code of ``sowctl bookmark``: operands, opening the store, and rows for output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option
from sowctl.output.options import TableFit
from sowctl.values.display import format_age, format_ago, format_bytes

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore, StoredPlace, Subscriber
    from sowctl.engine.verbs.bookmark import BookmarkStanding

Store: TypeAlias = Annotated[
    str, Argument("STORE", "Topic with the Keys /clientName and /subId, or a .bookmarks file.", complete="file")
]
StoreConfig: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--store-config",
        help="Configuration of the other instance that holds the bookmark store topic.",
        metavar="FILE",
    ),
]
Client: TypeAlias = Annotated[
    str | None, declare_option("--client", help="Only subscriptions of this client.", metavar="NAME")
]
SubId: TypeAlias = Annotated[
    str | None, declare_option("--sub-id", help="Only the subscription with this ID.", metavar="ID")
]
OneClient: TypeAlias = Annotated[
    str, declare_option("--client", help="Client name of the subscription.", metavar="NAME")
]
OneSubId: TypeAlias = Annotated[str, declare_option("--sub-id", help="ID of the subscription.", metavar="ID")]

PlaceJson: TypeAlias = Annotated[bool, declare_option("--json", help="Print the stored position as one JSON object.")]


@contextmanager
def open_bookmarks(
    invocation: Invocation, store: str, store_config: str | None, *, begun: bool = True
) -> Iterator[tuple[Instance, BookmarkStore]]:
    """Open the instance of the journal and the bookmark store, which may be in another instance.

    With ``begun``, a missing store is an error (MissingError ``SOW-BKM-001``), and none is created.
    """
    from sowctl.engine.api import RowVerbs
    from sowctl.engine.subscriptions.bookmark_stores.store_kinds import open_bookmark_store

    with invocation.open_instance() as instance:
        of = instance if store_config is None else invocation.open_other_instance(Path(store_config))
        with closing(open_bookmark_store(of, store, RowVerbs(), begun=begun)) as found:
            yield instance, found


def build_place_row(row: StoredPlace) -> dict[str, Any]:
    """Return the row of a stored position."""
    from sowctl.values.times import format_time

    return {
        "client": row.who.client,
        "sub_id": row.who.sub_id,
        "bookmark": row.bookmark,
        "stored": format_time(row.time),
    }


def show_place(invocation: Invocation, store: BookmarkStore, who: Subscriber, *, as_json: bool) -> None:
    """Print the stored position of a subscription; 0 if the store does not know it."""
    from sowctl.values.jsonline import format_json_line

    found = store.read_place(who)
    text = "0" if found is None else found.bookmark
    if as_json:
        unknown = {"client": who.client, "sub_id": who.sub_id, "bookmark": text, "stored": None}
        text = format_json_line(unknown if found is None else build_place_row(found))
    invocation.streams.stdout.write(f"{text}\n".encode())


def build_standing_row(one: BookmarkStanding) -> dict[str, Any]:
    """Return the row of a position compared with the journal."""
    from sowctl.values.times import format_time

    lag = one.lag
    return build_place_row(one.row) | {
        "publisher": one.publisher,
        "txid": one.txid,
        "logged": None if one.logged is None else format_time(one.logged),
        "entries": None if lag is None else lag.entries,
        "bytes": None if lag is None else lag.bytes,
        "seconds": None if lag is None else lag.seconds,
    }


STANDINGS_FIT = TableFit(spare=("bookmark", "stored", "size"), figures=("size", "behind"))
"""Columns of a position for people that a narrow terminal may drop."""


def build_person_row(one: BookmarkStanding, now: int) -> dict[str, Any]:
    """The row of a position and its lag for a terminal: ages and sizes for people."""
    lag = one.lag
    return {
        "client": one.row.who.client,
        "sub_id": one.row.who.sub_id,
        "bookmark": one.row.bookmark,
        "stored": format_ago((now - one.row.time) / 1e6),
        "entries": None if lag is None else lag.entries,
        "size": None if lag is None else format_bytes(lag.bytes),
        "behind": None if lag is None else format_age(lag.seconds or 0),
    }


def build_check_row(one: BookmarkStanding) -> dict[str, Any]:
    """Return the row of a position, and what a subscription that resumes from it would do."""
    state = "lost" if one.problem is not None else "partly" if one.missing else "ready"
    words = None if not one.missing else f"not in the journals: {', '.join(one.missing)}"
    if one.problem is not None:
        words = f"{one.problem.code} {one.problem.message}"
    row = build_place_row(one.row)
    del row["stored"]
    return row | {"state": state, "txid": one.txid, "problem": words}

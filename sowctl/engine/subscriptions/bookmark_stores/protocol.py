"""The protocol of bookmark stores and the values that it exchanges (``behaviour`` 9).

A store keeps one position for each :class:`Subscriber`, as a text that ``--bookmark`` accepts. Its callers are
:class:`~sowctl.engine.subscriptions.bookmark_stores.progress.SubscriptionProgress`, while a subscription runs, and
``sowctl bookmark``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct
from xxhash import xxh3_64_hexdigest

from sowctl.errors import UsageError
from sowctl.identity.bookmarks import Bookmark
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.values.times import Micros


class Subscriber(Struct, frozen=True, order=True):
    """The owner of a position: a client and the id of one of its subscriptions; neither is empty."""

    client: str
    sub_id: str

    def __post_init__(self) -> None:
        if not self.client or not self.sub_id:
            raise UsageError(
                "SOW-BKM-006",
                "a position in a bookmark store requires a client and a subscription id",
                hint="give both names",
            )


class StoredPlace(DescribedStruct, frozen=True):
    """One position: the stored ``bookmark``, and the ``time`` at which it was stored, in microseconds UTC."""

    who: Subscriber
    bookmark: str
    time: Micros


class PlaceAdvance(DescribedStruct, frozen=True):
    """The messages acknowledged since the last advance.

    All up to ``bookmark``, which is None if the position has not changed. ``passed``: for each of their publishers, the
    highest sequence number. ``beyond``: acknowledged messages after the position.
    """

    bookmark: str | None
    passed: Mapping[int, int]
    beyond: Sequence[Bookmark] = ()


class AcknowledgedMessages(DescribedStruct, frozen=True):
    """Acknowledged messages: per publisher all up to a sequence number, and single ones after the position."""

    latest: Mapping[int, int]
    beyond: frozenset[Bookmark]

    def contains_message(self, publisher: int, sequence: int) -> bool:
        """Return whether a message is one of them."""
        return sequence <= self.latest.get(publisher, -1) or Bookmark(publisher, sequence) in self.beyond


NOTHING_ACKNOWLEDGED = AcknowledgedMessages({}, frozenset())


class BookmarkStore(Protocol):
    """A position for each subscriber. The changes of a method are durable when it returns."""

    remembers: ClassVar[bool]
    """Whether the store remembers acknowledged messages, so that they are not delivered again."""

    def list_places(self) -> list[StoredPlace]:
        """Return all positions, ordered by client and subscription id."""
        ...

    def read_place(self, who: Subscriber) -> StoredPlace | None:
        """Return the position of one subscription; None for an unknown subscription."""
        ...

    def read_acknowledged(self, who: Subscriber) -> AcknowledgedMessages:
        """Return the messages known to be acknowledged; none if the store does not keep them."""
        ...

    def set_place(self, who: Subscriber, bookmark: str) -> None:
        """Set a position, forwards or backwards, and drop the acknowledgements of the subscription."""
        ...

    def advance_place(self, who: Subscriber, step: PlaceAdvance) -> None:
        """Advance a position."""
        ...

    def remove_place(self, who: Subscriber) -> bool:
        """Remove a subscription; return whether it existed."""
        ...

    def find_lock_file(self, who: Subscriber) -> Path | None:
        """Return the file that a run locks while it uses the position; None if no other process can see the
        position."""
        ...

    @property
    def file(self) -> Path | None:
        """The path of the store file; None for a store in a topic."""
        ...

    def close(self) -> None:
        """Write pending changes and close files."""
        ...


def build_lock_path(path: Path, who: Subscriber, topic: str = "") -> Path:
    """Return the path of a position's lock file, next to the store; clients' names may be long and hold any character.

    ``topic`` is given if several stores share a ``path``.
    """
    text = f"{len(topic)}:{topic}{len(who.client)}:{who.client}{who.sub_id}"
    real = path.resolve()
    return real.with_name(f"{real.name}-place-{xxh3_64_hexdigest(text.encode())}")

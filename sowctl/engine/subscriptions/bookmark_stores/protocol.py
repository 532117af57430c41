"""The protocol of bookmark stores, and the values that they take and give (``behaviour`` 9).

A store keeps for each :class:`Subscriber` one place, as a text that ``--bookmark`` takes. It is asked by
:class:`~sowctl.engine.subscriptions.bookmark_stores.progress.SubscriptionProgress` while a subscription runs, and by
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
    """Whose place it is: a client, and the id of one of its subscriptions; neither is empty."""

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
    """One place: ``bookmark`` as it is stored, ``time`` when it was stored, in microseconds UTC."""

    who: Subscriber
    bookmark: str
    time: Micros


class PlaceAdvance(DescribedStruct, frozen=True):
    """The messages that were acknowledged since the last time.

    Everything up to ``bookmark``; None where the place is the same. ``passed`` has for each publisher of it the highest
    sequence number. ``beyond``: what was acknowledged behind that place.
    """

    bookmark: str | None
    passed: Mapping[int, int]
    beyond: Sequence[Bookmark] = ()


class AcknowledgedMessages(DescribedStruct, frozen=True):
    """Messages that were acknowledged: per publisher up to a number, and single ones behind the place."""

    latest: Mapping[int, int]
    beyond: frozenset[Bookmark]

    def contains_message(self, publisher: int, sequence: int) -> bool:
        """Return whether a message is one of them."""
        return sequence <= self.latest.get(publisher, -1) or Bookmark(publisher, sequence) in self.beyond


NOTHING_ACKNOWLEDGED = AcknowledgedMessages({}, frozenset())


class BookmarkStore(Protocol):
    """A place for each subscriber. What a method has written is durable when it returns."""

    remembers: ClassVar[bool]
    """Whether it keeps which messages were acknowledged, so that they need not be delivered again."""

    def list_places(self) -> list[StoredPlace]:
        """All places, by client and subscription id."""
        ...

    def read_place(self, who: Subscriber) -> StoredPlace | None:
        """Return the position of one subscription; None for a subscription that the store does not know."""
        ...

    def read_acknowledged(self, who: Subscriber) -> AcknowledgedMessages:
        """Return the messages known to be acknowledged; none where the store does not keep them."""
        ...

    def set_place(self, who: Subscriber, bookmark: str) -> None:
        """Set a place, forwards or backwards, and forget what was known of the subscription."""
        ...

    def advance_place(self, who: Subscriber, step: PlaceAdvance) -> None:
        """Move a place on."""
        ...

    def remove_place(self, who: Subscriber) -> bool:
        """Forget a subscription; whether it was there."""
        ...

    def find_lock_file(self, who: Subscriber) -> Path | None:
        """The file whose lock says that a run has the place; None where no other process could see the place."""
        ...

    @property
    def file(self) -> Path | None:
        """The file that it is; None for one in a topic."""
        ...

    def close(self) -> None:
        """Write what is not written yet, and let go of files."""
        ...


def build_lock_path(path: Path, who: Subscriber, topic: str = "") -> Path:
    """The file beside a store whose lock is that of one place; names of clients may be long, and hold any character.

    ``topic`` is told where several stores share a ``path``.
    """
    text = f"{len(topic)}:{topic}{len(who.client)}:{who.client}{who.sub_id}"
    real = path.resolve()
    return real.with_name(f"{real.name}-place-{xxh3_64_hexdigest(text.encode())}")

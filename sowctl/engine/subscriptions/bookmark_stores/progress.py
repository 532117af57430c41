"""Progress of one subscription: what was delivered and acknowledged, and the place to go on from.

The place is never ahead of what was acknowledged: it stands behind the last message before which everything is. The
subscription tells what it hands out, in the order of the log, and when the place is to be stored; what the store then
gets is worked out here, the same for every kind of store (``behaviour`` 9, 11.63). What acknowledges a message is that
the output was flushed (:class:`FlushProgress`) or the word of the consumer (:class:`ConsumerProgress`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.engine.subscriptions.bookmark_stores.protocol import PlaceAdvance
from sowctl.engine.subscriptions.bookmarks import BookmarkRange, RangeBound
from sowctl.errors import UsageError
from sowctl.identity.bookmarks import EPOCH, NOW, Bookmark, parse_bookmark

if TYPE_CHECKING:
    from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore, Subscriber


class SubscriptionProgress(ABC):
    """One subscription and its place in a store. ``owner``: the publisher id in the instance's own bookmarks.

    Several entries of a group that is visible as a whole may have one bookmark. A place behind it is behind all of
    them, so it is not taken before the last one is known to be the last: another bookmark follows, or the subscription
    says that the group is over.
    """

    def __init__(self, store: BookmarkStore, who: Subscriber, owner: int) -> None:
        self._store = store
        self._who = who
        self._owner = owner
        self._memory = store.read_acknowledged(who)
        numbers = [*self._memory.latest.values(), *(mark.sequence for mark in self._memory.beyond)]
        self._highest = max(numbers, default=-1)
        # The bookmark of the last message, while more messages with it may come.
        self._last: Bookmark | None = None
        self._place: Bookmark | None = None
        self._stored: Bookmark | None = None
        self._passed: dict[int, int] = {}
        self._range: BookmarkRange | None = None
        # What was acknowledged behind the place and is not stored yet.
        self._new: dict[Bookmark, None] = {}

    @property
    def resume_bookmark(self) -> str:
        """The bookmark to go on from: the stored one, EPOCH where the store has none (C140)."""
        row = self._store.read_place(self._who)
        return "0" if row is None else row.bookmark

    def set_range(self, wanted: BookmarkRange) -> None:
        """The subscription is for ``wanted``: of a range, the end is stored with every place, so that it stays one."""
        self._range = wanted if wanted.end is not None else None

    def find_unacknowledged(self, publishers: Sequence[int], sequences: Sequence[int]) -> Sequence[int] | None:
        """Return the places of the messages about to be delivered that no earlier run has acknowledged; None: all.

        The columns are the parts of their bookmarks, publisher and sequence number.
        """
        # Numbers of messages are mostly above all that were known at the start: then one comparison decides.
        if self._highest < 0 or min(sequences, default=self._highest + 1) > self._highest:
            return None
        has = self._memory.contains_message
        places = [place for place, mark in enumerate(zip(publishers, sequences, strict=True)) if not has(*mark)]
        return None if len(places) == len(sequences) else places

    @abstractmethod
    def note_delivered(self, publishers: Sequence[int], sequences: Sequence[int]) -> None:
        """Note messages as delivered, in this order."""

    @abstractmethod
    def note_reached(self, txid: int, *, move: bool = False) -> None:
        """Note that everything up to ``txid`` is delivered, or not for this subscription; told between groups of the
        log.

        With ``move`` the place follows, also if nothing was handed out since.
        """

    @abstractmethod
    def note_flushed(self) -> None:
        """The output of everything that was delivered has left this process."""

    def commit(self) -> bool:
        """Store the place if it has moved, and what was acknowledged behind it; whether there was anything to store.

        Durable when it returns, unless the store is one that writes now and then. Raises what the store raises.
        """
        # More messages with the last bookmark may follow, which would be taken for acknowledged.
        beyond = [mark for mark in self._new if mark != self._last] if self._store.remembers else []
        if self._place == self._stored and not beyond:
            return False
        text = None if self._place == self._stored else self._format_place(self._place)
        self._store.advance_place(self._who, PlaceAdvance(text, self._passed, beyond))
        # Updated only after the store has it: after an error, the next commit stores everything again.
        self._stored, self._passed = self._place, {}
        for mark in beyond:
            del self._new[mark]
        return True

    def _format_place(self, place: Bookmark | None) -> str:
        if self._range is None or place is None:
            return str(place)
        return str(BookmarkRange(RangeBound((place,), False), self._range.end))

    def close(self) -> None:
        """Store what is acknowledged, and close the store."""
        try:
            self.commit()
        finally:
            self._store.close()


class FlushProgress(SubscriptionProgress):
    """Progress by output: what has left this process is acknowledged. Kept is nothing but the last place."""

    def __init__(self, store: BookmarkStore, who: Subscriber, owner: int) -> None:
        super().__init__(store, who, owner)
        self._complete: Bookmark | None = None
        self._latest: dict[int, int] = {}

    def note_delivered(self, publishers: Sequence[int], sequences: Sequence[int]) -> None:
        """Note messages as delivered, in this order."""
        if not publishers:
            return
        last = Bookmark(publishers[-1], sequences[-1])
        place = len(publishers) - 2
        while place >= 0 and (publishers[place], sequences[place]) == (last.publisher, last.sequence):
            place -= 1
        if self._last is not None and (place >= 0 or self._last != last):
            self._acknowledge_mark(self._last)
        if place >= 0:
            # A publisher's numbers rise, so the last one of each is its highest.
            self._latest.update(zip(publishers[: place + 1], sequences[: place + 1], strict=True))
            self._complete = Bookmark(publishers[place], sequences[place])
        self._last = last

    def note_reached(self, txid: int, *, move: bool = False) -> None:
        """Note that everything up to ``txid`` is delivered, or not for this subscription."""
        if self._last is not None:
            self._acknowledge_mark(self._last)
            self._last = None
        if move:
            self._complete = Bookmark(self._owner, txid)

    def note_flushed(self) -> None:
        """Note that everything delivered is acknowledged."""
        self._place = self._complete
        self._passed |= self._latest
        self._latest = {}

    def _acknowledge_mark(self, mark: Bookmark) -> None:
        self._latest[mark.publisher] = mark.sequence
        self._complete = mark


class ConsumerProgress(SubscriptionProgress):
    """The consumer acknowledges each message by its bookmark, in any order.

    Memory is taken by what is delivered and not acknowledged, and by what is acknowledged behind it.
    """

    def __init__(self, store: BookmarkStore, who: Subscriber, owner: int) -> None:
        super().__init__(store, who, owner)
        # What was delivered, in its order; a number is a place without a message. Each is open or acknowledged.
        self._order: deque[Bookmark | int] = deque()
        self._acknowledged: dict[Bookmark, bool] = {}
        self.unknown = 0
        """Acknowledgements of what was not delivered, or was acknowledged before."""

    @property
    def open_messages(self) -> int:
        """The number of delivered messages that are neither acknowledged nor waiting for others before them."""
        return sum(not done for done in self._acknowledged.values())

    def note_delivered(self, publishers: Sequence[int], sequences: Sequence[int]) -> None:
        """Note messages as delivered, in this order."""
        for mark in map(Bookmark, publishers, sequences):
            if mark not in self._acknowledged:
                self._order.append(mark)
            # A further message with this bookmark opens it again.
            self._acknowledged[mark] = False
            self._new.pop(mark, None)
            self._last = mark

    def note_reached(self, txid: int, *, move: bool = False) -> None:
        """Note that everything up to ``txid`` is delivered, or not for this subscription."""
        self._last = None
        if move:
            # Of several such places in a row the last one counts: waiting costs no memory.
            if self._order and isinstance(self._order[-1], int):
                self._order.pop()
            self._order.append(txid)
        self._advance_over_acknowledged()

    def note_flushed(self) -> None:
        """Nothing: the consumer's word counts."""

    def acknowledge(self, text: str) -> bool:
        """One message, by its bookmark, has been processed. False for one that is not open.

        Raises UsageError ``SOW-IDN-001`` for what is no bookmark of a message.
        """
        mark = parse_bookmark(text)
        if mark in (EPOCH, NOW):
            raise UsageError("SOW-IDN-001", f"{text!r} is not the bookmark of a message")
        if self._acknowledged.get(mark) is not False:
            self.unknown += 1
            return False
        self._acknowledged[mark] = True
        self._new[mark] = None
        self._advance_over_acknowledged()
        return True

    def _advance_over_acknowledged(self) -> None:
        """Move the place over what is acknowledged without a gap."""
        while self._order:
            first = self._order[0]
            if isinstance(first, int):
                self._place = Bookmark(self._owner, first)
            elif self._acknowledged[first] and first != self._last:
                del self._acknowledged[first]
                self._new.pop(first, None)
                self._place = first
                self._passed[first.publisher] = first.sequence
            else:
                return
            self._order.popleft()

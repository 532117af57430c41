"""Progress of one subscription: delivered and acknowledged messages, and the position to resume from.

The position never passes an unacknowledged message: it is after the last message up to which all are acknowledged. The
subscription reports the messages that it delivers, in log order, and when to store the position; this module computes
the position, in the same way for every kind of store (``behaviour`` 9, 11.63). A message is acknowledged when the
output is flushed (:class:`FlushProgress`) or when the consumer says so (:class:`ConsumerProgress`).
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
    """One subscription and its position in a store. ``owner``: the publisher id in the instance's own bookmarks.

    Several entries of an atomic group may share a bookmark. A position after it is after all of them, so the position
    advances past it only when the last of them is known to be the last: another bookmark follows, or the subscription
    reports the end of the group.
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
        # Acknowledged messages after the position that are not stored yet.
        self._new: dict[Bookmark, None] = {}

    @property
    def resume_bookmark(self) -> str:
        """The bookmark to resume from: the stored one, EPOCH if the store has none (C140)."""
        row = self._store.read_place(self._who)
        return "0" if row is None else row.bookmark

    def set_range(self, wanted: BookmarkRange) -> None:
        """Note the ``wanted`` range of the subscription: a range's end is stored with every position, so that it stays
        one."""
        self._range = wanted if wanted.end is not None else None

    def find_unacknowledged(self, publishers: Sequence[int], sequences: Sequence[int]) -> Sequence[int] | None:
        """Return the indexes of the messages about to be delivered that no earlier run has acknowledged; None: all.

        The columns are the parts of the messages' bookmarks: publisher and sequence number.
        """
        # Most sequence numbers are above all that were known at the start: then one comparison decides.
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
        """Note that everything up to ``txid`` is delivered or not for this subscription; called between groups of the
        log.

        With ``move``, the position follows even if nothing was delivered since.
        """

    @abstractmethod
    def note_flushed(self) -> None:
        """Note that the output of all delivered messages has left this process."""

    def commit(self) -> bool:
        """Store the position if it has changed, and acknowledged messages after it; return whether there was a change.

        Durable on return, except with a buffered store. Raises what the store raises.
        """
        # More messages with the last bookmark may follow, and would count as acknowledged.
        beyond = [mark for mark in self._new if mark != self._last] if self._store.remembers else []
        if self._place == self._stored and not beyond:
            return False
        text = None if self._place == self._stored else self._format_place(self._place)
        self._store.advance_place(self._who, PlaceAdvance(text, self._passed, beyond))
        # Updated only after the store has the change: after an error, the next commit stores everything again.
        self._stored, self._passed = self._place, {}
        for mark in beyond:
            del self._new[mark]
        return True

    def _format_place(self, place: Bookmark | None) -> str:
        if self._range is None or place is None:
            return str(place)
        return str(BookmarkRange(RangeBound((place,), False), self._range.end))

    def close(self) -> None:
        """Store acknowledged messages and close the store."""
        try:
            self.commit()
        finally:
            self._store.close()


class FlushProgress(SubscriptionProgress):
    """Progress by output: messages that have left this process are acknowledged. Keeps only the last position."""

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
            # The numbers of a publisher increase, so its last one is its highest.
            self._latest.update(zip(publishers[: place + 1], sequences[: place + 1], strict=True))
            self._complete = Bookmark(publishers[place], sequences[place])
        self._last = last

    def note_reached(self, txid: int, *, move: bool = False) -> None:
        """Note that everything up to ``txid`` is delivered or not for this subscription."""
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

    Memory holds delivered messages that are not acknowledged, and acknowledged ones after the first of these.
    """

    def __init__(self, store: BookmarkStore, who: Subscriber, owner: int) -> None:
        super().__init__(store, who, owner)
        # Delivered messages, in order; a number is a position without a message. Each is open or acknowledged.
        self._order: deque[Bookmark | int] = deque()
        self._acknowledged: dict[Bookmark, bool] = {}
        self.unknown = 0
        """Number of acknowledgements of messages that were not delivered, or were acknowledged before."""

    @property
    def open_messages(self) -> int:
        """The number of delivered messages that are not acknowledged."""
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
        """Note that everything up to ``txid`` is delivered or not for this subscription."""
        self._last = None
        if move:
            # Of consecutive positions without a message only the last one counts, so that waiting takes no memory.
            if self._order and isinstance(self._order[-1], int):
                self._order.pop()
            self._order.append(txid)
        self._advance_over_acknowledged()

    def note_flushed(self) -> None:
        """Do nothing: only the consumer acknowledges."""

    def acknowledge(self, text: str) -> bool:
        """Acknowledge one message by its bookmark. Return False for a message that is not open.

        Raises UsageError ``SOW-IDN-001`` if the text is not the bookmark of a message.
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
        """Advance the position over the acknowledged messages up to the first open one."""
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

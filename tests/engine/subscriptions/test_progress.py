"""The position of a subscription: never ahead of the acknowledged messages, in any order of acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.subscriptions.bookmark_stores.progress import ConsumerProgress, FlushProgress
from sowctl.engine.subscriptions.bookmark_stores.protocol import (
    NOTHING_ACKNOWLEDGED,
    AcknowledgedMessages,
    BookmarkStore,
    PlaceAdvance,
    StoredPlace,
    Subscriber,
)
from sowctl.engine.subscriptions.bookmark_stores.write_buffer import BufferedBookmarkStore
from sowctl.errors import UsageError
from sowctl.identity.bookmarks import Bookmark, parse_bookmark

OWN = 7
WHO = Subscriber("c", "1")


class Written(BookmarkStore):
    """A store that records its updates."""

    def __init__(self, *, remembers: bool = True, memory: AcknowledgedMessages = NOTHING_ACKNOWLEDGED) -> None:
        self.remembers = remembers
        self.steps: list[PlaceAdvance] = []
        self.known = memory
        self.closed = False

    @property
    def place(self) -> str:
        """The bookmark from which a subscription would continue."""
        return next((step.bookmark for step in reversed(self.steps) if step.bookmark is not None), "0")

    @property
    def beyond(self) -> set[Bookmark]:
        return {mark for step in self.steps for mark in step.beyond}

    def list_places(self) -> list[StoredPlace]:
        return []

    def read_place(self, who: Subscriber) -> StoredPlace | None:
        return StoredPlace(who, self.place, 0) if self.steps else None

    def read_acknowledged(self, who: Subscriber) -> AcknowledgedMessages:
        return self.known

    def set_place(self, who: Subscriber, bookmark: str) -> None:
        self.steps = [PlaceAdvance(bookmark, {})]

    def advance_place(self, who: Subscriber, step: PlaceAdvance) -> None:
        self.steps.append(step)

    def remove_place(self, who: Subscriber) -> bool:
        return bool(self.steps)

    def close(self) -> None:
        self.closed = True


def marks(*numbers: int, publisher: int = 1) -> tuple[list[int], list[int]]:
    return [publisher] * len(numbers), list(numbers)


def test_flushed_output_is_acknowledged() -> None:
    store = Written()
    progress = FlushProgress(store, WHO, OWN)
    assert progress.resume_bookmark == "0"
    progress.note_delivered(*marks(1, 2, 3))
    assert not progress.commit()
    progress.note_flushed()
    assert progress.commit()
    # More messages with the bookmark of the third one may follow.
    assert (store.place, store.steps[-1].passed) == ("1|2|", {1: 2})
    progress.note_reached(3)
    assert not progress.commit()
    progress.note_flushed()
    assert progress.commit()
    assert (store.place, store.steps[-1].passed) == ("1|3|", {1: 3})
    assert not progress.commit()
    assert progress.resume_bookmark == "1|3|"


def test_a_place_moves_without_messages_where_that_is_asked_for() -> None:
    store = Written()
    progress = FlushProgress(store, WHO, OWN)
    progress.note_reached(10)
    progress.note_flushed()
    assert not progress.commit()
    progress.note_reached(12, move=True)
    progress.note_flushed()
    progress.close()
    assert (store.place, store.closed) == ("7|12|", True)


def test_a_bookmark_of_several_messages_is_passed_with_the_last_one() -> None:
    for split in range(1, 4):
        store = Written()
        progress = FlushProgress(store, WHO, OWN)
        for part in ([1, 2, 2, 2][:split], [1, 2, 2, 2][split:]):
            progress.note_delivered(*marks(*part))
            progress.note_flushed()
            progress.commit()
            assert store.place in ("0", "1|1|")
        progress.note_delivered(*marks(3))
        progress.note_flushed()
        progress.commit()
        assert store.place == "1|2|"


def test_acknowledgements_in_any_order_move_the_place_over_what_is_whole() -> None:
    store = Written()
    progress = ConsumerProgress(store, WHO, OWN)
    progress.note_delivered(*marks(1, 2, 3, 4))
    progress.note_reached(4)
    assert progress.acknowledge("1|3|")
    assert progress.acknowledge("1|2")
    progress.note_flushed()
    assert progress.commit()
    assert (store.place, store.beyond) == ("0", {Bookmark(1, 2), Bookmark(1, 3)})
    assert not progress.commit()
    assert progress.acknowledge("1|1|")
    assert progress.commit()
    assert (store.place, store.steps[-1]) == ("1|3|", PlaceAdvance("1|3|", {1: 3}, []))
    assert progress.open_messages == 1
    assert not progress.acknowledge("1|1|")
    assert not progress.acknowledge("1|9|")
    assert progress.unknown == 2
    for wrong in ("0", "0|1|", "x"):
        with pytest.raises(UsageError):
            progress.acknowledge(wrong)


def test_a_store_that_does_not_remember_gets_the_place_alone() -> None:
    store = Written(remembers=False)
    progress = ConsumerProgress(store, WHO, OWN)
    progress.note_delivered(*marks(1, 2))
    progress.note_reached(2)
    progress.acknowledge("1|2|")
    assert not progress.commit()
    progress.acknowledge("1|1|")
    assert progress.commit()
    assert store.steps == [PlaceAdvance("1|2|", {1: 2}, [])]


def test_the_consumers_word_for_one_of_several_messages_with_one_bookmark() -> None:
    store = Written()
    progress = ConsumerProgress(store, WHO, OWN)
    progress.note_delivered(*marks(1, 2))
    progress.acknowledge("1|1|")
    progress.acknowledge("1|2|")
    progress.commit()
    assert (store.place, store.beyond) == ("1|1|", set())
    # Another message with this bookmark follows: the acknowledgement of the first does not cover it.
    progress.note_delivered(*marks(2, 3))
    progress.commit()
    assert store.place == "1|1|"
    progress.acknowledge("1|2|")
    progress.commit()
    assert store.place == "1|2|"


def test_places_without_messages_wait_for_those_before_them() -> None:
    store = Written()
    progress = ConsumerProgress(store, WHO, OWN)
    progress.note_delivered(*marks(1))
    for txid in (1, 5, 9):
        progress.note_reached(txid, move=True)
    assert not progress.commit()
    progress.acknowledge("1|1|")
    progress.commit()
    assert store.place == "7|9|"


def test_what_was_acknowledged_in_an_earlier_run_is_told() -> None:
    store = Written(memory=AcknowledgedMessages({1: 5, 2: 50}, frozenset({Bookmark(1, 8), Bookmark(3, 4)})))
    progress = FlushProgress(store, WHO, OWN)
    assert progress.find_unacknowledged([1, 1, 1, 1, 2, 3, 3], [5, 6, 8, 9, 50, 4, 5]) == [1, 3, 6]
    assert progress.find_unacknowledged([1, 1], [6, 7]) is None
    assert progress.find_unacknowledged([1], [51]) is None
    assert progress.find_unacknowledged([], []) is None
    assert FlushProgress(Written(), WHO, OWN).find_unacknowledged([1], [1]) is None


PUBLISHERS = st.integers(1, 3)


@st.composite
def logs(draw: st.DrawFn) -> list[Bookmark]:
    """Messages in the order of a log; a publisher's numbers increase, and some repeat consecutively."""
    found: list[Bookmark] = []
    numbers: dict[int, int] = {}
    for publisher, again in draw(st.lists(st.tuples(PUBLISHERS, st.integers(1, 3)), max_size=12)):
        numbers[publisher] = numbers.get(publisher, 0) + 1
        found += [Bookmark(publisher, numbers[publisher])] * again
    return found


@given(logs(), st.data())
def test_the_place_is_never_ahead_of_what_was_acknowledged(log: list[Bookmark], data: st.DataObject) -> None:
    store = Written()
    progress = ConsumerProgress(store, WHO, OWN)
    delivered = 0
    acknowledged: set[int] = set()

    def judged() -> int:
        """Assert that each message before the stored position was acknowledged; return their number."""
        place = parse_bookmark(store.place)
        upto = max((index + 1 for index, mark in enumerate(log) if mark == place), default=0)
        assert acknowledged.issuperset(range(upto))
        assert all(index in acknowledged for index, mark in enumerate(log) if mark in store.beyond)
        return upto

    while delivered < len(log) or data.draw(st.booleans()):
        step = data.draw(st.sampled_from(["deliver", "acknowledge", "commit"]))
        if step == "deliver":
            some = log[delivered : delivered + data.draw(st.integers(1, 4))]
            progress.note_delivered([mark.publisher for mark in some], [mark.sequence for mark in some])
            delivered += len(some)
        elif step == "acknowledge" and delivered:
            mark = log[data.draw(st.integers(0, delivered - 1))]
            progress.acknowledge(str(mark))
            # Acknowledging a bookmark covers all messages that were delivered with it.
            acknowledged |= {index for index in range(delivered) if log[index] == mark}
        else:
            progress.commit()
            judged()
    progress.note_reached(len(log))
    for mark in log:
        progress.acknowledge(str(mark))
    acknowledged |= set(range(len(log)))
    progress.commit()
    assert judged() == len(log)


@given(logs(), st.data())
def test_what_is_flushed_is_the_place(log: list[Bookmark], data: st.DataObject) -> None:
    store = Written()
    progress = FlushProgress(store, WHO, OWN)
    delivered = flushed = 0
    while delivered < len(log):
        some = log[delivered : delivered + data.draw(st.integers(1, 4))]
        progress.note_delivered([mark.publisher for mark in some], [mark.sequence for mark in some])
        delivered += len(some)
        if data.draw(st.booleans()):
            progress.note_flushed()
            flushed = delivered
        progress.commit()
        place = parse_bookmark(store.place)
        upto = max((index + 1 for index, mark in enumerate(log) if mark == place), default=0)
        # Late by at most the messages that share the last bookmark.
        assert upto <= flushed
        assert len(set(log[upto:flushed])) <= 1
    progress.note_reached(len(log))
    progress.note_flushed()
    progress.commit()
    assert store.place == (str(log[-1]) if log else "0")
    passed: dict[int, int] = {}
    for step in store.steps:
        passed |= step.passed
    assert passed == {mark.publisher: mark.sequence for mark in log}


class Ticking:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_conflation_writes_every_so_many_changes_or_seconds() -> None:
    store, clock = Written(), Ticking()
    some = BufferedBookmarkStore(store, 3, 2.0, clock)
    assert some.seconds_until_due is None
    for number in (1, 2):
        some.advance_place(WHO, PlaceAdvance(f"1|{number}|", {1: number}, [Bookmark(2, number)]))
    assert not store.steps
    assert some.seconds_until_due == 2.0
    some.advance_place(WHO, PlaceAdvance(None, {}, [Bookmark(2, 3)]))
    assert store.steps == [PlaceAdvance("1|2|", {1: 2}, [Bookmark(2, 1), Bookmark(2, 2), Bookmark(2, 3)])]
    some.advance_place(WHO, PlaceAdvance("1|4|", {1: 4, 3: 1}))
    clock.at = 1.5
    some.write_due_places()
    assert (len(store.steps), some.seconds_until_due) == (1, 0.5)
    clock.at = 2.0
    some.write_due_places()
    assert (store.steps[-1], some.seconds_until_due) == (PlaceAdvance("1|4|", {1: 4, 3: 1}), None)
    some.advance_place(WHO, PlaceAdvance("1|5|", {1: 5}))
    clock.at = 4.5
    some.advance_place(Subscriber("other", "1"), PlaceAdvance("1|6|", {1: 6}))
    assert store.place == "1|5|"
    some.close()
    assert (store.place, store.closed) == ("1|6|", True)


def test_conflation_forgets_what_is_set_or_purged() -> None:
    store = Written()
    some = BufferedBookmarkStore(store, 10, 10.0, Ticking())
    some.advance_place(WHO, PlaceAdvance("1|5|", {1: 5}))
    some.set_place(WHO, "1|2|")
    some.close()
    assert store.place == "1|2|"
    some.advance_place(WHO, PlaceAdvance("1|5|", {1: 5}))
    some.remove_place(WHO)
    assert (some.seconds_until_due, some.list_places(), some.read_acknowledged(WHO)) == (None, [], NOTHING_ACKNOWLEDGED)
    assert some.read_place(WHO) == StoredPlace(WHO, "1|2|", 0)


@pytest.mark.parametrize("names", [("", "1"), ("c", "")])
def test_both_names_are_needed(names: Sequence[str]) -> None:
    with pytest.raises(UsageError) as caught:
        Subscriber(*names)
    assert caught.value.code == "SOW-BKM-006"

"""Waiting for a change: events, inputs, and an interrupt at any point."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.subscriptions.journal_tail import JournalTail
from sowctl.engine.subscriptions.waker import Waker
from sowctl.journal.reader import Journal
from tests.support.following import following, news
from tests.support.instances import Lab, message


def test_a_change_in_a_watched_directory_ends_a_wait(tmp_path: Path) -> None:
    waker = Waker([tmp_path])
    try:
        assert waker.has_events
        (tmp_path / "new").write_text("x")
        waker.wait(1.0)
        assert not waker.note_change_found(), "an event came: events go on being relied on"
        assert waker.has_events
    finally:
        waker.close()


def test_what_no_event_announced_is_looked_for_from_then_on(tmp_path: Path) -> None:
    waker = Waker([tmp_path])
    try:
        waker.wait(0.0)
        assert waker.note_change_found()
        assert not waker.has_events
    finally:
        waker.close()


def test_an_interrupt_while_closing_leaves_nothing_to_be_closed_twice(tmp_path: Path) -> None:
    waker = Waker([tmp_path])
    events = waker._events
    assert events is not None

    class Interrupted:
        def unregister(self, number: int) -> None:
            waker._poll = poll
            poll.unregister(number)
            raise KeyboardInterrupt

    poll: select.poll = waker._poll
    waker._poll = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        waker.close()
    waker.close()
    assert not waker.has_events
    os.close(events)


def test_a_waker_whose_making_was_interrupted_closes(tmp_path: Path) -> None:
    waker = Waker([tmp_path])
    assert waker._events is not None
    waker._poll.unregister(waker._events)
    waker.close()
    assert not waker.has_events


def test_a_directory_that_is_not_there_yet_is_watched_from_above(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "b"
    waker = Waker([wanted])

    def announced(change: Callable[[], object]) -> bool:
        begin = time.monotonic()
        change()
        waker.wait(5.0)
        return time.monotonic() - begin < 0.5 and not waker.note_change_found()

    try:
        assert waker.has_events
        assert announced(wanted.parent.mkdir)
        assert announced(wanted.mkdir)
        assert announced(lambda: (wanted / "new").write_text("x"))
        # The parent directories are not watched any more.
        (tmp_path / "else").write_text("x")
        assert not select.select([waker._events], [], [], 0)[0]
    finally:
        waker.close()


def test_both_directories_made_at_once(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "b"
    waker = Waker([wanted])
    try:
        wanted.mkdir(parents=True)
        waker.wait(5.0)
        (wanted / "new").write_text("x")
        assert select.select([waker._events], [], [], 0)[0]
    finally:
        waker.close()


def test_a_journal_at_rest_is_not_read_to_know_its_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = JournalTail(lab.open())
    assert (tail.read_end_txid(), tail.read_end_txid()) == (0, 0)
    lab.publish("t", message(id=1))
    asked = []
    before = Journal.read_last_txid
    monkeypatch.setattr(Journal, "read_last_txid", lambda journal: asked.append(journal) or before(journal))
    # File times are coarse: a file that has just changed may change again with the same time.
    assert [tail.read_end_txid() for _ in range(3)] == [1, 1, 1]
    assert len(asked) == 3
    for path in (*lab.journals(), lab.journals()[0].parent):
        os.utime(path, (1, 1))
    assert [tail.read_end_txid() for _ in range(4)] == [1, 1, 1, 1]
    assert len(asked) <= 5
    for number in range(2, 20):
        lab.publish("t", message(id=number))
        assert tail.read_end_txid() == number
    tail.close()


@pytest.mark.parametrize("events", [True, False])
def test_an_idle_subscription_looks_and_does_nothing_else(lab: Lab, events: bool) -> None:
    # Neither topic has messages yet: there is no journal, and no directory for it.
    with following(lab, "t", events=events) as subscription:
        assert len(news(subscription)) == 2
        begin = time.process_time()
        threading.Timer(1.0, subscription.cancel).start()
        assert list(subscription) == []
        # The goal is 1 % of a core, which the bench measures; other tests run at the same time here.
        assert time.process_time() - begin < 0.05


def test_a_journal_that_begins_wakes_its_subscriber(lab: Lab) -> None:
    with following(lab, "t", most=1) as subscription:
        assert len(news(subscription)) == 2
        begin = time.monotonic()
        publisher = threading.Timer(0.1, lab.publish, ("t", message(id=1)))
        publisher.start()
        assert [event.command for event in subscription] == ["publish"]
        assert time.monotonic() - begin < 0.9
        # Its store stays open until it ends, and is verified after the test.
        publisher.join()
        assert subscription._waker is not None
        assert subscription._waker.has_events

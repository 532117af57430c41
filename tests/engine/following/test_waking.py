"""Waiting for a change: events, inputs, and an interrupt at any place."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from sowctl.engine.following.waking import Waker


def test_a_change_in_a_watched_directory_ends_a_wait(tmp_path: Path) -> None:
    waker = Waker([tmp_path])
    try:
        assert waker.announced
        (tmp_path / "new").write_text("x")
        waker.wait(1.0)
        assert not waker.found(), "an event came: events go on being relied on"
        assert waker.announced
    finally:
        waker.close()


def test_what_no_event_announced_is_looked_for_from_then_on(tmp_path: Path) -> None:
    waker = Waker([tmp_path])
    try:
        waker.wait(0.0)
        assert waker.found()
        assert not waker.announced
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
    assert not waker.announced
    os.close(events)


def test_a_waker_whose_making_was_interrupted_closes(tmp_path: Path) -> None:
    waker = Waker([tmp_path])
    assert waker._events is not None
    waker._poll.unregister(waker._events)
    waker.close()
    assert not waker.announced

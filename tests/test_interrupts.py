"""Signals that are put off, and that are not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from sowctl.interrupts import allow_interrupts, without_interrupts

Raise = Callable[[], None]


class Broken(KeyboardInterrupt):
    """What the handler raises."""


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM])
def hit(request: pytest.FixtureRequest) -> Iterator[Raise]:
    """Send this process a signal whose handler raises; afterwards the handler must be there as before."""

    def handler(number: int, frame: FrameType | None) -> Any:
        raise Broken(number)

    before = signal.signal(request.param, handler)
    try:
        yield lambda: os.kill(os.getpid(), request.param)
        assert signal.getsignal(request.param) is handler
    finally:
        signal.signal(request.param, before)


def test_a_signal_waits_for_the_end(hit: Raise) -> None:
    done = []
    with pytest.raises(Broken), without_interrupts():
        hit()
        done.append(1)
    assert done == [1]
    with without_interrupts():
        pass


def test_a_second_one_does_not(hit: Raise) -> None:
    done = []
    with pytest.raises(Broken), without_interrupts():
        hit()
        done.append(1)
        hit()
        done.append(2)
    assert done == [1]


def test_an_error_under_way_wins(hit: Raise) -> None:
    with pytest.raises(OSError, match="full"), without_interrupts():
        hit()
        raise OSError("full")


@pytest.mark.parametrize("nested", [False, True])
def test_where_nothing_is_half_done(hit: Raise, nested: bool) -> None:
    done = []
    with pytest.raises(Broken), without_interrupts():
        with without_interrupts() if nested else allow_interrupts():
            pass
        with allow_interrupts():
            hit()
            done.append(1)
    with pytest.raises(Broken), without_interrupts():
        hit()
        with allow_interrupts():
            done.append(2)
    assert done == []


def test_regions_in_regions_end_with_the_outer_one(hit: Raise) -> None:
    done = []
    with pytest.raises(Broken), without_interrupts():
        with without_interrupts():
            hit()
        done.append(1)
    assert done == [1]


def test_without_a_region_nothing_is_put_off(hit: Raise) -> None:
    with pytest.raises(Broken), allow_interrupts():
        hit()


def test_other_threads_and_other_handlers_are_left_alone(hit: Raise) -> None:
    found: list[object] = []

    def work() -> None:
        with without_interrupts(), allow_interrupts():
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    with without_interrupts():
        inside = signal.getsignal(signal.SIGTERM)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found == [inside]
    assert signal.getsignal(signal.SIGTERM) is before
    ignored = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with without_interrupts():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, ignored)

"""Rates of replays, with a clock that advances only during waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.subscriptions.pace import MAX_CATCH_UP_SECONDS, Rate, ReplayPace, parse_rate
from sowctl.errors import UsageError

SECOND = 1_000_000


class Waited:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1000", Rate(1000, "messages")),
        ("2.5", Rate(2.5, "messages")),
        ("500KB", Rate(500 * 1024, "bytes")),
        ("1mb", Rate(1 << 20, "bytes")),
        ("64 KiB", Rate(64 << 10, "bytes")),
        ("100B", Rate(100, "bytes")),
        ("2X", Rate(2, "times")),
        (".5x", Rate(0.5, "times")),
        (" 1. X ", Rate(1, "times")),
    ],
)
def test_rates(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "0X", "-1", "fast", "1Y", "X", ".", "1e5", "1" * 400, "1KB/s", "0.1B"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rate(text)
    assert caught.value.code == "SOW-FOL-020"


def sent(pace: ReplayPace, clock: Waited, messages: list[tuple[float, int]], late: float = 0.0) -> list[float]:
    """Return when each message is sent, in seconds from the first; every pause exceeds the request by ``late``."""
    begin, times = clock.at, []
    for recorded, size in messages:
        pause = pace.compute_wait(round(recorded * SECOND), size)
        if pause:
            clock.at += pause + late
        times.append(round(clock.at - begin, 6))
    return times


def test_messages_a_second() -> None:
    clock = Waited()
    assert sent(ReplayPace(Rate(4, "messages"), None, clock), clock, [(0, 1)] * 5) == [0, 0.25, 0.5, 0.75, 1]


def test_bytes_a_second() -> None:
    clock = Waited()
    assert sent(ReplayPace(Rate(100, "bytes"), None, clock), clock, [(0, 50), (0, 200), (0, 0), (0, 1)]) == [
        0,
        0.5,
        2.5,
        2.5,
    ]


def test_as_recorded() -> None:
    messages: list[tuple[float, int]] = [(10, 1), (11, 1), (11, 1), (15, 1), (14, 1), (16, 1)]
    for amount, expected in ((1, [0, 1, 1, 5, 5, 6]), (2, [0, 0.5, 0.5, 2.5, 2.5, 3]), (0.5, [0, 2, 2, 10, 10, 12])):
        clock = Waited()
        assert sent(ReplayPace(Rate(amount, "times"), None, clock), clock, messages) == expected


def test_the_longest_gap() -> None:
    clock = Waited()
    pace = ReplayPace(Rate(1, "times"), 10.0, clock)
    assert sent(pace, clock, [(0, 1), (5, 1), (3605, 1), (3606, 1)]) == [0, 5, 15, 16]
    clock = Waited()
    assert sent(ReplayPace(Rate(0.01, "messages"), 10.0, clock), clock, [(0, 1)] * 3) == [0, 10, 20]


def test_pauses_that_are_too_long_do_not_add_up() -> None:
    clock = Waited()
    times = sent(ReplayPace(Rate(100, "messages"), None, clock), clock, [(0, 1)] * 1001, late=0.004)
    assert times[-1] == pytest.approx(10.0, abs=0.01)


def test_who_was_held_up_does_not_make_up_for_it_at_once() -> None:
    clock = Waited()
    pace = ReplayPace(Rate(100, "messages"), None, clock)
    pace.compute_wait(0, 1)
    clock.at += 60
    times = sent(pace, clock, [(0, 1)] * 100)
    assert times[-1] == pytest.approx(0.99 - MAX_CATCH_UP_SECONDS)
    assert sum(time == 0 for time in times) == round(MAX_CATCH_UP_SECONDS * 100) + 1


def test_several_at_once() -> None:
    clock = Waited()
    pace = ReplayPace(Rate(1, "times"), None, clock)
    assert pace.count_ready([0, 0, 5 * SECOND, 5 * SECOND], [1, 1, 1, 1]) == (2, 5.0)
    clock.at += 5
    assert pace.count_ready([5 * SECOND], [1]) == (1, 0.0)
    assert pace.count_ready([], []) == (0, 0.0)


@given(
    st.floats(0.1, 1e6),
    st.sampled_from(["messages", "bytes"]),
    st.lists(st.integers(0, 5000), min_size=2, max_size=50),
    st.floats(0, 0.05),
)
def test_a_rate_is_kept(amount: float, unit: str, sizes: list[int], late: float) -> None:
    clock = Waited()
    times = sent(ReplayPace(Rate(amount, unit), None, clock), clock, [(0, size) for size in sizes], late=late)  # type: ignore[arg-type]
    before = sum(sizes[:-1]) if unit == "bytes" else len(sizes) - 1
    # Never faster, and slower at most by the excess of the last pause.
    assert before / amount - 1e-3 <= times[-1] <= before / amount + late + 1e-3

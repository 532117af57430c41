"""Every of amps-action-on-schedule as a value: due times, in UTC and with changes of local time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from sowctl.config.schedule import parse_every

HOUR = 3_600_000_000
DAY = 24 * HOUR


def at(text: str, zone: str | None = None) -> int:
    """Microseconds of an instant."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC if zone is None else ZoneInfo(zone))
    return int(moment.timestamp()) * 1_000_000


def shown(instant: int) -> str:
    return f"{datetime.fromtimestamp(instant // 1_000_000, UTC):%a %Y-%m-%d %H:%M}"


@pytest.fixture
def berlin() -> Iterator[None]:
    """The local time zone is that of Berlin."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "25:00",
        "3",
        "noon",
        "Someday at 03:00",
        "Sunday 03:00",
        "03:60",
        "-4h",
        "4 hours",
        "10:00 Z",
        "Sunday at 10:00 Z",
    ],
)
def test_what_is_none(text: str) -> None:
    if text == "3":
        assert parse_every(text).interval == 3_000_000  # a bare number counts seconds
        return
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_every(text)


def test_an_interval_counts_from_the_last_run() -> None:
    every = parse_every("4h")
    now = at("2026-01-05T12:00")
    assert every.find_due_time(0, now) == now and every.is_due(0, now)
    assert every.find_due_time(now - HOUR, now) == now + 3 * HOUR
    assert not every.is_due(now - 4 * HOUR + 1, now) and every.is_due(now - 4 * HOUR, now)
    # The runs missed in a week are one run.
    assert every.is_due(now - 7 * DAY, now) and every.find_due_time(now, now) == now + 4 * HOUR


def test_a_time_of_day_in_utc() -> None:
    every = parse_every("03:30Z")
    last = at("2026-01-05T03:30")
    assert shown(every.find_due_time(last, at("2026-01-05T23:00"))) == "Tue 2026-01-06 03:30"
    assert not every.is_due(last, at("2026-01-06T03:29"))
    assert every.is_due(last, at("2026-01-06T03:30"))
    assert every.is_due(last, at("2026-02-01T00:00"))
    # After a late run, it is due again at its time of the next day.
    assert shown(every.find_due_time(at("2026-01-06T09:12"), at("2026-01-06T10:00"))) == "Wed 2026-01-07 03:30"
    # A clock that was set back makes nothing due.
    assert not every.is_due(at("2026-01-08T09:12"), at("2026-01-06T10:00"))


def test_a_weekday() -> None:
    every = parse_every("sunday AT 3:00z")
    last = at("2026-01-05T00:00")  # a Monday
    assert shown(every.find_due_time(last, last)) == "Sun 2026-01-11 03:00"
    assert not every.is_due(last, at("2026-01-11T02:59")) and every.is_due(last, at("2026-01-11T03:00"))
    assert shown(every.find_due_time(at("2026-01-11T03:00"), at("2026-01-11T03:00"))) == "Sun 2026-01-18 03:00"


@pytest.mark.usefixtures("berlin")
def test_the_time_of_the_machine_where_clocks_are_set() -> None:
    every = parse_every("02:30")
    # Forward on 2026-03-29: there is no 02:30 on that day, but still one run.
    runs, now, last = [], at("2026-03-27T00:00", "Europe/Berlin"), at("2026-03-26T12:00", "Europe/Berlin")
    while now < at("2026-04-01T00:00", "Europe/Berlin"):
        if every.is_due(last, now):
            runs.append(datetime.fromtimestamp(now // 1_000_000).day)
            last = now
        now += 600_000_000
    assert runs == [27, 28, 29, 30, 31]
    # Back on 2026-10-25: 02:30 occurs twice, but counts once.
    runs, now, last = [], at("2026-10-24T00:00", "Europe/Berlin"), at("2026-10-23T12:00", "Europe/Berlin")
    while now < at("2026-10-27T00:00", "Europe/Berlin"):
        if every.is_due(last, now):
            runs.append(datetime.fromtimestamp(now // 1_000_000).day)
            last = now
        now += 600_000_000
    assert runs == [24, 25, 26]


@pytest.mark.parametrize("text", ["17m", "03:10Z", "Wednesday at 11:00Z"])
def test_due_and_next_agree(text: str) -> None:
    """Checked every seven minutes, it is due at the first check at or after the instant returned as the next one."""
    every = parse_every(text)
    last = now = at("2026-01-01T00:00")
    for _ in range(4000):
        now += 7 * 60_000_000
        named = every.find_due_time(last, now - 7 * 60_000_000)
        assert every.is_due(last, now) == (named <= now), shown(now)
        if every.is_due(last, now):
            assert last < named <= now
            last = now

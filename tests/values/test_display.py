"""What people read of durations, ages, sizes, rates and numbers."""

from __future__ import annotations

import pytest

from sowctl.values.display import format_age, format_ago, format_bytes, format_duration, format_number, format_rate


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0.0 s"),
        (0.0212, "21 ms"),
        (0.31, "0.3 s"),
        (6.13, "6.1 s"),
        (59.4, "59.4 s"),
        (59.7, "1 min 00 s"),
        (185.0, "3 min 05 s"),
        (7620.0, "2 h 07 min"),
        (28_280_708.42317, "327 d 07 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


def test_whole_seconds() -> None:
    assert [format_duration(seconds, whole=True) for seconds in (0.04, 12.4, 59.6)] == ["0 s", "12 s", "1 min 00 s"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172_800, "2d"), (27_873_188, "322d")],
)
def test_ages(seconds: float, words: str) -> None:
    assert format_age(seconds) == words
    assert format_ago(seconds) == (f"{words} ago" if seconds >= 1 else "now")


def test_what_lies_ahead_is_not_ago() -> None:
    assert format_ago(-7200) == "in 2h"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (4096, "4.0 KiB"),
        (1_048_575, "1.0 MiB"),
        (224_709_000, "214.3 MiB"),
        (5 << 50, "5,120.0 TiB"),
    ],
)
def test_sizes(count: int, words: str) -> None:
    assert format_bytes(count) == words


@pytest.mark.parametrize(
    ("per_second", "words"),
    [
        (0, "0"),
        (49_296.4, "49,296 a second"),
        (0.549, "33 a minute"),
        (0.25, "15 a minute"),
        (0.0005, "2 an hour"),
        (0.00002, "2 a day"),
        (1e-9, "less than 1 a day"),
    ],
)
def test_rates(per_second: float, words: str) -> None:
    assert format_rate(per_second) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1_234_567, "1,234,567"),
        (0.123456789, "0.123457"),
        (-2.5, "-2.5"),
        (40_207_109.25, "40,207,109"),
        (-52_778_500.5, "-52,778,500"),
        (999_999.7, "1,000,000"),
        (99_999.95, "99,999.9"),
        (2.5e300, "2.5e+300"),
    ],
)
def test_numbers_have_separators_and_no_exponents_that_people_would_write_out(value: float, words: str) -> None:
    assert format_number(value) == words

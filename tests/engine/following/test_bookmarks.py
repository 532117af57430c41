"""Texts of bookmarks, lists and ranges: what they are read as, what is refused, and that they are read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.following.bookmarks import (
    EPOCH,
    NOW,
    RECENT_RANGE,
    Bookmark,
    Instant,
    Mark,
    Side,
    Txid,
    Wanted,
    parse,
)
from sowctl.errors import UsageError
from sowctl.values.times import MAX_MICROS, MIN_MICROS, fixed_clock
from tests.support.instances import SECOND, START

CLOCK = fixed_clock(START)
TEN = START + 7200 * SECOND
"""2026-01-05T10:00:00Z."""


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("0", EPOCH),
        ("EPOCH", EPOCH),
        ("epoch", EPOCH),
        ("00", EPOCH),
        ("0|1|", NOW),
        ("0|1", NOW),
        (" now ", NOW),
        ("13948331409633568391|1465596069899000013|", Bookmark(13948331409633568391, 1465596069899000013)),
        ("7|8", Bookmark(7, 8)),
        ("1711058949000000003", Txid(1711058949000000003)),
        ("20260105T100000", Instant(TEN)),
        ("20260105T100000Z", Instant(TEN)),
        ("20260105T100000.5", Instant(TEN + SECOND // 2)),
        ("2026-01-05T10:00:00Z", Instant(TEN)),
        ("2026-01-05 12:00+02:00", Instant(TEN)),
        ("-1h", Instant(START - 3600 * SECOND)),
        ("now+2h", Instant(TEN)),
        ("1s", Instant(SECOND)),
    ],
)
def test_one_place(text: str, mark: Mark) -> None:
    assert parse(text, CLOCK) == Wanted(Side((mark,)))


@pytest.mark.parametrize("text", ["recent", "MOST_RECENT", "most-recent"])
def test_recent_is_left_to_the_store(text: str) -> None:
    assert parse(text, CLOCK) is RECENT_RANGE
    assert RECENT_RANGE.is_recent
    assert not parse("0", CLOCK).is_recent


def test_a_list_stands_for_one_place() -> None:
    expected = Side((Bookmark(1, 2), Bookmark(3, 4), Txid(5), Instant(TEN)))
    assert parse("1|2|, 3|4| ,5,20260105T100000", CLOCK) == Wanted(expected)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("[1|2|:1|4|)", Side((Bookmark(1, 2),), True), Side((Bookmark(1, 4),), False)),
        ("(2:4]", Side((Txid(2),), False), Side((Txid(4),), True)),
        ("[0:0|1|]", Side((EPOCH,), True), Side((NOW,), True)),
        ("[3,2:4,1|5|]", Side((Txid(3), Txid(2)), True), Side((Txid(4), Bookmark(1, 5)), True)),
        (
            "[20260105T100000:20260105T110000)",
            Side((Instant(TEN),), True),
            Side((Instant(TEN + 3600 * SECOND),), False),
        ),
        (
            "[2026-01-05T10:00:00Z:2026-01-05T11:00)",
            Side((Instant(TEN),), True),
            Side((Instant(TEN + 3600 * SECOND),), False),
        ),
        ("(2026-01-05T10:00:30]", Side((Instant(TEN),), False), Side((Txid(30),), True)),
        ("( -15m : now )", Side((Instant(START - 900 * SECOND),), False), Side((NOW,), False)),
    ],
)
def test_ranges(text: str, start: Side, end: Side) -> None:
    if text == "(2026-01-05T10:00:30]":
        # All of it is one time, so it is not taken for one of 10:00 and the txid 30.
        with pytest.raises(UsageError, match="one side"):
            parse(text, CLOCK)
        return
    assert parse(text, CLOCK) == Wanted(start, end)


@pytest.mark.parametrize(
    "text", ["", " ", ",", "1|2|,", "x", "1|2|3", "|", "-1", "1,x", "99999999999999999999999999", "1|"]
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, CLOCK)
    assert caught.value.code == "SOW-IDN-001"


@pytest.mark.parametrize(
    "text", ["[", "[]", "[1", "1]", "[1)", "[:]", "[1:]", "[:2)", "[1:x)", "(1:2:3)", "1:2)", "[[1:2)"]
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, CLOCK)
    assert caught.value.code == "SOW-IDN-002"


def test_a_time_that_cannot_be_keeps_its_own_error() -> None:
    with pytest.raises(UsageError) as caught:
        parse("99999999999999s", CLOCK)
    assert caught.value.code == "SOW-VAL-020"


NUMBERS = st.integers(0, (1 << 64) - 1)
MARKS = st.one_of(
    st.builds(Bookmark, NUMBERS, NUMBERS),
    st.builds(Txid, st.integers(1, (1 << 64) - 1)),
    st.builds(Instant, st.integers(MIN_MICROS, MAX_MICROS)),
    st.sampled_from([EPOCH, NOW]),
)
SOME = st.lists(MARKS, min_size=1, max_size=4).map(tuple)


@given(SOME, st.booleans(), st.booleans(), SOME | st.none())
def test_what_is_written_is_read_back(
    start: tuple[Mark, ...], with_it: bool, closed: bool, end: tuple[Mark, ...] | None
) -> None:
    wanted = Wanted(Side(start)) if end is None else Wanted(Side(start, with_it), Side(end, closed))
    assert parse(str(wanted), CLOCK) == wanted


@given(st.text(alphabet="0123456789|,:[]()TZ-. recntNOWmsh", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        wanted = parse(text, CLOCK)
    except UsageError:
        return
    assert parse(str(wanted), CLOCK) == wanted

"""Texts of bookmarks, lists and ranges: parsing, rejected ones, and that formatted ones parse again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.subscriptions.bookmarks import (
    EPOCH,
    NOW,
    RECENT_RANGE,
    Bookmark,
    BookmarkRange,
    Mark,
    RangeBound,
    TimeMark,
    TxidMark,
    parse_bookmark_range,
)
from sowctl.errors import UsageError
from sowctl.values.times import MAX_MICROS, MIN_MICROS, build_fixed_clock
from tests.support.instances import SECOND, START

CLOCK = build_fixed_clock(START)
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
        ("1711058949000000003", TxidMark(1711058949000000003)),
        ("20260105T100000", TimeMark(TEN)),
        ("20260105T100000Z", TimeMark(TEN)),
        ("20260105T100000.5", TimeMark(TEN + SECOND // 2)),
        ("2026-01-05T10:00:00Z", TimeMark(TEN)),
        ("2026-01-05 12:00+02:00", TimeMark(TEN)),
        ("-1h", TimeMark(START - 3600 * SECOND)),
        ("now+2h", TimeMark(TEN)),
        ("1s", TimeMark(SECOND)),
    ],
)
def test_one_place(text: str, mark: Mark) -> None:
    assert parse_bookmark_range(text, CLOCK) == BookmarkRange(RangeBound((mark,)))


@pytest.mark.parametrize("text", ["recent", "MOST_RECENT", "most-recent"])
def test_recent_is_left_to_the_store(text: str) -> None:
    assert parse_bookmark_range(text, CLOCK) is RECENT_RANGE
    assert RECENT_RANGE.is_recent
    assert not parse_bookmark_range("0", CLOCK).is_recent


def test_a_list_stands_for_one_place() -> None:
    expected = RangeBound((Bookmark(1, 2), Bookmark(3, 4), TxidMark(5), TimeMark(TEN)))
    assert parse_bookmark_range("1|2|, 3|4| ,5,20260105T100000", CLOCK) == BookmarkRange(expected)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("[1|2|:1|4|)", RangeBound((Bookmark(1, 2),), True), RangeBound((Bookmark(1, 4),), False)),
        ("(2:4]", RangeBound((TxidMark(2),), False), RangeBound((TxidMark(4),), True)),
        ("[0:0|1|]", RangeBound((EPOCH,), True), RangeBound((NOW,), True)),
        ("[3,2:4,1|5|]", RangeBound((TxidMark(3), TxidMark(2)), True), RangeBound((TxidMark(4), Bookmark(1, 5)), True)),
        (
            "[20260105T100000:20260105T110000)",
            RangeBound((TimeMark(TEN),), True),
            RangeBound((TimeMark(TEN + 3600 * SECOND),), False),
        ),
        (
            "[2026-01-05T10:00:00Z:2026-01-05T11:00)",
            RangeBound((TimeMark(TEN),), True),
            RangeBound((TimeMark(TEN + 3600 * SECOND),), False),
        ),
        ("(2026-01-05T10:00:30]", RangeBound((TimeMark(TEN),), False), RangeBound((TxidMark(30),), True)),
        ("( -15m : now )", RangeBound((TimeMark(START - 900 * SECOND),), False), RangeBound((NOW,), False)),
    ],
)
def test_ranges(text: str, start: RangeBound, end: RangeBound) -> None:
    if text == "(2026-01-05T10:00:30]":
        # The whole text is one time, so it is not parsed as a range from 10:00 to txid 30.
        with pytest.raises(UsageError, match="one side"):
            parse_bookmark_range(text, CLOCK)
        return
    assert parse_bookmark_range(text, CLOCK) == BookmarkRange(start, end)


@pytest.mark.parametrize(
    "text", ["", " ", ",", "1|2|,", "x", "1|2|3", "|", "-1", "1,x", "99999999999999999999999999", "1|"]
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bookmark_range(text, CLOCK)
    assert caught.value.code == "SOW-IDN-001"


@pytest.mark.parametrize(
    "text", ["[", "[]", "[1", "1]", "[1)", "[:]", "[1:]", "[:2)", "[1:x)", "(1:2:3)", "1:2)", "[[1:2)"]
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bookmark_range(text, CLOCK)
    assert caught.value.code == "SOW-IDN-002"


def test_a_time_that_cannot_be_keeps_its_own_error() -> None:
    with pytest.raises(UsageError) as caught:
        parse_bookmark_range("99999999999999s", CLOCK)
    assert caught.value.code == "SOW-VAL-020"


NUMBERS = st.integers(0, (1 << 64) - 1)
MARKS = st.one_of(
    st.builds(Bookmark, NUMBERS, NUMBERS),
    st.builds(TxidMark, st.integers(1, (1 << 64) - 1)),
    st.builds(TimeMark, st.integers(MIN_MICROS, MAX_MICROS)),
    st.sampled_from([EPOCH, NOW]),
)
SOME = st.lists(MARKS, min_size=1, max_size=4).map(tuple)


@given(SOME, st.booleans(), st.booleans(), SOME | st.none())
def test_what_is_written_is_read_back(
    start: tuple[Mark, ...], with_it: bool, closed: bool, end: tuple[Mark, ...] | None
) -> None:
    wanted = (
        BookmarkRange(RangeBound(start))
        if end is None
        else BookmarkRange(RangeBound(start, with_it), RangeBound(end, closed))
    )
    assert parse_bookmark_range(str(wanted), CLOCK) == wanted


@given(st.text(alphabet="0123456789|,:[]()TZ-. recntNOWmsh", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        wanted = parse_bookmark_range(text, CLOCK)
    except UsageError:
        return
    assert parse_bookmark_range(str(wanted), CLOCK) == wanted

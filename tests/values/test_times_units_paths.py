"""Texts of instants, intervals, sizes and field identifiers."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.errors import UsageError
from sowctl.values.paths import Path, Step, parse_path, split_list
from sowctl.values.times import (
    EPOCH_UNITS,
    MAX_MICROS,
    build_fixed_clock,
    compute_expiry,
    format_expiry,
    format_time,
    parse_epoch,
    parse_instant,
    parse_time,
)
from sowctl.values.units import (
    format_interval,
    format_size,
    parse_count,
    parse_interval,
    parse_size,
    parse_switch,
    parse_whole_number,
)

NOON = 1_767_355_200_000_000
CLOCK = build_fixed_clock(NOON)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T12:00:00Z", NOON),
        ("2026-01-02T13:30:00+01:30", NOON),
        ("2026-01-02 12:00:00.25Z", NOON + 250_000),
        ("2026-01-02T12:00Z", NOON),
        ("20260102T120000", NOON),
        ("20260102T120000.000001Z", NOON + 1),
        ("2026-01-02", NOON - 12 * 3600 * 1_000_000),
        ("1767355200s", NOON),
        ("1767355200000ms", NOON),
        ("1767355200000000us", NOON),
        ("1767355200000000999ns", NOON),
        ("1767355200.5s", NOON + 500_000),
        ("2026-01-02T12:00:00", NOON),
        ("2026-01-02 12:00", NOON),
        ("20260102T120000", NOON),
        ("-15m", NOON - 900_000_000),
        ("now-1d", NOON - 86_400_000_000),
        ("+1.5h", NOON + 5_400_000_000),
        ("20260102-12:00:00", NOON),
        ("20260102-12:00:00.123", NOON + 123_000),
        ("20260102-12:00:00.000001999999", NOON + 1),
        ("20260102-12:00", NOON),
        ("20260102-13:00+01", NOON),
        ("20260102-06:30:00.5-05:30", NOON + 500_000),
        ("20260102T130000+0100", NOON),
        ("20260102T1300+01:00", NOON),
        ("2026-01-02T13:00:00+01", NOON),
        ("2026-01-02T12:00:00.000001999999Z", NOON + 1),
        ("1767355200.0000019s", NOON + 1),
        ("NOW", NOON),
        ("epoch", 0),
        ("-5s", NOON - 5_000_000),
    ],
)
def test_instants(text: str, expected: int) -> None:
    assert parse_time(text, CLOCK) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2026-13-02", "SOW-VAL-010"),
        ("20260230T000000Z", "SOW-VAL-010"),
        ("yesterday", "SOW-VAL-010"),
        ("20260102-12", "SOW-VAL-010"),
        ("20260102-12:00.5", "SOW-VAL-010"),
        ("20260102T1200.5", "SOW-VAL-010"),
        ("20260102-12:00:00.0000000000001", "SOW-VAL-010"),
        ("20260102-24:00:00", "SOW-VAL-010"),
        ("20260102", "SOW-VAL-010"),
        ("9" * 5000 + "s", "SOW-VAL-020"),
        ("12", "SOW-VAL-010"),
        ("", "SOW-VAL-010"),
        ("-5\u017f", "SOW-VAL-010"),
        ("-\u0661m", "SOW-VAL-010"),
        ("\u0662026-01-05", "SOW-VAL-010"),
        ("\u0661s", "SOW-VAL-010"),
    ],
)
def test_texts_that_are_no_instant(text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_time(text, CLOCK)
    assert caught.value.code == code
    assert caught.value.exit_status == 2


@given(st.integers(-62_135_596_800_000_000, MAX_MICROS), st.integers(0, 999_999))
def test_every_form_of_an_instant_means_the_same(at: int, picoseconds: int) -> None:
    text = format_time(at)
    date, _, clock = text.removesuffix("Z").partition("T")
    fine = f"{clock}{picoseconds:06}"
    basic = date.replace("-", "")
    for same in (f"{basic}-{fine}", f"{basic}-{fine}Z", f"{date} {fine}+00", f"{basic}T{fine.replace(':', '')}-0000"):
        assert parse_time(same, CLOCK) == at
    whole, parts = divmod(at, 1_000_000)
    for number, unit in ((at * 1000 + picoseconds // 1000, "ns"), (at, "us"), (f"{Decimal(at).scaleb(-3):f}", "ms")):
        assert parse_epoch(str(number), unit) == at
    assert parse_epoch(f"{Decimal(whole) + Decimal(parts).scaleb(-6):f}", "s") == at


@pytest.mark.parametrize(
    "text", ["", "x", "nan", "inf", "0x10", "1_0", "1 0", "2026-01-02", "-", "9" * 5000, "1e999999"]
)
def test_what_is_no_number_since_1970(text: str) -> None:
    for unit in EPOCH_UNITS:
        with pytest.raises(UsageError) as caught:
            parse_epoch(text, unit)
        assert caught.value.code in ("SOW-VAL-010", "SOW-VAL-020")


@given(st.integers(-62_135_596_800_000_000, MAX_MICROS))
def test_output_reads_back(at: int) -> None:
    assert parse_time(format_time(at), CLOCK) == at
    assert len(format_time(at)) == 27


def test_units() -> None:
    assert parse_interval("100ms") == parse_interval("100MS") == 100_000_000
    assert (parse_interval("5M"), parse_interval("1w"), parse_interval("0")) == (300 * 10**9, 604_800 * 10**9, 0)
    assert (parse_size("5MB"), parse_size("64k"), parse_size("4KiB"), parse_size("0.5T")) == (
        5 << 20,
        65536,
        4096,
        1 << 39,
    )
    assert (parse_count("250"), parse_count("64k"), parse_count("2M")) == (250, 64_000, 2_000_000)
    assert (parse_switch("Enabled"), parse_switch("false")) == (True, False)
    for parse, text in (
        (parse_interval, "1h30m"),
        (parse_interval, "-1s"),
        (parse_interval, "5\u017f"),
        (parse_interval, "\u0665s"),
        (parse_size, "5\u212a"),
        (parse_count, "5\u212a"),
        (parse_size, "5x"),
        (parse_count, "1.5"),
        (parse_switch, "yes"),
    ):
        with pytest.raises(ValueError, match="is not"):
            parse(text)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("/a", (Step("a"),)),
        ("/a/@b[2]", (Step("a"), Step("@b", 2))),
        ("/a[1]/b-c.d:e", (Step("a", 1), Step("b-c.d:e"))),
        ("[/odd name/x]", (Step("odd name"), Step("x"))),
        ("[/odd name][3]", (Step("odd name", 3),)),
        ("/55", (Step("55"),)),
        ("/größe", (Step("größe"),)),
    ],
)
def test_paths(text: str, steps: tuple[Step, ...]) -> None:
    path = parse_path(text)
    assert path == Path(steps)
    assert str(path) == text


@pytest.mark.parametrize("text", ["", "a", "/", "//a", "/a/", "/a b", "/a[x]", "[a]", "[/a//b]", "/a[1][2]"])
def test_texts_that_are_no_path(text: str) -> None:
    with pytest.raises(UsageError):
        parse_path(text)


@given(st.integers(0, 10**20))
def test_what_is_formatted_is_read_back(number: int) -> None:
    assert parse_interval(format_interval(number)) == number
    assert parse_size(format_size(number)) == number


def test_the_shortest_exact_spelling() -> None:
    shown = [format_interval(value) for value in (0, 1, 1500, 10**9, 90 * 10**9, 3600 * 10**9, 7 * 86_400 * 10**9)]
    assert shown == ["0s", "1ns", "1500ns", "1s", "90s", "1h", "1w"]
    assert [format_size(value) for value in (0, 1000, 1024, 5 << 20, 1 << 40)] == ["0", "1000", "1KB", "5MB", "1TB"]


@pytest.mark.parametrize("parse", [parse_interval, parse_size])
def test_numbers_beyond_measure_are_refused(parse: Callable[[str], int]) -> None:
    with pytest.raises(ValueError, match="too large"):
        parse("9" * 400 + ".5")
    with pytest.raises(ValueError, match="too large"):
        parse("9" * 5000)


@pytest.mark.parametrize(
    "text", ["253402300800s", "9" * 30 + "ms", "9" * 5000 + "s", "9" * 400 + ".5s", "+500000w", "-9999999w"]
)
def test_what_lies_outside_the_years_is_no_instant(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_time(text, CLOCK)
    assert caught.value.code == "SOW-VAL-020"
    assert len(caught.value.message) < 150


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.999999-00:01"])
def test_an_offset_does_not_lead_out_of_them(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_time(text, CLOCK)
    assert caught.value.code == "SOW-VAL-020"


def test_an_offset_is_less_than_a_day() -> None:
    with pytest.raises(UsageError) as caught:
        parse_time("2026-01-01T00:00:00+25:00", CLOCK)
    assert caught.value.code == "SOW-VAL-010"


def test_ends_and_times_beyond_the_last_year() -> None:
    assert compute_expiry(MAX_MICROS - 5, 5) == MAX_MICROS
    assert compute_expiry(MAX_MICROS - 5, 6) == 0
    assert [format_expiry(at) for at in (0, MAX_MICROS + 1, 1 << 80)] == [None, None, None]
    assert format_expiry(MAX_MICROS) == format_time(1 << 80) == "9999-12-31T23:59:59.999999Z"
    assert format_time(-(1 << 80)) == "0001-01-01T00:00:00.000000Z"


@given(st.integers(0, 2**64 - 1), st.integers(0, 5000))
def test_whole_numbers_are_read_back_with_zeros_before_them(number: int, zeros: int) -> None:
    assert parse_whole_number("0" * zeros + str(number)) == number


@pytest.mark.parametrize(
    "text", [str(2**64), "9" * 5000, "", " 1", "1\n", "+1", "-1", "1.0", "1_0", "\u0661", "\u00b2"]
)
def test_other_texts_are_no_whole_numbers(text: str) -> None:
    assert parse_whole_number(text) is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("/a", ["/a"]),
        (" /a , /b/c[0],d ", ["/a", "/b/c[0]", "d"]),
        ("[/x,y],/a", ["[/x,y]", "/a"]),
        ("/a,[/x,y][0], [/a[b,c],[/,]", ["/a", "[/x,y][0]", "[/a[b,c]", "[/,]"]),
        ("/a,", ["/a", ""]),
        (",,", ["", "", ""]),
        ("/a,[/x,y", ["/a", "[/x,y"]),
        ("[/x],y],/a", ["[/x]", "y]", "/a"]),
    ],
)
def test_a_list_is_split_at_commas_outside_brackets(text: str, parts: list[str]) -> None:
    assert split_list(text) == parts


@given(st.lists(st.lists(st.text(min_size=1).filter(lambda name: not set(name) & set("/]")), min_size=1), min_size=1))
def test_a_list_of_paths_is_split_into_them(paths: list[list[str]]) -> None:
    wanted = [Path(tuple(map(Step, names))) for names in paths]
    assert [parse_path(part) for part in split_list(",".join(map(str, wanted)))] == wanted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", "2026-01-05T00:00:00"),
        ("MIDNIGHT", "2026-01-05T00:00:00"),
        ("yesterday", "2026-01-04T00:00:00"),
        ("tomorrow", "2026-01-06T00:00:00"),
        ("noon", "2026-01-05T12:00:00"),
        (" 9:05 ", "2026-01-05T09:05:00"),
        ("23:59:59.25Z", "2026-01-05T23:59:59.250000"),
        ("yesterday 10:00", "2026-01-04T10:00:00"),
        ("tomorrow noon", "2026-01-06T12:00:00"),
        ("-15m", "2026-01-05T11:45:00"),
        ("2026-01-02", "2026-01-02T00:00:00"),
    ],
)
def test_people_may_name_days_and_times_of_today(text: str, expected: str) -> None:
    noon = parse_time("2026-01-05T12:00:00Z", lambda: 0)
    assert format_time(parse_instant(text, lambda: noon)).startswith(expected)


@pytest.mark.parametrize("text", ["24:00", "10:60", "10", "10:", "todays", "noon noon", "yesterday10:00", "", "T10:00"])
def test_other_words_are_no_instants(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_instant(text, lambda: 0)
    assert caught.value.code == "SOW-VAL-010" and caught.value.hint

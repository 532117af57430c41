"""Functions beyond the conformance cases: edges of ranges, kinds and conversions, in the language itself."""

from __future__ import annotations

import calendar
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.expressions.aggregates.extremes import find_extreme, select_distinct
from sowctl.expressions.aggregates.sums import compute_sum
from sowctl.expressions.compiler import compile_value
from sowctl.expressions.environment import Environment
from sowctl.expressions.functions.dates import strftime
from sowctl.expressions.functions.numbers import round_to, width_bucket
from sowctl.expressions.functions.strings import substr
from sowctl.expressions.functions.strptime import strptime

ENV = Environment(lambda: 0)
NAN = math.nan
INF = math.inf


def one(text: str) -> Any:
    value = compile_value(text)
    return value.compute_values([(None,) * len(value.slots)], ENV)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SUBSTR('abcdef', 0)", b"abcdef"),
        ("SUBSTR('abcdef', 0, 2)", b"ab"),
        ("SUBSTR('abcdef', -9, 2)", b"ab"),
        ("SUBSTR('abcdef', 2, -1)", None),
        ("SUBSTR('abcdef', 7)", None),
        ("SUBSTR('abcdef', 2.9, 1.9)", b"b"),
        ("SUBSTR('abcdef', NAN)", None),
        ("SUBSTR('abcdef', 'x')", None),
        ("SUBSTR('abcdef', 1e999)", None),
        ("SUBSTR('abcdef', -1e999)", b"abcdef"),
        ("LEFT('abc', NAN)", None),
        ("LEFT('abc', 1e999)", b"abc"),
        ("LEFT('abc', 0.9)", None),
        ("RIGHT('abc', 2)", b"bc"),
        ("TRIM('xax', NULL)", b"xax"),
        ("LTRIM('  a ')", b"a "),
        ("RTRIM('  a ')", b"  a"),
        ("REPLACE('abc', 'b', NULL)", b"ac"),
        ("REGEXP_REPLACE('abc', 'b', NULL)", b"ac"),
        ("REGEXP_REPLACE('abc', '', 'x')", b"abc"),
        ("REGEXP_REPLACE('abc', '(b)', '\\\\1$1')", b"a\\1$1c"),
        ("REGEXP_REPLACE('abc', '^', '-')", b"-abc"),
        ("REGEXP_REPLACE('abc', '$', '-')", b"abc-"),
        ("REGEXP_REPLACE('aaa', 'a', 'b')", b"bbb"),
        ("REGEXP_REPLACE('aaa', '^a', 'b')", b"baa"),
        ("REGEXP_REPLACE('x\\nx', 'x$', 'y')", b"x\ny"),
        ("REGEXP_REPLACE('x\\n', 'x$', 'y')", b"y\n"),
        ("REGEXP_REPLACE('abab', '(?=b)', '.')", b"a.ba.b"),
        ("REGEXP_MATCH('', 'a*')", None),
        ("REGEXP_MATCH('x', '')", None),
        ("'a' LIKE ''", False),
        ("'a' NOT LIKE ''", True),
        ("'}' LIKE '\\x{7d}'", True),
        ("'u0041' LIKE '\\u0041'", None),
        ("INSTR('a\\x00b', 'b')", 3),
        ("CONCAT(1, NULL, 2.0)", b"12.0"),
        ("STREQUAL_I('\\xc9', '\\xe9')", False),
        ("LENGTH(1e300)", 6),
        ("ARRAY_COUNT(5)", 1),
        ("ARRAY_COUNT(NULL)", 0),
        ("ARRAY_SUM(1.5)", 1.5),
        ("ARRAY_TO_STRING('x', NULL, NULL)", b"x"),
        ("ARRAY_TO_STRING(NULL, ',', 'n')", None),
        ("ABS(-9223372036854775808)", 2**63),
        ("SIGN(-0.0)", 0),
        ("SIGN('x')", NAN),
        ("CEILING(1e30)", 1e30),
        ("FLOOR(1e999)", INF),
        ("CEILING(1.8e19)", 18000000000000000000),
        ("ROUND(0.49999999999999994)", 0.0),
        ("ROUND(2.5)", 3.0),
        ("ROUND(-0.2)", -0.0),
        ("ROUND(15, -1)", 20),
        ("ROUND(14, -400)", 0),
        ("ROUND(18446744073709551615, -1)", 18446744073709551620.0),
        ("ROUND(1.5, NAN)", NAN),
        ("ROUND(1.5, NULL)", None),
        ("ROUND(1e999, 2)", INF),
        ("POWER(0, -1)", INF),
        ("POWER(-0.0, -1)", -INF),
        ("POWER(-10, 401)", -INF),
        ("LN(0)", -INF),
        ("LOG10(-1)", NAN),
        ("LN(-0.0)", -INF),
        ("SQRT(1e999)", INF),
        ("COT(0)", INF),
        ("SINH(-1000)", -INF),
        ("TAN(1e999)", NAN),
        ("ATAN2(1, 'x')", NAN),
        ("GREATEST(TRUE, 0.5)", 1),
        ("LEAST(NULL)", NAN),
        ("WIDTH_BUCKET(5, 0, 10, 2)", 2),
        ("WIDTH_BUCKET(5, 10, 0, 2)", NAN),
        ("WIDTH_BUCKET(5, 0, 10, 0)", NAN),
        ("WIDTH_BUCKET(5, 0, 10, 2.9)", 2),
        ("CHAR_VALUE(0)", b"\x00"),
        ("CHAR_VALUE(-1)", b"?"),
        ("CHAR_VALUE(-0.5)", b"\x00"),
        ("CRC32(NULL)", 4294967295),
        ("CRC64(NULL)", 18446744073709551615),
        ("CRC64('123456789')", 14602665702277640833),
        ("-18446744073709551615", -1.8446744073709552e19),
        ("18446744073709551615 / -1", -1.8446744073709552e19),
        ("7 % -3", 1),
        ("-7 % 3", -1),
        ("1e999 % 3", NAN),
        ("3 % 1e999", 3.0),
        ("-1.0 / 0", -INF),
        ("1.0 / -0.0", -INF),
        ("TRUE * 2.5", 2.5),
        ("5 / '2'", 2),
        ("5 / '2.0'", 2.5),
        ("STRFTIME('%03f|%f', 1.9999994)", b"999|999999"),
        ("STRFTIME('%s', -0.5)", b"-1"),
        ("STRFTIME('%Y', 1e999)", None),
        ("STRFTIME('%Y', 253402300800)", None),
        ("STRFTIME('%Y-%m-%d', -62135596800)", b"1-01-01"),
        ("STRFTIME('%Q%', 0)", b"%Q%"),
        ("STRFTIME('%-d|%_d|%e|%05d|%^a|%#p|%10B', 0)", b"1| 1| 1|00001|THU|am|   January"),
        ("LENGTH(STRFTIME('%A%A%A%A%A%A%A%A%A%A%A%A%A%A%A%A%A%A%A', 0))", 128),
        ("STRPTIME('2024-02-30', '%Y-%m-%d')", None),
        ("STRPTIME('2023 366', '%Y %j')", None),
        ("STRPTIME(' 5', '%d')", 345600.0),
        ("STRPTIME('1970-01-01x', '%Y-%m-%d')", None),
        ("STRPTIME('aUG 3 69', '%b %d %y')", -13046400.0),
        ("STRPTIME('68', '%y')", 3092601600.0),
        ("STRPTIME('12 PM', '%I %p')", 43200.0),
        ("STRPTIME('12:30 am', '%I:%M %p')", 1800.0),
        ("STRPTIME('1.5', '%s.%f')", 1.5),
        ("STRPTIME('0.1234', '%S.%03f')", None),
        ("STRPTIME('2024 10 1', '%Y %W %u')", 1709510400.0),
        ("STRPTIME('00:00-05:30', '%H:%M%z')", 19800.0),
    ],
)
def test_value(text: str, expected: Any) -> None:
    if expected is None and text.startswith("'u0041'"):
        with pytest.raises(Exception, match="rejected"):
            one(text)
        return
    actual = one(text)
    assert type(actual) is type(expected)
    if isinstance(expected, float):
        assert repr(actual) == repr(expected)
    else:
        assert actual == expected


@given(st.binary(max_size=6), st.integers(-9, 9), st.none() | st.integers(-3, 9))
def test_substr_by_position(text: bytes, start: int, length: int | None) -> None:
    begin = max(len(text) + start, 0) if start < 0 else max(start, 1) - 1
    end = len(text) if length is None else begin + length
    kept = bytes(byte for place, byte in enumerate(text) if begin <= place < end)
    assert substr(text, start, *([] if length is None else [length])) == kept


@given(st.integers(-(2**63), 2**64 - 1), st.integers(-21, 3))
def test_rounding_integers_is_exact(number: int, places: int) -> None:
    unit = 10 ** max(-places, 0)
    rounded = round_to(number, places)
    if isinstance(rounded, int):
        assert rounded % unit == 0
        assert abs(rounded - number) * 2 <= unit


@given(st.floats(0, 100, exclude_max=True), st.integers(1, 50))
def test_width_buckets_hold_what_belongs_there(number: float, count: int) -> None:
    bucket = width_bucket(number, 0, 100, count)
    assert 1 <= bucket <= count
    assert (bucket - 1) * 100 / count <= number * (1 + 1e-12)


INSTANTS = st.integers(-30_000_000_000, 250_000_000_000)
FORMATS = st.sampled_from([b"%a %A %b %B %d %e %H %I %j %m %M %p %S %u %U %V %w %W %y %D %T %R %G %g %C %h %n%t%%"])


@given(INSTANTS, FORMATS)
def test_strftime_agrees_with_the_c_library(seconds: int, fmt: bytes) -> None:
    assert strftime(fmt, seconds) == time.strftime(fmt.decode(), time.gmtime(seconds)).encode()[:128]


@given(INSTANTS, st.integers(0, 999_999))
def test_strptime_reads_what_strftime_wrote(seconds: int, micros: int) -> None:
    at = seconds + micros / 1_000_000
    for fmt in (b"%Y %j %T.%f", b"%d %B %Y %I:%M:%S.%f %p", b"%s.%f", b"%Y-%U-%w %H%M%S.%f"):
        text = strftime(fmt, at)
        assert text is not None
        assert strptime(text, fmt) == pytest.approx(at, abs=2e-5)


@given(INSTANTS)
def test_strptime_of_dates_is_timegm(seconds: int) -> None:
    parts = time.gmtime(seconds)
    text = f"{parts.tm_year:04d}-{parts.tm_mon}-{parts.tm_mday} {parts.tm_hour}:{parts.tm_min}:{parts.tm_sec}"
    assert strptime(text.encode(), b"%Y-%m-%d %H:%M:%S") == calendar.timegm(parts)


@given(st.binary(max_size=12), st.binary(max_size=8))
def test_strptime_never_fails(text: bytes, fmt: bytes) -> None:
    assert isinstance(strptime(text, fmt), float | None)
    assert isinstance(strptime(text, b"%" + fmt), float | None)


def test_sums_are_correctly_rounded() -> None:
    assert compute_sum([]) is None
    assert compute_sum([1, 2]) == 3
    assert type(compute_sum([1, 2.0])) is float
    assert compute_sum([2**64 - 1, 1]) == float(2**64)
    assert compute_sum([2**64 - 1, 1, -1]) == 2**64 - 1
    assert compute_sum([1e308, 1e308, -1e308]) == 1e308
    assert compute_sum([1e308, 1e308]) == INF
    assert compute_sum([2**53 + 1, 0.5]) == float(2**53 + 2)
    assert math.isnan(compute_sum([INF, -INF]))  # type: ignore[arg-type]
    assert compute_sum([1e308, 1e308, -INF]) == -INF
    assert compute_sum([0.1] * 10) == 1.0


def test_extremes_and_distinct_values_use_the_common_reading() -> None:
    assert find_extreme(["10", "9"], greatest=False) == "10"
    assert find_extreme(["10", 9], greatest=False) == 9
    assert find_extreme(["10", 10, "a"], greatest=False) == "10"
    assert math.isnan(find_extreme([1, NAN, "a"], greatest=True))  # type: ignore[arg-type]
    assert find_extreme([], greatest=True) is None
    assert select_distinct([1, "1", 1.0, True, "1.0", "a"]) == [1, "a"]
    assert select_distinct(["1", "1.0", "1"]) == ["1", "1.0"]

"""The date functions of the legacy module: instants, zones, the clock, and where they may stand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.expressions.compiler import compile_value
from sowctl.expressions.context import Context
from sowctl.expressions.environment import Environment, compute_local_offset
from sowctl.expressions.functions.legacy import LEGACY_FUNCTIONS
from sowctl.expressions.syntax.errors import ExpressionError

FUNCTIONS = {one.name: one for one in LEGACY_FUNCTIONS}
NOW = 1_767_600_000
HOUR = 3600


def value(text: str, now: float = NOW, offset: int = 0) -> object:
    environment = Environment(lambda: round(now * 1_000_000), offset=lambda _: offset)
    return compile_value(text, Context.QUERY_FILTER, FUNCTIONS).compute_values([()], environment)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("YEAR(0)", 1970),
        ("MONTH(1767600000)", 1),
        ("DAY('1767600000.5')", 5),
        ("DATE_UTC(-1)", 19691231),
        ("DATE_UTC(1767600000)", 20260105),
        ("YEAR(NULL)", None),
        ("YEAR('x')", None),
        ("DAY(1e300)", None),
        ("TODAY_UTC()", 20260105),
    ],
)
def test_values(text: str, expected: object) -> None:
    assert value(text) == expected


def test_local_time_has_its_own_dates() -> None:
    assert [value(text, offset=17 * HOUR) for text in ("DATE(1767600000)", "TODAY()", "TIMEZONEOFFSET()")] == [
        20260106, 20260106, 17 * HOUR,
    ]  # fmt: skip
    assert value("DATE(1767600000)", offset=-9 * HOUR) == 20260104
    assert value("TODAY_UTC()", offset=17 * HOUR) == 20260105


@given(st.floats(-62_135_596_800, 253_402_300_799))
def test_dates_are_those_of_the_calendar(seconds: float) -> None:
    at = datetime.fromtimestamp(seconds // 1, UTC)
    parts = [FUNCTIONS[name].call(seconds) for name in ("YEAR", "MONTH", "DAY")]
    assert parts == [at.year, at.month, at.day]
    assert FUNCTIONS["DATE_UTC"].call(seconds) == int(at.strftime("%Y%m%d").rjust(8, "0"))


def test_the_zone_of_the_machine() -> None:
    assert -15 * HOUR < compute_local_offset(NOW) < 15 * HOUR


@pytest.mark.parametrize("text", ["TODAY()", "TODAY_UTC()", "TIMEZONEOFFSET()"])
def test_what_the_clock_decides_is_kept_out_of_views(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_value(text, Context.VIEW_FILTER, FUNCTIONS)
    assert caught.value.code == "SOW-EXP-012"
    compile_value("DATE(/t) + YEAR(/t)", Context.VIEW_FILTER, FUNCTIONS)

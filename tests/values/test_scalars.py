"""Scalars: readings, texts, truth, the comparison rule."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.values.fields import Number, SlotValue, ValueList
from sowctl.values.scalars import (
    EQUAL,
    GREATER,
    LESS,
    UNORDERED,
    PlainScalar,
    compare_scalars,
    is_null,
    parse_number,
    to_number,
    to_scalar,
    to_text,
    to_truth,
)

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
TEXTS = (
    st.text(min_size=1, max_size=4)
    | st.binary(min_size=1, max_size=4)
    | st.sampled_from(["10", "9", " 5 ", "1e2", b"-3"])
)
SCALARS = NUMBERS | TEXTS | st.booleans() | st.none() | st.just(math.nan)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        (" \t-5\r\n", -5),
        ("+5.", 5.0),
        (".5e1", 5.0),
        ("007", 7),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", float(2**64)),
        ("-9223372036854775809", -float(2**63)),
        ("1e999", math.inf),
        ("9" * 5000, math.inf),
        ("-0", 0),
        *[
            (text, None)
            for text in ("", " ", "nan", "inf", "0x5", "1,000", "5 5", "+", ".", "e5", "1e", "５", "\v5", "--5")
        ],
    ],
)
def test_numeric_reading(text: str, number: int | float | None) -> None:
    for given_text in (text, text.encode()):
        reading = parse_number(given_text)
        assert (type(reading), reading) == (type(number), number)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, b"1"),
        (-(2**63), b"-9223372036854775808"),
        (1.0, b"1.0"),
        (1e16, b"1e+16"),
        (1e15, b"1000000000000000.0"),
        (1e-5, b"1e-05"),
        (-0.0, b"-0.0"),
        (math.nan, b"NaN"),
        (-math.inf, b"-inf"),
        (True, b"1"),
        (Number(1.5, b" 1.50"), b" 1.50"),
        ("é", "é".encode()),
        (b"\xff", b"\xff"),
        ("", None),
        (b"", None),
        (None, None),
        (ValueList((Number(2, b"2.0"), "x")), b"2.0"),
        (ValueList(()), None),
        (ValueList(("", "x")), None),
    ],
)
def test_text(value: SlotValue, text: bytes | None) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        (None, None),
        (True, True),
        (0, False),
        (-0.0, False),
        (0.5, True),
        (math.nan, None),
        ("0", False),
        ("0.1", True),
        ("true", None),
        ("", None),
        (Number(3, b"3"), True),
        (ValueList((0, 1)), False),
    ],
)
def test_truth(value: SlotValue, truth: bool | None) -> None:
    assert to_truth(value) is truth


def test_a_number_keeps_its_kind() -> None:
    assert type(to_number(True)) is int
    assert type(to_number(Number(5.0, b"5.0"))) is float
    assert to_number(ValueList(("12",))) == 12
    assert math.isnan(to_number("x") or 0)
    assert to_number("") is None


def test_null_of_an_identifier() -> None:
    assert is_null(None)
    assert is_null("")
    assert is_null(ValueList((None, 1)))
    assert not is_null(ValueList((), dropped=True))
    assert not is_null(0)
    assert to_scalar(ValueList((), dropped=True)) is None


def model(a: PlainScalar, b: PlainScalar) -> int | None:
    """The rule of section 5, word by word."""
    if a is None or b is None:
        return None
    a, b = (x.encode() if isinstance(x, str) else x for x in (a, b))
    if isinstance(a, bytes) and isinstance(b, bytes):
        return (list(a) > list(b)) - (list(a) < list(b))
    if any(isinstance(x, float) and math.isnan(x) for x in (a, b)):
        return UNORDERED
    if isinstance(a, bytes):
        reading = parse_number(a)
        return GREATER if reading is None else model(reading, b)
    if isinstance(b, bytes):
        reading = parse_number(b)
        return LESS if reading is None else model(a, reading)
    left, right = (_exact(x) for x in (a, b))
    return (left > right) - (left < right)


def _exact(number: int | float) -> tuple[int, Fraction]:
    if isinstance(number, float) and math.isinf(number):
        return (1 if number > 0 else -1), Fraction(0)
    return 0, Fraction(number)


@given(SCALARS, SCALARS)
def test_relation_follows_the_rule(a: PlainScalar, b: PlainScalar) -> None:
    assert compare_scalars(a, b) == model(a, b)
    turned = compare_scalars(b, a)
    assert turned == {LESS: GREATER, GREATER: LESS}.get(compare_scalars(a, b), compare_scalars(a, b))  # type: ignore[arg-type]


@given(SCALARS)
def test_relation_of_a_value_to_itself(a: PlainScalar) -> None:
    expected = None if a is None else UNORDERED if isinstance(a, float) and math.isnan(a) else EQUAL
    assert compare_scalars(a, a) == expected

"""JSON values in columns of a declared type: times, decimals, bytes and numbers fit or are NULL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import msgpack
import pyarrow as pa

from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.messages.types import get_type
from tests.spark.reading import decoded


def test_a_struct_without_fields() -> None:
    assert decoded(pa.struct([]), b"{}", None, b'{"a":1}', b"[]") == [{}, None, {}, None]


def test_times_decimals_and_bytes() -> None:
    kind = pa.struct(
        [
            ("t", pa.timestamp("us", tz="UTC")),
            ("n", pa.timestamp("us")),
            ("d", pa.date32()),
            ("p", pa.decimal128(5, 2)),
            ("y", pa.binary()),
        ]
    )
    good = b'{"t":"2026-01-02T03:04:05.678Z","n":"2026-01-02 03:04:05","d":"2026-01-02","p":1.255,"y":"YWI="}'
    bad = b'{"t":"noon","n":5,"d":"2026-13-01","p":12345.6,"y":"no Base64"}'
    local = b'{"t":"2026-01-02T03:04:05","p":"7"}'
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert decoded(kind, good, bad, local) == [
        {
            "t": at.replace(microsecond=678000),
            "n": at.replace(tzinfo=None),
            "d": date(2026, 1, 2),
            "p": Decimal("1.26"),
            "y": b"ab",
        },
        {"t": None, "n": None, "d": None, "p": None, "y": None},
        {"t": at, "n": None, "d": None, "p": Decimal("7.00"), "y": None},
    ]


def test_a_time_with_a_zone_loses_it_where_none_is_declared() -> None:
    kind = pa.struct([("n", pa.timestamp("us"))])
    texts = (b'{"n":"2026-01-02T03:04:05Z"}', b'{"n":"2026-01-02T03:04:05"}', b'{"n":"2026-01-02T03:04:05+02:00"}')
    assert decoded(kind, *texts) == [{"n": datetime(2026, 1, 2, 3, 4, 5)}] * 3


def test_a_boolean_is_no_number() -> None:
    kind = pa.struct([("f", pa.float64()), ("p", pa.decimal128(5, 2)), ("d", pa.date32())])
    assert decoded(kind, b'{"f":true,"p":true}', b'{"f":2,"p":3}') == [
        {"f": None, "p": None, "d": None},
        {"f": 2.0, "p": Decimal("3.00"), "d": None},
    ]


DIGITS = [
    ("12345678901234567.123456789", "12345678901234567.123456789"),
    ("12345678901234567890123456789.123456789", "12345678901234567890123456789.123456789"),
    ("-99999999999999999999999999999.999999999", "-99999999999999999999999999999.999999999"),
    ("123456789012345678901234567890", None),
    ("0.1", "0.100000000"),
    ("1e5", "100000.000000000"),
    ("1E-50", "0E-9"),
    ("-0", "0E-9"),
    ("1e400", None),
    ("1e999999999999999999999", None),
    ("9" * 5000, None),
    ("0." + "3" * 5000, "0.333333333"),
]


@pytest.mark.parametrize(("text", "expected"), DIGITS, ids=lambda one: str(one)[:20])
def test_a_decimal_has_the_digits_of_the_message(text: str, expected: str | None) -> None:
    kind = pa.struct([("d", pa.decimal128(38, 9))])
    found = decoded(kind, b'{"d":%b}' % text.encode(), b'{"d":"%b"}' % text.encode())
    assert [one["d"] for one in found] == [None if expected is None else Decimal(expected)] * 2


@pytest.mark.parametrize("text", [text for text, _ in DIGITS] + ["1.10", "1.50e0", "1E3", "-0.0", "0", "true"])
def test_a_string_is_the_text_of_what_is_no_text(text: str) -> None:
    kind = pa.struct([("s", pa.string())])
    assert decoded(kind, b'{"s": %b }' % text.encode()) == [{"s": text}]
    assert decoded(kind, b'{"s" : {"a" : [%b, "x y"]}}' % text.encode()) == [{"s": f'{{"a":[{text},"x y"]}}'}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.0", 1),
        ("1e3", 1000),
        ("9007199254740993.0", 9007199254740993),
        ("9223372036854775807.00", (1 << 63) - 1),
        ("9223372036854775808.0", None),
        ("1.5", None),
        ("1e999999999", None),
        ("0e999999999", 0),
        ("-0", 0),
    ],
)
def test_a_whole_number_may_be_written_with_a_point(text: str, expected: int | None) -> None:
    assert decoded(pa.struct([("a", pa.int64())]), b'{"a":%b}' % text.encode()) == [{"a": expected}]


def test_binary_data_are_base64_in_json_and_themselves_where_a_format_has_them() -> None:
    kind = pa.struct([("y", pa.binary()), ("s", pa.string()), ("l", pa.list_(pa.binary())), ("x", pa.string())])
    assert decoded(kind, b'{"y":"AP+A","s":"AP+A","l":["AP+A",null,"?"]}', b'{"y":"A","s":5}', b'{"y":7}') == [
        {"y": b"\x00\xff\x80", "s": "AP+A", "l": [b"\x00\xff\x80", None, None], "x": None},
        {"y": None, "s": "5", "l": None, "x": None},
        {"y": None, "s": None, "l": None, "x": None},
    ]
    packed = msgpack.packb({"y": b"\x00\xff", "s": b"ab", "l": [b"\xff", "AA==", 1.5], "x": [1e22, b"a", 2.5]})
    tree = StructDecoder(kind).decode_payloads([packed, b"\xc1"], get_type("msgpack")).to_pylist()
    assert tree == [{"y": b"\x00\xff", "s": "ab", "l": [b"\xff", b"\x00", None], "x": '[1e+22,"a",2.5]'}, None]
    rest = pa.struct([field for field in kind if not pa.types.is_nested(field.type) and field.name != "y"])
    viewed = StructDecoder(rest).decode_payloads([packed], get_type("msgpack")).to_pylist()
    assert viewed == [{name: tree[0][name] for name in ("s", "x")}]

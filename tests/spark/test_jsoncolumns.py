"""JSON values in columns of a declared type: times, decimals, bytes and numbers fit or are NULL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow as pa

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
    good = b'{"t":"2026-01-02T03:04:05.678Z","n":"2026-01-02 03:04:05","d":"2026-01-02","p":1.255,"y":"ab"}'
    bad = b'{"t":"noon","n":5,"d":"2026-13-01","p":12345.6,"y":1}'
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

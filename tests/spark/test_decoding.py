"""JSON views as Arrow structs: the quick way and the way value by value agree, and nothing is ever raised."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.spark.inference import infer
from sowctl.spark.jsoncolumns import coercion, column
from tests.spark.reading import decoded

TYPE = pa.struct(
    [
        ("a", pa.int64()),
        ("b", pa.struct([("x", pa.string()), ("l", pa.list_(pa.float64()))])),
        ("m", pa.map_(pa.string(), pa.int8())),
        ("s", pa.list_(pa.struct([("q", pa.bool_())]))),
    ]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOATS | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abmsxlq"), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_a_batch_is_decoded_as_its_messages_one_by_one(values: list[Any]) -> None:
    payloads = [json.dumps(value, ensure_ascii=False).encode() for value in values]
    together = decoded(TYPE, *payloads)
    assert together == [decoded(TYPE, payload)[0] for payload in payloads]
    indented = [json.dumps(value, indent=1).encode() for value in values]
    assert decoded(TYPE, *indented) == together
    coerce = coercion(TYPE)
    by_value = column([coerce(json.loads(payload)) for payload in payloads], TYPE)
    assert by_value.to_pylist() == together


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_anything_at_all_is_null_at_worst(payloads: list[bytes]) -> None:
    assert len(decoded(TYPE, *payloads, None)) == len(payloads) + 1


def test_messages_do_not_run_into_each_other() -> None:
    assert decoded(TYPE, b"{}{}", b"") == [None, None]
    assert decoded(TYPE, b'{"a":1}{"a":2}', b'{"a":', b"3}") == [None, None, None]
    assert decoded(TYPE, b'{"a":1}\n{"a":2}', b"") == [None, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a":1,"other":[{}]}', {"a": 1}),
        (b'{"a":1.0}', {"a": 1}),
        (b'{"a":1.5}', {}),
        (b'{"a":"1"}', {}),
        (b'{"a":true}', {}),
        (b'{"a":9223372036854775808}', {}),
        (b'{"a":null}', {}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"b":{"x":5,"l":[1,null,"x"]}}', {"b": {"x": "5", "l": [1.0, None, None]}}),
        (b'{"b":{"x":{"k":[1]}}}', {"b": {"x": '{"k":[1]}', "l": None}}),
        (b'{"b":[]}', {}),
        (b'{"m":{"p":1,"q":500,"r":"x"}}', {"m": [("p", 1), ("q", None), ("r", None)]}),
        (b'{"s":[{"q":false},null,{},7]}', {"s": [{"q": False}, None, {"q": None}, None]}),
        ('{"b":{"x":"ü\\n"}}'.encode(), {"b": {"x": "ü\n", "l": None}}),
    ],
)
def test_what_fits_is_taken_and_the_rest_is_null(text: bytes, expected: dict[str, Any]) -> None:
    nothing = dict.fromkeys(("a", "b", "m", "s"))
    assert decoded(TYPE, text) == [nothing | expected]
    assert decoded(TYPE, b'{"a":3}', text, b"[1]") == [nothing | {"a": 3}, nothing | expected, None]


def test_a_message_of_too_many_levels_is_null() -> None:
    deep = b'{"a":1,"o":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert decoded(TYPE, deep, b'{"a":2}')[1]["a"] == 2
    assert decoded(TYPE, deep) == [None]


def test_a_schema_is_inferred() -> None:
    views = [
        b'{"a":1,"b":{"x":null},"l":[]}',
        b'{"a":2.5,"b":{"x":"s","y":true},"l":[1]}',
        b'{"m":1,"n`m":18446744073709551615,"l":[{"k":1}]}',
        b'{"m":"x"}',
        b"[1]",
        b"not json",
    ]
    assert infer(views) == (
        "STRUCT<`a`: DOUBLE, `b`: STRUCT<`x`: STRING, `y`: BOOLEAN>, `l`: ARRAY<STRING>, `m`: STRING, `n``m`: DOUBLE>"
    )
    assert infer([]) == "STRUCT<>"


def test_half_a_surrogate_pair_costs_no_message() -> None:
    kind = pa.struct([("a", pa.string()), ("b", pa.string())])
    texts = [rb'{"a":"\ud800","b":"ok"}', rb'{"a":"\ud83d\ude00\udc00","b":"\\ud800"}', b'{"a":"x"}']
    assert decoded(kind, *texts) == [
        {"a": "\ufffd", "b": "ok"},
        {"a": "😀\ufffd", "b": "\\ud800"},
        {"a": "x", "b": None},
    ]
    assert infer([texts[0], b'{"c":1}']) == "STRUCT<`a`: STRING, `b`: STRING, `c`: BIGINT>"

"""JSON views as Arrow structs: the quick way and the way value by value agree, and nothing is ever raised."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import msgpack
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.arrow.inference import infer_ddl
from sowctl.arrow.jsoncolumns import build_coercion, build_column
from sowctl.arrow.jsontrees import TreeReader
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.messages.types import get_type
from tests.spark.reading import decoded
from tests.support.examples import examples

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
@settings(max_examples=examples(150), deadline=None)
def test_a_batch_is_decoded_as_its_messages_one_by_one(values: list[Any]) -> None:
    payloads = [json.dumps(value, ensure_ascii=False).encode() for value in values]
    together = decoded(TYPE, *payloads)
    assert together == [decoded(TYPE, payload)[0] for payload in payloads]
    indented = [json.dumps(value, indent=1).encode() for value in values]
    assert decoded(TYPE, *indented) == together
    coerce = build_coercion(TYPE)
    by_value = build_column([coerce(TreeReader().read_tree(payload)) for payload in payloads], TYPE)
    assert by_value.to_pylist() == together


NUMBERS = st.sampled_from(
    b"0 -0 -0.0 1 1.0 1.10 -7 1e3 1e400 -1e400 1e-400 1.5 9007199254740993 9007199254740993.0 9223372036854775807 "
    b"9223372036854775808 18446744073709551616 12345678901234567.123456789 0.1 127 128 2147483648 00 1. NaN".split()
) | st.just(b"9" * 5000)
TEXTS = st.sampled_from(
    [b'"%b"' % text for text in (b"", b"a", b"YWI=", b"7", b"1.10", b"2026-01-02T03:04:05Z", b"2026-01-02")]
    + [b'"\\ud800"', b'"\\u00fc"', b'"\xff"', b'"\xc3\xbc"', b'"\\x"', b'"\x01"', b"true", b"false", b"null", b"nul"]
)
DEEP = st.sampled_from([b"[" * depth + b"1" + b"]" * depth for depth in (2, 250, 255, 256, 300, 5000)])
WRITTEN = st.recursive(
    NUMBERS | TEXTS | DEEP,
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda items: b"[" + b", ".join(items) + b"]")
        | st.lists(st.tuples(st.sampled_from([b"x", b"l", b"u"]), inner), max_size=3).map(
            lambda pairs: b"{" + b",".join(b'"%b": %b' % pair for pair in pairs) + b"}"
        )
    ),
    max_leaves=5,
)
FIELDS = [
    *[("a", pa.int64()), ("b", pa.int8()), ("c", pa.float64()), ("d", pa.float32()), ("e", pa.string())],
    *[("f", pa.bool_()), ("g", pa.decimal128(38, 9)), ("h", pa.decimal128(5, 0)), ("i", pa.timestamp("us", tz="UTC"))],
    *[("j", pa.date32()), ("k", pa.binary()), ("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int64()))],
    ("n", pa.struct([("x", pa.int64()), ("l", pa.list_(pa.float64())), ("u", pa.string())])),
    ("o", pa.struct([("x", pa.string()), ("u", pa.timestamp("us"))])),
]
MESSAGES = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdefghijklmnozyx"), WRITTEN), max_size=6).map(
        lambda pairs: b"{" + b",".join(b'"%b":%b' % (name.encode(), value) for name, value in pairs) + b"}"
    ),
    min_size=1,
    max_size=4,
)


@given(MESSAGES, st.lists(st.sampled_from(FIELDS), min_size=1, max_size=6, unique_by=lambda field: field[0]))
@settings(max_examples=examples(400), deadline=None)
def test_a_column_is_what_it_is_alone(messages: list[bytes], fields: list[tuple[str, pa.DataType]]) -> None:
    messages = [*messages, *messages[:1] * 3]
    together = decoded(pa.struct(fields), *messages)
    readable = [not get_type("json").check_payloads([message]) for message in messages]
    assert [one is not None for one in together] == readable
    for name, kind in fields:
        alone = decoded(pa.struct([(name, kind)]), *messages)
        assert repr([one and one[name] for one in together]) == repr([one and one[name] for one in alone])
        by_itself = [decoded(pa.struct([(name, kind)]), message)[0] for message in messages]
        assert repr(by_itself) == repr(alone)


@pytest.mark.parametrize("odd", [b"1e400", b"9" * 5000, b'"\\ud800"', b"-0", b"[1e400]"], ids=lambda odd: odd[:8])
def test_no_neighbour_costs_a_column_its_value(odd: bytes) -> None:
    message = b'{"id":1,"x":%b,"ts":"2026-01-02T03:04:05Z"}' % odd
    identity, other, ts = ("id", pa.int64()), ("x", pa.string()), ("ts", pa.timestamp("us", tz="UTC"))
    for fields in ([identity], [identity, other], [identity, ts], [identity, other, ts]):
        assert decoded(pa.struct(fields), message)[0]["id"] == 1


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.float32(), pa.list_(pa.float64()), pa.map_(pa.string(), pa.float64())]
)
def test_a_negative_zero_keeps_its_sign_whatever_stands_beside_it(kind: pa.DataType) -> None:
    value = {"list": b"[-0]", "map": b'{"k":-0}'}.get(str(kind).partition("<")[0], b"-0")
    message = b'{"d":%b,"t":"x"}' % value
    for fields in ([], [("t", pa.string())], [("t", pa.int64())], [("o", pa.timestamp("us"))]):
        for beside in ([], [b'{"d":1}'], [b'{"d":"x"}'], [b"no JSON"]):
            found = decoded(pa.struct([("d", kind), *fields]), message, *beside)[0]["d"]
            assert repr(found) in ("-0.0", "[-0.0]", "[('k', -0.0)]")
    assert repr(decoded(pa.struct([("d", pa.int64())]), b'{"d":-0}')) == "[{'d': 0}]"


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=4))
@settings(max_examples=examples(100), deadline=None)
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
        (b'{"a":1,"a":2}', {"a": 1}),
        (b'{"a":"x","\\u0061":2}', {}),
        (
            b'{"b":{"x":"1","x":"2"},"m":{"p":1,"q":2,"p":3},"s":[{"q":true,"q":false}]}',
            {
                "b": {"x": "1", "l": None},
                "m": [("p", 1), ("q", 2)],
                "s": [{"q": True}],
            },
        ),
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


def test_half_a_surrogate_pair_costs_no_message() -> None:
    kind = pa.struct([("a", pa.string()), ("b", pa.string())])
    texts = [rb'{"a":"\ud800","b":"ok"}', rb'{"a":"\ud83d\ude00\udc00","b":"\\ud800"}', b'{"a":"x"}']
    assert decoded(kind, *texts) == [
        {"a": "\\ud800", "b": "ok"},
        {"a": "😀\\udc00", "b": "\\ud800"},
        {"a": "x", "b": None},
    ]
    assert infer_ddl([texts[0], b'{"c":1}']) == "STRUCT<`a`: STRING, `b`: STRING, `c`: BIGINT>"


def test_messages_back_to_back_are_read_as_one_by_one() -> None:
    import numpy as np

    from sowctl.arrow.struct_decoder import StructDecoder

    messages = [b'{"a":1}', b"", b"{", b'{"a":"\\u00fc"}', b'{"s":"x"}']
    present = np.array([True, False, True, True, True])
    lengths = np.array([len(message) for message in messages])
    raw = b"".join(messages)
    decoder = StructDecoder(TYPE)
    found = decoder.decode_packed([raw[:9], raw[9:]], lengths, present)
    assert (
        found.to_pylist()
        == decoder.decode_views([m if there else None for m, there in zip(messages, present, strict=True)]).to_pylist()
    )
    assert found.to_pylist()[1:3] == [None, None]


WRAPS = {
    "list": (pa.list_, lambda value: [value]),
    "struct": (lambda kind: pa.struct([("a", kind), ("b", pa.int32())]), lambda value: {"a": value, "b": 1}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: {"k": value}),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("wrap", WRAPS)
def test_types_as_deep_as_messages_are_read(wrap: str, strict: bool) -> None:
    make_type, make_value = WRAPS[wrap]
    kind: pa.DataType = pa.int64()
    value: Any = 7
    for _ in range(255):
        kind, value = make_type(kind), make_value(value)
    messages = [json.dumps({"a": value}).encode(), b'{"a":null}', b"{}"]
    found = StructDecoder(pa.struct([("a", kind)]), strict=strict).decode_payloads(messages, get_type("json"))
    inner = found.field(0)[0]
    while not isinstance(inner, pa.Int64Scalar):
        inner = inner[0] if wrap == "struct" else inner.values[0] if wrap == "list" else inner.values[0]["value"]
    assert (inner.as_py(), found.field(0).null_count) == (7, 2)


@pytest.mark.parametrize("kind", [pa.float64(), pa.string()])
def test_what_json_has_no_number_for_is_null(kind: pa.DataType) -> None:
    """As sowctl-spark(7) says; sowctl-types(7) tells what exports keep."""
    messages = [msgpack.packb({"x": value}) for value in (float("nan"), float("inf"), 1.5)]
    found = StructDecoder(pa.struct([("x", kind)])).decode_payloads(messages, get_type("msgpack"))
    assert [value is None for value in found.field(0).to_pylist()] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "moment", "local"),
    [
        ('"2026-01-05"', "2026-01-05T00:00:00+00:00", "2026-01-05T00:00:00"),
        ('"20260105"', "2026-01-05T00:00:00+00:00", "2026-01-05T00:00:00"),
        ('"2026-01-05T10:00:00+02:00"', "2026-01-05T08:00:00+00:00", "2026-01-05T10:00:00"),
        ('"2026-1-5"', None, None),
        ("1767600000", None, None),
    ],
)
def test_times_are_read_as_the_page_says(text: str, moment: str | None, local: str | None) -> None:
    kind = pa.struct([("at", pa.timestamp("us", tz="UTC")), ("local", pa.timestamp("us")), ("day", pa.date32())])
    message = f'{{"at":{text},"local":{text},"day":{text}}}'.encode()
    (found,) = StructDecoder(kind).decode_payloads([message], get_type("json")).to_pylist()
    day = None if local is None else local[:10]
    assert [None if one is None else one.isoformat() for one in found.values()] == [moment, local, day]

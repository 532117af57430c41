"""Inferred schemas: they hold every value of every message that was looked at, and what comes later is never lost."""

from __future__ import annotations

import pickle
import random
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import _parse_datatype_string

from sowctl.arrow.inference import MAX_FIELDS, Inference, infer_ddl
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.errors import InputError, LimitError
from sowctl.messages.types import get_type
from sowctl.spark.errors import translate_errors
from sowctl.values.times import format_time
from tests.spark.reading import decoded, journal, read, source
from tests.support.examples import examples
from tests.support.instances import Lab, message


def test_a_schema_is_inferred() -> None:
    views = [
        b'{"a":1,"b":{"x":null},"l":[]}',
        b'{"a":2.5,"b":{"x":"s","y":true},"l":[1]}',
        b'{"m":1,"n`m":18446744073709551615,"l":[{"k":1}]}',
        b'{"m":"x"}',
        b"[1]",
        b"not json",
    ]
    assert infer_ddl(views) == (
        "STRUCT<`a`: DOUBLE, `b`: STRUCT<`x`: STRING, `y`: BOOLEAN>, `l`: ARRAY<STRING>, `m`: STRING, "
        "`n``m`: DECIMAL(20,0)>"
    )
    assert infer_ddl([]) == "STRUCT<>"


def test_spark_takes_what_schema_prints(spark: SparkSession) -> None:
    view = b'{"a":1,"b c":{"n`m":[1.5]},"c":18446744073709551615}'
    (printed,) = infer_ddl([view]).removeprefix("STRUCT<").removesuffix(">").splitlines()
    assert _parse_datatype_string(printed) == _parse_datatype_string(infer_ddl([view]))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("null", "STRING"),
        ("1 null -9223372036854775808", "BIGINT"),
        ("1 9223372036854775808", "DECIMAL(19,0)"),
        ("-0", "BIGINT"),
        ("9" * 38, "DECIMAL(38,0)"),
        ("9" * 39, "STRING"),
        ("9" * 5000, "STRING"),
        ("1 1.5", "DOUBLE"),
        ("9007199254740992 0.5", "DOUBLE"),
        ("9007199254740993 0.5", "DECIMAL(17,1)"),
        ("12345678901234567.123456789 1", "DECIMAL(26,9)"),
        ("0.1 1e300", "DOUBLE"),
        ("0.5 1e400", "STRING"),
        ("1e-400", "STRING"),
        ("1e99999999999999999999", "STRING"),
        ("1.10 2.20", "DOUBLE"),
        ("3.141592653589793", "DOUBLE"),
        ("0.10000000000000000001", "DECIMAL(21,20)"),
        ("true false", "BOOLEAN"),
        ("true 1", "STRING"),
        ('1 "x"', "STRING"),
        ('[1] "x"', "STRING"),
        ("[] null", "ARRAY<STRING>"),
        ("[1] [2.5] [null]", "ARRAY<DOUBLE>"),
        ('{"x":1} [1]', "STRING"),
        ("{}", "STRUCT<>"),
    ],
)
def test_types_are_as_wide_as_the_values(values: str, expected: str) -> None:
    views = [b'{"v":%b}' % value.encode() for value in values.split(" ")]
    assert infer_ddl(views) == infer_ddl(views[::-1]) == f"STRUCT<`v`: {expected}>"
    parts = [Inference() for _ in views]
    for part, view in zip(parts, views, strict=True):
        part.add([view])
    for part in parts[1:]:
        parts[0].merge(pickle.loads(pickle.dumps(part)))
    assert parts[0].build_ddl() == infer_ddl(views)


NUMBERS = st.integers(-(2**80), 2**80).map(str) | st.decimals(allow_nan=False, allow_infinity=False).map(str)


VALUES = st.recursive(
    NUMBERS.filter(lambda text: text[:1] != "+") | st.sampled_from(["null", "true", "0.1", "1e5", '"t"', "-0", "1.0"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3).map(
            lambda found: "{" + ",".join(f'"{name}":{value}' for name, value in found.items()) + "}"
        )
    ),
    max_leaves=6,
)


def same(value: Any, found: Any) -> bool:
    """Whether a decoded value is the one of the message (as JSON with Decimals); what is absent may be None."""
    if isinstance(found, str) and not isinstance(value, str):
        return value is not None
    if isinstance(value, dict):
        return isinstance(found, dict) and all(same(value.get(name), inner) for name, inner in found.items())
    if isinstance(value, list):
        return isinstance(found, list) and len(found) == len(value) and all(map(same, value, found))
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return bool(found == value) and type(found) is type(value)
    return found is not None and Decimal(repr(found) if isinstance(found, float) else found) == value


def test_the_arrow_type_is_what_spark_makes_of_the_ddl(spark: SparkSession) -> None:
    @given(st.lists(VALUES, min_size=1, max_size=4))
    @settings(max_examples=examples(60), deadline=None)
    def law(values: list[str]) -> None:
        found = Inference()
        found.add(b'{"v":%b,"w\\\\`":%b}' % (value.encode(), value.encode()) for value in values)
        found.add([b"{}"])
        assert found.build_struct() == to_arrow_type(_parse_datatype_string(found.build_ddl()))

    law()


def test_what_was_inferred_holds_everything(spark: SparkSession) -> None:
    import json

    @given(st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), min_size=1, max_size=6))
    @settings(max_examples=examples(120), deadline=None)
    def law(messages: list[dict[str, str]]) -> None:
        texts = ["{" + ",".join(f'"{name}":{value}' for name, value in one.items()) + "}" for one in messages]
        payloads = [text.replace("E+", "e").encode() for text in texts]
        if not all(not get_type("json").check_payloads([payload]) for payload in payloads):
            return
        kind = to_arrow_type(_parse_datatype_string(infer_ddl(payloads)), timezone="UTC")
        found = StructDecoder(kind, strict=True).decode_payloads(payloads, get_type("json")).to_pylist()
        for payload, one in zip(payloads, found, strict=True):
            assert same(json.loads(payload, parse_float=Decimal, parse_int=Decimal), one), (payload, kind, one)

    law()


STRICT = pa.struct([("a", pa.int64()), ("o", pa.struct([("x", pa.string())])), ("l", pa.list_(pa.float64()))])
GOOD = b'{"a":1,"o":{"x":"s"},"l":[1,2.5,null]}'


@pytest.mark.parametrize(
    ("odd", "names", "what"),
    [
        (b'{"a":"text157"}', ["a"], "text157 is not of type BIGINT"),
        (b'{"a":1.5}', ["a"], "1.5 is not of type BIGINT"),
        (b'{"late":1}', ["late"], "no fields that were seen"),
        (b'{"o":{"x":"s","late":1}}', ["o", "late"], "no fields that were seen"),
        (b'{"o":5}', ["o"], "5 is not an object"),
        (b'{"l":[1,"x"]}', ["l"], "x is not of type DOUBLE"),
        (b'{"a":1e400}', ["a"], "1e400 is not of type BIGINT"),
        (b"[1]", [], "[1] is not an object"),
        (b"null", [], "null is not an object"),
        (b"{", [], "it cannot be read"),
    ],
)
def test_nothing_is_lost_under_an_inferred_type(odd: bytes, names: list[str], what: str) -> None:
    for before in (0, 1, 40):
        payloads = [*[GOOD.replace(b"1", b"%d" % n, 1) for n in range(before)], odd, GOOD]
        with pytest.raises(Misfit) as caught:
            StructDecoder(STRICT, strict=True).decode_payloads(payloads, get_type("json"))
        assert (caught.value.row, caught.value.names) == (before, names) and what in caught.value.what
    assert (
        decoded(STRICT, GOOD)
        == StructDecoder(STRICT, strict=True).decode_payloads([GOOD], get_type("json")).to_pylist()
    )
    null = StructDecoder(STRICT, strict=True).decode_payloads([None, b"{}"], get_type("json")).to_pylist()
    assert null == [None, {"a": None, "o": None, "l": None}]


def test_a_schema_without_end_is_refused() -> None:
    views = [b'{"o":{"%d":1}}' % number for number in range(MAX_FIELDS)]
    with pytest.raises(LimitError, match="more than 10,000 fields") as caught:
        infer_ddl(views)
    assert caught.value.code == "SOW-SPK-083"


def late(lab: Lab) -> list[dict[str, Any]]:
    """Records of which a few have another type, and a field more."""
    rng = random.Random(3)
    rows: list[dict[str, Any]] = [{"id": n, "x": n} for n in range(60)]
    for number in rng.sample(range(20, 60), 3):
        rows[number] |= {"x": f"text{number}", "late": 1}
    lab.publish("orders", *[message(**row) for row in rows])
    return [{"late": None} | row | {"x": str(row["x"])} for row in rows]


def test_a_source_looks_at_everything_or_says_what_did_not_fit(lab: Lab, spark: SparkSession) -> None:
    rows = late(lab)
    for make in (source, journal):
        for samples in (None, "all"):
            found = read(make(lab, topic="orders", payload="struct", columns="payload", samples=samples), spark)
            assert sorted((one["payload"] for one in found), key=lambda one: one["id"]) == rows
        with pytest.raises(InputError) as caught, translate_errors():
            read(make(lab, topic="orders", payload="struct", columns="payload", samples=2), spark)
        assert caught.value.code == "SOW-SPK-082" and "samples=all" in str(caught.value.hint)


def test_what_a_filter_leaves_out_need_not_fit(lab: Lab, spark: SparkSession) -> None:
    late(lab)
    made = journal(lab, topic="orders", payload="struct", columns="payload", samples=5, filter="/id < 5")
    assert [row["payload"]["x"] for row in read(made, spark)] == [0, 1, 2, 3, 4]


def test_spark_carries_the_mark_of_what_was_inferred(lab: Lab, spark: SparkSession) -> None:
    late(lab)
    options = {"config": str(lab.config), "topic": "orders", "payload": "struct", "now": format_time(lab.clock.at)}
    frame = spark.read.format("sow").options(**options).load()
    assert frame.where("payload.x LIKE 'text%'").count() == 3 and frame.where("payload.late = 1").count() == 3
    with pytest.raises(InputError, match=r"record \d+ of topic orders\b") as caught, translate_errors():
        spark.read.format("sow").options(**options, samples="1").load().collect()
    assert caught.value.code == "SOW-SPK-082"
    declared = spark.read.format("sow").options(**options).schema("payload STRUCT<id BIGINT, x BIGINT>").load()
    assert declared.where("payload.x IS NULL").count() == 3

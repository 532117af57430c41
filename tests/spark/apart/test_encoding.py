"""Rows as messages: what a value of every type is in messages of every kind."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import msgpack
import pyarrow as pa
from pyspark.sql import types as t

from sowctl.arrow.inputs.rowmessages import MessageMaker
from sowctl.arrow.message_encoder import find_root
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.errors import UsageError
from sowctl.messages.types import get_type
from sowctl.spark.jobs.messages import MessageBuilder
from sowctl.spark.schema import CHANGE_COLUMNS, JOURNAL_COLUMNS, STORE_COLUMNS
from sowctl.spark.writing.row_encoder import RowEncoder, decode_variant
from tests.support.instances import Lab, config_xml, topic_xml

UTC_TIME = pa.timestamp("us", tz="UTC")
VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={b"variant": b"true"})])


def message(row: dict[str, Any], types: dict[str, pa.DataType], kind: str = "json", root: str | None = None) -> bytes:
    """One message of one row."""
    fields = [pa.field(name, types[name]) for name in row]
    batch = pa.RecordBatch.from_pylist([row], pa.schema(fields))
    (made,) = MessageMaker(list(batch.schema), get_type(kind), root, decode_variant).encode_rows(
        batch.to_struct_array()
    )
    if isinstance(made, Exception):
        raise made
    assert made is not None
    return made


def one(value: Any, kind: pa.DataType, format: str = "json") -> bytes:
    """A message with one field."""
    return message({"v": value}, {"v": kind}, format)


def test_a_row_is_an_object_without_its_nulls() -> None:
    inner = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    types = {"text": pa.string(), "no": pa.int8(), "list": pa.list_(inner), "map": pa.map_(pa.string(), pa.int64())}
    row = {"text": "ü", "no": None, "list": [None, {"a": None, "b": 1}], "map": {"k": 1, "n": None}}
    assert message(row, types) == '{"text":"ü","list":[null,{"b":1}],"map":{"k":1}}'.encode()


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, pa.bool_(), "true"),
        (Decimal("12345678901234567.123456789"), pa.decimal128(38, 9), "12345678901234567.123456789"),
        (Decimal("7.00"), pa.decimal128(5, 2), "7.00"),
        (0.1, pa.float32(), "0.1"),
        (3.4e38, pa.float32(), "3.4e38"),
        (0.1, pa.float64(), "0.1"),
        (b"\x00\xff\x80", pa.binary(), '"AP+A"'),
        (b"ab", pa.binary(), '"YWI="'),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), UTC_TIME, '"2026-01-02T03:04:05.000000Z"'),
        (datetime(2026, 1, 2), pa.timestamp("us"), '"2026-01-02T00:00:00.000000Z"'),
        (date(2026, 1, 2), pa.date32(), '"2026-01-02"'),
        (time(3, 4, 5), pa.time64("us"), '"03:04:05"'),
        (timedelta(days=1), pa.duration("us"), "86400"),
        (timedelta(seconds=-1, microseconds=-500000), pa.duration("us"), "-1.5"),
        ([0.5, float("nan"), None], pa.list_(pa.float32()), '[0.5,"NaN",null]'),
        ([(True, 1), (False, 2)], pa.map_(pa.bool_(), pa.int8()), '{"true":1,"false":2}'),
        ([(Decimal("1.50"), b"a")], pa.map_(pa.decimal128(5, 2), pa.binary()), '{"1.50":"YQ=="}'),
    ],
)
def test_a_value_in_json(value: Any, kind: pa.DataType, expected: str) -> None:
    assert one(value, kind) == b'{"v":%b}' % expected.encode()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("format", ["json", "nvfix", "msgpack"])
def test_what_is_no_number_is_its_name_as_to_json_writes_it(value: str, format: str) -> None:
    named = message({"v": value}, {"v": pa.string()}, format)
    for kind in (pa.float32(), pa.float64()):
        assert message({"v": float(value)}, {"v": kind}, format) == named


@pytest.mark.parametrize(
    ("ddl", "facts", "hint"),
    [
        ("v INTERVAL DAY TO SECOND", ("field v ", " INTERVAL DAY TO SECOND"), "CAST(v AS STRING)"),
        ("v INTERVAL YEAR TO MONTH", ("field v ", " INTERVAL YEAR TO MONTH"), "CAST(v AS STRING)"),
        ("s STRUCT<l: ARRAY<GEOMETRY(4326)>>", ("field s.l ", " GEOMETRY"), "AS STRING"),
        ("payload STRUCT<a: MAP<STRUCT<x: INT>, INT>>", ("field a ", " MAP<STRUCT"), "strings or"),
        ("m MAP<ARRAY<INT>, INT>", ("field m ", " MAP<ARRAY"), "strings or numbers"),
    ],
)
def test_types_that_no_message_has_are_refused_before_a_task_runs(ddl: str, facts: tuple[str, str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        encoder_of(ddl)
    assert caught.value.code == "SOW-SPK-113" and hint in str(caught.value.hint)
    assert all(fact in caught.value.message for fact in facts)


def test_columns_that_are_passed_over_may_have_any_type() -> None:
    encoder_of("a INT, _txid INTERVAL DAY TO SECOND")


def test_no_column_is_lost_but_metadata() -> None:
    fields = struct_of(_id=t.LongType(), _class=t.StringType(), v=t.LongType(), _txid=t.LongType())
    encoder = RowEncoder(fields, get_type("json"), keep_stamps=False, by_key=False, own_keys=False)
    row = {"_id": 7, "_class": "C", "v": 1, "_txid": 5}
    assert encoder.encode_rows(pa.RecordBatch.from_pylist([row])).payloads == [b'{"_id":7,"_class":"C","v":1}']
    message = struct_of(id=t.LongType())
    for name, kind in {"other": t.StringType(), "_class": t.StringType(), "age": t.DayTimeIntervalType()}.items():
        for payload in (message, t.StringType(), t.BinaryType()):
            with pytest.raises(UsageError, match=f"column {name} ") as caught:
                RowEncoder(
                    struct_of(payload=payload, **{name: kind}),
                    get_type("json"),
                    keep_stamps=False,
                    by_key=False,
                    own_keys=False,
                )
            assert caught.value.code == "SOW-SPK-030"


def test_rows_that_were_read_can_be_written() -> None:
    for columns in (STORE_COLUMNS, JOURNAL_COLUMNS, CHANGE_COLUMNS):
        found = struct_of(**dict.fromkeys([*columns, "_corrupt_record", "_table_0123abcd"], t.BinaryType()))
        RowEncoder(found, get_type("json"), keep_stamps=False, by_key=False, own_keys=False)


def encoder_of(ddl: str) -> RowEncoder:
    """What writes rows with such columns; DDL is read by hand, because Spark's parser needs a virtual machine."""
    return RowEncoder(SCHEMAS[ddl], get_type("json"), keep_stamps=False, by_key=False, own_keys=False)


def struct_of(**fields: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


SCHEMAS = {
    "v INTERVAL DAY TO SECOND": struct_of(v=t.DayTimeIntervalType()),
    "v INTERVAL YEAR TO MONTH": struct_of(v=t.YearMonthIntervalType()),
    "s STRUCT<l: ARRAY<GEOMETRY(4326)>>": struct_of(s=struct_of(l=t.ArrayType(t.GeometryType(4326)))),
    "payload STRUCT<a: MAP<STRUCT<x: INT>, INT>>": struct_of(
        payload=struct_of(a=t.MapType(struct_of(x=t.IntegerType()), t.IntegerType()))
    ),
    "m MAP<ARRAY<INT>, INT>": struct_of(m=t.MapType(t.ArrayType(t.IntegerType()), t.IntegerType())),
    "a INT, _txid INTERVAL DAY TO SECOND": struct_of(a=t.IntegerType(), _txid=t.DayTimeIntervalType()),
}


def test_a_variant_is_the_json_that_it_holds() -> None:
    text = '{"a":1.50,"b":[1,"x",true,null,{"c":null}],"d":12345678901234567890.5}'
    held = vars(t.VariantVal.parseJson(text))
    value = {"value": held["value"], "metadata": held["metadata"]}
    assert one(value, VARIANT) == b'{"v":%b}' % text.encode()
    assert msgpack.unpackb(one(value, VARIANT, "msgpack"))["v"]["b"] == [1, "x", True, None, {"c": None}]


@pytest.mark.parametrize("format", ["json", "msgpack", "bson"])
def test_bytes_lists_and_decimals_come_back(format: str) -> None:
    types = {
        "y": pa.binary(),
        "l": pa.list_(pa.struct([("x", pa.binary()), ("n", pa.int64())])),
        "d": pa.decimal128(38, 9),
        "e": pa.decimal128(10, 2),
        "m": pa.map_(pa.string(), pa.binary()),
    }
    row = {
        "y": b"\x00\xff plain",
        "l": [{"x": b"text", "n": 1}, {"x": b"\x80", "n": 2}],
        "d": Decimal("12345678901234567.123456789"),
        "e": Decimal("1.50"),
        "m": [("k", b"\xfe")],
    }
    payload = message(row, types, format)
    struct = pa.struct(list(types.items()))
    assert StructDecoder(struct).decode_payloads([payload], get_type(format)).to_pylist() == [row]


def test_flat_messages_have_base64_and_all_digits_and_repeated_fields() -> None:
    types = {"38": pa.decimal128(38, 9), "44": pa.decimal128(5, 2), "96": pa.binary(), "9": pa.int8()}
    row = {"38": Decimal("12345678901234567.123456789"), "44": Decimal("1.50"), "96": b"\x01=", "9": None}
    assert message(row, types, "nvfix") == b"38=12345678901234567.123456789\x0144=1.50\x0196=AT0=\x01"
    assert one([1, None, 2], pa.list_(pa.int8()), "nvfix") == b"v=1\x01v=\x01v=2\x01"
    assert one([], pa.list_(pa.int8()), "nvfix") == b""
    with pytest.raises(UsageError, match=r"\bv\b.*\bnvfix\b") as caught:
        one([[1], [2]], pa.list_(pa.list_(pa.int8())), "nvfix")
    assert caught.value.code == "SOW-SPK-030"


def test_an_array_column_of_a_data_frame_becomes_repeated_fields() -> None:
    rows = [{"a": "x", "v": ["1", "2"]}, {"a": "y", "v": []}, {"a": "z", "v": None}]
    expected = [b"a=x\x01v=1\x01v=2\x01", b"a=y\x01", b"a=z\x01"]
    fields = struct_of(a=t.StringType(), v=t.ArrayType(t.StringType()))
    encoder = RowEncoder(fields, get_type("nvfix"), keep_stamps=False, by_key=False, own_keys=False)
    assert encoder.encode_rows(pa.RecordBatch.from_pylist(rows)).payloads == expected
    # As ``select("payload")`` of what the data source read has it.
    whole = RowEncoder(struct_of(payload=fields), get_type("nvfix"), keep_stamps=False, by_key=False, own_keys=False)
    assert whole.encode_rows(pa.RecordBatch.from_pylist([{"payload": row} for row in rows])).payloads == expected


ORDER = {"order": pa.struct([("id", pa.int64()), ("@a", pa.string()), ("d", pa.decimal128(5, 2))])}


def test_columns_become_the_element_that_keys_name() -> None:
    row = {"order": {"id": 1, "@a": "x", "d": Decimal("1.50")}}
    expected = b'<order a="x"><id>1</id><d>1.50</d></order>'
    assert message(row, ORDER, "xml") == message(row, ORDER, "xml", "order") == expected
    inside = {field.name: field.type for field in ORDER["order"]}
    assert message(row["order"], inside, "xml", "order") == expected
    assert message({"id": 1}, {"id": pa.int64()}, "xml", "order") == b"<order><id>1</id></order>"


@pytest.mark.parametrize(("names", "root"), [(["a", "b"], None), (["order", "b"], "order")])
def test_columns_without_one_root_are_refused_before_any_task(names: list[str], root: str | None) -> None:
    flat = t.StructType([t.StructField(name, t.LongType()) for name in names])
    for schema in (flat, t.StructType([t.StructField("payload", flat)])):
        with pytest.raises(UsageError, match="one root element") as caught:
            RowEncoder(schema, get_type("xml"), keep_stamps=False, by_key=False, own_keys=False, root=root)
        assert caught.value.code == "SOW-SPK-081"
        assert f"select(struct(...).alias({root or 'ROOT'!r}))" in str(caught.value.hint)
    text = t.StructType([t.StructField("payload", t.StringType())])
    RowEncoder(text, get_type("xml"), keep_stamps=False, by_key=False, own_keys=False, root=root)


def test_a_load_makes_the_same_messages(tmp_path: Path) -> None:
    from sowctl.engine.bulk.staging import StagingArea
    from sowctl.engine.options import PublishOptions

    lab = Lab(tmp_path, config_xml(topic_xml("orders"), ("orders",)))
    instance = lab.open()
    topic = instance.config.topics[0]
    assert find_root(topic) == "id"
    plan = StagingArea(tmp_path, topic, instance).build_plan(PublishOptions())
    types = pa.schema([("id", pa.int64()), ("y", pa.binary()), ("d", pa.decimal128(20, 2)), ("f", pa.float32())])
    row = {"id": 1, "y": b"\xff", "d": Decimal("123456789012345678.25"), "f": 0.1}
    batch = pa.RecordBatch.from_pylist([row, row | {"f": float("nan")}], types)
    payloads, _, refused = MessageBuilder(plan).build_messages(batch)
    assert refused == []
    assert payloads == [
        b'{"id":1,"y":"/w==","d":123456789012345678.25,"f":0.1}',
        b'{"id":1,"y":"/w==","d":123456789012345678.25,"f":"NaN"}',
    ]

"""Spark's modes for messages that do not fit their fields, asked of the readers without Spark."""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow as pa
from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructType, TimestampType

from sowctl.arrow.jsoncolumns import format_type
from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.arrow.type_checker import TypeChecker
from sowctl.errors import InputError, SowError
from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.messages.types import get_type
from sowctl.spark.errors import CarriedError, decode_error
from sowctl.spark.reading.malformed_messages import MalformedRule, MessageJudge
from sowctl.spark.schema import INFERRED_COMMENT, MERGED_COMMENT
from tests.arrow.test_template_decoder import like, mutated, plain_object
from tests.spark.reading import journal, rows_of, source
from tests.support.instances import Lab, config_xml, message, topic_xml

XML = config_xml(topic_xml("a"), ("a",))
FIELDS = StructType().add("id", LongType()).add("n", LongType()).add("at", TimestampType())
GOOD, BAD = message(id=1, n=1, at="2026-01-01T00:00:00Z"), message(id=2, n="many", at="2026-01-01T00:00:00Z")
MORE = message(id=3, n=3, new=True)
PLAIN = StructType().add("payload", FIELDS).add("_txid", LongType())
BYTES = StructType().add("payload", BinaryType())
BESIDE = StructType().add("payload", FIELDS).add("_txid", LongType()).add("_corrupt_record", StringType())


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of any size are tried by their shapes."""
    monkeypatch.setattr(JSON_LIMITS, "min_array_messages", 1)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path, XML)
    made.publish("a", GOOD, BAD, MORE)
    made.open().topic("a").delete(filter="/id = 1")
    return made


def read(lab: Lab, schema: StructType, kind: Any = journal, **options: object) -> list[dict[str, Any]]:
    reader = kind(lab, topic="a", **options).reader(schema)
    return rows_of(reader, list(reader.partitions()))


def error_of(lab: Lab, schema: StructType, **options: object) -> SowError:
    with pytest.raises(CarriedError) as caught:
        read(lab, schema, **options)
    found = decode_error(str(caught.value))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (
            "bigint",
            [b'{"x":1}', b'{"x":1.0}', b'{"x":1e3}'],
            [b'{"x":1.5}', b'{"x":"1"}', b'{"x":9223372036854775808}'],
        ),
        ("double", [b'{"x":1}', b'{"x":1e-9}'], [b'{"x":1e400}', b'{"x":true}']),
        ("bool", [b'{"x":true}'], [b'{"x":1}', b'{"x":"true"}']),
        ("string", [b'{"x":"a"}', b'{"x":1}', b'{"x":{"y":[]}}'], []),
        ("date", [b'{"x":"2026-01-01"}'], [b'{"x":"soon"}', b'{"x":5}']),
        ("timestamp", [b'{"x":"2026-01-01T00:00:00Z"}'], [b'{"x":"2026-13-01"}']),
        ("decimal", [b'{"x":12.345}', b'{"x":"1.5"}'], [b'{"x":123456}', b'{"x":"much"}']),
        ("binary", [b'{"x":"AAEC"}'], [b'{"x":"?"}']),
        ("list", [b'{"x":[1,null]}', b'{"x":[]}'], [b'{"x":[1,"2"]}', b'{"x":{}}']),
        ("map", [b'{"x":{"a":1}}'], [b'{"x":{"a":"b"}}', b'{"x":[]}']),
        ("struct", [b'{"x":{"y":1,"z":2}}', b'{"x":{}}'], [b'{"x":{"y":"1"}}', b'{"x":7}']),
    ],
)
def test_what_fits_a_type(kind: str, good: list[bytes], bad: list[bytes]) -> None:
    made = {
        "bigint": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "string": pa.string(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "decimal": pa.decimal128(6, 1),
        "binary": pa.binary(),
        "list": pa.list_(pa.int64()),
        "map": pa.map_(pa.string(), pa.int64()),
        "struct": pa.struct([("y", pa.int64())]),
    }[kind]
    struct = pa.struct([("x", made)])
    fitting = TypeChecker(struct)
    always: list[bytes | None] = [b"{}", b'{"x":null}', b'{"other":[1]}', None]
    assert fitting.find_misfits([*always, *good]) == {}
    wrong: list[bytes | None] = [*bad, b"", b"no json", b"[1]", b"null", b'{"x":1', b'"\xff"']
    for messages in ([*good, *wrong], [*always, *wrong]):
        assert set(fitting.find_misfits(messages)) == set(range(len(messages) - len(wrong), len(messages)))
    # a misfit is what decoding makes a NULL of, and nothing else
    decoded = StructDecoder(struct).decode_payloads([*good, *bad], get_type("json")).to_pylist()
    assert all(row["x"] is not None for row in decoded[: len(good)])
    assert kind in ("list", "map", "struct") or all(row["x"] is None for row in decoded[len(good) :])


FIELDS_OF_MANY_TYPES = pa.struct(
    [
        *[("a", pa.int64()), ("d", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("y", pa.int8())],
        *[("o", pa.struct([("x", pa.int32()), ("y", pa.string())])), ("t", pa.timestamp("us", tz="UTC"))],
    ]
)


def test_messages_judged_by_their_shapes_are_judged_as_one_by_one(deep: bool) -> None:
    rng = random.Random(7)
    at_once = 0
    corrupt = pa.struct([*FIELDS_OF_MANY_TYPES, ("_corrupt_record", pa.string())])
    for _ in range(3000 if deep else 60):
        mode = rng.choice(["permissive", "dropmalformed", "failfast"])
        struct = corrupt if mode == "permissive" and rng.random() < 0.5 else FIELDS_OF_MANY_TYPES
        fields = rng.sample(list(struct), rng.randrange(1, len(struct) + 1))
        schema = pa.schema([("payload", pa.struct(fields)), ("_corrupt_record", pa.string())])
        quick, slow = MessageJudge(MalformedRule(mode), schema), MessageJudge(MalformedRule(mode), schema)
        slow._sound = None
        for _ in range(3):
            base = plain_object(rng, 2)
            messages: list[bytes | None] = [like(rng, base) for _ in range(rng.randrange(1, 9))]
            if rng.random() < 0.3:
                messages[rng.randrange(len(messages))] = mutated(rng, base, base)
            if rng.random() < 0.3:
                messages[rng.randrange(len(messages))] = None
            found = [judged(one, messages) for one in (quick, slow)]
            assert repr(found[0]) == repr(found[1]), messages
        assert (quick.dropped, quick._first) == (slow.dropped, slow._first)
        assert quick._sound is not None
        at_once += sum(one.shape.hits for one in quick._sound._shapes._known)
    assert at_once > (5000 if deep else 100)


def judged(judging: MessageJudge, messages: list[bytes | None]) -> Any:
    """What a rule makes of messages: their column, the texts of misfits, which rows stay; or the error."""
    try:
        found = judging.judge_messages(messages, get_type("json"), str)
    except InputError as error:
        return error.message
    texts = None if found.corrupt is None else found.corrupt.to_pylist()
    return found.payload.to_pylist(), texts, None if found.kept is None else found.kept.tolist()


def test_without_a_mode_a_message_is_read_as_far_as_it_fits(lab: Lab) -> None:
    payloads = [row["payload"] for row in read(lab, PLAIN)]
    assert [None if one is None else (one["id"], one["n"]) for one in payloads] == [(1, 1), (2, None), (3, 3), None]


@pytest.mark.parametrize("kind", [journal, source])
@pytest.mark.parametrize("mode", [None, "PERMISSIVE"])
def test_permissive_keeps_the_text_of_what_does_not_fit(lab: Lab, kind: Any, mode: str | None) -> None:
    rows = read(lab, BESIDE, kind, mode=mode)
    assert {row["_txid"]: row["_corrupt_record"] for row in rows if row["_corrupt_record"]} == {2: BAD}
    assert [row["payload"]["n"] for row in rows if row["_txid"] in (2, 3)] in ([None, 3], [3, None])
    # beside the fields, as from_json has it, under another name
    inside = StructType().add(
        "payload", StructType().add("id", LongType()).add("n", LongType()).add("bad", StringType())
    )
    found = [row["payload"] for row in read(lab, inside, kind, mode=mode, columnNameOfCorruptRecord="bad")]
    assert sorted((one for one in found if one), key=lambda one: one["id"])[-2:] == [
        {"id": 2, "n": None, "bad": BAD},
        {"id": 3, "n": 3, "bad": None},
    ]


def test_a_deletion_is_not_corrupt_and_what_cannot_be_read_is_a_row_of_nulls(lab: Lab) -> None:
    assert [row["_corrupt_record"] for row in read(lab, BESIDE) if row["payload"] is None] == [None]
    schema = StructType().add("payload", StructType().add("z", LongType()).add("_corrupt_record", StringType()))
    made = Lab(lab.directory / "own", config_xml(topic_xml("a", key=None), ("a",)))
    made.publish("a", "no json at all", sow_key="k")
    assert [row["payload"] for row in read(made, schema)] == [{"z": None, "_corrupt_record": "no json at all"}]


@pytest.mark.parametrize("kind", [journal, source])
def test_dropmalformed_leaves_out_counts_and_keeps_what_was_left_out(
    lab: Lab, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "sowctl"):
        assert sorted(row["_txid"] for row in read(lab, PLAIN, kind, mode="dropMalformed")) in ([1, 3, 4], [3])
    # The text as it was logged: a session of Spark in this process formats what is captured.
    (said,) = caplog.messages
    assert "dropped 1 malformed message " in said and 'field n: "many" is not of type BIGINT' in said
    aside = lab.directory / "bad"
    read(lab, PLAIN, kind, badRecordsPath=aside)
    (line,) = [json.loads(line) for file in aside.iterdir() for line in file.read_bytes().splitlines()]
    assert line["record"] == BAD and line["reason"] == 'field n: "many" is not of type BIGINT'
    assert line["place"] == "entry 2" if kind is journal else line["place"].endswith("of topic a")
    # what is not asked for is not judged
    assert len(read(lab, PLAIN, mode="DROPMALFORMED", fromTxid=3)) == 2


def test_failfast_names_the_first_message_that_does_not_fit(lab: Lab) -> None:
    error = error_of(lab, PLAIN, mode="FAILFAST")
    assert isinstance(error, InputError) and error.code == "SOW-SPK-133"
    assert error.message.startswith("entry 2: ") and "PERMISSIVE" in str(error.hint)
    assert [row["_txid"] for row in read(lab, PLAIN, mode="FAILFAST", fromTxid=3)] == [3, 4]


def test_of_an_inferred_type_failfast_is_the_default_and_the_others_pass_over_new_fields(lab: Lab) -> None:
    fields = StructType().add("id", LongType()).add("n", LongType()).add("at", StringType())
    schema = StructType().add("payload", fields, metadata={"comment": INFERRED_COMMENT}).add("_txid", LongType())
    for mode in (None, "FAILFAST"):
        assert error_of(lab, schema, mode=mode).code == "SOW-SPK-082"
    assert [row["_txid"] for row in read(lab, schema, mode="DROPMALFORMED")] == [1, 3, 4]
    assert len(read(lab, schema, mode="PERMISSIVE")) == 4


def test_a_mode_of_a_feed_of_changes(lab: Lab) -> None:
    schema = StructType().add("payload", FIELDS).add("_change_type", StringType()).add("_corrupt_record", StringType())
    found = read(lab, schema, changes="true")
    assert [(row["_change_type"], row["_corrupt_record"]) for row in found] == [
        ("insert", None),
        ("insert", BAD),
        ("insert", None),
        ("delete", None),
    ]
    assert len(read(lab, PLAIN, changes="true", mode="DROPMALFORMED")) == 3


def test_the_column_is_there_where_it_is_asked_for(lab: Lab) -> None:
    given = {"topic": "a", "payloadSchema": "id BIGINT"}
    assert "_corrupt" not in str(journal(lab, **given).schema())
    assert "`_corrupt_record` STRING" in str(journal(lab, **given, mode="PERMISSIVE").schema())
    assert "`bad` STRING" in str(source(lab, **given, columnNameOfCorruptRecord="bad").schema())
    assert "`_corrupt_record`" in str(journal(lab, **given, columns="payload,_corrupt_record").schema())


@pytest.mark.parametrize("kind", [journal, source])
def test_a_declared_schema_takes_in_what_messages_have_besides(lab: Lab, kind: Any) -> None:
    given = {"topic": "a", "payloadSchema": "n INT", "columns": "payload"}
    assert kind(lab, **given).schema() == "`payload` STRUCT<n INT>"
    merged = str(kind(lab, **given, mergeSchema="true", samples="all").schema())
    assert merged.startswith("`payload` STRUCT<`n`: INT, `id`: BIGINT") and "`new`: BOOLEAN" in merged
    assert f"COMMENT '{MERGED_COMMENT}'" in merged and INFERRED_COMMENT not in merged
    with pytest.raises(CarriedError, match="SOW-SPK-136"):
        kind(lab, topic="a", payloadSchema="n", mergeSchema="true").schema()
    # what that schema says reaches the reader, and a value that does not fit is NULL as under any declared one
    payload = StructType().add("n", LongType()).add("new", BooleanType())
    schema = StructType().add("payload", payload, metadata={"comment": MERGED_COMMENT})
    found = read(lab, schema, kind, payloadSchema="n BIGINT", mergeSchema="true")
    assert {"n": None, "new": None} in [row["payload"] for row in found]
    assert {"n": 3, "new": True} in [row["payload"] for row in found]


@pytest.mark.parametrize("kind", [journal, source])
def test_nothing_is_merged_into_a_schema_that_was_declared_as_a_whole(lab: Lab, kind: Any) -> None:
    for schema, given in ((PLAIN, {"payloadSchema": "n INT"}), (PLAIN, {"payload": "struct"}), (BYTES, {})):
        with pytest.raises(CarriedError, match=r"SOW-SPK-165.*\.schema\(\.\.\.\)"):
            kind(lab, topic="a", mergeSchema="true", **given).reader(schema)
    with pytest.raises(CarriedError, match=r"SOW-SPK-165.*as bytes"):
        kind(lab, topic="a", mergeSchema="true").schema()
    # without a column of messages there is nothing to merge
    assert len(read(lab, StructType().add("_txid", LongType()), kind, payload="struct", mergeSchema="true")) > 1


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ('{"id":4,"ID":4}', ["/id", "/ID"]),
        ('{"id":4,"who":{"desk":1,"Desk":2}}', ["/who/desk", "/who/Desk"]),
        ('{"id":4,"legs":[{"Ab":1},{"aB":1}]}', ["/legs/Ab", "/legs/aB"]),
    ],
)
def test_names_that_differ_in_nothing_but_case_are_refused(lab: Lab, more: str, names: list[str]) -> None:
    lab.publish("a", more)
    for given in ({"payload": "struct"}, {"payloadSchema": "id BIGINT", "mergeSchema": "true"}):
        with pytest.raises(CarriedError, match=f"SOW-SPK-164.*: {' and '.join(names)}\n"):
            journal(lab, topic="a", **given).schema()
    # what is declared is left to Spark, which may mind the case
    declared = "id BIGINT, ID BIGINT, who STRUCT<desk INT, Desk INT>, legs STRING"
    assert journal(lab, topic="a", payloadSchema=declared, mergeSchema="true").schema()


def test_a_declared_name_takes_in_no_member_of_another_case(lab: Lab) -> None:
    lab.publish("a", '{"id":4,"N":7}')
    with pytest.raises(CarriedError, match=r"SOW-SPK-164.*/n and /N"):
        journal(lab, topic="a", payloadSchema="n BIGINT", mergeSchema="true").schema()
    both = StructType().add("payload", StructType().add("n", LongType()).add("N", LongType()))
    assert read(lab, both, fromTxid=5)[0]["payload"] == {"n": None, "N": 7}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"mode": "STRICT"}, "SOW-SPK-011"),
        ({"mode": "FAILFAST", "columnNameOfCorruptRecord": "x"}, "SOW-SPK-134"),
        ({"mode": "PERMISSIVE", "badRecordsPath": "/x"}, "SOW-SPK-134"),
        ({"columnNameOfCorruptRecord": "_txid"}, "SOW-SPK-134"),
    ],
)
def test_options_that_exclude_each_other(lab: Lab, options: dict[str, str], code: str) -> None:
    assert error_of(lab, PLAIN, **options).code == code


def test_a_mode_needs_fields(lab: Lab) -> None:
    assert error_of(lab, StructType().add("_txid", LongType()), mode="FAILFAST").code == "SOW-SPK-134"
    wrong = StructType().add("payload", StructType().add("_corrupt_record", LongType()))
    assert error_of(lab, wrong).code == "SOW-SPK-015"


def test_reasons_name_types_as_they_are_declared() -> None:
    kind = pa.struct(
        [
            ("i", pa.int32()),
            ("t", pa.timestamp("us", "UTC")),
            ("n", pa.timestamp("us")),
            ("d", pa.decimal128(9, 2)),
            ("l", pa.list_(pa.float64())),
            ("m", pa.map_(pa.string(), pa.date32())),
        ]
    )
    assert format_type(kind) == (
        "STRUCT<i: INT, t: TIMESTAMP, n: TIMESTAMP_NTZ, d: DECIMAL(9,2), l: ARRAY<DOUBLE>, m: MAP<STRING, DATE>>"
    )

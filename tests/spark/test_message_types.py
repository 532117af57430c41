"""Every message type of the engine goes both ways: rows to messages, messages to structs."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from sowctl.cli.main import main
from sowctl.errors import UsageError
from sowctl.messages.types import MESSAGE_TYPES, get_type
from sowctl.spark.writing.row_encoder import RowEncoder
from tests.spark.reading import journal, read, source
from tests.spark.test_writers import request
from tests.support.instances import Lab, verified

BSON = b"\x0d\x00\x00\x00\x1055\x00\x07\x00\x00\x00\x00"
FLAT = "`55` BIGINT, `58` STRING"
TREE = "m STRUCT<`_55`: BIGINT, `_58`: STRING>"


def layout(name: str) -> tuple[str, str, str]:
    """Fields as DDL, the key's path, and the columns of the rows, for one type."""
    if name == "xml":
        return TREE, "/m/_55", "m"
    return FLAT, "/55", "flat"


def xml(name: str) -> str:
    """A configuration with one topic of a type."""
    _, key, _ = layout(name)
    keys = f"<Key>{key}</Key>" if get_type(name).filterable else ""
    return (
        f"<AMPSConfig><Name>test</Name><SOW><Topic><Name>orders</Name><MessageType>{name}</MessageType>{keys}"
        f"<FileName>sow/%n.%m.sow</FileName></Topic></SOW><TransactionLog><JournalDirectory>journal</JournalDirectory>"
        f"<Topic><Name>orders</Name><MessageType>{name}</MessageType></Topic></TransactionLog></AMPSConfig>"
    )


def parsed(text: str, spark: SparkSession) -> StructType:
    found = _parse_datatype_string(text)
    assert isinstance(found, StructType)
    return found


@pytest.mark.parametrize("name", [name for name in MESSAGE_TYPES if get_type(name).filterable])
def test_rows_become_messages_and_messages_structs(tmp_path: Path, spark: SparkSession, name: str) -> None:
    lab = Lab(tmp_path, xml(name))
    ddl, _, shape = layout(name)
    rows = [{"55": n, "58": f"text {n} ü"} for n in range(20)]
    if shape == "m":
        rows = [{"m": {f"_{tag}": value for tag, value in row.items()}} for row in rows]  # type: ignore[misc]
    batch = pyarrow.RecordBatch.from_pylist(rows)
    with verified(lab):
        one = request(lab)
        one.commit([one.stage_rows([batch], parsed(ddl, spark))])
        kind = get_type(name)
        stored = lab.records("orders")
        assert len(stored) == 20
        for kwargs in (
            {"one": source(lab, topic="orders", payloadSchema=ddl, numPartitions=2)},
            {"one": journal(lab, payloadSchema=ddl)},
        ):
            found = [row["payload"] for row in read(kwargs["one"], spark)]
            assert sorted(found, key=repr) == sorted(rows, key=repr)
        views = {json.dumps(json.loads(kind.view(record.payload)), sort_keys=True) for record in stored}
        assert len(views) == 20
        inferred = str(source(lab, topic="orders", payload="struct").schema())
        assert "STRING" in inferred and "BIGINT" in inferred
        filtered = read(source(lab, topic="orders", filter=f"{layout(name)[1]} < 5"), spark)
        assert len(filtered) == 5


def test_bytes_of_a_type_without_fields_go_through(tmp_path: Path, spark: SparkSession) -> None:
    lab = Lab(tmp_path, xml("binary"))
    batch = pyarrow.RecordBatch.from_pylist([{"payload": bytes([n, 0, 255]), "_user_key": f"k{n}"} for n in range(5)])
    one = request(lab)
    one.commit([one.stage_rows([batch], parsed("payload BINARY, _user_key STRING", spark))])
    found = read(source(lab, topic="orders", columns="payload,_user_key"), spark)
    assert sorted((row["_user_key"], row["payload"]) for row in found) == [
        (f"k{n}", bytes([n, 0, 255])) for n in range(5)
    ]
    with pytest.raises(UsageError, match=r"\bbinary\b") as caught:
        RowEncoder(parsed("a INT", spark), get_type("binary"), keep_stamps=False, by_key=False, own_keys=True)
    assert caught.value.code == "SOW-SPK-030"
    assert read(source(lab, topic="orders", payloadSchema="a INT", columns="payload"), spark) == [{"payload": None}] * 5


def test_one_block_may_hold_messages_of_several_types(tmp_path: Path, spark: SparkSession) -> None:
    other = xml("bson").replace(">orders<", ">others<")
    topic = other.split("<SOW>")[1].split("</SOW>")[0]
    logged = "<Topic><Name>others</Name><MessageType>bson</MessageType></Topic></TransactionLog>"
    lab = Lab(tmp_path, xml("json").replace("</SOW>", topic + "</SOW>").replace("</TransactionLog>", logged))
    lines = [json.dumps({"topic": "orders", "data": {"55": n}}) for n in range(3)]
    lines.insert(1, json.dumps({"topic": "others", "data_base64": b64encode(BSON).decode()}))
    argv = ["publish", "--framing", "envelope", "--config", str(lab.config)]
    streams = {"stdin": io.BytesIO("\n".join(lines).encode()), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
    status = main(argv, environ={}, **streams)
    assert status == 0, streams["stderr"].getvalue()
    found = read(journal(lab, payloadSchema="`55` BIGINT", now=None), spark)
    assert sorted((row["_message_type"], row["payload"]["55"]) for row in found) == [
        ("bson", 7),
        ("json", 0),
        ("json", 1),
        ("json", 2),
    ]


def test_fields_that_are_repeated_in_some_messages_are_arrays_in_all(tmp_path: Path, spark: SparkSession) -> None:
    lab = Lab(tmp_path, xml("nvfix"))
    lines = b"55=0\x01\n55=1\x01l=7\x01\n55=2\x01l=7\x01l=8\x01\n"
    streams = {"stdin": io.BytesIO(lines), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
    assert main(["publish", "orders", "--config", str(lab.config)], environ={}, **streams) == 0
    wanted = [{"55": 0, "l": None}, {"55": 1, "l": [7]}, {"55": 2, "l": [7, 8]}]
    for options in ({"payloadSchema": "`55` BIGINT, l ARRAY<INT>"}, {"payload": "struct"}):
        for one in (source(lab, topic="orders", now=None, **options), journal(lab, now=None, **options)):
            found = [row["payload"] for row in read(one, spark)]
            assert sorted(found, key=lambda row: row["55"]) == wanted
    # A value that is an array of one fits; another kind of value does not.
    declared = {"payloadSchema": "`55` BIGINT, l ARRAY<INT>, `_corrupt_record` STRING", "mode": "PERMISSIVE"}
    found = read(source(lab, topic="orders", now=None, columns="payload", **declared), spark)
    assert [row["payload"]["_corrupt_record"] for row in found] == [None] * 3

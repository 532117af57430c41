"""How the options of a table travel with its schema: what needs no Spark running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import re

from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from sowctl.errors import UsageError
from sowctl.spark.catalog import (
    format_mark_column,
    is_new_table,
    merge_table_options,
    read_schema_options,
    select_table_options,
)
from sowctl.spark.errors import CarriedError, decode_error, find_alternative
from sowctl.spark.sources import STREAM_OPTIONS, JournalSource, SowSource
from tests.support.instances import Lab, config_xml, message, topic_xml

GIVEN = {"config": "/a b/s'ow&.xml", "topic": "größe=1", "filter": "/x = '\\\\' AND /y < 5", "empty": ""}


def schema_of(source: str, options: dict[str, str], comment: str | None = None) -> StructType:
    """The schema of a table, as Spark would hand it back."""
    found = re.fullmatch(r"`(\w+)` STRING COMMENT '(.*)'", format_mark_column(source, options))
    assert found is not None
    metadata = {"comment": found[2] if comment is None else comment}
    return (
        StructType().add("payload", BinaryType()).add("_txid", LongType()).add(found[1], StringType(), True, metadata)
    )


def test_options_come_back_from_the_schema_as_they_were() -> None:
    assert read_schema_options("sow", schema_of("sow", GIVEN)) == GIVEN
    assert read_schema_options("sow", StructType().add("payload", BinaryType())) == {}
    # nothing that ends a literal of SQL, whatever its rules for escapes
    assert not re.search(r"['\"\\`]", format_mark_column("sow", GIVEN)[len("`_table_01234567` STRING COMMENT '") : -1])


def test_a_comment_of_another_table_is_refused() -> None:
    other = schema_of("sow", GIVEN | {"topic": "orders"}).fields[-1].metadata["comment"]
    for schema in (schema_of("sow", GIVEN, other), schema_of("sow", GIVEN, "mine"), schema_of("sow-journal", GIVEN)):
        with pytest.raises(UsageError) as caught:
            read_schema_options("sow", schema)
        assert caught.value.code == "SOW-SPK-111"


def test_a_question_to_a_table_has_no_options_of_its_own() -> None:
    of_table = {"config": "/c.xml", "topic": "orders", "filter": "/x = 1", "onerror": "skip"}
    schema = schema_of("sow", of_table)
    assert merge_table_options("sow", {}, schema) == (of_table, True)
    assert merge_table_options("sow", {"queryname": "q"}, schema) == (of_table | {"queryname": "q"}, True)
    with pytest.raises(UsageError, match="at, filter") as caught:
        merge_table_options("sow", {"filter": "/y = 2", "at": "5"}, schema)
    assert caught.value.code == "SOW-SPK-112"
    # Rows that came from a table are written where the write says.
    for where in ({"topic": "copy"}, {"path": "/x.sow"}, {"paths": "[]"}, {"Config": "/d.xml"}):
        assert merge_table_options("sow", where, schema) == (where, False)


def test_what_spark_adds_to_the_options_of_a_new_table_is_left_out() -> None:
    spark = {"provider": "sow", "owner": "me", "comment": "c", "mine": "a property", "location": "file:/s/x.sow"}
    given = spark | {"option.config": "c.xml", "config": "c.xml", "option.topic": "t", "path": "file:/s/x.sow"}
    assert is_new_table(given) and not is_new_table({"config": "c.xml"})
    expected = {"config": str(Path("c.xml").absolute()), "topic": "t", "path": "file:/s/x.sow"}
    assert select_table_options(given) == expected


def lab_of(directory: Path) -> Lab:
    """An instance with two topics and a record each."""
    lab = Lab(directory, config_xml(topic_xml("orders") + topic_xml("copy"), ("orders", "copy")))
    for topic in ("orders", "copy"):
        lab.publish(topic, message(id=1, topic=topic))
    return lab


def new(source: str, **options: str) -> dict[str, str]:
    """The options of CREATE TABLE as Spark hands them over."""
    return {"provider": source, "owner": "me"} | options | {f"option.{name}": text for name, text in options.items()}


def test_a_new_table_has_its_columns_and_one_more(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    where = {"config": str(lab.config), "topic": "orders"}
    # Options of writing belong to a table, too.
    made = SowSource(new("sow", **where, onerror="skip", columns="payload,_txid")).schema()
    assert made.startswith("`payload` BINARY, `_txid` BIGINT, `_table_")
    assert f"table of sow: config={lab.config}&topic=orders&onerror=skip&columns=payload,_txid'" in made
    struct = SowSource(new("sow", **where, payload="struct")).schema()
    assert struct.startswith("`payload` STRUCT<`id`: BIGINT, `topic`: STRING> COMMENT 'fields inferred")
    assert "_table_" in JournalSource(new("sow-journal", **where)).schema()
    for options, words in (
        (where | {"filtre": "/x = 1"}, "SOW-SPK-010.*'filtre'"),
        (where | {"topic": "nope"}, "SOW-ENG-012.*'nope'"),
        ({"topic": "orders", "filter": "/id = 1"}, "SOW-SPK-012"),
    ):
        with pytest.raises(Exception, match=words):
            SowSource(new("sow", **options)).schema()


def test_a_table_is_read_and_written_by_its_schema_alone(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    schema = schema_of("sow", {"config": str(lab.config), "topic": "orders", "onerror": "skip", "payload": "bytes"})
    reader = SowSource({}).reader(schema)
    (partition,) = reader.partitions()
    (batch,) = reader.read(partition)
    assert batch.to_pylist() == [  # type: ignore[union-attr]  # a batch and no rows
        {"payload": b'{"id":1,"topic":"orders"}', "_txid": 1, schema.names[-1]: None}
    ]
    assert SowSource({}).writer(schema, False) is not None
    # A table of a journal may say how streams read it.
    table = schema_of("sow-journal", {"config": str(lab.config), "topic": "orders", "start": "state"})
    assert len(list(JournalSource({}).reader(table).partitions())) == 1
    bounded = schema_of("sow", {"config": str(lab.config), "topic": "orders", "at": "1"})
    with pytest.raises(Exception, match=r"SOW-SPK-110.*option at "):
        SowSource({}).writer(bounded, True)
    # Only a table has options of both directions: a query that reads takes none of a write.
    with pytest.raises(Exception, match="no option 'onError'"):
        SowSource({"config": str(lab.config), "topic": "orders", "onError": "skip"}).reader(schema)


def rows_of(reader: Any, column: str) -> list[Any]:
    """What all partitions of a reader hold of one column."""
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [value for batch in batches for value in batch.column(column).to_pylist()]


def test_a_list_of_paths_is_one_table(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    paths = f'["{lab.store("orders")}", "file://{lab.store("copy")}"]'
    source = SowSource({"paths": paths, "payload": "struct", "columns": "payload"})
    assert (
        source.schema() == "`payload` STRUCT<`id`: BIGINT, `topic`: STRING> COMMENT 'fields inferred from the messages'"
    )
    reader = SowSource({"paths": paths}).reader(StructType().add("payload", BinaryType()))
    rows = rows_of(reader, "payload")
    assert rows == [b'{"id":1,"topic":"orders"}', b'{"id":1,"topic":"copy"}']
    directory = str(lab.directory / "journal")
    journals = JournalSource({"paths": f'["{directory}", "{directory}"]'})
    columns = StructType().add("_txid", LongType())
    reader = journals.reader(columns)
    rows = rows_of(reader, "_txid")
    assert rows == [1, 2, 1, 2]
    with pytest.raises(Exception, match="SOW-SPK-097"):
        journals.streamReader(columns).initialOffset()


def test_without_a_configuration_the_usual_one_is_meant_where_a_topic_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab_of(tmp_path)
    monkeypatch.delenv("SOWCTL_CONFIG", raising=False)
    monkeypatch.chdir(lab.directory)
    schema = StructType().add("_txid", LongType())
    assert len(SowSource({"topic": "orders"}).reader(schema).partitions()) == 1
    for source in (SowSource({"at": "1"}), JournalSource({"fromtxid": "1"})):
        with pytest.raises(Exception, match="SOW-SPK-012"):
            source.reader(schema)
    monkeypatch.chdir("/")
    with pytest.raises(Exception, match="SOW-SPK-012"):
        SowSource({"topic": "orders"}).reader(schema)
    monkeypatch.setenv("SOWCTL_CONFIG", str(lab.config))
    assert len(JournalSource({"topic": "orders"}).reader(schema).partitions()) == 1
    (lab.directory / "amps.xml").write_text("<x/>")
    monkeypatch.delenv("SOWCTL_CONFIG")
    monkeypatch.chdir(lab.directory)
    with pytest.raises(Exception, match="several configurations here"):
        SowSource({"topic": "orders"}).reader(schema)


STREAMED = "reading sow-journal as a stream (spark.readStream)"


def test_an_option_of_another_question_is_named_as_it_is_written() -> None:
    schema = StructType().add("payload", BinaryType())
    where = {"config": "/c.xml", "topic": "orders"}
    for action, name, whose in (
        (lambda: SowSource(where | {"onerror": "skip"}).schema(), "onError", "writing to sow"),
        (lambda: SowSource(where | {"fromtxid": "1"}).reader(schema), "fromTxid", "reading sow-journal"),
        (lambda: SowSource(where | {"fromtxid": "1"}).writer(schema, False), "fromTxid", "reading sow-journal"),
        (lambda: JournalSource(where | {"numpartitions": "2"}).reader(schema), "numPartitions", "reading sow"),
        *(
            (lambda name=name: JournalSource(where | {name.lower(): "1"}).reader(schema), name, STREAMED)
            for name in STREAM_OPTIONS
        ),
    ):
        with pytest.raises(CarriedError) as caught:
            action()
        found = decode_error(str(caught.value))
        assert found is not None and found.code in ("SOW-SPK-010", "SOW-SPK-167")
        assert f"'{name}'" in found.message and str(found.hint).startswith(name) and str(found.hint).endswith(whose)


@pytest.mark.parametrize("place", ["config", "path"])
def test_a_journal_that_ends_before_what_is_known_of_it_is_damage(tmp_path: Path, place: str) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("orders"), ("orders",)))
    for number in range(40):
        lab.publish("orders", message(id=number))
    (file,) = (lab.directory / "journal").glob("*.journal")
    with file.open("r+b") as journal:
        journal.truncate(file.stat().st_size // 2)
    reader = JournalSource({place: str(lab.config if place == "config" else file.parent)}).reader
    with pytest.raises(Exception, match="SOW-JRN-010") as caught:
        rows_of(reader(StructType().add("_txid", LongType())), "_txid")
    assert file.name in str(caught.value) and "hint:" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("Table does not support deletes: sow.", "operation=delete"),
        ("Table `t` does not support UPDATE TABLE. Please", "operation=delta"),
        ("Table `t` does not support MERGE INTO TABLE. Please", "operation=delta"),
        ("Table does not support truncates: sow.", "INSERT OVERWRITE"),
        (
            "[PARSE_SYNTAX_ERROR] at 'STRUCT'\n== SQL ==\n`payload` STRUCT<x WHAT>, `_txid` BIGINT",
            "payloadSchema requires",
        ),
        ("ModuleNotFoundError: No module named 'sowctl'", "PYSPARK_PYTHON"),
        ("requirement failed: The provided partitioning or clustering columns do not match", "remove partitionBy"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: sow. Make sure", "activate_session"),
        ("[UNSUPPORTED_FEATURE.TIME_TRAVEL] The feature is not supported", "OPTIONS (..., at "),
    ],
)
def test_what_spark_refuses_of_tables_has_another_way(text: str, way: str) -> None:
    assert way in str(find_alternative(text))
    assert find_alternative("Table or view not found") is None

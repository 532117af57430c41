"""Texts of options, rows as messages, filters as bounds: what needs no Spark running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

import numpy as np
from pyspark.sql.types import IntegerType, StructType

from sowctl.arrow import arrays
from sowctl.errors import SowError, UsageError
from sowctl.messages.types import get_type
from sowctl.spark.errors import CarriedError, decode_error
from sowctl.spark.options import Options
from sowctl.spark.reading.bounds import NumberRange, ReadBounds
from sowctl.spark.schema import JOURNAL_COLUMNS, STORE_COLUMNS, build_ddl
from sowctl.spark.sources import JournalSource, SowSource
from sowctl.spark.writing.row_encoder import RowEncoder
from sowctl.values.times import MAX_MICROS

KNOWN = ("filter", "flag", "count", "size", "at", "now", "list", "word", "pause")


def options(**given: str) -> Options:
    return Options("sow", given, KNOWN)


def test_values_are_read() -> None:
    found = options(FLAG="Yes", count=" 12 ", size="2MB", list="a, b,,c", WORD="One", pause="1500ms", filter="")
    assert (found.read_flag("flag"), found.read_number("count"), found.read_size("size")) == (True, 12, 2 << 20)
    assert (found.read_words("list"), found.read_choice("word", ("one", "two"), "two")) == (("a", "b", "c"), "one")
    assert (found.read_seconds("pause"), found.read_text("filter"), found.read_instant("at")) == (1.5, None, None)
    assert options(now="2026-01-01T00:00:00Z", at="-1s").read_instant("at") == 1_767_225_599_000_000
    Options("sow", {"checkpointLocation": "x"}, KNOWN)


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("flag", "maybe", lambda o: o.read_flag("flag")),
        ("count", "-1", lambda o: o.read_number("count")),
        ("count", "0", lambda o: o.read_number("count", None, 1)),
        ("read_size", "many", lambda o: o.read_size("read_size")),
        ("read_size", "0", lambda o: o.read_size("read_size")),
        ("at", "1767225600", lambda o: o.read_instant("at")),
        ("at", "someday", lambda o: o.read_instant("at")),
        ("word", "three", lambda o: o.read_choice("word", ("one",), "one")),
        ("pause", "long", lambda o: o.read_seconds("pause")),
    ],
)
def test_values_that_mean_nothing_are_refused(name: str, text: str, read: Any) -> None:
    with pytest.raises(SowError) as caught:
        read(options(**{name: text}))
    assert caught.value.exit_status == 2


def test_an_unknown_name_is_refused_with_a_guess() -> None:
    with pytest.raises(UsageError) as caught:
        options(filtre="/id = 1")
    assert (caught.value.code, caught.value.hint) == ("SOW-SPK-010", "did you mean filter?")


@pytest.mark.parametrize(
    ("given", "code", "words", "hint"),
    [
        ({"startingoffsets": "1"}, "SOW-SPK-010", "'startingOffsets'", "use instead: fromTxid=N"),
        ({"endingOffsets": "latest"}, "SOW-SPK-010", "'endingOffsets'", "toTxid=N or toTime=T"),
        ({"subscribe": "orders"}, "SOW-SPK-010", "'subscribe'", "use instead: topic"),
        ({"kafka.bootstrap.servers": "h:9092"}, "SOW-SPK-010", "'kafka.bootstrap.servers'", "without a server"),
        ({"readChangeFeed": "true"}, "SOW-SPK-010", "'readChangeFeed'", "changes=true"),
        ({"includemetadata": "true"}, "SOW-SPK-010", "'includeMetadata'", "use instead: columns"),
        ({"keyField": "id"}, "SOW-SPK-010", "'keyField'", "the Key of the topic"),
        ({"pathglobfilter": "*"}, "SOW-SPK-010", "'pathGlobFilter'", "a list of paths"),
        ({"pushdown": "true"}, "SOW-SPK-096", "option pushdown was removed", "option filter"),
    ],
)
def test_names_that_need_words_of_their_own(given: dict[str, str], code: str, words: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(**given)
    assert caught.value.code == code
    assert words in caught.value.message and hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("source", "name", "hint"),
    [
        ("sow", "startingOffsets", "when reading sow-journal, use: fromTxid=N"),
        ("sow", "versionAsOf", "use instead: at"),
        ("sow", "readChangeFeed", "when reading sow-journal, use: changes=true"),
        ("sow-journal", "timestampAsOf", "when reading sow, use: at"),
        ("sow-journal", "startingOffsets", "use instead: fromTxid=N"),
    ],
)
def test_a_hint_names_no_option_that_the_source_has_not(source: str, name: str, hint: str) -> None:
    kind = {"sow": SowSource, "sow-journal": JournalSource}[source]
    with pytest.raises(CarriedError) as caught:
        kind({"path": "x", name: "1"}).schema()
    found = decode_error(str(caught.value))
    assert found is not None and str(found.hint).startswith(hint)


def test_a_word_is_refused_as_it_was_written() -> None:
    with pytest.raises(UsageError, match="is 'STRICT', not one of"):
        options(word="STRICT").read_choice("word", ("permissive",), "permissive")


def test_what_only_the_other_source_does_is_said() -> None:
    schema = StructType()
    for refuse in (
        lambda: SowSource({}).streamReader(schema).initialOffset(),
        lambda: JournalSource({}).writer(schema, False),
        lambda: JournalSource({}).streamWriter(schema, False),
    ):
        with pytest.raises(CarriedError) as caught:
            refuse()
        found = decode_error(str(caught.value))
        assert found is not None and found.code == "SOW-SPK-167" and "format('sow" in str(found.hint)


def test_rows_of_what_has_no_store_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "sowctl.xml"
    config.write_text(
        "<AMPSConfig><Name>x</Name><SOW>"
        "<Topic><Name>t</Name><MessageType>json</MessageType><Key>/id</Key><FileName>t.sow</FileName></Topic>"
        "<View><Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
        "<Projection><Field>/a</Field></Projection><Grouping><Field>/a</Field></Grouping></View>"
        "</SOW></AMPSConfig>"
    )
    given = {"config": str(config), "topic": "v"}
    with pytest.raises(CarriedError) as caught:
        SowSource(given).writer(StructType(), False)
    found = decode_error(str(caught.value))
    assert found is not None and found.code == "SOW-ENG-031" and str(found.hint).startswith("publish to ")


def test_a_pattern_is_no_path(tmp_path: Path) -> None:
    for name, has_hint in (("*.sow", True), ("a.sow", False)):
        with pytest.raises(CarriedError) as caught:
            SowSource({"path": str(tmp_path / name)}).reader(StructType())
        found = decode_error(str(caught.value))
        assert found is not None and (found.code, found.place) == ("SOW-ENG-013", str(tmp_path / name))
        assert ("load()" in str(found.hint)) is has_hint is (found.hint is not None)


def test_paths_may_be_urls_of_this_machine() -> None:
    found = options(list="file:///a%20b/c.xml", word="file:/a", at="x%20y")
    assert [str(found.read_path(name)) for name in ("list", "word")] == ["/a b/c.xml", "/a"]
    assert found.read_path("at") == Path("x%20y").absolute() and found.read_path("now") is None
    with pytest.raises(UsageError, match="s3://b/k") as caught:
        options(list="s3://b/k").read_path("list")
    assert caught.value.code == "SOW-SPK-098"


def test_schemas_as_text() -> None:
    assert build_ddl(STORE_COLUMNS, ("payload", "_txid"), None) == "`payload` BINARY, `_txid` BIGINT"
    assert build_ddl(STORE_COLUMNS, ("payload",), "a INT") == "`payload` STRUCT<a INT>"
    assert build_ddl(STORE_COLUMNS, ("payload",), "struct<a: INT>") == "`payload` struct<a: INT>"
    assert "_user_key" not in build_ddl(JOURNAL_COLUMNS, None, None)


def test_rows_of_which_no_message_can_be_made() -> None:
    for schema in (StructType().add("payload", IntegerType()), StructType().add("_txid", IntegerType())):
        with pytest.raises(UsageError) as caught:
            RowEncoder(schema, get_type("json"), keep_stamps=False, by_key=True, own_keys=False)
        assert caught.value.code == "SOW-SPK-030"


def test_bounds_that_exclude_each_other_are_empty() -> None:
    assert ReadBounds().restrict_txids(5, None).restrict_txids(None, 9) == ReadBounds(txids=NumberRange(5, 9))
    assert ReadBounds().restrict_txids(5, 5).restrict_txids(6, 6).is_empty
    assert ReadBounds().restrict_names("topic_names", ["a"]).restrict_names("topic_names", ["b"]).is_empty
    assert ReadBounds().restrict_names("operations", ["publish"]).restrict_names("operations", ["delete"]).is_empty
    assert not ReadBounds().is_empty


def test_times_beyond_all_dates_in_columns() -> None:
    """What old journals hold of them: an end is never, a time is the last one that has a date."""
    numbers = np.array([0, 5, MAX_MICROS, MAX_MICROS + 1, 1 << 62])
    ends = arrays.build_expirations(numbers).to_pylist()
    assert [None if end is None else end.year for end in ends] == [None, 1970, 9999, None, None]
    assert [time.year for time in arrays.build_timestamps(numbers).to_pylist()] == [1970, 1970, 9999, 9999, 9999]


def test_a_lifetime_of_any_length_is_read() -> None:
    assert options(pause="9" * 400 + "w").read_seconds("pause") == options(pause="99999999w").read_seconds("pause")

"""Results: iterated once, displayed without consuming records, and never rendered as markup in a notebook."""

from __future__ import annotations

from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Any

import pytest

import sowctl
from sowctl.engine.api import TopicHandle
from sowctl.engine.api.result import MAX_SHOWN_RECORDS
from sowctl.errors import UsageError
from tests.support.instances import Lab, message


@pytest.fixture
def topic(lab: Lab) -> TopicHandle:
    """A topic with 45 records."""
    lab.publish("t", *(message(id=number, v=str(number)) for number in range(45)))
    return lab.open().topic("t")


def test_messages_as_dicts(topic: TopicHandle) -> None:
    assert topic.query("/id < 2", order_by="/id").to_dicts() == [{"id": 0, "v": "0"}, {"id": 1, "v": "1"}]


def test_a_loop_that_is_left_loses_only_what_it_has_taken(topic: TopicHandle) -> None:
    result = topic.query(batch_size=10)
    for batch in result:
        assert len(batch) == 10
        break
    assert sum(1 for _ in result.records()) == 35
    assert result.statistics[0].returned == 45


def test_looking_at_a_result_takes_nothing_from_it(topic: TopicHandle) -> None:
    result = topic.query(order_by="/id", batch_size=8)
    shown = result._repr_html_()
    assert shown == result._repr_html_()
    assert shown.count("<tr>") == MAX_SHOWN_RECORDS + 1
    caption = shown.partition("<caption>")[2].partition("</caption>")[0]
    assert caption.startswith("t: ") and str(MAX_SHOWN_RECORDS) in caption.split()
    assert [row["id"] for row in result.to_dicts()] == list(range(45))
    assert "<caption>t: 0 records</caption>" in topic.query("/id = 99")._repr_html_()


def test_a_result_that_is_over_says_so(topic: TopicHandle) -> None:
    with topic.query() as closed:
        pass
    read = topic.query()
    assert len(read.to_dicts()) == 45
    table = topic.query()
    assert table.to_arrow().num_rows == table.to_arrow().num_rows == 45
    for ask in (closed.to_dicts, closed.to_arrow, read.to_dicts, lambda: list(read.records()), table.to_dicts):
        with pytest.raises(UsageError) as caught:
            ask()
        assert caught.value.code == "SOW-ENG-090"


@pytest.mark.parametrize(
    ("fields", "cells"),
    [
        ({"v": "<script>alert('x')</script>"}, "<td>&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;</td>"),
        ({"v": "a&amp;b"}, "<td>a&amp;amp;b</td>"),
        ({"v": {"w": ["<b>"]}}, "<td>{&quot;w&quot;: [&quot;&lt;b&gt;&quot;]}</td>"),
        ({"v": "a\u202eb\x1b[31m\n"}, "<td>a\\u202eb\\x1b[31m\\n</td>"),
        ({"v": "\ud800"}, "<td>\\ud800</td>"),
        ({"v": "x" * 300}, f"<td>{'x' * 200}…</td>"),
        ({"<i>": 1}, "<th>&lt;i&gt;</th>"),
        ({"v": None}, "<td>null</td>"),
    ],
)
def test_nothing_in_a_message_is_markup(fields: dict[str, Any], cells: str, lab: Lab) -> None:
    lab.publish("t", message(id=1, **fields))
    assert cells in lab.open().topic("t").query()._repr_html_()


ROWS = [
    {"id": 1, "v": "a", "n": {"x": 1.5}, "l": [1, 2]},
    {"id": 2, "v": None, "n": {"x": 2}, "l": []},
    {"id": 3, "w": "only here"},
]


@pytest.fixture
def mixed(lab: Lab) -> TopicHandle:
    """A topic with records of different fields."""
    lab.publish("t", *map(dumps, ROWS))
    return lab.open().topic("t")


def test_a_table_has_a_column_for_every_field(mixed: TopicHandle) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = mixed.query(order_by="/id").to_arrow()
    assert dict(zip(table.schema.names, map(str, table.schema.types), strict=True)) == {
        "id": "int64",
        "v": "string",
        "n": "struct<x: double>",
        "l": "list<element: int64>",
        "w": "string",
    }
    assert [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()] == [
        ROWS[0],
        {"id": 2, "n": {"x": 2.0}, "l": []},
        ROWS[2],
    ]
    assert mixed.query("/id = 99").to_arrow().num_rows == 0
    assert isinstance(table, pyarrow.Table)


def test_a_text_where_a_number_was_widens_its_column(lab: Lab) -> None:
    pytest.importorskip("pyarrow")
    count = 10_500
    lab.publish("t", *(message(id=number, v=number) for number in range(count)), message(id=count, v="late"))
    column = lab.open().topic("t").query(order_by="/id").to_arrow().column("v")
    assert (str(column.type), column[0].as_py(), column[count].as_py()) == ("string", "0", "late")


def test_metadata_are_columns_where_they_are_asked_for(mixed: TopicHandle) -> None:
    pytest.importorskip("pyarrow")
    result = mixed.query(order_by="/id")
    assert "_txid" not in result.to_arrow().schema.names
    rows = result.to_arrow(meta=True).select(["id", "_sow_key", "_txid", "_timestamp", "_topic"]).to_pylist()
    keys = [record.sow_key for record in mixed.query(order_by="/id").records()]
    when = datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert rows == [
        {"id": number, "_sow_key": key, "_txid": number, "_timestamp": when, "_topic": "t"}
        for number, key in enumerate(keys, start=1)
    ]
    assert result.to_arrow() is result.to_arrow()


def test_libraries_read_a_result_as_it_is(mixed: TopicHandle) -> None:
    """Libraries read the stream of the Arrow C interface, repeatedly; pyarrow shares the memory of the result."""
    pyarrow = pytest.importorskip("pyarrow")
    result = mixed.query(order_by="/id")
    for _ in range(2):
        read = pyarrow.table(result)
        assert read.column("id").to_pylist() == [1, 2, 3]
        assert read.column("id").chunk(0).buffers()[1].address == result.to_arrow()["id"].chunk(0).buffers()[1].address
    assert pyarrow.schema(result) == result.to_arrow().schema


def test_pandas_reads_a_result(mixed: TopicHandle) -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    frame = mixed.query(order_by="/id").to_pandas()
    assert frame["id"].tolist() == [1, 2, 3]
    assert frame["n"][0] == {"x": 1.5}
    if hasattr(pandas.DataFrame, "from_arrow"):  # since pandas 3
        assert pandas.DataFrame.from_arrow(mixed.query(order_by="/id"))["id"].tolist() == [1, 2, 3]


def test_pandas_keeps_types_where_it_is_told_to(lab: Lab) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    lab.publish("t", message(id=1, v=(1 << 60) + 1), message(id=2))
    topic = lab.open().topic("t")
    frame = topic.query(order_by="/id").to_pandas(dtype_backend="pyarrow")
    assert str(frame["v"].dtype) == "int64[pyarrow]"
    assert frame["v"][0] == (1 << 60) + 1
    with pytest.raises(UsageError):
        topic.query().to_pandas(dtype_backend="polars")  # type: ignore[arg-type]


@pytest.mark.parametrize("meta", [False, True])
def test_a_table_has_the_types_of_a_parquet_file(mixed: TopicHandle, tmp_path: Path, meta: bool) -> None:
    pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    mixed.export(tmp_path / "t.parquet", meta=meta)
    written = parquet.read_table(tmp_path / "t.parquet")
    table = mixed.query(by_time=meta).to_arrow(meta=meta)
    assert written.schema.names == table.schema.names
    assert written.cast(table.schema).equals(table)
    assert [str(kind) for kind in written.schema.types] == [str(kind) for kind in table.schema.types]


def test_duckdb_reads_a_result(mixed: TopicHandle) -> None:
    pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("result", mixed.query(order_by="/id").to_arrow())
    assert connection.sql("SELECT sum(id), max(n.x) FROM result").fetchall() == [(6, 2.0)]
    result = mixed.query(order_by="/id")  # found by its name
    assert duckdb.sql("SELECT count(*), sum(id) FROM result").fetchall() == [(3, 6)]
    assert result.to_arrow().num_rows == 3


def test_polars_reads_a_result(mixed: TopicHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "")  # importing polars sets it permanently
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(mixed.query(order_by="/id"))
    assert frame["id"].to_list() == [1, 2, 3]
    assert frame["n"].struct.field("x").to_list() == [1.5, 2.0, None]


def test_without_pyarrow_the_extra_is_named(mixed: TopicHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sowctl.arrow.requirements.find_spec", lambda name: None)
    with pytest.raises(sowctl.ConfigError, match=r"to_arrow\(\).* pyarrow\b") as caught:
        mixed.query().to_arrow()
    assert (caught.value.code, caught.value.exit_status) == ("SOW-EXC-001", 12)
    assert "sowctl[arrow]" in str(caught.value.hint)


def test_counting_and_planning(topic: TopicHandle) -> None:
    assert topic.query("/id < 3").count() == 3
    (plan,) = topic.query("/id < 3").plans()
    assert plan.topic == "t"

"""Of duplicate members, every form in which records leave an instance shows the first."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from sowctl.engine.api import TopicHandle
from tests.support.instances import Lab, message

TWICE = [
    b'{"id":1,"a":7,"a":8,"t":"first"}',
    b'{"id":2,"a":7,"\\u0061":"x","t":"first","t":"last"}',
    b'{"id":3, "a" : 7, "a" :8, "t":"first", "more": {"a":1}, "t":null}',
    b'{"id":4,"a":7,"t":"first","a":{"a":1},"o":{"x":"first","x":"last"}}',
    b'{"id":5,"a":7,"t":"first","o":{"x":"first","l":[{"q":1,"q":"x"}],"x":1},"o":5}',
]


@pytest.fixture
def topic(lab: Lab) -> TopicHandle:
    """300 plain records, and the records with duplicate members."""
    lab.publish("t", *(message(id=100 + n, a=7, t="first") for n in range(300)), *TWICE)
    return lab.open().topic("t")


def keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def read_msgpack(path: Path) -> list[dict[str, Any]]:
    return list(msgpack.Unpacker(path.open("rb")))


def read_csv(path: Path) -> list[dict[str, Any]]:
    return [row | {"a": int(row["a"])} for row in csv.DictReader(path.open())]


def read_sqlite(path: Path) -> list[dict[str, Any]]:
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    (name,) = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
    return [dict(row) for row in database.execute(f'SELECT * FROM "{name}"')]


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "parquet": lambda path: pq.read_table(path).to_pylist(),
    "arrow": lambda path: feather.read_table(path).to_pylist(),
    "msgpack": read_msgpack,
    "csv": read_csv,
    "sqlite": read_sqlite,
}


@pytest.mark.parametrize("format", READERS)
def test_exported_members_are_the_first(topic: TopicHandle, tmp_path: Path, format: str) -> None:
    path = tmp_path / f"t.{format}"
    topic.export(path)
    rows = READERS[format](path)
    assert len(rows) == 300 + len(TWICE)
    assert {(row["a"], row["t"]) for row in rows} == {(7, "first")}


def test_parquet_has_what_the_json_of_a_query_has(topic: TopicHandle, tmp_path: Path) -> None:
    def bare(value: Any) -> Any:
        """Remove members that are null: a column does not distinguish them from missing members."""
        if isinstance(value, dict):
            return {name: bare(inner) for name, inner in value.items() if inner is not None}
        return list(map(bare, value)) if isinstance(value, list) else value

    topic.export(tmp_path / "t.parquet")
    lines = [bytes(record.payload) for record in topic.query().records()]
    expected = [bare(json.loads(line, object_pairs_hook=keep_first)) for line in lines]
    assert [bare(row) for row in pq.read_table(tmp_path / "t.parquet").to_pylist()] == expected
    assert [bare(row) for row in topic.query().to_arrow().to_pylist()] == expected
    assert [bare(row) for row in topic.query().to_dicts()] == expected


def test_sql_filters_and_schemas_see_the_first(topic: TopicHandle, lab: Lab) -> None:
    statement = "SELECT count(*) AS n, sum(a) AS a, max(o.x) AS x, max(o.l[1].q) AS q FROM t WHERE t = 'first'"
    assert lab.open().sql(statement).to_arrow().to_pylist() == [{"n": 305, "a": 305 * 7, "x": "first", "q": 1}]
    assert topic.count("/a = 7 AND /t = 'first'") == 305
    described = topic.schema().to_json_schema()["properties"]
    assert (described["a"]["type"], described["t"]["type"]) == ("integer", "string")

"""Names of members in SQL, and columns of topics without records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.engine.api import InstanceHandle
from sowctl.engine.tables.database import Database
from sowctl.errors import UsageError

CONFIG = """
<AMPSConfig>
  <Name>shop</Name>
  <SOW>
    <Topic><Name>t</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic><Name>u</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic><Name>alone</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <View>
      <Name>v</Name><UnderlyingTopic>t</UnderlyingTopic><MessageType>json</MessageType>
      <Projection><Field>/side</Field><Field>SUM(/qty) AS /total</Field></Projection>
      <Grouping><Field>/side</Field></Grouping>
    </View>
  </SOW>
  <TransactionLog><JournalDirectory>journal</JournalDirectory>
    <Topic><Name>[tu]</Name><MessageType>json</MessageType></Topic></TransactionLog>
</AMPSConfig>
"""


@pytest.fixture
def shop(tmp_path: Path) -> InstanceHandle:
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    return InstanceHandle.open(tmp_path / "sowctl.xml")


def rows(instance: InstanceHandle, text: str) -> list[Any]:
    """Return the rows of all statements of a text."""
    with Database(instance) as database:
        return [
            json.loads(line)
            for found in database.run_statements(text)
            for some in found.iterate_rows(format_non_finite)
            for line in some
        ]


def code(instance: InstanceHandle, text: str) -> str:
    """Return the code of the error of a statement."""
    with pytest.raises(UsageError) as problem:
        rows(instance, text)
    return problem.value.code


@pytest.fixture
def alike(shop: InstanceHandle) -> InstanceHandle:
    """Members that differ only in case, in both orders of the records."""
    shop.topic("t").publish([b'{"id":1,"leavesQty":"ten","x":1}', b'{"id":2,"LeavesQty":"two","x":2}'])
    shop.topic("u").publish([b'{"id":1,"LeavesQty":"two"}', b'{"id":2,"leavesQty":"ten","leavesQty_1":3}'])
    return shop


@pytest.mark.parametrize("topic", ["t", "u"])
@pytest.mark.parametrize(("name", "value"), [("leavesQty", "ten"), ("LeavesQty", "two")])
def test_the_name_that_is_written_exactly_is_meant(alike: InstanceHandle, topic: str, name: str, value: str) -> None:
    statement = f"SELECT count(*) AS n FROM {topic} WHERE {name} = '{value}'"
    assert rows(alike, statement) == [{"n": 1}]
    assert rows(alike, f'SELECT "{name}" FROM {topic} o WHERE o.{name} IS NOT NULL') == [{name: value}]


@pytest.mark.parametrize(
    "statement",
    [
        *("SELECT LEAVESQTY FROM t", "SELECT * FROM t", "FROM t", "SELECT leavesQty, LeavesQty FROM t", "DESCRIBE t"),
        *("SELECT t FROM t", "SELECT count(leavesQty) FROM t WHERE LeavesQty = 'two'", "SUMMARIZE t"),
        *("CREATE TABLE x AS SELECT * FROM t", "CREATE TABLE x AS FROM t", "SELECT COLUMNS('leaves.*') FROM t"),
        "WITH w AS (SELECT * FROM t) SELECT leavesQty FROM w",
    ],
)
def test_a_statement_that_may_mean_either_is_refused(alike: InstanceHandle, statement: str) -> None:
    assert code(alike, statement) == "SOW-EXC-023"


def test_both_are_asked_in_turn(alike: InstanceHandle) -> None:
    text = (
        "CREATE TABLE a AS SELECT id, leavesQty AS a FROM t; CREATE TABLE b AS SELECT id, LeavesQty AS b FROM t;"
        "SELECT * FROM a JOIN b USING (id) ORDER BY id"
    )
    assert rows(alike, text) == [{"id": 1, "a": "ten", "b": None}, {"id": 2, "a": None, "b": "two"}]


def test_other_columns_do_not_mind(alike: InstanceHandle) -> None:
    assert rows(alike, "SELECT sum(x) AS s, count(*) AS n FROM t") == [{"s": 3, "n": 2}]
    # A member with the name that DuckDB would give to the second of two equal names.
    assert rows(alike, "SELECT max(leavesQty_1) AS m FROM u") == [{"m": 3}]
    assert rows(alike, 'SELECT ID, "Id" AS again FROM t ORDER BY id LIMIT 1') == [{"id": 1, "again": 1}]


@pytest.mark.parametrize(
    "message",
    [
        *('{"id":1,"":2}', '{"id":1,"a\\u0000b":2}', '{"id":1,"o":{"":2}}', '{"id":1,"o":{"a":1,"A":2}}'),
        *('{"id":1,"o":[{"p":{"a":1,"A":2}}]}', '{"id":1,"ID":2}'),
    ],
)
def test_names_that_sql_cannot_have_are_refused_where_they_are_meant(shop: InstanceHandle, message: str) -> None:
    shop.topic("t").publish([message.encode()])
    assert code(shop, "SELECT * FROM t") == "SOW-EXC-023"
    assert rows(shop, "SELECT id FROM t") == [{"id": 1}]


def test_capitals_beyond_ascii_are_told_apart(shop: InstanceHandle) -> None:
    shop.topic("t").publish(['{"id":1,"é":1,"É":2}'.encode()])
    assert rows(shop, "SELECT * FROM t") == [{"id": 1, "é": 1, "É": 2}]
    assert rows(shop, "SELECT é, É FROM t") == [{"é": 1, "É": 2}]


def test_an_emptied_topic_has_the_columns_of_its_messages(shop: InstanceHandle) -> None:
    topic = shop.topic("t")
    topic.publish([b'{"id":1,"qty":2,"side":"buy","o":{"x":1}}'])
    statements = {
        "SELECT count(*) AS n, sum(qty) AS s, min(o.x) AS x FROM t WHERE side = 'buy'": [
            {"n": 0, "s": None, "x": None}
        ],
        "SELECT * FROM t": [],
        "SELECT side, sum(qty) FROM t GROUP BY side": [],
        "SELECT count(*) AS n FROM t": [{"n": 0}],
        "SELECT _sow_key, _timestamp, qty FROM t": [],
        "SELECT count(_txid) AS n FROM t": [{"n": 0}],
        "SELECT count(*) AS n, sum(total) AS s FROM v": [{"n": 0, "s": None}],
        "SELECT count(*) AS n, max(v.total) AS m FROM t JOIN v USING (side)": [{"n": 0, "m": None}],
    }
    for statement in statements:
        rows(shop, statement)
    topic.delete(filter="1 = 1")
    for statement, expected in statements.items():
        assert rows(shop, statement) == expected, statement
    with Database(shop) as database:
        (result,) = database.run_statements("SELECT * FROM t")
        assert [str(field.type) for field in result.open_reader().schema] == [
            "int64",
            "int64",
            "string",
            "struct<x: int64>",
        ]
    assert code(shop, "SELECT qty2 FROM t") == "SOW-EXC-024"


def test_an_emptied_topic_without_a_journal_says_that_it_is_empty(shop: InstanceHandle) -> None:
    topic = shop.topic("alone")
    topic.publish([b'{"id":1,"qty":2}'])
    topic.delete(filter="1 = 1")
    assert code(shop, "SELECT sum(qty) FROM alone") == "SOW-EXC-024"
    assert rows(shop, "SELECT count(*) AS n, max(id) AS m FROM alone") == [{"n": 0, "m": None}]
    topic.publish([b'{"id":1,"qty":2}'])
    assert code(shop, "SELECT price FROM alone") == "SOW-EXC-020"

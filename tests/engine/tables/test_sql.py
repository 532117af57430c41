"""SQL over an instance: the rows are those of the records, whichever way they were read."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

from sowctl.arrow import needed
from sowctl.engine.api import InstanceHandle
from sowctl.engine.search import figures
from sowctl.engine.tables import topic as topic_tables
from sowctl.engine.tables.database import Database
from sowctl.engine.tables.indexed import indexed_table
from sowctl.errors import ConfigError, UsageError
from sowctl.values.times import parse_time

BEGIN = parse_time("2026-01-05T10:00:00Z", lambda: 0)
CONFIG = """
<AMPSConfig>
  <Name>shop</Name>
  <SOW>
    <Topic><Name>orders</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic><Name>fixed orders</Name><MessageType>nvfix</MessageType><Key>/id</Key>
      <FileName>sow/%n.sow</FileName></Topic>
    <View>
      <Name>totals</Name><UnderlyingTopic>orders</UnderlyingTopic><MessageType>json</MessageType>
      <Projection><Field>/side</Field><Field>SUM(/qty) AS /qty</Field></Projection>
      <Grouping><Field>/side</Field></Grouping>
    </View>
  </SOW>
  <TransactionLog><JournalDirectory>journal</JournalDirectory>
    <Topic><Name>.*</Name><MessageType>json</MessageType></Topic>
    <Topic><Name>.*</Name><MessageType>nvfix</MessageType></Topic></TransactionLog>
</AMPSConfig>
"""


@pytest.fixture
def shop(tmp_path: Path) -> InstanceHandle:
    """Three orders, of which one was changed a minute later and one deleted then."""
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    clock = [BEGIN]
    instance = InstanceHandle.open(tmp_path / "sowctl.xml", clock=lambda: clock[0])
    orders = instance.topic("orders")
    orders.publish([b'{"id":1,"side":"buy","qty":5,"price":1.5,"t":{"x":[1]}}', b'{"id":2,"side":"sell","qty":7}'])
    orders.publish([b'{"id":3,"side":"buy","qty":1,"Late":true}'])
    clock[0] += 60_000_000
    orders.publish([b'{"id":1,"side":"buy","qty":6,"price":2}'], client="me", sequence=4)
    orders.delete(filter="/id = 3")
    instance.topic("fixed orders").publish([b"id=9\x01qty=3\x01"])
    return instance


def rows(instance: InstanceHandle, text: str, **options: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of every statement that has some."""
    with Database(instance, **options) as database:
        return [[tuple(row.values()) for row in reader.read_all().to_pylist()] for reader in database.results(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT side, sum(qty) FROM orders GROUP BY 1 ORDER BY 1", [("buy", Decimal(6)), ("sell", Decimal(7))]),
        ("SELECT count(*) FROM orders", [(2,)]),
        ("SELECT count(*) FROM orders WHERE side = 'buy' AND QTY > 5", [(1,)]),
        ('SELECT side, qty FROM totals ORDER BY "SIDE"', [("buy", 6), ("sell", 7)]),
        ('SELECT id, qty FROM "fixed orders"', [(9, 3)]),
        ('SELECT count(*), sum(qty) FROM "orders@2026-01-05T10:00:30Z"', [(3, Decimal(13))]),
        ('SELECT id, late FROM "orders@2026-01-05T10:00:30Z" WHERE late', [(3, True)]),
        ('SELECT t.x[1] FROM "orders@2026-01-05T10:00:30Z" o WHERE o.id = 1', [(1,)]),
        (
            'SELECT n.id FROM orders n JOIN "orders@2026-01-05T10:00:30Z" b USING (id) WHERE n.qty <> b.qty',
            [(1,)],
        ),
        ("SELECT a.id, b.id AS other FROM orders a, orders b WHERE a.id < b.id", [(1, 2)]),
        ("SELECT id FROM orders WHERE _txid = 4", [(1,)]),
        ("SELECT max(_timestamp)::VARCHAR, min(_topic) FROM orders", [("2026-01-05 10:01:00+00", "orders")]),
        (
            'SELECT _operation, id, qty, _client, _sequence FROM "orders@history" WHERE _txid > 2 ORDER BY _txid',
            [("publish", 3, 1, None, None), ("publish", 1, 6, "me", 4), ("delete", None, None, None, None)],
        ),
        ("SELECT count(*), count(payload), count(DISTINCT _topic) FROM journal", [(6, 5, 2)]),
        ("SELECT payload->>'$.qty' FROM journal WHERE _txid = 4", [("6",)]),
        ("WITH orders AS (SELECT * FROM orders) SELECT count(*) FROM orders", [(2,)]),
        ("SELECT * FROM orders WHERE id = 2", [(2, "sell", 7, None)]),
        ("SELECT o FROM (SELECT id FROM orders WHERE id = 2) o", [({"id": 2},)]),
        ("SELECT count(*) FROM orders WHERE EXISTS (SELECT 1 FROM totals t WHERE t.side = orders.side)", [(2,)]),
        ("SELECT column_name FROM (DESCRIBE orders) ORDER BY 1", [("id",), ("price",), ("qty",), ("side",)]),
        ("SELECT 1 + 1", [(2,)]),
    ],
)
def test_statements(shop: InstanceHandle, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(shop, text) == [expected]


def test_statements_in_turn_share_what_they_create(shop: InstanceHandle) -> None:
    text = """
        CREATE TABLE t AS SELECT id, qty FROM orders; INSERT INTO t VALUES (8, 8);
        CREATE VIEW v AS SELECT side, qty FROM orders; SET VARIABLE x = 1;
        SELECT sum(qty) FROM t; SELECT sum(qty) FROM v WHERE side = 'buy'; PIVOT orders ON side USING sum(qty);
    """
    assert rows(shop, text)[:2] == [[(Decimal(21),)], [(Decimal(6),)]]


def test_a_state_of_a_file(shop: InstanceHandle, tmp_path: Path) -> None:
    (store,) = tmp_path.glob("sow/orders*.sow")
    assert rows(shop, f"SELECT count(*) FROM '{store}'") == [[(2,)]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("COPY (SELECT 1) TO 'x.csv'", "disabled"),
        ("ATTACH 'x.db'", "disabled"),
        ("INSTALL httpfs", "disabled"),
        ("SELECT * FROM read_csv('sowctl.xml')", "disabled"),
        ("SET enable_external_access = true", "locked"),
        ("SELECT * FROM nix", "does not exist"),
        ("SELECT nix FROM orders", "not found"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 'x'::INT", "Could not convert"),
        ("SELECT * FROM shop", "does not exist"),
    ],
)
def test_what_is_refused(shop: InstanceHandle, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        rows(shop, text)
    assert raised.value.code == "SOW-EXC-020"
    if "nix" in text and "does not" in words:
        assert raised.value.hint is not None
        assert "orders, fixed orders, totals, journal" in raised.value.hint


def test_files_are_read_where_that_is_asked_for(shop: InstanceHandle, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,w\n1,a\n")
    text = f"SELECT w FROM orders JOIN '{tmp_path / 'x.csv'}' USING (id)"
    assert rows(shop, text, files=True) == [[("a",)]]


def test_a_package_that_is_missing_is_named(shop: InstanceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needed, "find_spec", lambda name: None if name == "duckdb" else name)
    with pytest.raises(ConfigError) as raised:
        rows(shop, "SELECT 1")
    assert (raised.value.code, raised.value.hint) == ("SOW-EXC-001", "pip install 'sowctl[sql]'")


VARIED: dict[str, Callable[[int], str]] = {
    "text": lambda n: f'"t{n % 7}"' if n % 5 else "null",
    "whole": lambda n: str(n - 50) if n % 3 else "null",
    "broken": lambda n: f"{n}.25",
    "either": lambda n: str(n) if n % 2 else f"{n}.5",
    "many": lambda n: f"{10**17 + n}.5",
    "long": lambda n: str(2**63 + n),
    "mixed": lambda n: str(n) if n % 2 else f'"{n}"',
    "nested": lambda n: f'{{"x":{n}}}',
    "listed": lambda n: f"[{n}]",
    "truth": lambda n: "true" if n % 2 else "false",
    "nothing": lambda n: "null",
    "late": lambda n: "5" if n == 119 else "null",
}


def test_indexes_and_records_say_the_same(
    shop: InstanceHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = shop.topic("orders")
    orders.delete(filter="/id > 0")
    members = [",".join(f'"{name}":{value(n)}' for name, value in VARIED.items()) for n in range(120)]
    orders.publish([b'{"id":%d,%b}' % (n, text.encode()) for n, text in enumerate(members)])
    orders.replay()
    monkeypatch.setattr(topic_tables, "BATCH", 50)
    monkeypatch.setattr(topic_tables, "SAMPLE", 50)
    queries = [f"SELECT id, {name}, typeof({name}) FROM orders ORDER BY id" for name in VARIED]
    monkeypatch.setattr(figures, "INDEXED", 1000)
    plain = [rows(shop, text) for text in queries]
    monkeypatch.setattr(figures, "INDEXED", 1)
    monkeypatch.setattr(figures, "ASKED", 1)
    used: list[str] = []

    def told(*arguments: Any) -> Any:
        found = indexed_table(*arguments)
        if found is not None:
            used.extend(field.name for field in arguments[2])
        return found

    monkeypatch.setattr(topic_tables, "indexed_table", told)
    assert [rows(shop, text) for text in queries] == plain
    assert {"text", "whole", "broken", "either"} <= set(used)
    assert not {"many", "long", "mixed", "nested", "listed"} & set(used)
    # a record that changes behind the indexes is seen
    orders.publish([b'{"id":5,"text":"new","whole":777}'])
    assert rows(shop, "SELECT text, whole FROM orders WHERE id = 5") == [[("new", 777)]]

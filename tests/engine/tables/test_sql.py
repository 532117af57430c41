"""SQL over an instance: the rows are those of the records, regardless of how they were read."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")

from sowctl.arrow import requirements
from sowctl.engine.api import InstanceHandle
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.tables import topic as topic_tables
from sowctl.engine.tables.database import Database
from sowctl.engine.tables.index_columns import read_indexed_table
from sowctl.engine.tables.table_names import NamedTable
from sowctl.engine.tables.topic import TableRead
from sowctl.errors import ConfigError, UsageError
from sowctl.store.limits import STORE_LIMITS
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
    """Three orders; a minute later one was changed and one deleted."""
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
    """Return the rows of each statement that has rows."""
    with Database(instance, **options) as database:
        return [
            [tuple(row.values()) for row in result.open_reader().read_all().to_pylist()]
            for result in database.run_statements(text)
        ]


@pytest.mark.parametrize("columns", ["*", "count(*)", "_txid, _operation", "count(_client)"])
def test_the_history_of_a_topic_without_entries_is_empty(tmp_path: Path, columns: str) -> None:
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    instance = InstanceHandle.open(tmp_path / "sowctl.xml", clock=lambda: BEGIN)
    instance.topic("orders").publish([b'{"id":1}'])
    assert rows(instance, f'SELECT {columns} FROM "fixed orders@history"') == [[(0,)] if "(" in columns else []]


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
        ("SELECT count(*), max(a.ID) FROM ORDERS a", [(2, 2)]),
        ('SELECT count(*) FROM "Orders@2026-01-05T10:00:30Z" a, orders b, ORDERS c WHERE a.id = b.id', [(4,)]),
        ("SELECT main.orders.qty FROM main.orders WHERE id = 1", [(6,)]),
        ("show tables;", [("orders",), ("fixed orders",), ("totals",), ("journal",)]),
    ],
)
def test_statements(shop: InstanceHandle, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(shop, text) == [expected]


def test_doubles_are_added_in_duckdbs_way_and_integers_exactly(shop: InstanceHandle) -> None:
    """As on the manual page: SQL rounds at each step of a sum of Doubles, query once, at the end."""
    orders = shop.topic("orders")
    orders.publish([b'{"id":%d,"side":"tenth","price":0.1,"qty":4611686018427387904}' % one for one in range(10, 20)])
    [mine] = orders.query(
        "/side = 'tenth'", projection="SUM(/price) AS /p, SUM(/qty) AS /q", grouping="/side"
    ).to_dicts()
    assert mine == {"p": 1.0, "q": float(10 << 62)}
    [[(price, fraction, whole)]] = rows(
        shop, "SELECT sum(price), sum(price) - 1, sum(qty) FROM orders WHERE side = 'tenth'"
    )
    assert price == pytest.approx(1.0) and 0 < abs(fraction) < 1e-15
    assert whole == 10 << 62


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


def test_a_column_that_no_record_has_is_named_with_a_near_one(shop: InstanceHandle) -> None:
    for text, hint in (
        ("SELECT sied FROM orders", "did you mean side?"),
        ('SELECT sied FROM "orders@2026-01-05T10:00:30Z"', "did you mean side?"),
        ("SELECT wholly_new FROM totals", "fields: side, qty"),
    ):
        with pytest.raises(UsageError, match="not found") as raised:
            rows(shop, text)
        assert raised.value.hint == hint
        assert "Candidate" not in raised.value.message


def test_topics_that_differ_in_capitals_alone_are_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(CONFIG.replace("fixed orders", "Orders"))
    instance = InstanceHandle.open(tmp_path / "sowctl.xml")
    instance.topic("orders").publish([b'{"id":1,"x":1}'])
    instance.topic("Orders").publish([b"id=9\x01x=3\x01"])
    assert rows(instance, 'SELECT x FROM orders; SELECT x FROM "Orders"') == [[(1,)], [(3,)]]
    with pytest.raises(UsageError, match=r"'orders' and 'Orders'") as caught:
        rows(instance, 'SELECT * FROM orders, "Orders"')
    assert caught.value.code == "SOW-EXC-020"


def test_files_are_read_where_that_is_asked_for(shop: InstanceHandle, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,w\n1,a\n")
    text = f"SELECT w FROM orders JOIN '{tmp_path / 'x.csv'}' USING (id)"
    assert rows(shop, text, files=True) == [[("a",)]]


def test_a_package_that_is_missing_is_named(shop: InstanceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None if name == "duckdb" else name)
    with pytest.raises(ConfigError) as raised:
        rows(shop, "SELECT 1")
    assert raised.value.code == "SOW-EXC-001" and str(raised.value.hint).endswith("'sowctl[sql]'")


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
    "blank": lambda n: '""' if n % 4 else f'"b{n % 3}"',
    "alone": lambda n: '"x"' if n % 40 else '["x"]',
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
    monkeypatch.setattr(STORE_LIMITS, "read_batch_records", 50)
    queries = [f"SELECT id, {name}, typeof({name}) FROM orders ORDER BY id" for name in VARIED]
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 1000)
    plain = [rows(shop, text) for text in queries]
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 1)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_requests", 1)
    used: list[str] = []

    def told(*arguments: Any) -> Any:
        found = read_indexed_table(*arguments)
        if found is not None:
            used.extend(field.name for field in arguments[2].fields)
        return found

    monkeypatch.setattr(topic_tables, "read_indexed_table", told)
    for _ in range(2):
        # The first pass reads all records; then the types of the columns are known.
        assert [rows(shop, text) for text in queries] == plain
    assert {"text", "whole", "broken", "either"} <= set(used)
    assert not {"many", "long", "mixed", "nested", "listed", "blank", "alone"} & set(used)
    # a record changed since the indexes were built is found
    orders.publish([b'{"id":5,"text":"new","whole":777}'])
    assert rows(shop, "SELECT text, whole FROM orders WHERE id = 5") == [[("new", 777)]]


def test_half_a_surrogate_pair_is_its_escape_also_where_there_are_indexes(
    shop: InstanceHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Filters and indexes have U+FFFD instead.
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 1)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_requests", 1)
    orders = shop.topic("orders")
    orders.delete(filter="/id > 0")
    orders.publish([b'{"id":%d,"half":"a%b"}' % (n, rb"\ud800" if n == 50 else b"") for n in range(1, 120)])
    orders.replay()
    for _ in range(3):
        assert len(list(orders.query("/half = 'a\ufffd'"))) == 1
        for condition in ("half = 'a\\ud800'", "half LIKE 'a_%'", "half <> 'a' AND id > 9"):
            assert rows(shop, f"SELECT id, half FROM orders WHERE {condition}") == [[(50, "a\\ud800")]]
        assert rows(shop, "SELECT count(*) FROM orders WHERE half = 'a'") == [[(118,)]]


def test_a_view_of_a_statement_reads_its_tables_when_it_is_asked(shop: InstanceHandle) -> None:
    with Database(shop) as database:
        text = "CREATE VIEW v AS SELECT count(*) AS n FROM orders; CREATE VIEW w AS SELECT n FROM v; SELECT n FROM w;"
        results = database.run_statements(text + "SELECT n FROM W")
        assert next(results).open_reader().read_all().to_pylist() == [{"n": 2}]
        shop.topic("orders").publish([b'{"id":7}'])
        assert next(results).open_reader().read_all().to_pylist() == [{"n": 3}]


CONDITIONS = [
    "id = 17",
    "ID IN (3, 5, 500)",
    "text = 't3'",
    "text IN ('t1', '5', 'no') AND id < 60",
    "text LIKE 't_%' AND id BETWEEN 10 AND 20",
    "text LIKE 't5%'",
    "text > 't3' AND whole >= -20",
    "whole = 1.0 OR whole = -3",
    "whole < 0 OR nested.x = 3",
    "broken = 17.25",
    "17.25e0 < broken AND broken <= 19.25",
    "either > 30.4 AND either < 33",
    "many > 100000000000000050",
    "many = 100000000000000005.5",
    "long >= 9223372036854775900",
    "mixed = '6'",
    "mixed = 'x' OR mixed = '7'",
    "listed = [3]",
    "truth AND id > 115",
    "late = 5",
    "blank <> 'b1' AND id < 20",
    "blank = '' OR blank = 'b2'",
    "alone = 'x' AND id > 70",
    "late IS NULL AND id = 4",
    "nothing IS NULL AND id = 5",
    "NOT (id > 3)",
    "id = -1",
    "id + 1 = 18",
    "whole IS DISTINCT FROM 3 AND id > 110",
    "_txid > 0 AND id = 9",
    "id = 17 AND nested.x::VARCHAR = '17'",
    "text = 'it''s' OR text = ''",
    "upper(text) = 'T2'",
]
SELECTS = [
    "SELECT * FROM orders WHERE {0} ORDER BY id",
    "SELECT count(*), sum(whole), min(_sow_key), any_value(text), any_value(typeof(either)) FROM orders o WHERE {0}",
]


@pytest.fixture
def varied(shop: InstanceHandle, monkeypatch: pytest.MonkeyPatch) -> InstanceHandle:
    """120 orders in their store, which counts as a large one."""
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 1)
    shop.topic("orders").delete(filter="/id > 0")
    publish(shop, 0, 120)
    shop.topic("orders").replay()
    return shop


def publish(shop: InstanceHandle, begin: int, end: int) -> None:
    members = {n: ",".join(f'"{name}":{value(n)}' for name, value in VARIED.items()) for n in range(begin, end)}
    shop.topic("orders").publish([b'{"id":%d,%b}' % (n, text.encode()) for n, text in members.items()])


def answers(shop: InstanceHandle, queries: list[str]) -> tuple[list[Any], list[TableRead]]:
    """Return the typed rows of each query, and how its tables were read."""
    found, reads = [], []
    with Database(shop) as database:
        for result in database.run_statements(";".join(queries)):
            found.append(result.open_reader().read_all())
            reads += database.reads
    return found, reads


def test_filters_before_decoding_change_no_answer(varied: InstanceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [select.format(condition) for condition in CONDITIONS for select in SELECTS]
    with monkeypatch.context() as plain:
        plain.setattr(topic_tables, "find_known_types", lambda *_: None)
        expected, reads = answers(varied, queries)
        assert {one.filter for one in reads} == {None}
    answers(varied, ["SELECT * FROM orders"])
    # First by scans, then by indexes built meanwhile.
    for _ in range(2):
        found, reads = answers(varied, queries)
        for query, one, other in zip(queries, found, expected, strict=True):
            assert one == other, query
    filters = {one.filter for one in reads}
    assert {"/id = 17", "/text = 't3'", "(/id = 3) OR (/id = 5) OR (/id = 500)"} <= filters
    assert len(filters) > 18
    assert min(one.decoded for one in reads if one.filter == "/id = 17") == 1
    # References to the same table share one read, and some need rows that their WHERE excludes.
    several = [
        "SELECT a.id, b.id FROM orders a JOIN orders b ON a.id = b.whole WHERE a.id = 17 AND b.id < 80 ORDER BY 1",
        "SELECT count(*) FROM orders, ORDERS b WHERE orders.id = 5",
        "SELECT count(b.id) FROM orders a LEFT JOIN orders b ON a.id = b.id WHERE a.id < 5 AND b.id > 2",
        "SELECT count(*) FROM (SELECT * FROM orders WHERE id = 5) x, (SELECT * FROM orders WHERE id = 6) y",
        "SELECT (SELECT count(*) FROM orders b WHERE b.id < a.id) FROM orders a WHERE a.id = 9",
        "SELECT count(*) FROM orders a POSITIONAL JOIN (SELECT * FROM orders LIMIT 3) b WHERE a.id = 1",
        "SELECT -id AS id FROM orders WHERE id = 5",
        "SELECT * FROM orders AS o(a, b, id) WHERE id = 5",
        "SELECT count(*) FROM (FROM orders WHERE id = 5), query_table('orders')",
        "WITH orders AS (SELECT id + 1 AS id FROM orders) SELECT count(*) FROM orders WHERE id = 5",
    ]
    with monkeypatch.context() as plain:
        plain.setattr(topic_tables, "find_known_types", lambda *_: None)
        expected, _ = answers(varied, several)
    assert answers(varied, several)[0] == expected


def test_records_that_change_keep_or_end_what_is_known_of_types(
    varied: InstanceHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_tables, "read_indexed_table", lambda *_: None)
    answers(varied, ["SELECT id, text, broken, whole FROM orders"])
    query = ["SELECT text, typeof(text), whole, typeof(whole) FROM orders WHERE id = 7"]
    orders = varied.topic("orders")

    def filtered_alike() -> bool:
        """Return whether the filter was pushed down; assert that a scan of all records gives the same rows."""
        found, (read,) = answers(varied, query)
        with monkeypatch.context() as plain:
            plain.setattr(topic_tables, "find_known_types", lambda *_: None)
            assert found == answers(varied, query)[0]
        return read.filter is not None

    assert filtered_alike()
    orders.publish([b'{"id":7,"text":"new","whole":777}'])
    assert filtered_alike()
    varied.topic("orders").replay()
    assert filtered_alike()
    # another record widens a column: all records are read once, and then the type is known
    orders.publish([b'{"id":8,"whole":1.5}'])
    assert not filtered_alike()
    assert filtered_alike()
    # only that record did, so without it the column is as narrow as before
    orders.delete(filter="/id = 8")
    assert not filtered_alike()


def test_all_tables_of_a_statement_are_of_one_instant(
    shop: InstanceHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any message published while the tables are read, whether or not a writer applies it to the stores."""
    text = """
        SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM "fixed orders"), (SELECT sum(qty) FROM totals),
            (SELECT count(*) FROM "orders@history"), (SELECT max(_txid) FROM journal), (SELECT max(_txid) FROM orders)
    """
    before = rows(shop, text)
    script = f"""
import sowctl
shop = sowctl.open({str(tmp_path / "sowctl.xml")!r})
shop.topic("orders").publish([b'{{"side":"buy","qty":100,"id":' + str(10 + n).encode() + b"}}" for n in range(5)])
shop.topic("fixed orders").publish([b"id=8\\x01"])
shop.topic("orders").replay()
"""
    own, written = NamedTable.read, []

    def read(self: NamedTable, *arguments: Any) -> Any:
        if self.name == "fixed orders":
            written.append(self.name)
            subprocess.run([sys.executable, "-c", script], check=True)
        return own(self, *arguments)

    monkeypatch.setattr(NamedTable, "read", read)
    assert rows(shop, text) == before
    assert written == ["fixed orders"]
    monkeypatch.setattr(NamedTable, "read", own)
    ((orders, fixed, total, *_),) = rows(shop, text)[0]
    assert (orders, fixed, total) == (2 + 5, 1 + 1, 13 + 500)


def test_a_signal_ends_a_statement_that_duckdb_works_on(shop: InstanceHandle) -> None:
    class Stopped(Exception):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with Database(shop) as database:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Stopped):
                text = "SELECT count(*) FROM orders o, range(200000) a, range(1000000) b WHERE a.range + b.range = qty"
                list(database.run_statements(text))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("place", [500, 30])
def test_of_a_member_that_is_given_twice_the_first_is_selected_and_filtered_alike(
    varied: InstanceHandle, place: int
) -> None:
    orders = varied.topic("orders")
    ask = ["SELECT count(*) AS n FROM orders WHERE whole = 12345", f"SELECT whole FROM orders WHERE id = {place}"]
    orders.publish([b'{"id":%d,"whole":12345, "\\u0077hole" : 1,"whole":"text"}' % place])
    # First as a change after the types were determined, then in the store.
    for _ in range(2):
        found, _ = answers(varied, ask)
        assert [one.to_pylist() for one in found] == [[{"n": 1}], [{"whole": 12345}]]
        assert answers(varied, ask)[0] == found
        orders.replay()
        answers(varied, ["SELECT id, whole FROM orders"])
    assert answers(varied, ask)[1][0].way == "columns of indexes"

"""A view of orders joined with customers, grouped by customer: computed, brought up to date, and read again.

Peers compute the same join and grouping: DuckDB and sqlite3 over the payloads as JSON text, DuckDB over typed tables.
They keep no such view, so they compute everything after a change. Rows are compared before anything is ranked.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sowctl
from tests.bench.memory import watch
from tests.bench.place import Place
from tests.bench.rounds import Item, Wrong, judge, process, race, ratios, read_cpu_seconds, show, timed

TITLE = "views: a join with a grouping, computed and caught up"
OURS, DUCK, TYPED, LITE = "sowctl, computed", "duckdb, JSON text", "duckdb, typed tables", "sqlite json_extract"
FEW, SOME, MANY = "sowctl, 10 changed", "sowctl, 0.1 % changed", "sowctl, 1 % changed"
READS = 100
"""Reads in succession, each after 0.1 % changed: the dearest is compared with the others."""
MADE_ORDERS = 10_000
"""Orders that are made at a time."""
LARGE_MB = 64 + 400
"""What --sort-memory allows, and what the interpreter, numpy and the records that are read at a time take."""
UNCHANGED, TOPIC = "sowctl, view unchanged", "sowctl, topic of that size"
_TOPIC = "<Topic><Name>{0}</Name><MessageType>json</MessageType><Key>/{1}</Key><FileName>sow/%n.sow</FileName></Topic>"
CONFIG = f"""<AMPSConfig><Name>views</Name><SOW>
{_TOPIC.format("orders", "orderId")}{_TOPIC.format("customers", "id")}{_TOPIC.format("copy", "name")}
<View><Name>totals</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./customer = [customers]./id</Join></UnderlyingTopic>
<Projection><Field>[customers]./name AS /name</Field><Field>COUNT([orders]./orderId) AS /n</Field>
<Field>SUM([orders]./qty) AS /qty</Field><Field>MAX([orders]./price) AS /most</Field></Projection>
<Grouping><Field>[customers]./name</Field></Grouping></View>
</SOW></AMPSConfig>"""
SQL = """select {name}, count({id}), sum({qty}), max({price})
    from {orders} o left join {customers} c on {customer} = {key} group by 1 order by 1"""
DUCK_SQL = SQL.format(
    orders="orders", customers="customers",
    name="c.v->>'$.name'", id="o.v->>'$.orderId'", key="c.v->>'$.id'", qty="cast(o.v->>'$.qty' as bigint)",
    price="cast(o.v->>'$.price' as double)", customer="o.v->>'$.customer'",
)  # fmt: skip
LITE_SQL = SQL.format(
    orders="orders", customers="customers",
    name="json_extract(c.v, '$.name')", id="json_extract(o.v, '$.orderId')", qty="json_extract(o.v, '$.qty')",
    price="json_extract(o.v, '$.price')", customer="json_extract(o.v, '$.customer')", key="c.k",
)  # fmt: skip
TYPED_SQL = SQL.format(
    orders="orders_typed", customers="customers_typed", name="c.name", id="o.k", qty="o.qty", price="o.price",
    customer="o.customer", key="c.k",
)  # fmt: skip


def orders(numbers: Iterator[int], customers: int, seed: int) -> list[bytes]:
    """Orders with these numbers."""
    chance = random.Random(seed)
    return [
        json.dumps(
            {
                "orderId": number,
                "customer": f"C{chance.randrange(customers)}",
                "qty": chance.randrange(1, 1000),
                "price": round(chance.uniform(1, 500), 2),
                "note": "n" * 60,
            }
        ).encode()
        for number in numbers
    ]


def run(place: Place, rounds: int, *, big: bool = False) -> None:
    """Race and judge; with ``big`` the memory of ten times as many orders and customers, too."""
    count = place.count // 2
    if big:
        _measure_large(place, 10 * count)
    customers = count // 100
    directory = place.root / "views"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    (directory / "sowctl.xml").write_text(CONFIG)
    # As a program does that asks again and again: stores stay open between its questions.
    with sowctl.open(directory / "sowctl.xml") as instance:
        _measure(rounds, instance, directory, count, customers)


def _measure(rounds: int, instance: Any, directory: Path, count: int, customers: int) -> None:
    """Race and judge with so many orders and customers."""
    held = orders(iter(range(count)), customers, 1)
    known = [json.dumps({"id": f"C{number}", "name": f"name {number}"}).encode() for number in range(customers)]
    instance.topic("orders").publish(held)
    instance.topic("customers").publish(known)
    duck, lite = _duckdb(held, known), _sqlite(held, known)
    view = instance.topic("totals")

    def asked() -> list[tuple[Any, ...]]:
        found = [json.loads(record.payload) for record in view.query().records()]
        return sorted((row["name"], row["n"], row["qty"], row["most"]) for row in found)

    wanted = [tuple(row) for row in lite.execute(LITE_SQL)]
    for what, found in (("view", asked()), ("duckdb", duck(DUCK_SQL)), ("typed", duck(TYPED_SQL))):
        if found != sorted(wanted):
            raise Wrong(f"{what} gives other rows than sqlite")

    cache = directory / "sow" / "orders.json.sow-views"

    def forget() -> None:
        shutil.rmtree(cache, ignore_errors=True)

    items = [
        Item(DUCK, lambda: timed(lambda: duck(DUCK_SQL))),
        Item(LITE, lambda: timed(lambda: lite.execute(LITE_SQL).fetchall())),
        Item(OURS, lambda: timed(lambda: view.query().count()), forget),
    ]
    found = race(items, rounds)
    show(found, base=DUCK, count=count, unit="order")
    judge("first computation / duckdb over JSON", statistics.median(ratios(found, OURS, DUCK)), 1.5, most=True)
    _changes(instance, view, duck, count, customers, rounds)
    _successive(instance, view, count, customers)
    instance.topic("copy").publish([record.payload for record in view.query().records()])
    items = [
        Item(TOPIC, lambda: timed(lambda: list(instance.topic("copy").query().records()))),
        Item(UNCHANGED, lambda: timed(lambda: list(view.query().records()))),
    ]
    found = race(items, 3 * rounds)
    show(found, base=TOPIC, count=customers, unit="row")
    judge("unchanged view / topic", statistics.median(ratios(found, UNCHANGED, TOPIC)), 1.2, most=True)


def _measure_large(place: Place, count: int) -> None:
    """Processor time and memory of a process that computes the view, or brings it up to date. Without peers."""
    instance = place.instance("large-views", fresh=True)
    instance.config.write_text(CONFIG)
    customers = count // 100
    lines = place.root / "large-views.ndjson"
    with lines.open("wb") as file:
        for start in range(0, count, MADE_ORDERS):
            part = orders(iter(range(start, min(start + MADE_ORDERS, count))), customers, start)
            file.write(b"\n".join(part) + b"\n")
    process(instance.command("publish", "orders", str(lines)))
    lines.unlink()
    names = [json.dumps({"id": f"C{number}", "name": f"name {number}"}).encode() for number in range(customers)]
    with sowctl.open(instance.config) as opened:
        opened.topic("customers").publish(names)
    for name, changed in (("first computation", 0), ("0.1 % changed", count // 1000), ("1 % changed", count // 100)):
        if changed:
            with sowctl.open(instance.config) as opened:
                _change(opened, count, customers, changed, changed)
        before = read_cpu_seconds()
        most, seconds = watch(instance.command("query", "totals", "--count"))
        cpu = read_cpu_seconds() - before
        judge(f"{name}, {count:,} orders ({seconds:.1f} s, {cpu:.1f} of CPU): RssAnon, MB", most, LARGE_MB, most=True)
    instance.clear("sow")


def _change(instance: Any, count: int, customers: int, changed: int, seed: int) -> None:
    numbers = random.Random(seed).sample(range(count), changed)
    instance.topic("orders").publish(orders(iter(numbers), customers, seed))


def _changes(instance: Any, view: Any, duck: Callable[[str], Any], count: int, customers: int, rounds: int) -> None:
    """Some of the orders change before each round."""
    seeds = iter(range(2, 1 << 20))
    view.query().count()
    for changed, name in ((10, FEW), (count // 1000, SOME), (count // 100, MANY)):

        def change(changed: int = changed) -> None:
            _change(instance, count, customers, changed, next(seeds))

        items = [
            Item(TYPED, lambda: timed(lambda: duck(TYPED_SQL))),
            Item(name, lambda: timed(lambda: view.query().count()), change),
        ]
        found = race(items, 3 * rounds)
        show(found, base=TYPED, count=changed, unit="change")
        taken = statistics.median(ratios(found, name, TYPED))
        if name == FEW:
            judge("10 changed, ms", statistics.median(one.wall for one in found[name]) * 1000, 15, most=True)
        else:
            judge(f"{name.split(', ')[1]} / duckdb over typed tables", taken, 1 if name == SOME else 1.5, most=True)


def _successive(instance: Any, view: Any, count: int, customers: int) -> None:
    """No read is to be much dearer than the others."""
    taken = []
    for number in range(READS):
        _change(instance, count, customers, count // 1000, 1000 + number)
        begin = time.process_time()
        view.query().count()
        taken.append(time.process_time() - begin)
    median = statistics.median(taken)
    print(f"  {READS} reads, 0.1 % changed before each: cpu median {median:.3f} s, dearest {max(taken):.3f} s")
    judge("dearest read / median read", max(taken) / median, 2, most=True)


def _duckdb(held: list[bytes], known: list[bytes]) -> Callable[[str], list[tuple[Any, ...]]]:
    import duckdb
    import pyarrow

    database = duckdb.connect()
    for name, rows in (("orders", held), ("customers", known)):
        lines = pyarrow.table({"v": [row.decode() for row in rows]})
        database.register("lines", lines)
        database.execute(f"create table {name} as select v from lines")
        database.unregister("lines")
    database.execute(
        "create table orders_typed as select cast(v->>'$.orderId' as bigint) as k, v->>'$.customer' as customer, "
        "cast(v->>'$.qty' as bigint) as qty, cast(v->>'$.price' as double) as price from orders"
    )
    database.execute("create table customers_typed as select v->>'$.id' as k, v->>'$.name' as name from customers")
    return lambda text: sorted(database.execute(text).fetchall())


def _sqlite(held: list[bytes], known: list[bytes]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for name, rows, field in (("orders", held, "orderId"), ("customers", known, "id")):
        database.execute(f"create table {name} (k primary key, v text)")
        database.executemany(
            f"insert into {name} values (?, ?)", [(json.loads(row)[field], row.decode()) for row in rows]
        )
    return database

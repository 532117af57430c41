"""The peers' processes: ``python peers.py WHAT DATABASE``; messages from standard input, payloads to standard output.

Loads: ``sqlite-batches`` (a transaction per 1,000 messages, WAL, synchronous=FULL), ``sqlite-one`` (the same in one
transaction), ``duckdb`` (one insert of the last message per key into a table with a primary key). Queries:
``sqlite-filter`` and ``duckdb-filter``; ``sqlite-all`` and ``duckdb-all`` print everything.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

UPSERT = "insert into orders values (?, ?) on conflict (k) do update set v = excluded.v"
SQLITE_FILTER = (
    "select v from orders where json_extract(v, '$.price') > 90 and json_extract(v, '$.region') = 'EMEA' order by k"
)
DUCKDB_FILTER = "select v from orders where cast(v->>'$.price' as double) > 90 and v->>'$.region' = 'EMEA' order by k"
DUCKDB_LOAD = """
    insert into orders
    select cast(line->>'$.orderId' as bigint) as k, arg_max(line, number)
    from (select line, row_number() over () as number
          from read_csv('/dev/stdin', columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '',
                        escape = '', auto_detect = false))
    group by k"""


def sqlite_connect(path: str) -> sqlite3.Connection:
    """A connection as the loads use it; the table is made where it is missing."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("create table if not exists orders (k integer primary key, v text)")
    return database


def duckdb_connect(path: str) -> Any:
    """A connection; the table is made where it is missing."""
    import duckdb

    database = duckdb.connect(path)
    database.execute("create table if not exists orders (k bigint primary key, v varchar)")
    return database


def pairs() -> Iterator[tuple[int, str]]:
    """Key and text of the messages on standard input."""
    import msgspec

    order = msgspec.defstruct("Order", [("orderId", int)])
    decode = msgspec.json.Decoder(order).decode
    for line in sys.stdin.buffer:
        yield decode(line).orderId, str(line[:-1], "utf-8")  # type: ignore[attr-defined]


def load_sqlite(path: str, batch: int | None) -> None:
    """Upsert the messages, ``batch`` in a transaction (None: all)."""
    database = sqlite_connect(path)
    rows = pairs()
    while part := list(islice(rows, batch)) if batch else [()]:
        database.execute("begin")
        database.executemany(UPSERT, part if batch else rows)
        database.execute("commit")
        if not batch:
            break
    database.close()


def load_duckdb(path: str) -> None:
    """Insert the last message per key, in one statement."""
    database = duckdb_connect(path)
    database.execute(DUCKDB_LOAD)
    database.close()


TYPED = """
    create table typed as
    select k, cast(v->>'$.price' as double) as price, cast(v->>'$.qty' as bigint) as qty, v->>'$.region' as region,
           v->>'$.symbol' as symbol, v->>'$.trader.name' as trader_name, v
    from orders order by k"""
INDEXES = (
    "create index by_price on orders (json_extract(v, '$.price'))",
    "create index by_symbol on orders (json_extract(v, '$.symbol'))",
)


def write(columns: list[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Payloads to standard output; rows of several columns as JSON."""
    if len(columns) == 1:
        for row in rows:
            sys.stdout.buffer.write(str(row[0]).encode() + b"\n")
    else:
        import json

        for row in rows:
            sys.stdout.buffer.write(json.dumps(dict(zip(columns, row, strict=True))).encode() + b"\n")
    sys.stdout.buffer.flush()


def ask_sqlite(path: str, text: str) -> None:
    """Print what a query gives."""
    cursor = sqlite_connect(path).execute(text)
    write([column[0] for column in cursor.description], cursor)


def ask_duckdb(path: str, text: str) -> None:
    """Print what a query gives."""
    cursor = duckdb_connect(path).execute(text)
    write([column[0] for column in cursor.description], cursor.fetchall())


def load(what: str, path: str) -> None:
    """Fill a new database from standard input."""
    for end in ("", "-wal", "-shm"):
        Path(path + end).unlink(missing_ok=True)
    if what.startswith("duckdb"):
        load_duckdb(path)
        if what == "duckdb-typed":
            duckdb_connect(path).execute(TYPED)
        return
    load_sqlite(path, 1000 if what == "sqlite-batches" else None)
    if what == "sqlite-index":
        for text in INDEXES:
            sqlite_connect(path).execute(text)


def main(what: str, path: str, *more: str) -> None:
    """Do what the first argument says."""
    engine, _, task = what.partition("-")
    if task in ("filter", "all", "sql"):
        ask = ask_sqlite if engine == "sqlite" else ask_duckdb
        known = SQLITE_FILTER if engine == "sqlite" else DUCKDB_FILTER
        ask(path, more[0] if task == "sql" else known if task == "filter" else "select v from orders")
    else:
        load(what, path)


if __name__ == "__main__":
    main(*sys.argv[1:])

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


def write(rows: Iterable[tuple[str]]) -> None:
    """Payloads to standard output."""
    for row in rows:
        sys.stdout.buffer.write(row[0].encode() + b"\n")
    sys.stdout.buffer.flush()


def main(what: str, path: str) -> None:
    """Do what the first argument says."""
    engine, _, task = what.partition("-")
    if what == "duckdb":
        Path(path).unlink(missing_ok=True)
        load_duckdb(path)
    elif what in ("sqlite-one", "sqlite-batches"):
        for end in ("", "-wal", "-shm"):
            Path(path + end).unlink(missing_ok=True)
        load_sqlite(path, 1000 if task == "batches" else None)
    elif engine == "sqlite":
        write(sqlite_connect(path).execute(SQLITE_FILTER if task == "filter" else "select v from orders"))
    else:
        write(duckdb_connect(path).execute(DUCKDB_FILTER if task == "filter" else "select v from orders").fetchall())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

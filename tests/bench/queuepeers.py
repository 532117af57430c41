"""The processes of the benchmark of queues: ``python -m tests.bench.queuepeers WHAT PATH COUNT BATCH``.

Each leases and acknowledges COUNT messages in batches. ``sqlite-wal`` and
``sqlite-rollback`` are one table, a transaction per lease and one per acknowledgement, synchronous=FULL: a lease marks
the first free rows with a token, an acknowledgement deletes them by id and token. ``litequeue`` takes one message in a
transaction (its WAL with synchronous=FULL, as the others sync), ``persist-queue`` likewise. ``sowctl`` leases from the
queue ``work`` of the instance at PATH. Printed are seconds on the clock and of CPU, without the first batch, which
loads and opens what is needed.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PAYLOAD = b'{"orderId":%d,"region":"EMEA","price":12.5,"text":"a message of a queue, of about a hundred bytes in all"}'
CLAIM = """update work set state = 1, until = ?, token = ?, deliveries = deliveries + 1
    where id in (select id from work where state = 0 order by id limit ?) returning id, payload"""


def connected(path: str, journal: str) -> sqlite3.Connection:
    """A connection that syncs every transaction."""
    database = sqlite3.connect(path, isolation_level=None, timeout=60)
    database.execute(f"pragma journal_mode = {journal}")
    database.execute("pragma synchronous = full")
    return database


def fill_sqlite(path: str, journal: str, count: int) -> None:
    """A queue with so many messages."""
    database = connected(path, journal)
    columns = (
        "id integer primary key, payload blob, state int default 0, until real, token int, deliveries int default 0"
    )
    database.execute(f"create table work ({columns})")
    database.execute("create index waiting on work (state, id)")
    database.execute("begin")
    database.executemany("insert into work (payload) values (?)", ((PAYLOAD % number,) for number in range(count)))
    database.execute("commit")
    database.close()


def sqlite(path: str, journal: str, batch: int) -> Iterator[int]:
    """Lease and acknowledge."""
    database, token = connected(path, journal), time.time_ns()
    while True:
        database.execute("begin immediate")
        token += 1
        rows = database.execute(CLAIM, (time.time() + 30, token, batch)).fetchall()
        database.execute("commit")
        database.execute("begin immediate")
        database.executemany("delete from work where id = ? and token = ?", [(row[0], token) for row in rows])
        database.execute("commit")
        yield len(rows)


def litequeue(path: str) -> Iterator[int]:
    """One message in a transaction, and one more for its end."""
    from litequeue import LiteQueue  # type: ignore[import-not-found]

    queue = LiteQueue(path)
    queue.conn.execute("pragma synchronous = full")
    while True:
        queue.done(queue.pop().message_id)
        yield 1


def fill_litequeue(path: str, count: int) -> None:
    """Its own table, filled in one transaction."""
    from litequeue import LiteQueue

    queue = LiteQueue(path)
    with queue.transaction():
        for number in range(count):
            queue.put((PAYLOAD % number).decode())


def persistqueue(path: str) -> Iterator[int]:
    """One message at a time, each acknowledged."""
    from persistqueue import SQLiteAckQueue  # type: ignore[import-not-found]

    queue = SQLiteAckQueue(path, auto_commit=True)
    while True:
        queue.ack(queue.get(block=False))
        yield 1


def fill_persistqueue(path: str, count: int) -> None:
    """Its own table, filled in one transaction."""
    from persistqueue import SQLiteAckQueue

    queue = SQLiteAckQueue(path, auto_commit=False)
    for number in range(count):
        queue.put(PAYLOAD % number)
    queue.task_done()


def sowctl(config: str, batch: int) -> Iterator[int]:
    """Lease and acknowledge."""
    import sowctl as package

    with package.open(Path(config)) as instance, instance.queue("work") as queue:
        while True:
            with queue.lease(batch) as messages:
                pass
            yield len(messages)


def main() -> None:
    """What the arguments say."""
    what, path, count, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    journals = {"sqlite-wal": "wal", "sqlite-rollback": "delete"}
    if what in journals:
        work = sqlite(path, journals[what], batch)
    else:
        one = {"litequeue": litequeue, "persist-queue": persistqueue}.get(what)
        work = sowctl(path, batch) if one is None else one(path)
    next(work)
    begin, cpu = time.perf_counter(), time.process_time()
    done = 0
    while done < count:
        found = next(work)
        assert found, "the queue ran empty"
        done += found
    print(time.perf_counter() - begin, time.process_time() - cpu)


if __name__ == "__main__":
    main()

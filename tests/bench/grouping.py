"""Grouping and aggregates: few groups from indexes and by scan, and as many groups as records.

One store of as many records as messages, against DuckDB over the same: its typed table, and the NDJSON as it lies.
Figures are processor time (user and system), the least of the rounds, so that what else runs on the machine counts
little. Sums of Doubles are rounded once here and on the way there: they are compared to 12 digits.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sowctl
from tests.bench import data
from tests.bench.memory import watch
from tests.bench.place import PEERS, Instance, Place
from tests.bench.rounds import Sample, Wrong, judge, output_of, process, timed

TITLE = "grouping: sums by group, and many groups"
PROJECTION, GROUPING = "/region, SUM(/qty * /price) AS /sum, COUNT(/qty) AS /n", "/region"
SQL = "select region, sum(qty * price) as sum, count(qty) as n from {} group by 1"
MANY = "/orderId, SUM(/qty * /price) AS /sum, COUNT(/qty) AS /n"


def run(place: Place, rounds: int) -> None:
    """Every question in turn."""
    import duckdb

    # As installed programs have it: modules are compiled once, not at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(place.root / "bytecode")
    instance, lines = _loaded(place)
    path = place.root / f"grouping-{place.count}.duckdb"
    scanned = f"read_json('{lines}', format = 'newline_delimited')"
    with duckdb.connect(str(path)) as database:
        database.execute(f"create table if not exists typed as select * from {scanned}")
        expected = _by_region(database.execute(SQL.format("typed")).fetchall())
        typed = _least(lambda: database.execute(SQL.format("typed")).fetchall(), rounds, 10)
        ndjson = _least(lambda: database.execute(SQL.format(scanned)).fetchall(), rounds)
    opened = sowctl.open(instance.config)

    def asked(index: int | None) -> list[list[Any]]:
        batches = opened.topic("orders").query(projection=PROJECTION, grouping=GROUPING, index_from=index)
        return [list(json.loads(text).values()) for batch in batches for text in batch.payloads]

    for index in (None, 0, 0, 0):
        _same(_by_region(asked(index)), expected)
    judge(
        "in-process, indexed: time / duckdb's typed table", _least(partial(asked, 0), rounds, 10) / typed, 4, most=True
    )
    judge("in-process, scan: time / duckdb over NDJSON", _least(partial(asked, None), rounds) / ndjson, 1.5, most=True)
    words = ("query", "orders", "--projection", PROJECTION, "--grouping", GROUPING)
    for name, more, table, limit in (
        ("indexed: time / duckdb in Python, typed", (), "typed", 1.6),
        ("scan: time / duckdb in Python over NDJSON", ("--no-index",), scanned, 1.5),
    ):
        mine = instance.command(*words, *more)
        theirs = [*PEERS, "duckdb-sql", str(path), SQL.format(table)]
        found = [list(json.loads(line).values()) for line in output_of(mine).splitlines()]
        _same(_by_region(found), expected)
        least = [min(process(argv).cpu for _ in range(max(rounds, 5))) for argv in (mine, theirs)]
        judge(f"whole process, {name}", least[0] / least[1], limit, most=True)
    _many(instance, place)


def _many(instance: Instance, place: Place) -> None:
    """As many groups as records, with the memory that groups may take by default."""
    command = instance.command("query", "orders", "--projection", MANY, "--grouping", "/orderId", "--no-index")
    groups = output_of(command).count(b"\n")
    if groups != place.count:
        raise Wrong(f"{groups:,} groups of {place.count:,}")
    most, seconds = watch(command)
    judge(f"{groups:,} groups ({seconds:.1f} s): RssAnon in MB", most, 400, most=True)


def _loaded(place: Place) -> tuple[Instance, str]:
    """An instance with a record for every message, and the file of the messages."""
    path = place.root / f"orders-{place.count}-alone.ndjson"
    if not path.exists():
        with path.open("wb") as out:
            for start in range(0, place.count, 100_000):
                size = min(100_000, place.count - start)
                keys = (b'{"orderId":%d,' % (start + number) for number in range(size))
                rest = (line.split(b",", 1)[1] for line in data.lines(size, size, start))
                out.writelines(key + line + b"\n" for key, line in zip(keys, rest, strict=True))
    instance = place.instance(f"grouping-{place.count}")
    if not (instance.directory / "complete").exists():
        instance = place.instance(f"grouping-{place.count}", fresh=True)
        process(instance.publish(), feed=path)
        (instance.directory / "complete").touch()
    return instance, str(path)


def _by_region(rows: Sequence[Sequence[Any]]) -> dict[str, tuple[float, int]]:
    return {region: (total, count) for region, total, count in rows}


def _same(found: dict[str, tuple[float, int]], expected: dict[str, tuple[float, int]]) -> None:
    if found.keys() != expected.keys() or not all(
        count == expected[region][1] and math.isclose(total, expected[region][0], rel_tol=1e-12)
        for region, (total, count) in found.items()
    ):
        raise Wrong(f"{found} is not {expected}: nothing is ranked")


def _least(function: Callable[[], object], rounds: int, times: int = 1) -> float:
    """The least processor time of a call; of ``times`` calls together, where one is too short for the clock."""

    def several() -> None:
        for _ in itertools.repeat(None, times):
            function()

    found: list[Sample] = [timed(several) for _ in range(max(rounds, 5))]
    return min(sample.cpu for sample in found) / times

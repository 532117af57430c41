"""Queries with and without indexes: in a process that runs already, and from a start to an end.

Peers hold the same last message per key: sqlite3 as JSON text, with and without an index on the expressions; DuckDB as
JSON text and as a table of typed columns beside the payload. As whole processes they are Python's modules, and the
command lines of both where those are installed. Outputs are compared before anything is ranked.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

import sowctl
from sowctl.engine.api import InstanceHandle
from tests.bench import peers
from tests.bench.place import PEERS, Instance, Place
from tests.bench.rounds import Item, Sample, Wrong, judge, output_of, process, race, ratios, show, timed

TITLE = "queries: memo indexes against scans and peers"
INDEXED, SCAN, SCAN2 = "sowctl, memo indexes", "sowctl, scan, 1 process", "sowctl, scan, 2 processes"
JSON, SHELL, INDEX, DUCK, TYPED, CLI = (
    "sqlite json_extract",
    "sqlite's CLI, json_extract",
    "sqlite expression index",
    "duckdb, JSON text",
    "duckdb, typed columns",
    "duckdb's CLI, typed columns",
)


class Query(NamedTuple):
    """One question: our options, and SQL over ``f(path)`` of table ``orders``; ``{path}`` stands for a field."""

    name: str
    ours: dict[str, Any]
    sql: str
    many: bool = True


QUERIES = (
    Query(
        "filter keeping 2.5 %",
        {"filter": "/price > 90 AND /region = 'EMEA'"},
        "select v from orders where {price} > 90 and {region} = 'EMEA' order by k",
    ),
    Query(
        "regular expression on a nested field",
        {"filter": "/trader/name LIKE '-04[0-9]$'"},
        "select v from orders where {trader.name} {like} order by k",
    ),
    Query(
        "exact match on a field that is no key",
        {"filter": "/symbol = 'SYM1234'"},
        "select v from orders where {symbol} = 'SYM1234' order by k",
    ),
    Query(
        "first 10 after 20 by price, descending",
        {"order_by": "/price DESC, /orderId", "top_n": 10, "skip_n": 20},
        "select v from orders order by {price} desc, k limit 10 offset 20",
        many=False,
    ),
    Query(
        "sum(qty * price) by region",
        {"projection": "/region, SUM(/qty * /price) AS /sum, COUNT(/qty) AS /n", "grouping": "/region"},
        "select {region} as region, sum({qty} * {price}) as sum, count({qty}) as n from orders group by 1",
        many=False,
    ),
)
COUNT = Query(
    "count of what matches",
    {"filter": "/price > 90 AND /region = 'EMEA'"},
    "select count(*) from orders where {price} > 90 and {region} = 'EMEA'",
)
TYPES = {"price": "double", "qty": "bigint", "region": "varchar", "symbol": "varchar", "trader.name": "varchar"}


def sql(query: Query, peer: str) -> str:
    """The question in a peer's words."""
    text = query.sql
    if peer in (DUCK, TYPED, CLI):
        text = text.replace("{trader.name} {like}", "regexp_matches({trader.name}, '-04[0-9]$')")
    else:
        text = text.replace("{like}", "glob '*-04[0-9]'")
    for path, kind in TYPES.items():
        if peer in (JSON, SHELL, INDEX):
            field = f"json_extract(v, '$.{path}')"
        elif peer == DUCK:
            field = f"cast(v->>'$.{path}' as {kind})"
        else:
            field = path.replace(".", "_")
        text = text.replace("{" + path + "}", field)
    return text.replace("from orders", "from typed") if peer in (TYPED, CLI) else text


def run(place: Place, rounds: int) -> None:
    """Every question in turn."""
    instance = place.loaded()
    paths = {JSON: place.database("sqlite-one"), INDEX: place.database("sqlite-index")}
    if find_spec("duckdb") is not None:
        paths |= {DUCK: place.database("duckdb"), TYPED: place.database("duckdb-typed")}
    for query in (*QUERIES, COUNT):
        print(f"\n  {query.name}:")
        if query is not COUNT:
            print("  whole process:")
            _processes(instance, query, paths, max(rounds, 5))
        print("  in-process:")
        _calls(instance, query, paths, max(rounds, 5))


def _command(instance: Instance, query: Query, *more: str) -> list[str]:
    words = ["query", "orders"]
    for name, value in query.ours.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return instance.command(*words, *more)


def _processes(instance: Instance, query: Query, paths: dict[str, Path], rounds: int) -> None:
    commands = {
        INDEXED: _command(instance, query),
        SCAN: _command(instance, query, "--no-index", "--jobs", "1"),
        SCAN2: _command(instance, query, "--no-index", "--jobs", "2"),
    }
    for name, path in paths.items():
        kind = "sqlite" if name in (JSON, INDEX) else "duckdb"
        commands[name] = [*PEERS, f"{kind}-sql", str(path), sql(query, name)]
    wanted = ["-noheader", "-list"] if query.sql.startswith("select v") else ["-json"]
    shell, cli = which("sqlite3"), _cli()
    if shell is not None:
        commands[SHELL] = [shell, "-readonly", *wanted, str(paths[JSON]), sql(query, SHELL)]
    if cli is not None and TYPED in paths:
        commands[CLI] = [cli, "-readonly", *wanted, str(_for_cli(paths[TYPED])), sql(query, CLI)]
    expected = _digest(output_of(commands[INDEXED]).splitlines())
    for name, argv in commands.items():
        if _digest(output_of(argv).splitlines()) != expected:
            raise Wrong(f"{name} gives another result: nothing is ranked")
    found = race([Item(name, partial(process, argv)) for name, argv in commands.items()], rounds)
    show(found, base=INDEXED)
    _judge(query, found)


def _judge(query: Query, found: dict[str, list[Sample]]) -> None:
    for name in (JSON, SHELL, DUCK):
        if name in found:
            judge(f"time / {name}", statistics.median(ratios(found, INDEXED, name)), 1.0, most=True)
    if query is QUERIES[0] and TYPED in found:
        judge(f"time / {TYPED}, Python", statistics.median(ratios(found, INDEXED, TYPED)), 1.0, most=True)
        if CLI in found:
            judge(f"time / {CLI}", statistics.median(ratios(found, INDEXED, CLI)), 1.5, most=True)
        for name in (JSON, SHELL):
            if name in found:
                judge(f"scan, 1 process: time / {name}", statistics.median(ratios(found, SCAN, name)), 1.0, most=True)


def _calls(instance: Instance, query: Query, paths: dict[str, Path], rounds: int) -> None:
    with sowctl.open(instance.config) as opened:  # which stays open, as the peers' connections do
        found = _called(opened, instance, query, paths, rounds)
    show(found, base=INDEXED)
    if query is COUNT and TYPED in found:
        faster = statistics.median(ratios(found, TYPED, INDEXED))
        judge(f"the evaluation: times as fast as {TYPED}", faster, 5.0)
    elif query is QUERIES[3]:
        for name in (SCAN, SCAN2):
            judge(f"{name[8:]}: time / {JSON}", statistics.median(ratios(found, name, JSON)), 1.0, most=True)
    elif query is QUERIES[0]:
        if TYPED in found:
            judge(f"with payloads: time / {TYPED}", statistics.median(ratios(found, INDEXED, TYPED)), 1.0, most=True)
        judge(f"scan, 1 process: time / {JSON}", statistics.median(ratios(found, SCAN, JSON)), 1.0, most=True)
    _judge(query._replace(name=""), {name: samples for name, samples in found.items() if name in (INDEXED, JSON, DUCK)})


def _called(
    opened: InstanceHandle, instance: Instance, query: Query, paths: dict[str, Path], rounds: int
) -> dict[str, list[Sample]]:
    topic = opened.topic("orders")

    def scan(**more: object) -> list[bytes]:
        result = topic.query(**query.ours, **more)
        if query is COUNT:
            return [b"%d" % result.count()]
        return [payload for batch in result for payload in batch.payloads]

    ours: Callable[[], list[bytes]] = scan
    if query is COUNT:
        ours = _evaluation(instance, str(query.ours["filter"]))
    calls: dict[str, Callable[[], list[bytes]]] = {INDEXED: ours, SCAN: lambda: scan(index_from=None, jobs=1)}
    if query is QUERIES[3]:
        calls[SCAN2] = lambda: scan(index_from=None, jobs=2)
    for name, path in paths.items():
        if name in (JSON, INDEX):
            database: Any = peers.sqlite_connect(str(path))
            calls[name] = partial(_fetched, database.execute, sql(query, name))
        else:
            database = peers.duckdb_connect(str(path))
            text = sql(query, name)
            if query is COUNT:
                database.execute(f"prepare counting as {text}")
                text = "execute counting"
            calls[name] = partial(_fetched, database.execute, text)
    expected = _digest(ours())
    for name, call in calls.items():
        if _digest(call()) != expected:
            raise Wrong(f"{name} gives another result: nothing is ranked")
    return race([Item(name, partial(_often, call)) for name, call in calls.items()], rounds)


def _evaluation(instance: Instance, text: str) -> Callable[[], list[bytes]]:
    """The filter over memo indexes that are open, as a query does it: no opening of files, no payloads."""
    import numpy  # noqa: F401 - as in a process that runs for long

    from sowctl.engine.search.conditions import split_conditions
    from sowctl.engine.search.index_lookup import open_indexes
    from sowctl.engine.search.matcher import build_environment
    from sowctl.engine.sources.opener import open_present_source
    from sowctl.expressions.compiler import compile_filter

    opened = sowctl.open(instance.config)
    asked, _ = split_conditions(compile_filter(text), build_environment(opened))
    memos = open_indexes(
        opened, open_present_source(opened, opened.topic("orders").target), [one.slot for one in asked]
    )
    if memos is None:
        raise Wrong("there are no indexes")

    def evaluate() -> list[bytes]:
        hits = sorted(
            (memos.indexes[slot].find_hits(condition, columns=True) for slot, condition in asked),
            key=attrgetter("count"),
        )
        places = hits[0].read_row_numbers(arrays=True)
        for more in hits[1:]:
            places = more.select_among(places)
        return [b"%d" % len(places)]

    return evaluate


def _often(call: Callable[[], object]) -> Sample:
    """The mean of several calls, where one takes little."""
    first = timed(call)
    if first.wall > 0.05:
        return first
    count = max(20, min(1000, int(0.2 / first.wall)))
    whole = timed(lambda: [call() for _ in range(count)])
    return Sample(whole.wall / count, whole.cpu / count)


def _fetched(execute: Callable[[str], Any], text: str) -> list[bytes]:
    cursor = execute(text)
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    if names == ["v"] or len(names) == 1:
        return [str(row[0]).encode() for row in rows]
    return [json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows]


def _digest(lines: Sequence[bytes]) -> str:
    """Which messages, in any order; sums to eleven digits, since not everybody adds exactly."""
    if lines and lines[0].lstrip(b"[").startswith(b'{"region"'):
        rows = [json.loads(line.strip().strip(b",[]")) for line in lines]
        lines = [f"{row['region']} {float(row['sum']):.11g} {row['n']}".encode() for row in rows]
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()


def _cli() -> str | None:
    """DuckDB's command line, if it is installed."""
    beside = Path(PEERS[0]).with_name("duckdb")
    return str(beside) if beside.exists() else which("duckdb")


def _for_cli(path: Path) -> Path:
    """A copy of the table in a file that another version of DuckDB can read."""
    copied = path.with_suffix(".cli.db")
    if not copied.exists():
        parquet = path.with_suffix(".parquet")
        peers.duckdb_connect(str(path)).execute(f"copy typed to '{parquet}' (format parquet)")
        output_of([str(_cli()), str(copied), f"create table typed as select * from '{parquet}'"])
    return copied

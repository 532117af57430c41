"""What memo indexes cost: building, catching up with changes, memory, growth, and what publishing pays for them."""

from __future__ import annotations

import statistics
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import sowctl
from tests.bench.memory import watch
from tests.bench.place import Instance, Place
from tests.bench.rounds import Item, Sample, Wrong, judge, process, race, ratios, show, timed

TITLE = "indexes: building, catching up, growth, memory, what publishing pays"
FILTER = "/price > 90 AND /region = 'EMEA'"


def run(place: Place, rounds: int) -> None:
    """Everything, one after the other."""
    _building(place, rounds)
    _changes(place)
    _growth(place)
    _publishing(place, rounds)


def _query(topic: Any, index: int | None = 20_000) -> float:
    begin = time.perf_counter()
    for _ in topic.query(FILTER, index_from=index):
        pass
    return time.perf_counter() - begin


def _fresh(place: Place, name: str, count: int) -> Instance:
    instance = place.instance(name, fresh=True)
    process(instance.publish(), feed=place.input(count))
    return instance


def _building(place: Place, rounds: int) -> None:
    """The first query of a field beside a scan, and building its index beside DuckDB's table of the same NDJSON."""
    instance = place.instance("indexes-building", fresh=True)
    lines = instance.directory / "messages.ndjson"
    # Each message has a key of its own, so that both hold the same number.
    with lines.open("wb") as out:
        for number, line in enumerate(place.input().read_bytes().splitlines()):
            out.write(b'{"orderId":%d%b\n' % (10_000_000 + number, line[line.index(b",") :]))
    process(instance.publish(), feed=lines)
    topic = sowctl.open(instance.config).topic("orders")
    wanted = sum(1 for _ in topic.query(FILTER, index_from=None).records())
    scans, firsts, builds, tables = [], [], [], []
    for _ in range(max(rounds, 3)):
        topic.reindex(drop=True)
        scans.append(timed(lambda: _query(topic, None)).cpu)
        firsts.append(timed(lambda: _query(topic)).cpu)
        # The second one builds, and answers by what it built, as the third one does.
        builds.append(timed(lambda: _query(topic)).cpu - timed(lambda: _query(topic)).cpu)
        if sum(1 for _ in topic.query(FILTER).records()) != wanted:
            raise Wrong("the index gives another result: nothing is ranked")
        if find_spec("duckdb") is not None:
            tables.append(timed(lambda: _table(lines, place.count)).cpu)
    print(f"  {place.count:,} records, CPU seconds: scan {min(scans):.2f}, first query {min(firsts):.2f}, ", end="")
    print(f"index of two fields {min(builds):.2f}" + (f", DuckDB's table {min(tables):.2f}" if tables else ""))
    judge("first query of two fields: CPU time / a scan", min(firsts) / min(scans), 1.2, most=True)
    if tables:
        judge("building: CPU time / DuckDB's CREATE TABLE AS", min(builds) / min(tables), 1.5, most=True)


def _table(lines: Path, count: int) -> None:
    import duckdb

    database = duckdb.connect()
    database.execute(f"create table orders as select * from read_ndjson_auto('{lines}')")
    if database.execute("select count(*) from orders").fetchone() != (count,):
        raise Wrong("DuckDB's table holds another number of records")


def _changes(place: Place) -> None:
    instance = _fresh(place, "indexes-changes", place.count)
    topic = sowctl.open(instance.config).topic("orders")
    scan = statistics.median(_query(topic, None) for _ in range(3))
    _query(topic)  # asks for the fields; the next one builds
    begin = time.perf_counter()
    _query(topic)
    build = time.perf_counter() - begin
    unchanged = statistics.median(_query(topic) for _ in range(7))
    held = topic.info().records
    print(f"  {held:,} records; scan {1000 * scan:.0f} ms, second query {1000 * build:.0f} ms (it builds), then ")
    print(f"  {1000 * unchanged:.1f} ms; indexes of two fields and the keys: {topic.info().index_bytes / 1e6:.1f} MB")
    lines = place.input().read_bytes().splitlines()
    for share, target in ((100, 3.0), (1, None)):
        messages = lines[: held // share] if share > 1 else lines
        firsts = []
        for _ in range(5 if share > 1 else 1):  # the same records again: no more than these differ from the indexes
            topic.publish(messages)
            firsts.append(_query(topic))
        first = statistics.median(firsts)
        after = statistics.median(_query(topic) for _ in range(5))
        words = f"after {100 // share} % changed: next query {1000 * first:.1f} ms, then {1000 * after:.1f} ms"
        if target is not None:
            judge(f"{words}; times the unchanged one", first / unchanged, target, most=True)
        else:
            judge(f"{words}; times a fresh build and a scan", first / (build + scan), 1.0, most=True)


def _growth(place: Place) -> None:
    print("  growth: a whole process that queries by index; per record read")
    figures = []
    for count in (place.count // 10, place.count, 5 * place.count):
        instance = _fresh(place, "indexes-growth", count)
        command = instance.command("query", "orders", FILTER)
        topic = sowctl.open(instance.config).topic("orders")
        _query(topic)
        begin = time.perf_counter()
        _query(topic)
        built = time.perf_counter() - begin
        records = topic.info().records
        inside = statistics.median(_query(topic) for _ in range(5))
        most, seconds = watch(command)
        figures.append((built / records, inside / records))
        touched = sum(path.stat().st_size for path in Path(instance.directory).rglob("*.memo")) / 1e6
        print(
            f"    {records:>9,} records: build {1e9 * built / records:6.0f} ns, query {1e9 * inside / records:6.0f} ns "
            f"a record; process {seconds:.2f} s, RssAnon {most:.0f} MB, index files {touched:.0f} MB"
        )
    for at, word in ((0, "build"), (1, "query")):
        judge(f"{word}: cost a record, most records against fewer", figures[2][at] / figures[1][at], 1.2, most=True)


def _publishing(place: Place, rounds: int) -> None:
    """In one process: publishing with the change list, and with a store that keeps none."""
    messages = place.input(place.count // 4).read_bytes().splitlines()

    def publish(listed: bool) -> Sample:
        instance = place.instance("indexes-publish", fresh=True)
        topic = sowctl.open(instance.config).topic("orders")
        topic.publish(messages[:1000])
        if listed:
            return timed(lambda: topic.publish(messages))
        with mock.patch("sowctl.store.write.append_change", lambda *_: None):
            return timed(lambda: topic.publish(messages))

    items = [
        Item("publish, no change list", lambda: publish(False)),
        Item("publish", lambda: publish(True)),
    ]
    found = race(items, max(rounds, 7))
    show(found, base="publish, no change list", count=len(messages))
    slower = statistics.median(ratios(found, "publish", "publish, no change list"))
    judge("time / without the change list", slower, 1.1, most=True)

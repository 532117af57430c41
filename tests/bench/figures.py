"""The figures by which queries are planned: what the two ways of each cost at several sizes, and where they cross.

Rounds are interleaved and the least of each way counts: CPU seconds, of a whole process where loading belongs to what
is decided; on the clock where a second process shall spare time. ``sowctl/engine/search/figures.py`` has the outcome.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import sowctl
from sowctl.engine.api import TopicHandle
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.sources.opener import open_present_source
from tests.bench import data
from tests.bench.place import Place
from tests.bench.rounds import process

TITLE = "figures: where the ways of reading cross"
RECORDS = 300_000
NEVER = 1 << 60

_CONFIG = """<AMPSConfig><Name>figures</Name><SOW><Topic><Name>orders</Name><MessageType>json</MessageType>
<Key>/seq</Key><FileName>sow/%n.sow</FileName></Topic></SOW><TransactionLog><JournalDirectory>journal</JournalDirectory>
<Topic><Name>orders</Name><MessageType>json</MessageType></Topic></TransactionLog></AMPSConfig>
"""
_CHILD = """
import json, sys
import sowctl
from sowctl.engine.search.figures import QUERY_LIMITS
for name, value in json.loads(sys.argv[2]).items():
    setattr(QUERY_LIMITS, name, value)
asked = json.loads(sys.argv[3])
count = asked.pop("count", False)
result = sowctl.open(sys.argv[1]).topic("orders").query(**asked)
if count:
    result.count()
for batch in () if count else result:
    batch.payloads
"""

Way = Callable[[int], float]
"""Seconds that something of a size takes, this way."""


def run(place: Place, rounds: int) -> None:
    """Every figure in turn."""
    held = {count: _held(place.root, count) for count in (1000, 2000, 4000, 8000, 16_000, 32_000, 150_000, RECORDS)}
    whole = held[RECORDS]
    _indexed(held, rounds)
    _most(whole, rounds)
    _first(whole, rounds)
    _named(held, rounds)
    _large(held, rounds)
    _arrays(whole, rounds)
    _gain(held, rounds)
    _changed(place.root, rounds)
    _several(whole, rounds)
    _mapped(whole, rounds)
    _looking(held, rounds)
    _share(whole, rounds)
    _again(whole, rounds)
    _words(whole, rounds)
    _batches(whole, rounds)
    _other_batches(held[32_000], rounds)


def _held(root: Path, count: int, name: str = "figures") -> Path:
    """The configuration of an instance with so many records; made once."""
    directory = root / f"{name}-{count}"
    config = directory / "sowctl.xml"
    if not (directory / "complete").exists():
        directory.mkdir(parents=True, exist_ok=True)
        config.write_text(_CONFIG)
        sowctl.open(config).topic("orders").publish(data.lines(count, count))
        (directory / "complete").touch()
    return config


def _table(title: str, names: Sequence[str], sizes: Sequence[int], ways: Sequence[Way], rounds: int) -> None:
    """Print what each way takes, and the sizes between which the second becomes the cheaper one."""
    print(f"\n  {title}\n  {'':>12}" + "".join(f"{name:>24}" for name in names))
    better: list[bool] = []
    for size in sizes:
        least = [float("inf")] * len(ways)
        for _ in range(rounds + 2):
            for at, way in enumerate(ways):
                least[at] = min(least[at], way(size))
        better.append(least[-1] < least[0])
        print(f"  {size:>12,}" + "".join(f"{1000 * seconds:>21.2f} ms" for seconds in least))
    at = [number for number in range(1, len(sizes)) if better[number] != better[number - 1]]
    said = ", ".join(f"between {sizes[number - 1]:,} and {sizes[number]:,}" for number in at)
    print(f"  {'':>12}they cross {said}" if at else f"  {'':>12}{names[-1 if better[0] else 0]} is cheaper for all")


def _cpu(call: Callable[[], object]) -> float:
    """CPU seconds of a call in this process; the mean of several where one is short."""
    begin, times = time.process_time(), 0
    while not times or (time.process_time() - begin < 0.02 and times < 1000):
        call()
        times += 1
    return (time.process_time() - begin) / times


def _read(topic: TopicHandle, changed: dict[str, Any], **asked: Any) -> None:
    with mock.patch.multiple(QUERY_LIMITS, **changed):
        for batch in topic.query(**asked):
            _ = batch.payloads


def _child(config: Path, changed: dict[str, Any], **asked: Any) -> float:
    """CPU seconds of a process that asks once."""
    return process([sys.executable, "-c", _CHILD, str(config), json.dumps(changed), json.dumps(asked)]).cpu


def _indexed(held: dict[int, Path], rounds: int) -> None:
    asked = {"filter": "/price > 90 AND /region = 'EMEA'"}
    for config in held.values():
        _child(config, {}, **asked, index_from=0)

    def scanned(size: int) -> float:
        return _child(held[size], {}, **asked, index_from=None, jobs=1)

    def indexed(size: int) -> float:
        return _child(held[size], {}, **asked, index_from=0)

    def built(size: int) -> float:
        for path in held[size].parent.rglob("*.memo"):
            path.unlink()
        return indexed(size)

    sizes = [size for size in held if 2000 <= size <= RECORDS]
    names = ["scan", "indexes, built first", "indexes that there are"]
    _table("index_min_records: records of the store; a process", names, sizes, [scanned, built, indexed], rounds)


def _most(config: Path, rounds: int) -> None:
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")

        def taken(share: int, **asked: Any) -> float:
            asked["filter"] = f"/price > {100 - share}"
            return _cpu(lambda: _read(topic, {"index_max_share": 1.0}, jobs=1, **asked))

        names = ["memo index", "scan"]
        ways = [partial(taken, index_from=0), partial(taken, index_from=None)]
        _table("index_max_share: percent of the records left", names, (10, 20, 30, 40, 50, 60, 80), ways, rounds)


def _first(config: Path, rounds: int) -> None:
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")

        def taken(wanted: int, **asked: Any) -> float:
            return _cpu(
                lambda: _read(topic, {"top_k_max_records": NEVER}, order_by="/price", top_n=wanted, jobs=1, **asked)
            )

        names = ["order by index", "sorting all that match"]
        ways = [partial(taken, index_from=0), partial(taken, index_from=None)]
        _table("top_k_max_records: records wanted", names, (100, 1000, 10_000, 50_000, 100_000), ways, rounds)


def _named(held: dict[int, Path], rounds: int) -> None:
    """None of the keys that a filter names is there: proving that takes longest."""
    for records in (32_000, RECORDS):
        with sowctl.open(held[records]) as opened:
            topic = opened.topic("orders")

            def taken(size: int, named: int, topic: TopicHandle = topic) -> float:
                keys = ", ".join(f"'k{number}'" for number in range(size))
                return _cpu(
                    lambda: _read(topic, {"key_lookup_max_keys": named}, filter=f"/seq[0] IN ({keys})", index_from=None)
                )

            ways = [partial(taken, named=0), partial(taken, named=NEVER)]
            sizes = (100, 1000, 10_000)
            _table(f"key_lookup_max_keys: keys, of {records:,} records", ["scan", "looked up"], sizes, ways, rounds)


def _large(held: dict[int, Path], rounds: int) -> None:
    def taken(size: int, jobs: int) -> float:
        with sowctl.open(held[size]) as opened:
            begin = time.perf_counter()
            _read(opened.topic("orders"), {"parallel_min_records": 0}, filter="/price > 90", index_from=None, jobs=jobs)
            return time.perf_counter() - begin

    ways = [partial(taken, jobs=1), partial(taken, jobs=2)]
    sizes = (4000, 8000, 16_000, 32_000, 150_000, RECORDS)
    _table(
        "parallel_min_records: records of the store; on the clock", ["1 process", "2 processes"], sizes, ways, rounds
    )


def _arrays(config: Path, rounds: int) -> None:
    def asked(rows: int) -> dict[str, Any]:
        low = 100 - 100 * rows / RECORDS
        return {"filter": f"/price > {low:.3f} AND /qty >= 100 AND /region > 'A'", "index_from": 0, "count": True}

    def alone(rows: int, arrays: int) -> float:
        return _child(config, {"lasting_array_min_rows": arrays, "index_max_share": 1.0}, **asked(rows))

    sizes = (300, 1000, 3000, 10_000, 75_000, 150_000, RECORDS - 1000)
    names = ["lists", "arrays of numpy"]
    ways = [partial(alone, arrays=NEVER), partial(alone, arrays=0)]
    _table("array_min_rows: row numbers; a process that counts by three conditions", names, sizes, ways, rounds)
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")

        def within(rows: int, arrays: int) -> float:
            words = asked(rows)
            with mock.patch.multiple(QUERY_LIMITS, lasting_array_min_rows=arrays, index_max_share=1.0):
                return _cpu(lambda: topic.query(words["filter"], index_from=0).count())

        ways = [partial(within, arrays=NEVER), partial(within, arrays=0)]
        _table("lasting_array_min_rows: the same where numpy is loaded", names, sizes, ways, rounds)


def _gain(held: dict[int, Path], rounds: int) -> None:
    asked = {"projection": "/region, SUM(/qty * /price) AS /sum", "grouping": "/region", "index_from": 0}

    def taken(size: int, arrays: int) -> float:
        return _child(held[size], {"lasting_array_min_rows": arrays}, **asked)

    ways = [partial(taken, arrays=NEVER), partial(taken, arrays=0)]
    sizes = (16_000, 32_000, 150_000, RECORDS)
    _table(
        "group_cost_factor: rows that are grouped; a process", ["row by row", "columns of numpy"], sizes, ways, rounds
    )


def _changed(root: Path, rounds: int) -> None:
    """Once for each size: what changed stays changed."""
    config = _held(root, RECORDS // 2, "figures-changing")
    lines = data.lines(RECORDS // 2, RECORDS)
    for size in (500, 1000, 2000, 4000, 8000, 16_000, 32_000):
        topic = sowctl.open(config).topic("orders")
        topic.publish(lines[:size])

        def kept(_: int, topic: TopicHandle = topic) -> float:
            changed = {"index_tolerated_changes": NEVER}
            return _cpu(lambda: _read(topic, changed, filter="/price > 90 AND /region = 'EMEA'", index_from=0))

        def built(_: int, topic: TopicHandle = topic, config: Path = config) -> float:
            for path in config.parent.rglob("*.memo"):
                path.unlink()
            begin = time.process_time()
            _read(topic, {"index_tolerated_changes": NEVER}, filter="/price > 90 AND /region = 'EMEA'", index_from=0)
            return time.process_time() - begin

        least = min(kept(size) for _ in range(rounds))
        new = min(built(size) for _ in range(2))
        after = min(kept(size) for _ in range(rounds))
        print(
            f"  index_tolerated_changes: {size:>7,} of {RECORDS // 2:,} changed: a query {1000 * least:.1f} ms, "
            f"building and one {1000 * new:.1f} ms, then {1000 * after:.1f} ms: "
            f"worth it after {new / max(least - after, 1e-9):.0f}"
        )


def _several(config: Path, rounds: int) -> None:
    from sowctl.engine.search.index_lookup import open_indexes
    from sowctl.engine.search.matcher import build_environment

    with sowctl.open(config) as opened:
        source = open_present_source(opened, opened.topic("orders").target)
        assert build_environment(opened) is not None
        memos = open_indexes(opened, source, ())
        assert memos is not None

        def located(size: int, several: int) -> float:
            places = list(range(0, RECORDS, RECORDS // size))[:size]

            def read() -> None:
                with mock.patch.object(QUERY_LIMITS, "index_batch_min_rows", several):
                    for keys, spots in memos.iterate_unchanged(places, 400):
                        _ = source.find_records(keys) if spots is None else source.read_at_offsets(keys, spots)

            return _cpu(read)

        ways = [partial(located, several=NEVER), partial(located, several=2)]
        sizes = (4, 16, 64, 256, 1024)
        _table("index_batch_min_rows: row numbers", ["one by one, by key", "together, by offset"], sizes, ways, rounds)
        source.close()


def _mapped(config: Path, rounds: int) -> None:
    """What a process does with a file that it has just opened: the pages of a map are set up as they are touched."""
    from sowctl.seam import SEAM
    from sowctl.store.limits import STORE_LIMITS
    from sowctl.store.raw import offset_read

    (path,) = config.parent.rglob("*.sow")
    whole = path.stat().st_size

    def taken(size: int, share: int) -> float:
        places = [number * (whole // size) for number in range(size)]

        def read() -> None:
            file = offset_read.DataFile(path, SEAM)
            with mock.patch.object(STORE_LIMITS, "plain_read_bytes", share):
                file.read_values(places, [200] * size)
            file.close()

        return _cpu(read)

    ways = [partial(taken, share=0), partial(taken, share=NEVER)]
    title = f"plain_read_bytes: records of a file of {whole:,} bytes, read at their places"
    _table(title, ["plain reads", "mapped"], (16, 100, 400, 1600, 6400, 25_600, 100_000), ways, rounds)


def _looking(held: dict[int, Path], rounds: int) -> None:
    def taken(size: int, looking: int) -> float:
        return _child(held[size], {"prefilter_min_records": looking}, filter="/symbol = 'SYM1234'", index_from=None)

    ways = [partial(taken, looking=NEVER), partial(taken, looking=0)]
    sizes = (1000, 2000, 4000, 8000, 16_000, 32_000)
    _table("prefilter_min_records: records; a process", ["decoding all", "looking first"], sizes, ways, max(rounds, 5))


def _scans(topic: TopicHandle, changed: dict[str, Any], text: str) -> float:
    return _cpu(lambda: _read(topic, changed, filter=text, index_from=None, jobs=1))


def _share(config: Path, rounds: int) -> None:
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")

        def taken(share: int, kept: float) -> float:
            # Quantities go from 100 to 49,900, and their first two digits show whether they are above a bound.
            return _scans(topic, {"prefilter_max_share": kept}, f"/qty >= {50_000 - 500 * share}")

        ways = [partial(taken, kept=1.1), partial(taken, kept=-1.0)]
        names = ["looking", "decoding all"]
        _table(
            "prefilter_max_share: percent of the records that have it",
            names,
            (25, 50, 60, 70, 75, 80, 90),
            ways,
            rounds,
        )


def _again(config: Path, rounds: int) -> None:
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")

        def taken(share: int, again: float) -> float:
            return _scans(
                topic, {"prefilter_rejoin_max_share": again}, f"/qty >= {50_000 - 500 * share} AND /trader/id < 20"
            )

        ways = [partial(taken, again=1.1), partial(taken, again=-1.0)]
        names = ["joined again", "all of them searched"]
        _table(
            "prefilter_rejoin_max_share: percent left by the first search",
            names,
            (10, 20, 30, 40, 50, 60, 70),
            ways,
            rounds,
        )


def _words(config: Path, rounds: int) -> None:
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")

        def taken(count: int, words: int) -> float:
            texts = ", ".join(f"'SYM{1000 + number}'" for number in range(count))
            return _scans(topic, {"prefilter_max_alternatives": words}, f"/symbol IN ({texts})")

        ways = [partial(taken, words=NEVER), partial(taken, words=0)]
        _table(
            "prefilter_max_alternatives: alternatives",
            ["looking", "decoding all"],
            (1, 2, 4, 6, 8, 12, 16),
            ways,
            rounds,
        )


def _batches(config: Path, rounds: int) -> None:
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")
        every = "/price > 1 AND /qty > /price"

        def scanned(size: int) -> float:
            changed = {"read_batch_records": size, "decode_batch_records": size}
            return _cpu(lambda: _read(topic, changed, filter=every, index_from=None, jobs=1, batch_size=10_000))

        def picked(size: int) -> float:
            return _cpu(
                lambda: _read(
                    topic, {"indexed_read_batch_records": size}, filter="/price > 75", index_from=0, batch_size=10_000
                )
            )

        sizes = (100, 200, 400, 800, 1600, 3200)
        _table(
            "read_, decode_, indexed_read_batch_records: records at a time",
            ["scan", "memo index"],
            sizes,
            [scanned, picked],
            rounds,
        )


def _other_batches(config: Path, rounds: int) -> None:
    sizes = (100, 300, 1000, 3000, 10_000)
    with sowctl.open(config) as opened:
        topic = opened.topic("orders")
        grouped = {"projection": "/seq, SUM(/qty) AS /sum", "grouping": "/seq", "batch_size": 10_000}

        def asked(size: int, names: Sequence[str], **words: Any) -> float:
            return _cpu(lambda: _read(topic, dict.fromkeys(names, size), jobs=1, **words))

        def built(size: int) -> float:
            for path in config.parent.rglob("*.memo"):
                path.unlink()
            return asked(size, ["index_build_batch_records"], filter="/price > 99 AND /region = 'EMEA'", index_from=0)

        def rows(size: int) -> float:
            changed = {"group_batch_rows": size, "group_cost_factor": 0, "index_max_share": 1.0}
            return _cpu(lambda: _read(topic, changed, projection="/region, SUM(/qty) AS /sum", grouping="/region"))

        written = partial(asked, names=["write_batch_groups"], index_from=None, **grouped)
        spilled = partial(asked, names=["spill_batch_items"], order_by="/price", sort_memory=1 << 20, index_from=None)
        names = ["index_build_batch_records", "group_batch_rows", "write_batch_groups", "spill_batch_items"]
        _table("Records, rows, groups, items at a time", names, sizes, [built, rows, written, spilled], rounds)


if __name__ == "__main__":
    run(Place(Path(sys.argv[1]), RECORDS), 3)

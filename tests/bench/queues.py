"""Queues: leases and acknowledgements in batches against sqlite3 as a queue; depth and lease of a long queue."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import sowctl
from tests.bench import queuepeers
from tests.bench.place import Place
from tests.bench.rounds import ROOT, Item, Sample, Wrong, judge, output_of, process, race, ratios, show

TITLE = "queues: lease and acknowledge in batches; depth and lease of a queue with many pending messages"
BATCHES = 10, 100, 1000
SYNCED = "<FileBackedMetadata>enabled</FileBackedMetadata>"
CONFIG = """<AMPSConfig><Name>bench</Name><SOW><Queue><Name>work</Name><MessageType>json</MessageType>
<UnderlyingTopic>orders</UnderlyingTopic><LeasePeriod>1h</LeasePeriod>{more}</Queue></SOW><TransactionLog>
<JournalDirectory>journal</JournalDirectory><Topic><Name>orders</Name><MessageType>json</MessageType></Topic>
</TransactionLog></AMPSConfig>"""


def run(place: Place, rounds: int) -> None:
    """Every batch size with one process, one with four; then the length of the queue."""
    for batch in BATCHES:
        _race(place, rounds, batch, workers=1)
    _race(place, rounds, 100, workers=4)
    _length(place)


def instance(directory: Path, count: int, more: str = "") -> Path:
    """The configuration of an instance with so many messages pending, whose state has them already."""
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "sowctl.xml"
    config.write_text(CONFIG.format(more=more))
    argv = [sys.executable, "-m", "sowctl", "-q", "-c", str(config)]
    feed = b"".join(queuepeers.PAYLOAD % number + b"\n" for number in range(count))
    subprocess.run([*argv, "publish", "orders", "--batch", "10000"], input=feed, check=True, cwd=ROOT)
    if output_of([*argv, "queue", "depth", "work"]) != b"%d\n" % count:
        raise Wrong("the queue has not got all messages")
    return config


def _race(place: Place, rounds: int, batch: int, *, workers: int) -> None:
    count = min(20_000, 40 * batch) * (1 if workers == 1 else 2)
    root = place.root / "queues"
    names = {
        "sowctl": ("sowctl", count, ""),
        "sowctl, leases synced too": ("sowctl", count, SYNCED),
        "sqlite3, WAL": ("sqlite-wal", count, ""),
        "sqlite3, rollback journal": ("sqlite-rollback", count, ""),
    }
    few = min(count, 200)
    if workers == 1 and find_spec("litequeue"):
        names["litequeue"] = ("litequeue", few, "")
    if workers == 1 and find_spec("persistqueue"):
        names["persist-queue"] = ("persist-queue", few, "")
    items = []
    for number, (name, (what, many, more)) in enumerate(names.items()):
        path = root / str(number)
        # Each process has one batch more, which is not timed.
        fill = _fill(what, path, count + 2 * workers * batch, more)
        items.append(Item(name, _work(what, path, many, count, batch, workers), fill))
    print(f"  {count:,} messages in batches of {batch}, by {workers} processes")
    found = race(items, rounds)
    show(found, base="sowctl", count=count)
    for name in list(names)[2:]:
        judge(f"times as fast as {name}, batches of {batch}", statistics.median(ratios(found, name, "sowctl")), 5.0)


def _fill(what: str, path: Path, count: int, more: str) -> Callable[[], object]:
    def fill() -> None:
        subprocess.run(["rm", "-rf", str(path)], check=True)
        path.mkdir(parents=True)
        if what == "sowctl":
            instance(path, count, more)
        elif what == "litequeue":
            queuepeers.fill_litequeue(str(path / "queue.db"), count)
        elif what == "persist-queue":
            queuepeers.fill_persistqueue(str(path), count)
        else:
            journal = "wal" if what == "sqlite-wal" else "delete"
            queuepeers.fill_sqlite(str(path / "queue.db"), journal, count)

    return fill


def _work(what: str, path: Path, many: int, count: int, batch: int, workers: int) -> Callable[[], Sample]:
    """So many messages by so many processes; peers that do fewer are charged as if they had done all."""
    where = {"sowctl": path / "sowctl.xml", "persist-queue": path}.get(what, path / "queue.db")
    argv = [sys.executable, "-m", "tests.bench.queuepeers", what, str(where), str(many // workers), str(batch)]

    def work() -> Sample:
        running = [subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(workers)]
        said = [child.communicate()[0].split() for child in running]
        if any(child.returncode for child in running):
            raise Wrong(f"{what} failed")
        # Side by side: the slowest one tells how long all took.
        wall, cpu = max(float(row[0]) for row in said), sum(float(row[1]) for row in said)
        return Sample(wall * count / many, cpu * count / many)

    return work


def _length(place: Place) -> None:
    """Depth from the command line, and the latency of a lease, for queues of different lengths."""
    middle: dict[int, float] = {}
    for count in (1_000, place.count // 10, place.count):
        config = instance(place.root / f"queue-{count}", count)
        argv = [sys.executable, "-m", "sowctl", "-c", str(config), "queue", "depth", "work"]
        depth = statistics.median(process(argv).cpu for _ in range(7))
        with sowctl.open(config) as opened, opened.queue("work") as queue:
            times = []
            for _ in range(200):
                begin = time.process_time()
                with queue.lease(1) as messages:
                    times.append(time.process_time() - begin)
                if len(messages) != 1:
                    raise Wrong("a lease got nothing")
        middle[count] = statistics.median(times)
        lease = middle[count] * 1e6
        print(f"  {count:>9,} pending, CPU: depth with the start {depth * 1000:.0f} ms, lease {lease:.0f} us")
        if count == place.count:
            judge("seconds of CPU for the depth, with the start", depth, 0.2, most=True)
    judge("lease of the longest / of 1,000", middle[place.count] / middle[1_000], 1.5, most=True)

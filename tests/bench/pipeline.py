"""Rebuilding a store from its journal on Spark, against the replay of one process on the same journal.

One warm session on two cores. What both build is compared by digest before anything is ranked. The memory is the
highest resident size of any Python worker, which must not grow with the journal.
"""

from __future__ import annotations

import os
import statistics
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.place import Place
from tests.bench.rounds import Item, Sample, Wrong, judge, race, ratios, show
from tests.bench.rounds import timed as in_process
from tests.bench.spark import SETTINGS, cpu_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "pipeline: the journal into a new store, on Spark and in one process"
OURS, PEER = "pipeline rebuild, local[2]", "replay, one process"


def run(place: Place, rounds: int, *, big: bool = False) -> None:
    """Both ways; with ``big`` for five times as many entries, too, which shows how the cost grows."""
    from sowctl.spark.sessions import open_session

    spent: list[float] = []
    peaks: list[float] = []
    sizes = (place.count, 5 * place.count) if big else (place.count,)
    with open_session("local[2]", environment=os.environ, conf=SETTINGS, app="sowctl benchmark") as spark:
        for count in sizes:
            cpu, peak = compare(spark, Place(place.root, count), rounds)
            spent.append(cpu)
            peaks.append(peak)
    if big:
        judge("CPU time for 5 times as many entries, times", spent[1] / spent[0], 6.0, most=True)
        judge("memory of a worker for 5 times as many entries, times", peaks[1] / peaks[0], 2.0, most=True)


def compare(spark: SparkSession, place: Place, rounds: int) -> tuple[float, float]:
    """One size: median CPU seconds of a rebuild, and the highest memory of a worker in MiB."""
    from sowctl.engine.api import InstanceHandle
    from sowctl.spark.jobs.rebuild import rebuild

    instance = InstanceHandle.open(place.loaded().config)
    topic = instance.topic("orders")
    print(f"  {place.count:,} entries")
    peak = Peak(spark)

    def ours() -> Sample:
        gateway: Any = _gateway()
        before = cpu_of(gateway.proc.pid)
        with peak:
            found = in_process(lambda: rebuild(spark, instance, [topic.config]))
        return Sample(found.wall, found.cpu + cpu_of(gateway.proc.pid) - before)

    items = [Item(OURS, ours), Item(PEER, lambda: in_process(lambda: topic.replay(rebuild=True)))]
    digests = []
    for item in items:
        item.run()
        digests.append(topic.digest().digest)
    if len(set(digests)) != 1:
        raise Wrong("the two stores differ: nothing is ranked")
    race(items, 1)
    times = race(items, rounds)
    show(times, base=PEER, count=place.count, unit="entries")
    judge(f"{OURS}: times as long as {PEER}", statistics.median(ratios(times, OURS, PEER)), 2.0, most=True)
    print(f"  highest memory of a worker: {peak.highest:,.0f} MiB")
    return statistics.median(sample.cpu for sample in times[OURS]), peak.highest


def _gateway() -> Any:
    from pyspark import SparkContext

    return SparkContext._gateway


class Peak:
    """Watches the resident size of the Python workers below the session's virtual machine."""

    def __init__(self, spark: SparkSession) -> None:
        self.highest = 0.0
        self._done = threading.Event()
        self._watcher = threading.Thread()

    def __enter__(self) -> Peak:
        self._done.clear()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        root = _gateway().proc.pid
        while not self._done.wait(0.1):
            for path in Path("/proc").glob("[0-9]*/status"):
                try:
                    facts = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
                except OSError:
                    continue
                if "python" in facts["Name"] and _is_below(int(path.parent.name), root):
                    self.highest = max(self.highest, int(facts.get("VmHWM", "0 kB").split()[0]) / 1024)


def _is_below(pid: int, root: int) -> bool:
    try:
        while pid > 1 and pid != root:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return pid == root

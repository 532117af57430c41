"""A backup beside a publisher at full speed: how much slower the publisher becomes, and what a restore brings back.

The publisher runs through all windows; in each of them something else runs beside it: nothing, a backup, ``cp`` of the
files that the backup copies, read again as a backup is, or a loop that only computes. Where others use the machine's
processors, too, any process beside the publisher makes it wait for one; so for each window three things are said:
messages a second, the publisher's CPU time for a message, and the time for a message less the time in which its main
thread could have run and had no processor: what is left are computing, syncs and locks. For this the publisher is held
on one processor, so that it reads its input itself: it would wait for the processor of the process that reads ahead.
Each round begins with the same instance: a backup reads all entries that its copy of the store does not have yet.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench import data
from tests.bench.place import Instance, Place
from tests.bench.rounds import Wrong, judge, output_of, process

TITLE = "backup: of all records beside a publisher at full speed"
REPEATED = 100
"""How often the publisher is handed its input, so that it does not come to an end."""
LONGEST = 20.0
"""Seconds of a window without a backup: the journal grows in all of them."""
WARM = 15.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Moment:
    """What a publisher had done at an instant: messages acknowledged, seconds computed and waited for it."""

    at: float
    published: int
    cpu: float
    delayed: float


@dataclass(frozen=True)
class Window:
    """What a publisher did beside something, in microseconds for each message; ``own`` is ``wall`` less waiting for a
    processor. ``seconds``: how long it was.
    """

    wall: float
    cpu: float
    own: float
    seconds: float


class Publisher:
    """``sowctl publish`` from files, with what it says of its progress."""

    def __init__(self, instance: Instance, inputs: list[Path]) -> None:
        argv = instance.command("publish", "orders", *map(str, inputs * REPEATED), "--progress", "json")
        one = {min(os.sched_getaffinity(0))}
        self._process = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, one)
        )
        self._told: list[tuple[float, int]] = []
        self._last = b""
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        while len(self._told) < 5 and self._process.poll() is None:
            time.sleep(0.05)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last = line
            if line.startswith(b'{"published"'):
                self._told.append((time.perf_counter(), json.loads(line)["published"]))

    def now(self) -> Moment:
        """At its next progress. Raises Wrong where it has ended."""
        known = len(self._told)
        while len(self._told) == known:
            if self._process.poll() is not None:
                raise Wrong(f"the publisher has ended: {self._last.decode()}")
            time.sleep(0.002)
        at, published = self._told[-1]
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / TICKS
        delayed = int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[1]) / 1e9
        return Moment(at, published, cpu, delayed)

    def beside(self, work: Callable[[], object]) -> Window:
        """What it does until ``work`` has ended."""
        begin = self.now()
        work()
        end = self.now()
        count, wall = end.published - begin.published, end.at - begin.at
        own = wall - (end.delayed - begin.delayed)
        return Window(1e6 * wall / count, 1e6 * (end.cpu - begin.cpu) / count, 1e6 * own / count, wall)

    def close(self) -> None:
        """End it, behind the batch that it is at."""
        self._process.terminate()
        self._process.wait()
        self._thread.join()


def _raised() -> None:
    """Make up for what a backup lowers its own priority by, where that is allowed.

    Beside processes of others it would hardly run at the lower one, and so disturb nobody.
    """
    with suppress(OSError):
        os.nice(-10)


@contextmanager
def publishing(instance: Instance, inputs: list[Path]) -> Iterator[Publisher]:
    publisher = Publisher(instance, inputs)
    try:
        yield publisher
    finally:
        publisher.close()


class Beside:
    """What runs beside the publisher; the others as long as the backup before, at most :data:`LONGEST`."""

    def __init__(self, place: Place, instance: Instance) -> None:
        self._instance, self._copies = instance, place.root / "copies"
        self.folder = place.root / "backups"
        self.seconds = 10.0
        self.reports: list[dict[str, object]] = []
        self.cpu: list[float] = []

    def nothing(self) -> None:
        time.sleep(self.seconds)

    def backup(self) -> None:
        begin = time.perf_counter()
        argv = self._instance.command("backup", str(self.folder), "--full", "--summary", "json")
        before = os.times()
        ended = subprocess.run(argv, capture_output=True, check=False, preexec_fn=_raised)
        after = os.times()
        if ended.returncode:
            raise Wrong(f"the backup ended with status {ended.returncode}: {ended.stderr.decode()}")
        self.cpu.append(after.children_user + after.children_system - before.children_user - before.children_system)
        said = (ended.stdout + ended.stderr).splitlines()
        self.reports.append(json.loads(next(line for line in said if line.startswith(b"{"))))
        self.seconds = min(LONGEST, time.perf_counter() - begin)

    def copies(self) -> None:
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            self._copies.mkdir(exist_ok=True)
            files = [
                *self._instance.directory.glob("sow/*.sow"),
                max(self._instance.directory.glob("journal/*.journal")),
            ]
            for file in files:
                target = str(self._copies / file.name)
                subprocess.run(["cp", str(file), target], check=True)
                subprocess.run(["sync", target], check=True)
                subprocess.run(["sha256sum", target], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(self._copies)

    def computing(self) -> None:
        code = f"import time\nend = time.monotonic() + {self.seconds}\nwhile time.monotonic() < end: sum(range(10000))"
        subprocess.run([sys.executable, "-c", code], check=True)


def run(place: Place, rounds: int) -> None:
    """Windows of every kind in each round; its backup is restored at the end and compared with its instant."""
    loaded = place.instance("backed-up-loaded", fresh=True)
    records = place.root / f"records-{place.count}.ndjson"
    updates = [place.root / f"updates-{seed}-{place.count}.ndjson" for seed in (11, 12)]
    _write_records(records, place.count)
    for seed, path in zip((11, 12), updates, strict=True):
        if not path.exists():
            data.write(place.count, place.count, path, seed)
    process(loaded.publish(), feed=records)
    instance = Instance(place.root / "backed-up")
    beside = Beside(place, instance)
    kinds = {
        "alone": beside.nothing,
        "backup": beside.backup,
        "cp, sync and sha256sum": beside.copies,
        "a loop that computes": beside.computing,
    }
    found: dict[str, list[Window]] = {name: [] for name in kinds}
    for number in range(rounds):
        for old in (instance.directory, beside.folder):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(loaded.directory, instance.directory)
        names = list(kinds)[number % len(kinds) :] + list(kinds)[: number % len(kinds)]
        with publishing(instance, updates) as publisher:
            # Its first batches take longer: it begins runs beside a store that it has just read.
            time.sleep(WARM)
            for name in names:
                found[name].append(publisher.beside(kinds[name]))
                if sys.stderr.isatty():
                    print(f"  {name:34}{found[name][-1].seconds:8.1f} s", file=sys.stderr)
        _restored(place, instance, beside)
    _show(found)
    print(f"  the backups: {statistics.median(beside.cpu):.1f} s of CPU, {_seconds(found['backup']):.1f} s")
    print(f"  {len(beside.reports)} of {len(beside.reports)} restored to the digest of hash --at")
    own = [one.own / other.own for one, other in zip(found["backup"], found["alone"], strict=True)]
    busy = [one.wall / other.wall for one, other in zip(found["backup"], found["a loop that computes"], strict=True)]
    judge("publisher's own time for a message beside a backup, of that alone", statistics.median(own), 1.15, most=True)
    judge("publisher's time beside a backup, of that beside a loop", statistics.median(busy), 1.15, most=True)


def _seconds(windows: list[Window]) -> float:
    return statistics.median(window.seconds for window in windows)


def _write_records(path: Path, count: int) -> None:
    """One message for each key that updates may have."""
    if not path.exists():
        with path.open("wb") as out:
            for number in range(count):
                out.write(b'{"orderId":%d,"seq":-1,"note":"%s"}\n' % (10_000_000 + number, b"x" * 180))


def _show(found: dict[str, list[Window]]) -> None:
    print(f"  {'us for a message, median (range)':34}{'wall':>24}{'cpu':>24}{'wall less waiting':>24}{'msg/s':>10}")
    for name, windows in found.items():
        texts = []
        for column in ("wall", "cpu", "own"):
            values = [getattr(window, column) for window in windows]
            texts.append(f"{statistics.median(values):8.1f} ({min(values):.1f}-{max(values):.1f})")
        rate = 1e6 / statistics.median(window.wall for window in windows)
        print(f"  {name:34}{texts[0]:>24}{texts[1]:>24}{texts[2]:>24}{rate:10,.0f}")


def _restored(place: Place, instance: Instance, beside: Beside) -> None:
    """The digest of the restored backup is that of its instant. Raises Wrong where it is not."""
    target, report = place.root / "restored", beside.reports[-1]
    shutil.rmtree(target, ignore_errors=True)
    output_of(instance.command("restore", str(beside.folder), "--to", str(target)))
    there = output_of(Instance(target).command("hash", "orders")).split()[0]
    here = output_of(instance.command("hash", "orders", "--at", str(report["last_txid"]))).split()[0]
    shutil.rmtree(target)
    if there != here:
        raise Wrong(f"restored {there.decode()}, at its instant {here.decode()}")

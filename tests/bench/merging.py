"""How long a publisher waits while a delete merges the runs that a killed load has left beside a large store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from tests.bench.place import Instance, Place
from tests.bench.rounds import ROOT, Wrong, judge

TITLE = "merging: how long a publisher waits while another process merges runs into the store"
PACE_SECONDS = 0.01
PATIENCE_SECONDS = 120.0
MOST_MS = 2_000.0
"""Goal of the longest wait: filling the new file takes longer than that from some 500,000 records on."""


def run(place: Place, rounds: int) -> None:
    """One merge, with one message each 10 ms from another process, acknowledged one by one."""
    # A copy with its configuration: the store knows the name of its instance.
    instance = Instance(place.root / "merging")
    shutil.rmtree(instance.directory, ignore_errors=True)
    shutil.copytree(place.loaded().directory, instance.directory)
    _leave_runs(place, instance)
    waits: list[float] = []
    ending = threading.Event()
    argv = instance.command("publish", "orders", "-", "--tee", "--batch", "1", "--progress", "never", "-q")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as publisher:
        assert publisher.stdin is not None and publisher.stdout is not None
        thread = threading.Thread(target=_publish, args=(publisher, waits, ending))
        thread.start()
        time.sleep(3)
        waits.clear()
        begin = time.perf_counter()
        patience = f"{PATIENCE_SECONDS:.0f}s"
        done = subprocess.run(
            instance.command("delete", "orders", "--key", "1", "--yes", "--verbose", "--lock-wait", patience),
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        took = time.perf_counter() - begin
        ending.set()
        thread.join()
    if "new store" not in done.stderr:
        raise Wrong(f"nothing was merged: {done.stderr}")
    found = sorted(waits)
    p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
    print(f"  {took:.1f} s, {len(found):,} messages; ms: median {p50:.1f}, 99 % {p99:.1f}, longest {found[-1]:.1f}")
    judge("longest wait, ms", found[-1], MOST_MS, most=True)
    shutil.rmtree(instance.directory)


def _leave_runs(place: Place, instance: Instance) -> None:
    """Kill a load of the same messages when it has written two runs."""
    runs = instance.directory / "sow" / "orders.json.sow-runs"
    with place.input().open("rb") as source:
        load = subprocess.Popen(instance.publish(), stdin=source, cwd=ROOT, start_new_session=True)
        while load.poll() is None and len(_list_runs(runs)) < 2:
            time.sleep(0.02)
        if load.poll() is not None:
            raise Wrong("the load has ended without runs")
        os.killpg(load.pid, signal.SIGKILL)
        load.wait()


def _list_runs(directory: Path) -> list[Path]:
    return list(directory.glob("*.run"))


def _publish(publisher: subprocess.Popen[bytes], waits: list[float], ending: threading.Event) -> None:
    """Send a message each :data:`PACE_SECONDS`, and note the milliseconds until each is acknowledged."""
    assert publisher.stdin is not None and publisher.stdout is not None
    number = 0
    while not ending.is_set():
        number += 1
        begin = time.perf_counter()
        publisher.stdin.write(json.dumps({"orderId": -number, "n": number}).encode() + b"\n")
        publisher.stdin.flush()
        publisher.stdout.readline()
        took = time.perf_counter() - begin
        waits.append(1000 * took)
        time.sleep(max(0.0, PACE_SECONDS - took))
    publisher.stdin.close()
    publisher.stdout.read()

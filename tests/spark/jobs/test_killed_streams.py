"""A stream into another topic whose driver is killed in the middle of batches: each entry arrives once, in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sowctl.engine.topics.positions import open_log
from sowctl.spark.jobs.stream import StreamOptions, stream
from sowctl.spark.sessions import open_session
from tests.support.instances import Lab, config_xml, message, topic_xml, verified
from tests.support.processes import MARK, QUICK, count_cpu_seconds, find_tree, is_alive, kill_tree, machines

if TYPE_CHECKING:
    from sowctl.journal.block import Entry

ROOT = Path(__file__).parents[3]
SAME = "<KeyDomain>one</KeyDomain>"
XML = config_xml(topic_xml("orders", SAME) + topic_xml("copy", SAME), ("orders", "copy"))
KILLS = 20
PLACES = ("planned", "staged", "published", "anywhere")
"""When the driver dies: Spark has written what the batch reads, a task has staged messages, the batch is in the
journal, or at a random moment. In each case Spark has not written yet that the batch has ended."""
VICTIMS = ("driver", "machine", "all")
"""What dies: the Python process, the virtual machine, or these and every process of tasks. The rest of it may go on for
a while beside the next driver."""
MAX_ENTRIES = 400
GROUP_MESSAGES = 100
PATIENCE = 240.0
"""Seconds in which a driver has started and is in the middle of a batch, however busy the machine is."""


def run(directory: Path, checkpoint: Path) -> int:
    """What a driver does; the entries that it read."""
    lab = Lab(directory, XML)
    instance = lab.open(lock_wait=60.0)
    orders, copy = (instance.topic(name).config for name in ("orders", "copy"))
    options = StreamOptions(str(checkpoint), into=copy, client="copier", available_now=True, max_entries=MAX_ENTRIES)
    conf = {"spark.driver.extraJavaOptions": QUICK, "spark.driver.memory": "512m"}
    with open_session("local[2]", environment=os.environ, conf=conf) as spark:
        return stream(spark, instance, orders, options).read


def entries(lab: Lab, topic: str) -> list[Entry]:
    """What the journal has of a topic, in its order: what was committed, as often as it was."""
    with open_log(lab.open()) as log:
        return [entry for block in log.iter_blocks() for entry in block.iter_entries() if entry.topic[0] == topic]


class Checkpoint:
    """What Spark has written about its batches."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def last(self, log: str) -> int:
        """The number of the last batch in a log; -1 without one."""
        return max((int(path.name) for path in (self.directory / log).glob("[0-9]*")), default=-1)

    def is_inside(self) -> bool:
        """Whether a batch has begun and not ended."""
        return self.last("offsets") > self.last("commits")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find what a driver started")
def test_a_stream_whose_driver_is_killed_within_batches_writes_each_entry_once(
    tmp_path: Path, deep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if not deep:
        pytest.skip("a Java machine for each kill: with --deep; test_writers forgets Spark's commit in one session")
    rng = random.Random(os.urandom(8))
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    told: Counter[str] = Counter()
    plans = [(place, victim) for place in PLACES for victim in VICTIMS]
    plans += [(rng.choice(PLACES), rng.choice(VICTIMS)) for _ in range(KILLS - len(plans))]
    published, cpu, victims = 0, 0.0, set[int]()
    with verified(Lab(tmp_path / "lab", XML, journal_size=200_000)) as lab:
        while plans:
            assert told["missed"] < KILLS, told
            for _ in range(rng.randrange(12, 20)):
                many = rng.randrange(1, 2 * GROUP_MESSAGES)
                lab.publish("orders", *[message(id=rng.randrange(500), n=published + n) for n in range(many)])
                published += many
            rng.shuffle(plans)
            place, victim = plans[-1]
            with start(tmp_path) as driver:
                if not wait_within_batch(lab, checkpoint, driver, place, rng):
                    # the machine of the last driver was still at work, or the kill would come between two batches
                    told["ended" if driver.poll() is not None else "missed"] += 1
                    kill_tree(driver.pid, PATIENCE)
                    continue
                found = find_tree(driver.pid)
                cpu += count_cpu_seconds(found)
                chosen = {"driver": found[:1], "machine": [pid for pid in found if is_java(pid)], "all": found}[victim]
                for pid in chosen:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if checkpoint.is_inside():
                    plans.pop()
                    told["kills"] += 1
                    told[place] += 1
                else:
                    told["missed"] += 1
                victims.update(found)
                # without its machine the driver ends with an error, and by itself
                driver.wait(PATIENCE)
        until(lambda: not any(map(is_alive, victims)), "the end of what the drivers started")
        with start(tmp_path) as driver:
            assert driver.wait(PATIENCE) == 0, (tmp_path / "driver.log").read_text("utf-8", "replace")
        sent, arrived = ([bytes(one.payload) for one in entries(lab, name)] for name in ("orders", "copy"))
        assert len(sent) == published
        assert (len(arrived) - len(set(arrived)), len(set(sent) - set(arrived))) == (0, 0)
        assert arrived == sent
        assert lab.query("copy") == lab.query("orders")
        assert checkpoint.last("commits") == checkpoint.last("offsets")
        assert not list(lab.directory.rglob("*.segment"))
    assert not machines("killed streams")
    with capsys.disabled():
        batches = checkpoint.last("commits") + 1
        print(
            f"\n{dict(told)}: {batches} batches, {published} rows, 0 duplicates, 0 losses, {cpu:.0f} CPU s of drivers"
        )


def start(directory: Path) -> subprocess.Popen[bytes]:
    """Start a driver that streams what there is."""
    code = f"from tests.spark.jobs.{Path(__file__).stem} import *; run(Path(sys.argv[1]), Path(sys.argv[2]))"
    marked = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(directory), MARK: "killed streams"}
    with (directory / "driver.log").open("wb") as log:
        command = [sys.executable, "-c", code, str(directory / "lab"), str(directory / "checkpoint")]
        return subprocess.Popen(command, cwd=directory, env=marked, stdout=log, stderr=log)


def wait_within_batch(
    lab: Lab, checkpoint: Checkpoint, driver: subprocess.Popen[bytes], place: str, rng: random.Random
) -> bool:
    """Wait until a batch, one of the first, is where it is to be killed; False where the driver ended before."""
    begun = checkpoint.last("commits") + 1 + rng.randrange(3)
    before = set(lab.directory.rglob("*.segment"))

    def alive() -> bool:
        return driver.poll() is None

    until(lambda: checkpoint.last("offsets") >= begun or not alive(), "a batch")
    if place == "staged":
        until(lambda: set(lab.directory.rglob("*.segment")) - before or not alive(), "a staged segment")
    elif place == "published":
        size = count_journal_bytes(lab)
        until(lambda: count_journal_bytes(lab) != size or not alive(), "the journal's growth")
    elif place == "anywhere":
        time.sleep(rng.uniform(0.0, 1.5))
        until(lambda: checkpoint.is_inside() or not alive(), "a batch that has not ended")
    return alive() and checkpoint.is_inside()


def count_journal_bytes(lab: Lab) -> int:
    """Bytes of the journal's files, all of them."""
    return sum(path.stat().st_size for path in lab.journals())


def is_java(pid: int) -> bool:
    """Whether a process is a virtual machine."""
    try:
        return "java" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


def until(true: Callable[[], object], what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE} seconds"
        time.sleep(0.01)

"""Queues whose processes are killed, and whose calls fail: no message is lost, none has two owners at a time.

Killed means SIGKILL at the n-th system call, before it or directly after it. Workers are killed while four of them work
on one queue, and start again. The state is compared with itself and with the journal after every kill.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.queues.definition import find_queue
from sowctl.engine.queues.queue import OpenQueue, QueueMessage, build_handle
from sowctl.engine.queues.verification import verify_queue_state
from sowctl.engine.queues.worker import Worker, WorkOptions
from sowctl.errors import SowError
from sowctl.seam import SEAM, Seam
from sowctl.values.times import system_clock
from tests.support.faults import CountingSeam, FailAt, KillAt
from tests.support.instances import message
from tests.support.queues import QueueLab, id_of, lab_xml, queue_xml

PERIOD = "<LeasePeriod>1h</LeasePeriod>"
ONCE = "<Semantics>at-most-once</Semantics>"
STRIDE = 11
"""In the short form a process is killed at every ``STRIDE``-th call, starting at a random one."""
WORKERS = 4


class Plot:
    """A lab that is reset before each try. ``told``: lines that a child reported before it ended."""

    def __init__(self, root: Path, *parts: str, ranked: bool = False) -> None:
        self.root = root
        self.lab = QueueLab(root / "lab", lab_xml(queue_xml(*parts)))
        for first in range(0, 30, 10):
            rows = [message(id=number, p=number % 3 if ranked else 0) for number in range(first, first + 10)]
            self.lab.publish("orders", *rows)
        self.before()
        shutil.copytree(self.lab.directory, root / "kept")
        self.leased: list[QueueMessage] = []
        self.told: list[str] = []

    def before(self) -> None:
        """Create the state before the verb: ten messages leased, five of them acknowledged, one cancelled."""
        leased = self.lab.lease(10)
        if leased and self.lab.peek()[0].state == "leased":
            self.lab.ack(*leased[:5])
            self.lab.cancel(leased[5])

    def restore(self) -> None:
        shutil.rmtree(self.lab.directory)
        shutil.copytree(self.root / "kept", self.lab.directory)
        self.leased = [one for one in self.lab.peek() if one.state == "leased"]
        self.told = []

    def run(self, verb: Verb, seam: Seam) -> None:
        with self.lab.queue(seam=seam) as queue:
            verb(queue, self.leased, self.told.append)

    def judge(self, problem: str) -> list[QueueMessage]:
        """Return the current messages after checking all invariants."""
        instance = self.lab.open()
        findings, _ = verify_queue_state(instance, find_queue(instance, "work"))
        assert not findings, (problem, findings)
        found = self.lab.peek()
        present = {id_of(one) for one in found}
        gone = set(range(30)) - present
        for line in self.told:
            word, number = line.split()
            # Messages reported as finished are; and a message that left the queue was acknowledged by a worker.
            assert (int(number) in gone) == (word == "gone"), (problem, line)
        with self.lab.queue() as queue:
            assert {id_of(one) for one in queue.peek()} == present, problem
        return found


Verb = Callable[[OpenQueue, list[QueueMessage], Callable[[str], None]], None]


def leasing(queue: OpenQueue, leased: list[QueueMessage], told: Callable[[str], None]) -> None:
    once = queue.queue.semantics == "at-most-once"
    for _ in range(2):
        for one in queue.lease_for_client(3, "a"):
            told(f"{'gone' if once else 'kept'} {id_of(one)}")


def acknowledging(queue: OpenQueue, leased: list[QueueMessage], told: Callable[[str], None]) -> None:
    for part in (leased[:2], leased[2:3]):
        assert queue.acknowledge([build_handle(one) for one in part]) == ["done"] * len(part)
        for one in part:
            told(f"gone {id_of(one)}")


def cancelling(queue: OpenQueue, leased: list[QueueMessage], told: Callable[[str], None]) -> None:
    queue.cancel([build_handle(one, 1000) for one in leased[:2]])
    queue.cancel([build_handle(leased[2])])


def expiring(queue: OpenQueue, leased: list[QueueMessage], told: Callable[[str], None]) -> None:
    assert queue.acknowledge([build_handle(one) for one in leased], expire=True) == ["done"] * len(leased)
    for one in leased:
        told(f"gone {id_of(one)}")
    queue.purge()


CASES: dict[str, tuple[tuple[str, ...], Verb]] = {
    "lease": ((PERIOD,), leasing),
    "lease, synced": ((PERIOD, "<FileBackedMetadata>enabled</FileBackedMetadata>"), leasing),
    "lease by priority": ((PERIOD, "<Priority>/p</Priority>"), leasing),
    "lease at most once": ((ONCE,), leasing),
    "ack": ((PERIOD,), acknowledging),
    "cancel": ((PERIOD,), cancelling),
    "cancel to death": ((PERIOD, "<MaxCancels>1</MaxCancels>"), cancelling),
    "expire": ((PERIOD,), expiring),
}


def in_child(plot: Plot, verb: Verb, seam: Seam) -> int:
    """Run the verb in a child and return its status. Its output is in ``plot.told``."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            with plot.lab.queue(seam=seam) as queue:
                verb(queue, plot.leased, lambda line: os.write(write, f"{line}\n".encode()) and None)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        plot.told = pipe.read().decode().splitlines()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", CASES)
def test_killed_at_the_nth_call(memory: Path, name: str, seed: int, deep: bool) -> None:
    parts, verb = CASES[name]
    plot = Plot(memory, *parts, ranked="priority" in name)
    plot.restore()
    counting = CountingSeam()
    plot.run(verb, counting)
    stride = 1 if deep else STRIDE
    tried = 0
    for n in range(1 + seed % stride, counting.count + 1, stride):
        for after in (False, True) if deep else ((n // stride + seed) % 2 == 0,):
            plot.restore()
            assert in_child(plot, verb, KillAt(n, after=after)) == -signal.SIGKILL
            plot.judge(f"killed at call {n} of {counting.count} ({counting.points[n - 1]}), {after=}")
            tried += 1
    assert tried > counting.count // stride // 2


@pytest.mark.parametrize("name", CASES)
def test_the_nth_call_fails(memory: Path, name: str, seed: int, deep: bool) -> None:
    parts, verb = CASES[name]
    plot = Plot(memory, *parts, ranked="priority" in name)
    plot.restore()
    counting = CountingSeam()
    plot.run(verb, counting)
    stride = 1 if deep else STRIDE
    for n in range(1 + (seed + 3) % stride, counting.count + 1, stride):
        plot.restore()
        try:
            plot.run(verb, FailAt(n, errno.ENOSPC))
        except (SowError, OSError):
            pass
        plot.judge(f"call {n} of {counting.count} ({counting.points[n - 1]}) failed")


# Four workers


class Crew:
    """Workers in separate processes that are killed at random calls and start again.

    A worker reports ``L id`` for each message that it has leased and ``E id`` before it releases it. All write to one
    pipe, whose lines are in the order of the writes.
    """

    def __init__(self, lab: QueueLab, seed: int) -> None:
        self.lab = lab
        self.random = random.Random(seed)
        self.pipe = os.pipe()
        self.kills = 0
        self.living: dict[int, None] = {}

    def begin(self, kill: bool) -> None:
        seam: Seam = KillAt(self.random.randrange(40, 400), after=self.random.random() < 0.5) if kill else SEAM
        seed = self.random.random()
        child = os.fork()
        if child:
            self.living[child] = None
            return
        try:
            self._work(seam, random.Random(seed))
            os._exit(0)
        except SowError as problem:
            print(problem, file=sys.stderr)
        finally:
            os._exit(1)

    def say(self, word: str, one: QueueMessage) -> None:
        os.write(self.pipe[1], f"{os.getpid()} {word} {id_of(one)}\n".encode())

    def _work(self, seam: Seam, chance: random.Random) -> None:
        with self.lab.queue(seam=seam, lock_wait=60.0) as queue:
            number = queue.register_worker("w", 1, 5)
            once = queue.queue.semantics == "at-most-once"
            while True:
                found = queue.lease_for_worker(number, chance.randrange(1, 6))
                for one in found:
                    self.say("L", one)
                if not found:
                    if not queue.peek(1):
                        queue.unregister_worker(number)
                        return
                    time.sleep(0.002)
                if once:
                    continue
                for one in found:
                    self.say("E", one)
                good = [build_handle(one) for one in found if chance.random() < 0.8]
                bad = [build_handle(one) for one in found if build_handle(one) not in good]
                if good:
                    assert set(queue.acknowledge(good)) == {"done"}
                if bad:
                    assert set(queue.cancel(bad)) == {"done"}

    def drive(self, kills: int) -> list[tuple[int, str, int]]:
        """Work until the queue is empty, with ``kills`` kills meanwhile; return the reports."""
        os.set_blocking(self.pipe[0], False)
        said = b""
        for _ in range(WORKERS):
            self.begin(kill=True)
        end = time.monotonic() + 60 + kills / 2
        while self.living:
            assert time.monotonic() < end, f"{self.kills} kills, {len(self.living)} living"
            try:
                while part := os.read(self.pipe[0], 1 << 16):
                    said += part
            except BlockingIOError:
                pass
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                time.sleep(0.001)
                continue
            self.living.pop(pid, None)
            code = os.waitstatus_to_exitcode(status)
            assert code in (0, -signal.SIGKILL), code
            if code:
                self.kills += 1
                self.begin(kill=self.kills + len(self.living) < kills)
        try:
            while part := os.read(self.pipe[0], 1 << 16):
                said += part
        except BlockingIOError:
            pass
        for descriptor in self.pipe:
            os.close(descriptor)
        rows = [line.split() for line in said.decode().splitlines()]
        return [(int(pid), word, int(number)) for pid, word, number in rows]


@pytest.mark.parametrize("parts", [(), (ONCE,), ("<FileBackedMetadata>enabled</FileBackedMetadata>",)])
def test_four_workers_that_are_killed(memory: Path, parts: tuple[str, ...], seed: int, deep: bool) -> None:
    kills = 2000 if deep else 15
    lab = QueueLab(memory / "lab", lab_xml(queue_xml(*parts)), clock=system_clock)  # type: ignore[arg-type]
    count = 30 * kills
    for first in range(0, count, 1000):
        lab.put(*range(first, min(count, first + 1000)))
    crew = Crew(lab, seed)
    said = crew.drive(kills)
    delivered: dict[int, list[int]] = {}
    last: dict[int, int] = {}
    for pid, word, number in said:
        if word == "L":
            delivered.setdefault(number, []).append(pid)
            last[number] = pid
        else:
            assert last[number] == pid, f"message {number} was with {pid} and leased to {last[number]} meanwhile"
    assert lab.peek() == []
    instance = lab.open()
    assert verify_queue_state(instance, find_queue(instance, "work"))[0] == []
    if ONCE in parts:
        assert max(map(len, delivered.values())) == 1, "delivered twice"
        # Removed before delivery: only messages of killed workers may be missing.
        assert count - len(delivered) <= 5 * crew.kills
    else:
        assert set(delivered) == set(range(count)), "lost"
    # With few messages left the last workers may end before they are killed.
    assert crew.kills >= kills // 3


def test_workers_with_commands_that_are_killed(memory: Path, seed: int, deep: bool) -> None:
    """Each message is recorded by a command at least once, and acknowledged ones are not delivered again."""
    lab = QueueLab(memory / "lab", lab_xml(queue_xml()), clock=system_clock)  # type: ignore[arg-type]
    count = 1000 if deep else 40
    lab.put(*range(count))
    chance = random.Random(seed)
    environment = {"PATH": os.environ["PATH"], "OUT": str(memory / "out")}
    options = WorkOptions(
        ("sh", "-c", 'echo "$(cat)" >> "$OUT"'), "w", until_empty=True, environment=environment, concurrency=2
    )
    living: list[int] = []
    end = time.monotonic() + 120 + count
    kills = 0
    while lab.depth().pending or living:
        assert time.monotonic() < end
        while len(living) < WORKERS and lab.depth().pending:
            seam = KillAt(chance.randrange(60, 600)) if kills < count // 4 else SEAM
            child = os.fork()
            if child == 0:
                try:
                    instance = lab.open(seam, 60.0)
                    with OpenQueue(instance, find_queue(instance, "work")) as queue:
                        Worker(queue, options).run()
                    os._exit(0)
                finally:
                    os._exit(1)
            living.append(child)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in living:
            living.remove(pid)
            code = os.waitstatus_to_exitcode(status)
            assert code in (0, -signal.SIGKILL)
            kills += code != 0
        time.sleep(0.01)
    lines = (memory / "out").read_text().splitlines()
    assert {f'{{"id":{number}}}' for number in range(count)} == set(lines)
    instance = lab.open()
    assert verify_queue_state(instance, find_queue(instance, "work"))[0] == []
    assert kills

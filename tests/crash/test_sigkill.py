"""Publishers killed repeatedly at random moments: no acknowledged message is lost, none is invented.

The rounds run in forked processes (``--deep``: many more); some run the command line in a separate process.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.options import PublishOptions
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.errors import SowError
from sowctl.findings import Level
from sowctl.messages.framing.frames import FrameReader
from tests.support.instances import message
from tests.support.processes import Child
from tests.support.verbs import LOGGED, Event, Plot, log_of, problems, rebuilt_is_live, small_memory

KEYS = 40
BATCH = 7


class Rounds:
    """One instance through all rounds; per publisher, its submitted messages and its acknowledgements."""

    def __init__(self, plot: Plot, chance: random.Random) -> None:
        self.plot = plot
        self.chance = chance
        self.lost: list[str] = []
        self.acknowledged = 0

    def plan(self, base: int) -> tuple[list[Event], bytes, str | None, str]:
        """Return messages of one publisher on keys from ``base`` on; the input, the topic and the framing."""
        chance = self.chance
        kind = chance.choice(["j", "h", "a", "mixed", "mixed"])
        topic_names = "jhqab" if kind == "mixed" else kind
        events = []
        for _ in range(chance.choice([1, 5, 60, 300])):
            events += self.plot.fresh(chance.choice(topic_names), [base + chance.randrange(KEYS)], lifetime=0)
        if kind == "mixed":
            rows = [message(topic=e.topic, data=json.loads(str(e.payload)), expiration=0) for e in events]
            return events, "".join(row + "\n" for row in rows).encode(), None, "envelope"
        return events, "".join(f"{e.payload}\n" for e in events).encode(), kind, "lines"

    def start(self, data: bytes, topic: str | None, framing: str) -> Child:
        options = PublishOptions(batch=self.chance.choice([1, 3, 20, 1000]), linger=0.001, expiration=0)
        instance = replace(self.plot.open(), clock=self.plot.lab.clock, lock_wait=20.0)

        def work(child: Child) -> None:
            def told(what: AcknowledgedBatch) -> None:
                child.say(b"\n".join(what.payloads))

            publish_messages(
                instance, topic, [("pipe", FrameReader(child.inlet, framing))], options, on_acknowledged=told
            )

        child = Child(work)
        child.write(data[: 1 << 15])
        return child

    def round(self, publishers: int) -> None:
        """Run some publishers concurrently, each killed at a random moment (or allowed to end)."""
        plans = [self.plan(base=100 * number) for number in range(publishers)]
        children = [self.start(data, topic, framing) for _, data, topic, framing in plans]
        deadline = time.monotonic() + self.chance.choice([0.0, 0.004, 0.01, 0.02, 0.04, 0.08]) * self.chance.random()
        ending = self.chance.random() < 0.15
        while time.monotonic() < deadline:
            for child in children:
                child.hear(0.001)
        for child in children:
            if ending:
                child.join()
            else:
                child.kill()
        found = self.plot.contents()
        for (events, *_), child in zip(plans, children, strict=True):
            self.judge(events, child.lines, found, whole=child.status == 0)
            child.close()
        self.before = found

    def judge(self, events: list[Event], lines: list[bytes], found: dict[str, dict[int, str]], whole: bool) -> None:
        """Per log, this publisher's messages are a prefix of the submitted ones with at least the acknowledged ones."""
        told = [line.decode() for line in lines if line]
        if whole and len(told) != len(events):
            self.lost.append(f"ended well, but {len(told)} of {len(events)} were acknowledged")
        self.acknowledged += len(told)
        positions = {event.payload: n for n, event in enumerate(events)}
        base = events[0].id // 100 * 100
        for log in {log_of(event.topic) for event in events}:
            mine = [event for event in events if log_of(event.topic) == log]
            ids = range(base, base + KEYS)
            here = {(t, k): v for t, rows in found.items() if log_of(t) == log for k, v in rows.items() if k in ids}
            reached = max((n for n, e in enumerate(mine) if here.get((e.topic, e.id)) == e.payload), default=-1)
            promised = max((n for n, e in enumerate(mine) if e.payload in set(told)), default=-1)
            expected = {(t, k): v for t, rows in self.before.items() for k, v in rows.items() if k in ids}
            expected = {place: v for place, v in expected.items() if log_of(place[0]) == log}
            expected.update(((e.topic, e.id), str(e.payload)) for e in mine[: reached + 1])
            if reached < promised:
                self.lost.append(f"{log}: told up to {promised}, found up to {reached}")
            if here != expected:
                wrong = {place for place in here.keys() | expected.keys() if here.get(place) != expected.get(place)}
                self.lost.append(f"{log}: {sorted(wrong)[:3]} are not what was published last")
        assert len(positions) == len(events)


@pytest.mark.parametrize("room", [nullcontext, small_memory], ids=["usual", "small-memory"])
def test_killed_at_random_moments(
    memory: Path, seed: int, deep: bool, room: Callable[[], AbstractContextManager[None]]
) -> None:
    with room():
        _rounds(memory, seed, deep)


def _rounds(memory: Path, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    plot = Plot(memory / "lab", journal_size=20_000)
    rounds = Rounds(plot, chance)
    rounds.before = plot.contents()
    count = 5000 if deep else 50
    for number in range(count):
        rounds.round(publishers=1 if number % 4 else 3)
        assert rounds.lost == [], f"round {number}"
        if number % 20 == 19:
            plot.publish(chance.choice("jhqab"), [999])
            plot.lab.clock.tick(1)
            rounds.before = plot.contents()
            assert problems(plot.lab, Level.ERROR) == []
        if number % 50 == 49:
            plot.replay()
            assert rebuilt_is_live(plot.lab) is None
    assert rounds.acknowledged > 10 * count
    plot.publish("j", [1])
    assert [finding for finding in check_instance(plot.lab.open()) if finding.level > Level.INFO] == []
    for topic in LOGGED:
        live = plot.lab.digest(topic)
        plot.lab.forget(topic)
        plot.lab.open().topic(topic).replay()
        assert plot.lab.digest(topic) == live
    print(f"{count} rounds, {rounds.acknowledged} messages acknowledged, 0 lost")


@pytest.mark.parametrize("topic", ["j", "a"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["KILL", "TERM", "INT"])
def test_the_command_line_killed_while_it_reads_a_pipe(memory: Path, topic: str, number: int, seed: int) -> None:
    plot = Plot(memory / "lab")
    plot.publish(topic, [1])
    chance = random.Random(seed)
    command = [sys.executable, "-m", "sowctl", "publish", topic, "--tee", "--batch", str(BATCH), "--linger", "2ms"]
    command += ["--summary", "json", "-c", str(plot.lab.config), "--progress", "never"]
    root = Path(__file__).parents[2]
    sent = 0
    for _ in range(3):
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=root, bufsize=0) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                lines = [message(t=topic, id=sent + n, v=sent + n).encode() + b"\n" for n in range(500)]
                sent += len(lines)
                process.stdin.write(b"".join(lines[:30]))
                first = os.read(process.stdout.fileno(), 1 << 16)
                process.stdin.write(b"".join(lines[30:]))
                time.sleep(chance.random() * 0.01)
                process.send_signal(number)
                rest = process.stdout.read()
                said = process.stderr.read()
                process.stdin.close()
                status = process.wait(20)
            finally:
                if process.poll() is None:
                    process.kill()
        told = (first + rest).split(b"\n")[:-1]
        assert told == [line[:-1] for line in lines[: len(told)]]
        if number == signal.SIGKILL:
            assert status == -signal.SIGKILL
        else:
            assert status in (128 + number, 0), said
            assert b"Traceback" not in said
        found = plot.contents()[topic]
        present = [n for n in range(sent - 500, sent) if n in found]
        assert present == list(range(sent - 500, sent - 500 + len(present)))
        assert len(present) >= len(told) > 0
        if number != signal.SIGKILL:
            assert len(present) - len(told) <= BATCH, "an interrupted run leaves at most a batch that it could not tell"
    plot.publish(topic, [1])
    assert problems(plot.lab) == []


def test_a_publisher_waiting_for_input_is_killed(memory: Path) -> None:
    """It holds no lock while it waits, and its acknowledged messages are in the journal if not yet in the store."""
    plot = Plot(memory / "lab")
    rounds = Rounds(plot, random.Random(1))
    with rounds.start(b'{"t":"j","id":1,"v":1}\n', "j", "lines") as child:
        child.wait_for(b'"id":1')
        assert plot.contents()["j"] == {1: '{"t":"j","id":1,"v":1}'}
        # It acknowledges under the lock, and may need a moment to release it.
        instance = plot.lab.open(lock_wait=10.0)
        assert instance.topic("j").publish([b'{"t":"j","id":2,"v":2}']).published == 1
        child.write(b'{"t":"j","id":3,"v":3}\n')
        child.wait_for(b'"id":3')
        assert set(plot.contents()["j"]) == {1, 2, 3}
        child.kill()
        assert child.status == -signal.SIGKILL
    assert set(plot.contents()["j"]) == {1, 2, 3}
    try:
        plot.publish("j", [4])
    except SowError as error:
        raise AssertionError(error) from error
    assert rebuilt_is_live(plot.lab) is None

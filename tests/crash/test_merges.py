"""Merges of runs into a store, killed, failing and concurrent: nothing is lost, and leftover files are removed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.errors import StorageError
from sowctl.seam import SEAM, Seam
from sowctl.store.builder import is_being_built
from tests.crash.test_concurrency import _final, _opened, _read, _txids, _write
from tests.crash.test_fail_at_n import attempt, check_report, judge, prepared
from tests.crash.test_killed_at_n import killed
from tests.support.faults import CountingSeam, FailAt, KillAt
from tests.support.instances import message
from tests.support.processes import Child
from tests.support.verbs import (
    Plot,
    Verb,
    deleting_from_runs,
    flushed,
    grown,
    loading,
    loading_history,
    loading_history_in_bulk,
    loading_in_bulk,
    loading_much,
    problems,
    rebuilt_is_live,
    small_memory,
)

POINTS = ("merge.",)
INSTANTS = {"merge.begun", "merge.filled", "merge.installed"}


def catching_up(plot: Plot, seam: Seam) -> None:
    with small_memory():
        plot.replay(seam=seam)


CASES: list[tuple[Verb, set[str]]] = [
    (loading, INSTANTS),
    (loading_history, INSTANTS),
    (loading_much, INSTANTS | {"merge.joined"}),
    (deleting_from_runs, INSTANTS),
    (catching_up, INSTANTS),
]
every = pytest.mark.parametrize(("verb", "points"), CASES, ids=[verb.__name__ for verb, _ in CASES])


def moments(plot: Plot, verb: Verb, points: set[str]) -> list[tuple[int, str]]:
    """Return the numbers of the first and the last call at each moment."""
    plot.restore()
    counting = CountingSeam(POINTS)
    verb(plot, counting)
    assert set(counting.points) == points
    places = {name: [n for n, one in enumerate(counting.points, 1) if one == name] for name in points}
    return sorted({(n, name) for name, found in places.items() for n in (found[0], found[-1])})


def leftovers(plot: Plot) -> list[str]:
    return [path.name for path in (plot.root / "sow").iterdir() if ".sow.new-" in path.name]


@every
def test_killed_at_each_moment_of_a_merge(memory: Path, verb: Verb, points: set[str], seed: int, deep: bool) -> None:
    plot = prepared(memory, flushed)
    for n, name in moments(plot, verb, points)[0 if deep else seed % 2 :: 1 if deep else 2]:
        plot.restore()
        assert killed(plot, verb, KillAt(n, points=POINTS)), (n, name)
        # The unfinished file is left without a builder: readers ignore it.
        assert bool(leftovers(plot)) == (name in ("merge.begun", "merge.filled")), (n, name, leftovers(plot))
        assert not any(is_being_built(plot.lab.store(topic)) for topic in "jh")
        judge(plot, verb, f"killed at {name}, call {n}", thorough=True)
        # The next merge has removed it, with all runs that are already in the store.
        assert not leftovers(plot), (n, name)


@every
def test_a_failure_at_each_moment_of_a_merge(memory: Path, verb: Verb, points: set[str], seed: int, deep: bool) -> None:
    plot = prepared(memory, flushed)
    for n, name in moments(plot, verb, points)[0 if deep else seed % 2 :: 1 if deep else 2]:
        error = attempt(plot, verb, FailAt(n, errno.EIO, points=POINTS))
        assert isinstance(error, StorageError), (n, name)
        check_report(plot, error, name)
        assert not leftovers(plot)
        judge(plot, verb, f"failed at {name}, call {n}", thorough=True)


IN_BULK = pytest.mark.parametrize("verb", [loading_in_bulk, loading_history_in_bulk], ids=lambda verb: verb.__name__)


@IN_BULK
def test_a_bulk_load_is_durable_before_it_merges(memory: Path, verb: Verb) -> None:
    """Killed, or failing, at each moment of its merge: its single group is complete."""
    plot = prepared(memory, grown)
    for n, name in moments(plot, verb, INSTANTS):
        plot.restore()
        assert killed(plot, verb, KillAt(n, points=POINTS)), (n, name)
        plot.book.settle()
        assert plot.contents() == plot.book.final(plot.lab.clock.at), (n, name)
        judge(plot, verb, f"killed at {name}, call {n}", thorough=True)
        assert not leftovers(plot), (n, name)
        error = attempt(plot, verb, FailAt(n, errno.EIO, points=POINTS))
        assert isinstance(error, StorageError) and "they are in the journal" in str(error.hint), (n, name)
        plot.book.settle()
        judge(plot, verb, f"failed at {name}, call {n}", thorough=True)
        assert not leftovers(plot), (n, name)


class PauseAt(Seam):
    """Waits at the first moment ``point`` until the child gets a byte."""

    def __init__(self, point: str, child: Child) -> None:
        self.point, self.child, self.waits = point, child, True

    def reach(self, point: str) -> None:
        if point == self.point and self.waits:
            self.waits = False
            self.child.say("paused")
            os.read(self.child.inlet, 1)


def load(plot: Plot, topic: str, ids: range, pause: str | None = None) -> Child:
    """Start a process that publishes enough messages for a merge; it pauses at a moment of its first merge."""

    def work(child: Child) -> None:
        seam = SEAM if pause is None else PauseAt(pause, child)
        with small_memory():
            report = (
                replace(plot.open(seam), lock_wait=20.0)
                .topic(topic)
                .publish([message(t=topic, id=number, v=number).encode() for number in ids], batch=3)
            )
        child.say(f"published {report.published}")

    return Child(work)


@pytest.mark.parametrize("topic", ["j", "h"])
@pytest.mark.parametrize("second", ["load", "delete", "kill"])
@pytest.mark.parametrize("point", sorted(INSTANTS))
def test_two_processes_merge_at_once(memory: Path, point: str, second: str, topic: str) -> None:
    """The first one is paused, or killed, at a moment of its merge, while the other one merges, too."""
    plot = prepared(memory, flushed)
    plot.restore()
    there = set(plot.contents()[topic])
    # At its end a merge holds the lock: a process that is stopped then blocks the others, as a publisher does.
    is_locked = point == "merge.installed"
    with load(plot, topic, range(100, 130), point) as one:
        one.wait_for(b"paused")
        if second == "kill" or is_locked:
            one.kill()
        with load(plot, topic, range(200, 230)) as other:
            assert other.join() == 0
        if second == "delete":
            with small_memory():
                plot.lab.open(lock_wait=20.0).topic(topic).delete(filter="/id IN (20, 200)")
            there -= {20}
        told = set(plot.contents()[topic])
        assert told >= there | set(range(201, 230))
        if one.status is None:
            one.write(b"x")
            assert one.join() == 0
            there |= set(range(100, 130))
    found = set(plot.contents()[topic])
    assert found >= there | set(range(201, 230)) | told
    assert (200 in found) == (second != "delete")
    plot.publish(topic, [2])
    assert not leftovers(plot)
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


@pytest.mark.parametrize("topic", ["j", "h"])
def test_readers_while_a_merge_is_held_up(memory: Path, topic: str) -> None:
    """Query, snapshot of a past state and subscription return, and a publisher is acknowledged, all without waiting."""
    plot = prepared(memory, flushed)
    plot.restore()
    expected = plot.contents()[topic]
    for point in ("merge.begun", "merge.filled"):
        with load(plot, topic, range(100, 130), point) as one:
            one.wait_for(b"paused")
            instance = plot.lab.open(lock_wait=0.0)
            handle = instance.topic(topic)
            assert handle.publish([message(t=topic, id=300, v=1).encode()]).published == 1
            found = {json.loads(row.payload)["id"] for row in handle.query().records()}
            assert found >= {*expected, 300}
            with handle.subscribe(until_now=True) as subscription:
                told = {json.loads(event.data)["id"] for event in subscription if event.command == "sow" and event.data}
            assert told == found
            path = plot.root / f"{topic}-{point}.sow"
            assert handle.snapshot(path, at=str(handle.info().last_txid)).records == len(found)
            one.write(b"x")
            assert one.join() == 0
        expected = plot.contents()[topic]
    assert set(range(100, 130)) | {300} <= set(expected)
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None


def test_writers_that_merge_all_the_time(memory: Path, seed: int, deep: bool) -> None:
    """Groups are never partly visible, whichever process merges."""
    plot = Plot(memory / "lab", journal_size=200_000)
    _opened(plot, "jh", 3)
    seconds = 60.0 if deep else 2.0
    with small_memory(share=0.5, fan=3):
        writers = [_write(plot, owner, "jh", seconds, seed) for owner in range(3)]
        readers = [_read(plot, "jh", seconds) for _ in range(2)]

    for child in (*writers, *readers):
        assert child.join(timeout=seconds + 40) == 0
        child.close()
    said = [line.decode() for child in (*writers, *readers) for line in child.lines]
    assert [line for line in said if line.startswith("wrong")] == []
    assert _final(plot, writers, "jh") > 3
    txids = _txids(plot.lab)
    assert txids == list(range(1, len(txids) + 1))
    assert problems(plot.lab) == []
    assert rebuilt_is_live(plot.lab) is None

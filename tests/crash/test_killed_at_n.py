"""A verb is killed, or interrupted, at its n-th call: nothing acknowledged is lost, nothing invented, it can continue.

The important windows have their own names below: between journal and store, within a replay, a creation, an expire, a
delete, a snapshot. Killed means SIGKILL in a separate process; the page cache survives.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sowctl.errors import SowError
from sowctl.seam import SEAM, Seam
from tests.crash.test_fail_at_n import again, calls, chosen, judge, prepared
from tests.support.faults import CountingSeam, KillAt
from tests.support.verbs import CASES, IDS, JOURNAL, LOGGED, Plot, Template, Verb, grown, problems, rebuilt_is_live

STRIDE = 149
"""In the short form a verb is killed, or interrupted, at every STRIDE-th call, starting at a random one."""
STRIDE_DEEP = 3
"""The same in the long form: every call would take an hour of a processor, and other runs start at other calls."""


class InterruptAt(CountingSeam):
    """Ctrl-C at the n-th call of the main thread, before it or directly after it."""

    def __init__(self, n: int, *, after: bool = False) -> None:
        super().__init__()
        self.n, self.after = n, after

    def call(self, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        import threading

        if threading.current_thread() is threading.main_thread():
            return super().call(point, function, *args, **kwargs)
        return function(*args, **kwargs)

    def reached(
        self, number: int, point: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if number != self.n:
            return function(*args, **kwargs)
        if self.after:
            function(*args, **kwargs)
        raise KeyboardInterrupt


def killed(plot: Plot, verb: Verb, seam: Seam) -> bool:
    """Run the verb in a child; return whether it was killed. The book records what the child acknowledged."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        gc.freeze()  # a collection would copy every page that it shares with its parent
        try:
            os.close(read)
            acknowledge = plot.book.acknowledge

            def tell(log: str, count: int) -> None:
                acknowledge(log, count)
                os.write(write, f"{log} {count}\n".encode())

            plot.book.acknowledge = tell  # type: ignore[method-assign]
            verb(plot, seam)
        except SowError:
            pass
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read().decode().splitlines()
    status = os.waitpid(child, 0)[1]
    hand_in_all(plot, verb)
    for line in told:
        log, count = line.split()
        plot.book.acknowledge(log, int(count))
    return os.WIFSIGNALED(status)


def hand_in_all(plot: Plot, verb: Verb) -> None:
    """Record in the book what the child submitted: the verb without its effects."""
    book, acknowledged = plot.book, dict(plot.book.acknowledged)
    ghost = Ghost(plot)
    verb(ghost, SEAM)  # type: ignore[arg-type]
    plot.values, plot.lab.clock.at = ghost.values, ghost.lab.clock.at
    book.acknowledged = acknowledged


class Ghost(Plot):
    """A plot whose verbs only write the book."""

    def __init__(self, plot: Plot) -> None:
        self.root, self.lab, self.book, self.values = plot.root, plot.lab, plot.book, plot.values
        self._instance = None

    def publish(self, topic: str, ids: Any, batch: int = 3, seam: Seam = SEAM, told: Any = None) -> None:
        events = self.fresh(topic, ids)
        for start in range(0, len(events), batch):
            self.book.hand_in(events[start : start + batch])

    def load(self, topic: str, ids: Any, tasks: int = 1, seam: Seam = SEAM) -> None:
        self.book.hand_in(self.fresh(topic, ids))

    def envelopes(self, plan: Any, batch: int = 4, seam: Seam = SEAM, told: Any = None, first: int = 1) -> None:
        events = [event for topic, number in plan for event in self.fresh(topic, [number])]
        for start in range(0, len(events), batch):
            self.book.hand_in(events[start : start + batch])

    def delete(self, topic: str, ids: Any, how: str = "filter", seam: Seam = SEAM) -> None:
        from tests.support.verbs import Event

        self.book.hand_in([Event(topic, number, None) for number in ids])

    def expire(self, seam: Seam = SEAM) -> None:
        return

    def replay(self, seam: Seam = SEAM, **options: object) -> None:
        return

    def snapshot(self, topic: str, seam: Seam = SEAM) -> None:
        return


@pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=IDS)
def test_killed_at_the_nth_call(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    plot = prepared(memory, template)
    points = calls(plot, verb, CountingSeam())
    tries = chosen(len(points), seed, STRIDE_DEEP if deep else STRIDE)
    died = 0
    for n in tries:
        after = (n // tries.step + seed) % 2 == 0
        plot.restore()
        died += killed(plot, verb, KillAt(n, after=after))
        problem = f"killed at call {n} of {len(points)} ({points[n - 1]}), {after=}"
        judge(plot, verb, problem, thorough=deep or (died + seed) % 4 == 0)
        left = [path.name for path in (plot.root / "sow").iterdir() if ".new-" in path.name]
        assert not left or verb.__name__ not in ("publishing", "rebuilding"), f"{problem}: {left}"
    assert died == len(tries)


@pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=IDS)
def test_interrupted_at_the_nth_call(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    plot = prepared(memory, template)
    points = calls(plot, verb, InterruptAt(-1))
    tries = chosen(len(points), seed, STRIDE_DEEP if deep else STRIDE)
    tried = stopped = 0
    for n in tries:
        for after in (False, True) if deep else ((n // tries.step + seed) % 2 == 0,):
            problem = f"interrupted at call {n} of {len(points)} ({points[n - 1]}), {after=}"
            plot.restore()
            try:
                verb(plot, InterruptAt(n, after=after))
            except KeyboardInterrupt:
                stopped += 1
            tried += 1
            judge(plot, verb, problem, thorough=deep or (tried + seed) % 3 == 0)
    assert stopped >= tried * 3 // 4


# Windows by name


def at_each(plot: Plot, verb: Verb, point: str, *, after: bool) -> list[int]:
    """Kill at every call of one kind; return how many events of the journal's log were acknowledged each time."""
    plot.restore()
    counting = CountingSeam((point,))
    verb(plot, counting)
    told = []
    for n in range(1, counting.count + 1):
        plot.restore()
        before = plot.book.acknowledged[JOURNAL]
        assert killed(plot, verb, KillAt(n, after=after, points=(point,))), (point, n)
        told.append(plot.book.acknowledged[JOURNAL] - before)
        judge(plot, verb, f"{point} {n}, {after=}", thorough=True)
    return told


def one_run(plot: Plot, seam: Seam) -> None:
    plot.publish("j", [1, 2, 70, 71], batch=2, seam=seam)


def test_between_the_journals_sync_and_the_store(memory: Path) -> None:
    """Acknowledged, not applied: readers see it immediately, through the journal."""
    plot = prepared(memory, grown)
    plot.restore()
    before = plot.lab.store("j").read_bytes()
    counting = CountingSeam(("lmdb.commit",))
    one_run(plot, counting)
    plot.restore()
    assert killed(plot, one_run, KillAt(counting.count, points=("lmdb.commit",)))
    assert plot.lab.store("j").read_bytes() == before
    assert plot.book.acknowledged[JOURNAL] == len(plot.book.events[JOURNAL])
    found = plot.contents()["j"]
    assert set(found) >= {1, 2, 70, 71}
    row = plot.lab.open().topic("j").info()
    assert row.lag == 4
    assert plot.lab.records("j", "/id = 71")[0].txid == row.last_txid
    judge(plot, one_run, "between journal and store", thorough=True)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("point", ["file.sync", "lmdb.commit", "file.write"])
def test_around_every_sync_and_commit_of_a_publish(memory: Path, point: str, after: bool) -> None:
    told = at_each(prepared(memory, grown), one_run, point, after=after)
    assert told == sorted(told)
    assert told[-1] == 4 or point != "lmdb.commit"
    assert told[0] == 0 or point == "lmdb.commit"


@pytest.mark.parametrize(
    "name", ["rebuild", "rebuild-damaged", "catch-up", "snapshot", "expire", "delete", "publish-new"]
)
@pytest.mark.parametrize("point", ["file.rename", "file.unlink", "lmdb.sync", "dir.sync"])
def test_around_every_name_that_changes(memory: Path, name: str, point: str, seed: int, deep: bool) -> None:
    """Replacement and creation: after a kill the path has the old file or the new one."""
    _, template, verb = next(case for case in CASES if case[0] == name)
    plot = prepared(memory, template)
    for after in (False, True) if deep else (seed % 2 == 0,):
        at_each(plot, verb, point, after=after)


def test_killed_again_and_again_until_it_completes(memory: Path, seed: int, deep: bool) -> None:
    """Every attempt to recover is killed a little later than the previous one."""
    for name in ("publish-torn", "rebuild-damaged", "publish-missing"):
        _, template, verb = next(case for case in CASES if case[0] == name)
        plot = prepared(memory, template)
        points = calls(plot, verb, CountingSeam())
        plot.restore()
        now = plot.lab.clock.at
        n, rounds = 1 + seed % 5, 0
        while True:
            _, plot.values, plot.lab.clock.at = plot.saved
            alive = not killed(plot, verb, KillAt(n))
            rounds += 1
            if name != "rebuild-damaged" or alive:
                found = plot.contents()
                assert plot.book.judge(found, now) is None, (name, n)
                plot.book.collapse(found, now)
            if alive:
                break
            n += 3 if deep else 29
        assert rounds > len(points) // 50
        again(plot, verb, SEAM)
        assert plot.contents() == plot.book.final(now)
        assert problems(plot.lab) == []
        assert rebuilt_is_live(plot.lab) is None
        assert not [path for topic in LOGGED for path in (plot.root / "sow").glob(f"{topic}.json.sow.new-*")]

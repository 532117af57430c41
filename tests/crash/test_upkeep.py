"""Store maintenance is killed, fails, or loses power at its n-th call: queries show the old data, it can continue."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.upkeep.compact import compact_stores
from sowctl.engine.verbs.upkeep.repair import repair_stores
from sowctl.errors import DamageError
from sowctl.seam import SEAM, Seam
from sowctl.store import check as check_module
from tests.crash.test_crash_states import Recorded
from tests.crash.test_fail_at_n import FAILURES, attempt, calls, check_report, chosen, judge, prepared
from tests.crash.test_killed_at_n import Ghost, killed
from tests.support.damage import flip_bit, overwrite
from tests.support.faults import CountingSeam, FailAt, KillAt
from tests.support.instances import CheckHere
from tests.support.processes import Child
from tests.support.verbs import LOGGED, Plot, Template, Verb, behind, flushed, grown, put_files


def compacting(plot: Plot, seam: Seam) -> None:
    if isinstance(plot, Ghost):
        return
    instance = plot.open(seam)
    list(compact_stores(instance, [Target(topic=topic) for topic in instance.topics], always=True))


def spoiled(plot: Plot) -> None:
    """Damage records in stores of which the journal has everything; truncate one."""
    behind(plot)
    for topic in LOGGED:
        path = plot.lab.store(topic)
        values = [record.value for record in plot.lab.records(topic)[::3]]
        for value in values:
            at = path.read_bytes().find(value)
            if at > 0:
                flip_bit(path, 8 * (at + 50))
    overwrite(plot.lab.store("q"), 0, b"no store" * 2000)


def repairing(plot: Plot, seam: Seam) -> None:
    if isinstance(plot, Ghost):
        return
    instance = plot.open(seam)
    list(repair_stores(instance, [Target(topic=topic) for topic in instance.topics]))


CASES: list[tuple[str, Template, Verb]] = [
    ("compact", grown, compacting),
    ("compact-behind", behind, compacting),
    ("compact-flushed", flushed, compacting),
    ("repair", spoiled, repairing),
]
every = pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
STRIDE = 37


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run checks in this process: these stores have damage only in records, which LMDB does not notice."""
    monkeypatch.setattr(check_module, "StoreCheck", CheckHere)


def looked_at(plot: Plot, verb: Verb, problem: str, *, thorough: bool) -> None:
    """Check that readable data is unchanged, and that the verb repairs the remaining damage."""
    try:
        plot.contents()
    except DamageError:
        assert verb is repairing, problem
        verb(plot, SEAM)
    judge(plot, verb, problem, thorough=thorough)


@every
def test_killed_at_the_nth_call(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    plot = prepared(memory, template)
    points = calls(plot, verb, CountingSeam())
    tries = chosen(len(points), seed, 1 if deep else STRIDE)
    died = 0
    for n in tries:
        after = (n // tries.step + seed) % 2 == 0
        plot.restore()
        died += killed(plot, verb, KillAt(n, after=after))
        problem = f"killed at call {n} of {len(points)} ({points[n - 1]}), {after=}"
        looked_at(plot, verb, problem, thorough=(died + seed) % 4 == 0)
        left = [path.name for path in (plot.root / "sow").iterdir() if ".new-" in path.name]
        assert not left, left
        aside = [path for path in (plot.root / "sow").iterdir() if ".damaged-" in path.name]
        assert not [path for path in aside if not path.name.endswith("-1")], "one damaged file has one name"
        assert bool(aside) == (verb is repairing)
    assert died == len(tries)


@every
def test_the_nth_call_fails(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    plot = prepared(memory, template)
    points = calls(plot, verb, CountingSeam())
    tries = chosen(len(points), seed, 1 if deep else STRIDE)
    reported = 0
    for n in tries:
        for number, (code, forever, after) in enumerate(FAILURES):
            if not deep and (n // tries.step + seed + number) % len(FAILURES):
                continue
            problem = f"call {n} of {len(points)} ({points[n - 1]}): {code}, {forever=}, {after=}"
            error = attempt(plot, verb, FailAt(n, code, forever, after=after))
            if error is not None:
                reported += 1
                check_report(plot, error, problem)
            looked_at(plot, verb, problem, thorough=deep)
    assert reported > 3


@every
def test_killed_at_any_moment(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    """By SIGKILL, at any moment: within a write, a sync, or LMDB."""
    plot = prepared(memory, template)
    plot.restore()
    started = time.monotonic()
    verb(plot, SEAM)
    usual = time.monotonic() - started
    chance = random.Random(seed)
    died = 0
    for number in range(200 if deep else 6):
        plot.restore()
        with Child(lambda child: verb(plot, SEAM)) as child:
            time.sleep(chance.random() * usual)
            died += child.kill() == -signal.SIGKILL
        looked_at(plot, verb, f"round {number}", thorough=number % 10 == 0)
    print(f"{died} were killed")
    assert died


def _survived(plot: Plot, verb: Verb, work: Recorded, seed: int, limit: int) -> int:
    """Judge ``limit`` of the states that a power cut may leave; return their number. Fails at a loss."""
    states = list(work.states())
    for number, state in enumerate(random.Random(seed).sample(states, min(len(states), limit))):
        put_files(plot.root, {name: content for name, content in state.files.items() if content is not None})
        plot.book, plot.lab.clock.at = work.book.copy(), work.now
        looked_at(plot, verb, state.label, thorough=number % 10 == 0)
    return len(states)


@every
def test_the_power_goes(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    plot = prepared(memory, template)
    count = _survived(plot, verb, Recorded(plot, verb), seed, 1 << 30 if deep else 6)
    print(f"{count} states")
    assert count > 20


def test_without_syncs_the_loss_is_seen(memory: Path, seed: int) -> None:
    """The control group: a new store that is renamed before it is synced."""
    plot = prepared(memory, grown)
    with pytest.raises((AssertionError, DamageError)):
        _survived(plot, compacting, Recorded(plot, compacting, forget_syncs=True), seed, 200)

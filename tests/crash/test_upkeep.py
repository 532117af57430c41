"""Upkeep of stores is killed, and fails, at its n-th call: what queries show is what it was, and it can go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.upkeep.compact import compact
from sowctl.seam import Seam
from tests.crash.test_fail_at_n import FAILURES, attempt, calls, check_report, chosen, judge, prepared
from tests.crash.test_killed_at_n import Ghost, killed
from tests.support.faults import CountingSeam, FailAt, KillAt
from tests.support.verbs import Plot, Template, Verb, behind, flushed, grown


def compacting(plot: Plot, seam: Seam) -> None:
    if isinstance(plot, Ghost):
        return
    instance = plot.open(seam)
    list(compact(instance, [Target(topic=topic) for topic in instance.topics]))


CASES: list[tuple[str, Template, Verb]] = [
    ("compact", grown, compacting),
    ("compact-behind", behind, compacting),
    ("compact-flushed", flushed, compacting),
]
every = pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
STRIDE = 13


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
        judge(plot, verb, f"killed at call {n} of {len(points)} ({points[n - 1]}), {after=}", thorough=died % 4 == 0)
        left = [path.name for path in (plot.root / "sow").iterdir() if ".new-" in path.name]
        assert not left
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
            judge(plot, verb, problem, thorough=deep)
    assert reported > 3

"""Maintenance killed with SIGKILL at random moments: the state is the old or the new one, and work can continue.

One verb per round, in some rounds next to a publisher, on the instances of the interleaving tests and judged as there:
acknowledged messages survive, no record is invented, backups and restored instances are complete or absent.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.errors import SowError
from sowctl.seam import SEAM
from sowctl.store import check as check_module
from tests.support.instances import CheckHere
from tests.support.interleaving.actors import ACTORS, Actor
from tests.support.interleaving.scheduler import Trace
from tests.support.interleaving.trial import Stages, Trial
from tests.support.processes import Child

VERBS = sorted(ACTORS.keys() - {"publish", "query", "expire", "rebuild"})
ROUNDS = 3
DEEP = 200


class Voice:
    """The output of an actor, as lines of a child."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def say(self, **line: object) -> None:
        self._child.say(json.dumps(line))


def _work(trial: Trial, actor: Actor) -> Callable[[Child], None]:
    def work(child: Child) -> None:
        voice = Voice(child)
        try:
            actor.act(trial.stage.for_worker(actor.number, SEAM), voice)  # type: ignore[arg-type]
        except SowError as error:
            voice.say(error=error.code, message=error.message, place=str(error.place))

    return work


def _moment(trial: Trial) -> float:
    """Measure the time that the first verb takes."""
    begin = time.monotonic()
    with Child(_work(trial, trial.prepare()[0])) as child:
        child.join()
    return time.monotonic() - begin


def _round(trial: Trial, chance: random.Random, longest: float) -> tuple[Trace, int]:
    """Run once and kill the first verb; return the reports, and whether it was killed in time."""
    trace = Trace()
    children = [Child(_work(trial, actor)) for actor in trial.prepare()]
    try:
        time.sleep(longest * chance.random())
        children[0].kill()
        for child in children[1:]:
            child.join()
    finally:
        for child in children:
            child.close()
    for number, child in enumerate(children):
        lines = list(map(json.loads, child.lines))
        # The order of reports is unknown: a backup may be from before all acknowledged messages.
        trace.said += [(int("told" in line), number, line) for line in lines]
        if child.status == -signal.SIGKILL:
            trace.killed.add(number)
    return trace, len(trace.killed)


@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_random_moments(
    memory: Path, verb: str, seed: int, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_module, "StoreCheck", CheckHere)
    chance = random.Random(seed)
    stages = Stages(memory)
    killed = 0
    longest: dict[str, float] = {}
    rounds = DEEP if deep else ROUNDS
    for number in range(rounds):
        template = "few" if number % 2 else "many"
        if verb == "repair":
            template += "_spoiled"
        verbs = [verb, "publish"] if number % 3 == 0 else [verb]
        trial = stages.trial(template, verbs, chance.randrange(1 << 31))
        if template not in longest:
            longest[template] = _moment(trial)
        for _ in range(8):
            trace, died = _round(trial, chance, longest[template])
            # A machine that is busy now may not be so in the next round.
            longest[template] *= 1.2 if died else 0.4
            if died:
                break
        killed += died
        wrong = trial.judge(trace, thorough=number % 4 == 0)
        assert wrong is None, f"round {number}, {template}, {verbs}: {wrong}"
    print(f"{verb}: {rounds} rounds, {killed} killed in time")
    assert killed > rounds // 2

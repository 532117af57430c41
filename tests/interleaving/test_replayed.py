"""A run is repeated from a few words, call by call: without that, failures of these tests could not be debugged.

``SOWCTL_TRIAL='few/publish+compact/7/12>1,30x0' pytest tests/interleaving/test_replayed.py`` repeats one run.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.support.interleaving.scheduler import Order, Trace
from tests.support.interleaving.trial import Stages


def test_the_trial_of_the_environment(stages: Stages, seed: int) -> None:
    """The trial named there, or one drawn by the seed, is formatted and parsed again."""
    if words := os.environ.get("SOWCTL_TRIAL"):
        trial, order = stages.repeated(words)
    else:
        trial, chooser = stages.drawn(seed)
        first = trial.run(chooser)
        trial, order = stages.repeated(trial.words(first))
        assert order == first.order
    trace = trial.replay(order)
    for step in trace.steps if words else ():
        print(step.worker, step.point, *step.paths)
    wrong = trial.judge(trace)
    assert wrong is None, trial.told(wrong, trace)


def said(trace: Trace) -> list[tuple[int, int, str]]:
    """Return the reports of workers without what differs between runs: names of backups have random numbers."""
    return [(step, number, next(iter(line))) for step, number, line in trace.said]


@pytest.mark.parametrize("part", range(4))
def test_the_same_order_gives_the_same_calls(stages: Stages, part: int, seed: int, deep: bool) -> None:
    chance = random.Random(f"{seed} {part}")
    for _ in range(100 if deep else 3):
        trial, chooser = stages.drawn(chance.randrange(1 << 31))
        first = trial.run(chooser)
        assert first.problem is None, trial.told(first.problem or "", first)
        again = trial.replay(first.order)
        assert again.calls == first.calls, trial.told("other calls", first)
        assert said(again) == said(first), trial.told("other words", first)
        assert again.killed == first.killed


def test_an_order_is_read_as_it_is_written() -> None:
    order = Order({0: (">", 2), 17: ("x", 1), 18: (">", 0)})
    assert str(order) == "0>2,17x1,18>0"
    assert Order.parse(str(order)) == order
    assert Order.parse(str(Order())) == Order()
    with pytest.raises(AssertionError):
        Order.parse("17?1")

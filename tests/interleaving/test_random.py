"""Two to four verbs, one call at a time in an order given by a seed, some of them killed: the result is right."""

from __future__ import annotations

import random

import pytest

from tests.support.interleaving.trial import Stages

PARTS = 8
STEPS = 30_000
"""Steps of each part in the long form."""
RUNS = 6
"""Runs of each part in the short form."""


@pytest.mark.parametrize("part", range(PARTS))
def test_orders_that_a_seed_decides(stages: Stages, part: int, seed: int, deep: bool) -> None:
    chance = random.Random(f"{seed} {part}")
    steps = runs = killed = 0
    while steps < STEPS if deep else runs < RUNS:
        trial, chooser = stages.drawn(chance.randrange(1 << 31))
        trace = trial.run(chooser)
        wrong = trial.judge(trace, thorough=deep or runs % 3 == 0)
        assert wrong is None, trial.told(wrong, trace)
        runs += 1
        steps += len(trace.steps)
        killed += len(trace.killed)
    print(f"part {part}: {runs} runs, {steps} steps, {killed} killed")

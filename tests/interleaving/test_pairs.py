"""Every two verbs in orders with up to two preemptions, and with one of them killed where it was stopped.

The short form tries one order of some pairs of each verb. The long form tries MAX_ORDERS of every pair, drawn at
random, or all where there are fewer; the output says which.
"""

from __future__ import annotations

import random

import pytest

from tests.support.interleaving.actors import ACTORS
from tests.support.interleaving.scheduler import Order
from tests.support.interleaving.strategies import MAX_ORDERS, Pair
from tests.support.interleaving.trial import Stages

PARTNERS = 2
"""The number of random partners of each verb in the short form, which tries one order of each pair."""


@pytest.mark.parametrize("one", ACTORS)
def test_two_preemptions(stages: Stages, one: str, seed: int, deep: bool) -> None:
    names = list(ACTORS)
    others = names[names.index(one) :]
    if not deep:
        others = random.Random(f"{seed} {one}").sample(others, min(PARTNERS, len(others)))
    for other in others:
        _tried(stages, one, other, seed, deep=deep)


def _tried(stages: Stages, one: str, other: str, seed: int, *, deep: bool) -> None:
    template = "few_spoiled" if "repair" in (one, other) and one != "restore" and seed % 2 else "few"
    trial = stages.trial(template, [one, other], seed)
    whole = trial.replay(Order())
    pair = Pair(whole.of(0), whole.of(1))
    orders = pair.chosen(MAX_ORDERS if deep else 1, random.Random(seed))
    for number, order in enumerate(orders):
        trace = trial.replay(order)
        wrong = trial.judge(trace, thorough=(number + seed) % 4 == 0)
        assert wrong is None, trial.told(wrong, trace)
    share = "all" if len(orders) == len(pair.orders) else f"{len(orders)} at random of"
    print(f"{one} and {other}, {template}: {share} {len(pair.orders)} orders")

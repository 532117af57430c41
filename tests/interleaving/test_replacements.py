"""A subscription that is replaced at every point between the calls of a publisher: journal, store, and its own reads.

The short form tries some of the orders in which the publisher is stopped once, the long form all orders with up to two
preemptions (:class:`tests.support.interleaving.strategies.Pair`), also with other verbs that change the stores.
"""

from __future__ import annotations

import random

import pytest

from tests.support.interleaving.scheduler import Order
from tests.support.interleaving.strategies import Pair
from tests.support.interleaving.trial import Stages

SHORT_ORDERS = 12
"""Orders of each pair that the short form tries."""
LONG_ORDERS = 400
"""Orders of each pair that the long form tries at most."""


@pytest.mark.parametrize("other", ["publish", "expire", "compact", "rebuild", "archive"])
def test_a_subscription_is_replaced_between_the_calls_of_others(
    stages: Stages, other: str, seed: int, deep: bool
) -> None:
    trial = stages.trial("few", ["subscribe", other], seed)
    whole = trial.replay(Order())
    pair = Pair(whole.of(0), whole.of(1))
    chance = random.Random(seed)
    if deep:
        orders = pair.chosen(LONG_ORDERS, chance)
    else:
        once = [*pair.stopped_once(0), *pair.stopped_once(1)]
        orders = chance.sample(once, min(SHORT_ORDERS if other == "publish" else 2, len(once)))
    for order in orders:
        trace = trial.replay(order)
        wrong = trial.judge(trace, thorough=False)
        assert wrong is None, trial.told(wrong, trace)
    print(f"subscribe and {other}: {len(orders)} of {len(pair.orders)} orders")

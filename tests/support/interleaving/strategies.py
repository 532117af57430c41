"""The choice of orders: priorities that change at some steps, and all orders of two workers with two preemptions.

By priorities (Burckhardt et al., ASPLOS 2010): the runnable worker with the highest one gets the turn; at each of a few
steps, drawn from the length of the run, its priority becomes the lowest. A run with n changes finds every fault that
needs n particular switches with a known probability, while random orders repeat a few.

All orders of two workers: the first runs up to some call, the other up to some call, the first to its end. A switch is
only useful at calls on the same files, one of which writes: all others may be exchanged without effect. Instead of
waiting, the stopped worker may be killed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.interleaving.scheduler import Order, Step
from tests.support.interleaving.touches import Touch, conflict
from tests.support.interleaving.worker import Worker

MAX_ORDERS = 40
"""Orders of each pair that the long form tries, others in every run: all orders of all pairs take about eight hours."""


class Priorities:
    """``length``: the estimated number of steps of the run; ``changes`` and ``kills`` are drawn from it."""

    def __init__(self, chance: random.Random, workers: int, length: int, changes: int, kills: int) -> None:
        self._ranks = chance.sample(range(workers), workers)
        self._changes = sorted(chance.sample(range(length), min(changes, length)))
        self._kills = sorted(chance.sample(range(length), min(kills, length)))
        self._choices = 0

    def pick(self, step: int, runnable: Sequence[Worker], usual: int) -> tuple[str, int]:
        for one in runnable:
            if one.point == "sleep":
                self._behind(one.number)
        chosen = max(runnable, key=lambda one: self._ranks[one.number])
        if self._kills and step >= self._kills[0]:
            del self._kills[0]
            return "x", chosen.number
        # Steps at which no other worker can continue are not a choice, and are not counted.
        if len(runnable) > 1:
            self._choices += 1
            if self._changes and self._choices > self._changes[0]:
                del self._changes[0]
                self._behind(chosen.number)
                chosen = max(runnable, key=lambda one: self._ranks[one.number])
        return ">", chosen.number

    def _behind(self, number: int) -> None:
        self._ranks[number] = min(self._ranks) - 1


class Wandering:
    """Switches to another worker at every step with a probability."""

    def __init__(self, chance: random.Random, share: float, length: int, kills: int) -> None:
        self._chance, self._share = chance, share
        self._kills = sorted(chance.sample(range(length), min(kills, length)))

    def pick(self, step: int, runnable: Sequence[Worker], usual: int) -> tuple[str, int]:
        if self._kills and step >= self._kills[0]:
            del self._kills[0]
            return "x", self._chance.choice(runnable).number
        if len(runnable) > 1 and self._chance.random() < self._share:
            return ">", self._chance.choice(runnable).number
        return ">", usual


class Pair:
    """All orders of two workers with up to two preemptions, from the steps of both; without equivalent ones.

    ``A[:i] B[:j] A[i:] B[j:]`` is equivalent to the order with ``i - 1`` if ``A[i - 1]`` shares nothing with ``B[:j]``,
    and to the one with ``j + 1`` if ``B[j]`` shares nothing with ``A[i:]``: of equivalent orders, one is kept. If the
    worker that was stopped last is killed, ``B[j:]`` is omitted; then every visible step of it is worth a kill.
    """

    def __init__(self, first: Sequence[Step], second: Sequence[Step]) -> None:
        steps = [step.touched for step in first], [step.touched for step in second]
        self.orders: list[Order] = [Order({0: (">", 0)}), Order({0: (">", 1)})]
        for begins in (0, 1):
            self._add(begins, steps[begins], steps[1 - begins])

    def _add(self, begins: int, mine: list[frozenset[Touch]], other: list[frozenset[Touch]]) -> None:
        pairs = [[n for n, theirs in enumerate(other) if conflict(one, theirs)] for one in mine]
        # The number of steps of the other worker after which a step of this one shares something with them, and the
        # last step of this worker that shares something with a step of the other one.
        earliest = [found[0] + 1 if found else len(other) + 1 for found in pairs]
        latest = [-1] * len(other)
        for n, found in enumerate(pairs):
            for theirs in found:
                latest[theirs] = n
        end = max(latest, default=-1)
        for stop in range(1, len(mine)):
            if pairs[stop - 1]:
                self.orders.append(Order({0: (">", begins), stop: ("x", begins)}))
                if stop <= end:
                    self.orders.append(Order({0: (">", begins), stop: (">", 1 - begins)}))
            for theirs in range(earliest[stop - 1], len(other)):
                both: dict[int, tuple[str, int]] = {0: (">", begins), stop: (">", 1 - begins)}
                if stop <= latest[theirs]:
                    self.orders.append(Order(both | {stop + theirs: (">", begins)}))
                if latest[theirs - 1] >= 0:
                    self.orders.append(Order(both | {stop + theirs: ("x", 1 - begins)}))

    def stopped_once(self, worker: int) -> list[Order]:
        """Return the orders in which this worker is stopped once for the whole other one, and none is killed."""
        begin, go_on = (">", worker), (">", 1 - worker)
        return [order for order in self.orders if [*order.decisions.values()] == [begin, go_on]]

    def chosen(self, count: int, chance: random.Random) -> list[Order]:
        """Return all orders, or ``count`` random ones."""
        return self.orders if len(self.orders) <= count else chance.sample(self.orders, count)

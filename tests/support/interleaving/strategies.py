"""Which orders are tried: priorities that change at some steps, and all orders of two workers with two preemptions.

By priorities (Burckhardt et al., ASPLOS 2010): the runnable worker with the highest one gets the turn; at each of a few
steps, drawn from the length of the run, the one that has it falls behind all others. A run with so many changes finds
every fault that needs so many particular switches with a known probability, while orders at random repeat a few.

All orders of two workers: the first goes up to some call, the other up to some call, the first to its end. Only calls
that touch what the other one touches, too, and of which one writes it, are worth a switch: all others may change places
without a difference. Instead of waiting, the one that is stopped may be killed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.interleaving.scheduler import Order, Step
from tests.support.interleaving.touches import Touch, conflict
from tests.support.interleaving.worker import Worker

BOUND = 100_000
"""Up to so many orders of a pair are all tried in the long form; of more, so many are sampled."""


class Priorities:
    """``length`` is about how many steps the run will have; ``changes`` and ``kills`` are drawn from it."""

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
        # Steps at which nobody else can go on are no choice, and are not counted.
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
    """Another worker at every step with a probability."""

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
    """All orders of two workers with up to two preemptions, from the steps of both; no two that are the same.

    ``A[:i] B[:j] A[i:] B[j:]`` is the order with ``i - 1`` as well if ``A[i - 1]`` shares nothing with ``B[:j]``, and
    the one with ``j + 1`` if ``B[j]`` shares nothing with ``A[i:]``: of all that are the same, one is kept. Where the
    worker that was stopped last is killed, ``B[j:]`` is left out; then any of its steps that is seen is worth an end.
    """

    def __init__(self, first: Sequence[Step], second: Sequence[Step]) -> None:
        steps = [step.touched for step in first], [step.touched for step in second]
        self.orders: list[Order] = [Order({0: (">", 0)}), Order({0: (">", 1)})]
        for begins in (0, 1):
            self._add(begins, steps[begins], steps[1 - begins])

    def _add(self, begins: int, mine: list[frozenset[Touch]], other: list[frozenset[Touch]]) -> None:
        pairs = [[n for n, theirs in enumerate(other) if conflict(one, theirs)] for one in mine]
        # After how many steps of the other worker a step of this one shares something with them, and the last step of
        # this worker that shares something with a step of the other one.
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
        """Those in which this worker is stopped at one place for all of the other one, and none is killed."""
        begin, go_on = (">", worker), (">", 1 - worker)
        return [order for order in self.orders if [*order.decisions.values()] == [begin, go_on]]

    def chosen(self, count: int, chance: random.Random) -> list[Order]:
        """All of them, or ``count`` of them at random."""
        return self.orders if len(self.orders) <= count else chance.sample(self.orders, count)

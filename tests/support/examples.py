"""The number of examples and cases per law: all in the long form (``--deep``), a share of them otherwise.

Every run draws other examples, so that many short runs cover the same as one long run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

S = TypeVar("S")
T = TypeVar("T")

LONG = "sowctl-deep"
SHORT = "sowctl"
RUN = os.environ.get("SOWCTL_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(random.SystemRandom().random())
"""A name of this run. It is the same in all processes that share its tests, since all have to collect the same tests;
the gate names runs by the state of the code."""


def register() -> None:
    """Register both forms, without a deadline: the time of one example depends on the load of the machine."""
    settings.register_profile(LONG, deadline=None)
    settings.register_profile(SHORT, deadline=None, max_examples=12)


def examples(count: int) -> int:
    """Return the number of examples, of ``count``, in the form of this run, which conftest.py chose."""
    return count if settings.get_current_profile_name() == LONG else max(min(count, 6), count // 12)


def choose_cases(cases: Iterable[T], count: int) -> list[T]:
    """Return ``count`` of the cases of a parametrised test, in order, others in every run; all in the long form."""
    found = list(cases)
    if settings.get_current_profile_name() == LONG or len(found) <= count:
        return found
    chosen = random.Random(f"{RUN} {len(found)} {count}").sample(range(len(found)), count)
    return [found[number] for number in sorted(chosen)]


def choose_pairs(ones: Iterable[S], others: Iterable[T], count: int) -> list[tuple[S, T]]:
    """Pair each one with ``count`` of the others in turn, from any of them on; in the long form with all of them."""
    first, second = list(ones), list(others)
    if settings.get_current_profile_name() == LONG or len(second) <= count:
        return [(one, other) for one in first for other in second]
    turn = random.Random(f"{RUN} {len(first)} {len(second)}").randrange(len(second))
    return [
        (one, second[(turn + number * count + step) % len(second)])
        for number, one in enumerate(first)
        for step in range(count)
    ]

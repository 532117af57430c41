"""The detection power of these tests: missing locks, files removed too early, a deadlock. Each is planted and found.

A change of the scheduler or of the checks that no longer finds one of them has made all other tests blind.
"""

from __future__ import annotations

import fcntl
import os
import random
from collections.abc import Callable

import pytest

from sowctl.engine.api import InstanceHandle
from sowctl.engine.maintenance.retention.holders import EntryHolder
from sowctl.journal.lock import JournalLock
from sowctl.store.opening.locks import WriterLock
from tests.support.interleaving.actors import ACTORS, Actor
from tests.support.interleaving.scheduler import Order
from tests.support.interleaving.strategies import Pair, Wandering
from tests.support.interleaving.trial import Stages
from tests.support.interleaving.worker import Baton


def _no_journal_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JournalLock, "acquire", lambda self, wait: None)


def _no_writer_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WriterLock, "acquire", lambda self, wait: None)
    patch.setattr(WriterLock, "release", lambda self: None)


def _nothing_is_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EntryHolder, "holds", lambda self, file: False)


Plant = Callable[[pytest.MonkeyPatch], None]
PLANTED: list[tuple[str, str, Plant, int | None]] = [
    ("few", "publish+publish", _no_journal_lock, None),
    # One in 40 of all orders shows it, and some draws of 60 do not. If compact is stopped while it has the lock, before
    # its copy replaces the store, it always shows.
    ("few", "publish+compact", _no_writer_lock, 1),
    ("many", "query+prune", _nothing_is_needed, None),
]
"""Template, verbs, planted fault, and the worker that is stopped once, at every step; None: 60 random orders."""
SEED = 5
"""With this one prune is requested to keep as little as possible."""


@pytest.mark.parametrize(
    ("template", "verbs", "plant", "stopped"), PLANTED, ids=[plant.__name__[1:] for _, _, plant, _ in PLANTED]
)
def test_what_is_planted_is_found(
    stages: Stages,
    template: str,
    verbs: str,
    plant: Plant,
    stopped: int | None,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = stages.trial(template, verbs.split("+"), SEED)
    whole = trial.replay(Order())
    pair, chance = Pair(whole.of(0), whole.of(1)), random.Random(seed)
    if stopped is None:
        orders = pair.chosen(60, chance)
    else:
        orders = pair.stopped_once(stopped)
        chance.shuffle(orders)
    plant(monkeypatch)
    for order in orders:
        trace = trial.replay(order)
        # The fault may prevent the continuation, too.
        try:
            wrong = trial.judge(trace)
        except Exception as error:
            wrong = repr(error)
        if wrong is not None:
            break
    else:
        pytest.fail(f"{len(orders)} orders of {verbs} showed nothing")
    assert trial.replay(stages.repeated(trial.words(trace))[1]).calls == trace.calls


class _Locking(Actor):
    """Takes two locks, which the two workers take in opposite order."""

    name = "locking"

    def act(self, instance: InstanceHandle, baton: Baton) -> None:
        names = ("one", "two") if self.number else ("two", "one")
        held = [os.open(self.stage.root / name, os.O_RDWR | os.O_CREAT) for name in names]
        for fd in held:
            baton.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX)


def test_a_deadlock_is_found(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTORS, "locking", _Locking)
    trial = stages.trial("few", ["locking", "locking"], 1)
    assert trial.replay(Order()).problem is None
    problem = trial.replay(Order({1: (">", 1)})).problem
    assert problem is not None
    assert "deadlock" in problem
    assert "0 is blocked on" in problem
    assert "1 is blocked on" in problem
    assert any(trial.run(Wandering(random.Random(n), 0.5, 10, 0)).problem for n in range(20))

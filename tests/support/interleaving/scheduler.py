"""One run of some workers in one order, and the notation of an order.

Without a decision the last worker continues, as long as it can and does not sleep; then the next one by number. An
:class:`Order` holds the steps at which something else happens, so that a run, however it was decided, is repeated from
a few numbers: ``12>1`` gives the turn of step 12 to worker 1, ``30x0`` kills worker 0 at step 30.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.support.interleaving.touches import Touch
from tests.support.interleaving.worker import Line, Worker

LIMIT = 20_000
"""Steps after which a run is considered endless."""
_LEFT = re.compile(r"\.new-\d+")


@dataclass(frozen=True)
class Order:
    """Decisions by the number of their step: ``(">" or "x", worker)``."""

    decisions: dict[int, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Order:
        found = re.findall(r"(\d+)([>x])(\d+)", text)
        assert ",".join("".join(parts) for parts in found) == text.strip("-"), text
        return cls({int(step): (kind, int(worker)) for step, kind, worker in found})

    def __str__(self) -> str:
        return ",".join(f"{step}{kind}{worker}" for step, (kind, worker) in sorted(self.decisions.items())) or "-"


@dataclass(frozen=True)
class Step:
    """A completed step: worker, call, files; what it touched up to the worker's next call."""

    worker: int
    point: str
    paths: tuple[str, ...]
    touched: frozenset[Touch] = frozenset()


@dataclass
class Trace:
    """A record of the run: steps, reports of workers (with the number of the preceding step), decisions."""

    steps: list[Step] = field(default_factory=list)
    said: list[tuple[int, int, Line]] = field(default_factory=list)
    order: Order = field(default_factory=Order)
    killed: set[int] = field(default_factory=set)
    problem: str | None = None

    @property
    def calls(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """The steps in a form that is equal for two runs of one order."""
        # Files left by a killed worker have the number of its process in their names, which differs between runs; a
        # worker reports names of its own files without it.
        return [
            (step.worker, step.point, tuple(_LEFT.sub(".new-PID", one) for one in step.paths)) for step in self.steps
        ]

    def of(self, worker: int) -> list[Step]:
        return [step for step in self.steps if step.worker == worker]


class Chooser(Protocol):
    """Decides which worker gets a turn, or is killed."""

    def pick(self, step: int, runnable: Sequence[Worker], usual: int) -> tuple[str, int]:
        """Return ``(">", worker)`` or ``("x", worker)``; ``usual`` is the worker chosen without a decision."""


class Given:
    """Follows a given order."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def pick(self, step: int, runnable: Sequence[Worker], usual: int) -> tuple[str, int]:
        kind, worker = self._order.decisions.get(step, (">", usual))
        return (kind, worker) if any(one.number == worker for one in runnable) else (">", usual)


def run(workers: Sequence[Worker], chooser: Chooser, trace: Trace) -> Trace:
    """Give turns until all workers have ended; ``trace`` records everything. Kills the remaining ones."""
    current = 0
    try:
        for step in range(LIMIT):
            waiting = [worker for worker in workers if worker.waits]
            if not waiting:
                return trace
            runnable = [worker for worker in waiting if not worker.is_blocked()]
            if not runnable:
                blocked = "; ".join(
                    f"{worker.number} is blocked on {worker.refused[0]}" for worker in waiting if worker.refused
                )
                trace.problem = f"deadlock at step {step}: {blocked}"
                return trace
            usual = _usual(runnable, current)
            kind, chosen = chooser.pick(step, runnable, usual)
            if (kind, chosen) != (">", usual):
                trace.order.decisions[step] = kind, chosen
            worker = workers[chosen]
            if kind == "x":
                worker.kill()
                trace.killed.add(chosen)
                continue
            current = chosen
            _step(worker, trace)
        trace.problem = f"no end after {LIMIT} steps: " + "; ".join(
            f"{w.number} at {w.point} {w.paths}" for w in waiting
        )
    except AssertionError as error:
        trace.problem = str(error)
    finally:
        for worker in workers:
            worker.kill()
    return trace


def _usual(runnable: Sequence[Worker], current: int) -> int:
    numbers = [worker.number for worker in runnable]
    eager = [worker.number for worker in runnable if worker.point != "sleep"] or numbers
    if current in eager:
        return current
    return min((number for number in eager if number > current), default=eager[0])


def _step(worker: Worker, trace: Trace) -> None:
    point, paths = worker.point, tuple(worker.paths)
    worker.turn()
    trace.steps.append(Step(worker.number, point, paths, worker.since))

"""A power cut at any moment of a verb: acknowledged messages survive, files are valid, the next writer continues.

Covers every state in which a disk may be left (see ``tests.support.crashstates``) by verbs over journal and stores. A
store's commit is durable immediately if it is synced; a journalled topic's store may be one commit behind, as LMDB's
meta page is not synced. The control group: without syncs the same checks must find losses.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sowctl.errors import SowError
from sowctl.findings import Level
from sowctl.seam import SEAM, Seam
from tests.crash.test_fail_at_n import prepared
from tests.support.crashstates import CrashState, Recorder
from tests.support.verbs import (
    CASES,
    JOURNAL,
    LOGGED,
    Book,
    Plot,
    Verb,
    new,
    problems,
    publishing,
    put_files,
    rebuilt_is_live,
)

R = TypeVar("R")
DATABASES = ("*.sow", "*.sow.new-*")
WORKLOADS = [case for case in CASES if case[0] != "snapshot"]


class Watcher(Recorder):
    """A recorder that sees how stores are opened: without metasync or sync, the next commit makes one durable."""

    def __init__(self, root: Path, *, forget_syncs: bool = False, skip: str = "") -> None:
        self._lazy: dict[str, bool] = {}
        self._skip = skip
        super().__init__(
            root, forget_syncs=forget_syncs, databases=DATABASES, behind=lambda path: self._lazy.get(str(path), False)
        )

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        if point == "lmdb.open":
            self._lazy[str(args[0])] = not (kwargs.get("metasync", True) and kwargs.get("sync", True))
        if point == self._skip:
            return None  # type: ignore[return-value]
        return super().call(point, function, *args, **kwargs)


class Recorded:
    """A verb run under a recorder, with the book's acknowledgements at each of them."""

    def __init__(self, plot: Plot, verb: Verb, *, forget_syncs: bool = False, skip: str = "") -> None:
        plot.restore()
        self.recorder = Watcher(plot.root, forget_syncs=forget_syncs, skip=skip)
        self.promised = [dict(plot.book.acknowledged)]
        acknowledge = plot.book.acknowledge

        def tell(log: str, count: int) -> None:
            acknowledge(log, count)
            self.recorder.acknowledge()
            self.promised.append(dict(plot.book.acknowledged))

        plot.book.acknowledge = tell  # type: ignore[method-assign]
        try:
            verb(plot, self.recorder)
        finally:
            del plot.book.acknowledge  # type: ignore[method-assign]
        self.book: Book = plot.book.copy()
        self.now = plot.lab.clock.at

    def states(self) -> Iterator[CrashState]:
        return self.recorder.states()


SILENT = ("expiring", "expiring_in_parts", "catching_up", "rebuilding")
"""Verbs that acknowledge nothing."""


def verdict(plot: Plot, work: Recorded, state: CrashState) -> str | None:
    """Return the fault in a state, None if it has none; leaves the state on the disk."""
    put_files(plot.root, {name: content for name, content in state.files.items() if content is not None})
    book = work.book.copy()
    book.acknowledged = dict(work.promised[state.acknowledged])
    try:
        found = plot.contents()
    except SowError as error:
        place = Path(str(error.place))
        if place.exists() and place.read_bytes().startswith(b"not a store"):
            return None  # it was damaged before, and has not been rebuilt yet
        return f"{error.code} {error}"
    wrong = book.judge(found, work.now)
    plot.book = book
    if wrong is None:
        plot.book.collapse(found, work.now)
    return wrong


def recover(plot: Plot, work: Recorded, verb: Verb) -> str | None:
    """Let the next writer continue, and check that all files are valid; return the fault, or None."""
    errors = [finding for finding in problems(plot.lab, Level.ERROR) if ".damaged" not in str(finding.place)]
    if errors and all(not path.read_bytes().startswith(b"not a store") for path in map(plot.lab.store, LOGGED)):
        return f"check: {errors[0].message}"
    _, plot.values, plot.lab.clock.at = plot.saved
    verb(plot, SEAM)
    if plot.contents() != plot.book.final(work.now):
        return "the repetition did not complete"
    if errors := problems(plot.lab):
        return f"after the repetition: {errors[0].message}"
    return rebuilt_is_live(plot.lab)


def examine(plot: Plot, work: Recorded, verb: Verb, limit: int, seed: int) -> tuple[int, list[str]]:
    """Judge ``limit`` states of a run, and recover one in 25. Return the number of states and the faults."""
    chance = random.Random(seed)
    states = list(work.states())
    chosen = states if len(states) <= limit else chance.sample(states, limit)
    wrong = []
    for state in chosen:
        plot.lab.clock.at = work.now
        problem = verdict(plot, work, state)
        if problem is None and chance.random() < 1 / 25:
            problem = recover(plot, work, verb)
        if problem is not None:
            wrong.append(f"{state.label}: {problem}")
    return len(states), wrong


@pytest.mark.parametrize("name", [case[0] for case in WORKLOADS])
def test_nothing_acknowledged_is_lost(memory: Path, name: str, seed: int, deep: bool) -> None:
    _, template, verb = next(case for case in CASES if case[0] == name)
    plot = prepared(memory, template)
    work = Recorded(plot, verb)
    assert len(work.promised) > 1 or verb.__name__ in SILENT
    started = time.monotonic()
    count, wrong = examine(plot, work, verb, 1 << 30 if deep else 8, seed)
    print(f"{name}: {count} states in {time.monotonic() - started:.1f} s")
    assert wrong == []
    assert count > 20


@pytest.mark.parametrize(
    "name", ["publish", "publish-new", "publish-envelopes", "publish-alone", "delete", "publish-torn"]
)
def test_without_syncs_losses_are_seen(memory: Path, name: str, seed: int, deep: bool) -> None:
    """The control group: the checks above can fail, and do if nothing is synced."""
    _, template, verb = next(case for case in CASES if case[0] == name)
    plot = prepared(memory, template)
    work = Recorded(plot, verb, forget_syncs=True)
    states = [state for state in work.states() if state.acknowledged]
    chosen = random.Random(seed).sample(states, min(len(states), 60 if deep else 24))
    wrong = [problem for state in chosen if (problem := verdict(plot, work, state)) is not None]
    assert len(wrong) > len(chosen) // 6


@pytest.mark.parametrize("point", ["file.sync", "dir.sync"])
def test_without_one_kind_of_sync_losses_are_seen(memory: Path, point: str, seed: int) -> None:
    """A single missing kind of sync is noticed: data of journals, or names of new files."""

    plot = prepared(memory, new)
    work = Recorded(plot, publishing, skip=point)
    states = [state for state in work.states() if state.acknowledged]
    chosen = random.Random(seed).sample(states, min(len(states), 60))
    assert any(verdict(plot, work, state) for state in chosen)


def test_a_store_of_an_earlier_commit_beside_any_journal_of_later(memory: Path, deep: bool) -> None:
    """A store may be any number of commits behind its journal (a restored copy): the memtable compensates for it."""
    plot = Plot(memory / "lab")
    stores: list[dict[str, bytes]] = []
    for step in range(6):
        plot.publish("j", [step, step + 1, 20])
        plot.publish("h", [step % 3, 20])
        plot.publish("q", [step % 2])
        if step % 2:
            plot.delete("j", [step])
            plot.delete("h", [step % 3])
        stores.append({path.name: path.read_bytes() for path in (plot.root / "sow").glob("*.sow")})
        plot.lab.clock.tick(1)
    plot.save()
    digests = {topic: plot.lab.digest(topic) for topic in LOGGED}
    for mixed in range(0, len(stores) ** 2, 1 if deep else 5):
        chosen = {"j": stores[mixed // len(stores)], "h": stores[mixed % len(stores)], "q": stores[mixed % 5]}
        plot.restore()
        for topic, files in chosen.items():
            plot.lab.forget(topic)
            plot.lab.store(topic).write_bytes(files[plot.lab.store(topic).name])
        assert plot.book.judge(plot.contents(), plot.lab.clock.at) is None
        assert {topic: plot.lab.digest(topic) for topic in LOGGED} == digests
        if mixed % 3 == 0:
            plot.replay()
        else:
            plot.publish("j", [77])
            plot.publish("h", [77])
        assert plot.book.judge(plot.contents(), plot.lab.clock.at) is None
        assert plot.book.acknowledged[JOURNAL] == len(plot.book.events[JOURNAL])
        assert problems(plot.lab) == []
        assert rebuilt_is_live(plot.lab) is None


def test_syncs_are_what_the_design_says(memory: Path) -> None:
    """One sync per batch in the journal; stores of journalled topics without their own per batch."""
    from tests.support.faults import CountingSeam
    from tests.support.verbs import grown

    plot = prepared(memory, grown)
    plot.lab.journal_size = 1 << 20

    def count(batches: int) -> tuple[int, int]:
        plot.restore()
        seam: CountingSeam = CountingSeam(("file.sync", "lmdb.commit"))
        plot.publish("j", range(100, 100 + 2 * batches), batch=2, seam=seam)
        return seam.points.count("file.sync"), seam.points.count("lmdb.commit")

    assert isinstance(SEAM, Seam)
    (few_syncs, few_commits), (many_syncs, many_commits) = count(2), count(12)
    assert many_syncs - few_syncs == 10
    assert many_commits == few_commits

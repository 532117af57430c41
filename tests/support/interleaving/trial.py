"""One order of some verbs, run and judged; a failure includes the command that repeats exactly this run.

A trial is specified by four words: template, verbs, seed (of the messages and of the choices of verbs), order. They are
passed in the environment variable SOWCTL_TRIAL, and ``tests/interleaving/test_replayed.py`` repeats the trial.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sowctl.engine.maintenance.backup.folder import read_backups
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.upkeep.restore import restore_backup
from sowctl.errors import DamageError
from sowctl.findings import Level
from sowctl.seam import SEAM
from sowctl.store import check as check_module
from tests.support.instances import CheckHere
from tests.support.interleaving.actors import ACTORS, Actor, Backup, Restore
from tests.support.interleaving.model import LOGS, TEMPLATE, Owner
from tests.support.interleaving.scheduler import Chooser, Given, Order, Trace, run
from tests.support.interleaving.stage import Stage, Template, few, few_spoiled, many, many_spoiled
from tests.support.interleaving.strategies import Priorities, Wandering
from tests.support.interleaving.worker import Baton, Line, Worker
from tests.support.verbs import TOPICS, State, contents, log_of, rebuilt_is_live

TEMPLATES: dict[str, Template] = {one.__name__: one for one in (few, few_spoiled, many, many_spoiled)}
PRUNED = {"SOW-RPL-002", "SOW-JRN-063", "SOW-FOL-001"}
"""Errors allowed for a rebuild or a subscription if files of the journal are removed before or during it."""


class Stages:
    """The templates, each created on first use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._made: dict[str, Stage] = {}
        self._lengths: dict[tuple[str, str], int] = {}

    def trial(self, template: str, verbs: Sequence[str], seed: int) -> Trial:
        return Trial(self.get(template), template, verbs, seed)

    def drawn(self, seed: int, verbs: Sequence[str] = ()) -> tuple[Trial, Chooser]:
        """Draw a trial of two to four verbs (or of ``verbs``) by ``seed``; return it with the chooser of its order.

        The frequency of changes and kills is drawn first: runs differ in it.
        """
        chance = random.Random(seed)
        template = chance.choice(["few", "many", "few", "many", "few_spoiled", "many_spoiled"])
        verbs = verbs or chance.choices(sorted(ACTORS), k=chance.randint(2, 4))
        if template.endswith("_spoiled") and "repair" not in verbs:
            verbs = [*verbs[:3], "repair"]
        length = sum(self._length(template, verb) for verb in verbs)
        kills = chance.choice([0, 0, 1, 1, 2])
        trial = self.trial(template, verbs, seed)
        if chance.random() < 0.6:
            return trial, Priorities(chance, len(verbs), length, changes=chance.randint(0, 5), kills=kills)
        return trial, Wandering(chance, chance.choice([0.02, 0.1, 0.5]), length, kills)

    def repeated(self, words: str) -> tuple[Trial, Order]:
        """Return the trial and the order of :meth:`Trial.words`."""
        template, verbs, seed, order = words.split("/")
        return self.trial(template, verbs.split("+"), int(seed)), Order.parse(order)

    def _length(self, template: str, verb: str) -> int:
        if (template, verb) not in self._lengths:
            steps = self.trial(template, [verb], 1).replay(Order()).steps
            self._lengths[template, verb] = len(steps)
        return self._lengths[template, verb]

    def get(self, name: str) -> Stage:
        if name not in self._made:
            self._made[name] = Stage(self.directory / name, TEMPLATES[name])
        return self._made[name]


@dataclass
class Trial:
    """``verbs`` of workers 0, 1, ...; ``seed`` determines their messages."""

    stage: Stage
    template: str
    verbs: Sequence[str]
    seed: int

    def __post_init__(self) -> None:
        self.small = self.template.startswith("few")
        self.spoiled = self.template.endswith("_spoiled")

    def prepare(self) -> list[Actor]:
        """Restore the instance; return the actors, whose messages are in the books of their owners."""
        stage = self.stage
        stage.restore()
        self.now = stage.lab.clock.at
        self.actors = [
            ACTORS[verb](number, stage, random.Random(f"{self.seed} {number}"), small=self.small)
            for number, verb in enumerate(self.verbs)
        ]
        self.owners: dict[int, Owner] = {}
        for actor in self.actors:
            if actor.publishes:
                book = None if any(owner.begins for owner in self.owners.values()) else stage.book
                self.owners[actor.number] = Owner(actor.number, book)
                actor.prepare(self.owners[actor.number])
        if not self.owners:
            self.owners[-2] = Owner(-2, stage.book)
        return self.actors

    def run(self, chooser: Chooser) -> Trace:
        """Run the workers from the start; nothing is judged yet."""
        self.prepare()
        trace = Trace()

        def hear(number: int, line: Line) -> None:
            trace.said.append((len(trace.steps), number, line))

        workers: list[Worker] = []
        try:
            for actor in self.actors:
                workers.append(Worker(actor.number, self.stage.root, self._work(actor), hear))
        except BaseException:
            for worker in workers:
                worker.kill()
            raise
        return run(workers, chooser, trace)

    def _work(self, actor: Actor) -> Callable[[Baton], None]:
        def work(baton: Baton) -> None:
            actor.act(self.stage.for_worker(actor.number, baton), baton)

        return work

    def replay(self, order: Order) -> Trace:
        return self.run(Given(order))

    def words(self, trace: Trace) -> str:
        """Return the value of SOWCTL_TRIAL for this run."""
        return f"{self.template}/{'+'.join(self.verbs)}/{self.seed}/{trace.order}"

    def told(self, problem: str, trace: Trace) -> str:
        """Return a failure with the command that repeats it."""
        return f"{problem}\nrepeat it: SOWCTL_TRIAL='{self.words(trace)}' pytest tests/interleaving/test_replayed.py"

    # judgement

    def judge(self, trace: Trace, *, thorough: bool = True) -> str | None:
        """Return the fault after a run, None if there is none. Leaves the instance as it continued."""
        with pytest.MonkeyPatch.context() as patch:
            # Checks in this process: these stores have damage only in records, which LMDB does not notice.
            patch.setattr(check_module, "StoreCheck", CheckHere)
            return trace.problem or self._said(trace) or self._held(trace, thorough=thorough)

    def _promised(self, trace: Trace, owner: Owner, steps: int | None = None) -> dict[str, int]:
        promised = dict(self.stage.book.acknowledged) if owner.begins else dict.fromkeys(LOGS, 0)
        for step, number, line in trace.said:
            if number == owner.number and "told" in line and (steps is None or step <= steps):
                promised[line["told"]] += line["count"]
        return promised

    def _said(self, trace: Trace) -> str | None:
        """Judge the reports of the workers: errors, and results of queries."""
        seen: dict[tuple[int, int, str], int] = {}
        asked: dict[int, int] = {}
        for place, (step, number, line) in enumerate(trace.said):
            if "foreign" in line:
                return f"{self.verbs[number]} ended with\n{line['foreign']}"
            if "stray" in line:
                return f"{self.verbs[number]} calls {line['stray']} in a thread of its own"
            if "error" in line and not self._may_fail(number, line):
                return f"{self.verbs[number]} failed: {line['error']} {line['message']} ({line['place']})"
            if "asks" in line:
                asked[number] = place
            if "found" in line and (wrong := self._looked(trace, number, line, asked[number], seen)):
                return f"step {step}: a query of {line['found']} found {line['rows']}: {wrong}"
        return None

    def _may_fail(self, number: int, line: Line) -> bool:
        if "prune" in self.verbs and line["error"] in PRUNED:
            return True
        # Damage is reported to all verbs except those that repair it.
        return self.spoiled and self.verbs[number] != "repair"

    def _looked(
        self, trace: Trace, number: int, line: Line, asked: int, seen: dict[tuple[int, int, str], int]
    ) -> str | None:
        """Check that a query shows everything acknowledged before it began, and never goes back to an older state."""
        topic = line["found"]
        rows = {int(key): row for key, row in line["rows"].items()}
        if len(rows) != line["count"]:
            return "a record twice"
        log = log_of(topic)
        for owner in self.owners.values():
            told = sum(
                said["count"] for _, who, said in trace.said[:asked] if who == owner.number and said.get("told") == log
            )
            least = told + (self.stage.book.acknowledged[log] if owner.begins else 0)
            least = max(least, seen.get((number, owner.number, log), 0))
            counts = [count for count in owner.counts({topic: rows}, log, self.now, [topic]) if count >= least]
            if not counts:
                return f"nothing that owner {owner.number} published, from {least} messages on"
            seen[number, owner.number, log] = counts[0]
        return None

    def _held(self, trace: Trace, *, thorough: bool) -> str | None:
        """Judge the contents of the files, before and after work continues."""
        stage, failed = self.stage, {number for _, number, line in trace.said if "error" in line}
        try:
            found = contents(stage.open())
        except DamageError as error:
            if not self.spoiled:
                return f"damage: {error.code} {error} ({error.place})"
            self._repair()
            found = contents(stage.open())
        if wrong := self._contents(trace, found, failed):
            return wrong
        if wrong := self._copies(trace):
            return wrong
        if self.spoiled:
            self._repair()
        return self._goes_on(found, thorough=thorough)

    def _contents(self, trace: Trace, found: State, failed: set[int]) -> str | None:
        known = {key for owner in self.owners.values() for rows in found.values() for key in rows if owner.has(key)}
        if strange := {key for rows in found.values() for key in rows} - known:
            return f"records of nobody: {sorted(strange)}"
        for owner in self.owners.values():
            if wrong := owner.judge(found, self.now, self._promised(trace, owner)):
                return wrong
            ended = owner.number not in trace.killed | failed
            if ended and (wrong := owner.whole(found, self.now)):
                return wrong
        return None

    def _repair(self) -> None:
        ACTORS["repair"](0, self.stage, random.Random(0), small=self.small).act(self.stage.open(), None)  # type: ignore[arg-type]

    def _copies(self, trace: Trace) -> str | None:
        """Judge named backups and restored instances: complete, and of one instant."""
        stage = self.stage
        for actor in self.actors:
            if isinstance(actor, Backup):
                names = [
                    line["backed_up"]
                    for _, number, line in trace.said
                    if number == actor.number and "backed_up" in line
                ]
                began = next(
                    (step for step, number, line in trace.said if number == actor.number and "backs_up" in line), None
                )
                for name in names or self._unnamed(trace):
                    if began is not None and (wrong := self._backup(trace, name, began)):
                        return f"backup {name}: {wrong}"
            elif isinstance(actor, Restore):
                to = stage.root / f"restored-{actor.number}"
                ended = actor.number not in trace.killed
                if to.exists() and any(to.iterdir()):
                    if wrong := self._template(stage.restored(to)):
                        return f"restored: {wrong}"
                elif ended and not any("error" in line for _, number, line in trace.said if number == actor.number):
                    return "restored nothing"
        return None

    def _unnamed(self, trace: Trace) -> list[str]:
        """Return backups of the run whose creation no worker reported."""
        before = {name.split("/")[1] for name in self.stage.files if name.startswith("backups/")}
        told = {line["backed_up"] for _, _, line in trace.said if "backed_up" in line}
        return [one.path.name for one in read_backups(self.stage.backups) if one.path.name not in before | told]

    def _backup(self, trace: Trace, name: str, began: int) -> str | None:
        stage = self.stage
        to = stage.root / "proof"
        shutil.rmtree(to, ignore_errors=True)
        restore_backup(stage.backups, to, stage.opened, name=name, seam=SEAM, now=self.now, lineage=b"p" * 16)
        found = stage.restored(to)
        shutil.rmtree(to)
        for owner in self.owners.values():
            if wrong := owner.judge(found, self.now, self._promised(trace, owner, began)):
                return wrong
        return None

    def _template(self, found: State) -> str | None:
        """Judge the contents of the template's own backup: no message of this run, and each topic at some count."""
        owner = Owner(-2, self.stage.book)
        return owner.judge(found, self.now, dict.fromkeys(LOGS, 0))

    def _goes_on(self, found: State, *, thorough: bool) -> str | None:
        """Continue without faults: messages to all topics, everything expires, no damage, the fold is as stored."""
        stage = self.stage
        for number, topic in enumerate(TOPICS):
            stage.open().topic(topic).publish([f'{{"id":{TEMPLATE - 1},"n":{number}}}'.encode()])
            found[topic][TEMPLATE - 1] = f'{{"id":{TEMPLATE - 1},"n":{number}}}'
        stage.expire()
        after = contents(stage.open())
        if after != found:
            wrong = {
                (t, k) for t in found for k in found[t].keys() | after[t].keys() if found[t].get(k) != after[t].get(k)
            }
            return f"after going on: {sorted(wrong)[:4]} changed"
        if not thorough:
            return None
        if wrong := self._sound():
            return wrong
        # Unfinished files next to a store are removed by the next process that replaces it; unfinished copies of
        # journal files are rewritten by the next process that archives or compresses them.
        ACTORS["compact"](0, stage, random.Random(0), small=False).act(stage.open(), None)  # type: ignore[arg-type]
        left = [path.name for path in (stage.root / "sow").rglob("*.new*")]
        return f"left behind: {left}" if left else None

    def _sound(self) -> str | None:
        """Return the findings of a check, and the stores that are not the fold of the journal."""
        found = [finding for finding in check_instance(self.stage.open()) if finding.level > Level.INFO]
        if found:
            return f"check: {found[0].id} {found[0].message}"
        return None if "prune" in self.verbs else rebuilt_is_live(self.stage.lab)

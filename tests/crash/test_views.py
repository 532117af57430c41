"""The cache of a view is killed, or fails, at its n-th call: it has the old state or the new, and answers are right.

Each kind of refresh separately: created, caught up, rebuilt over an old one.
"""

from __future__ import annotations

import errno
import gc
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sowctl.engine.topics.targets import Target, find_topic
from sowctl.engine.views.cache import read_state
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.openers import open_target
from sowctl.errors import SowError
from sowctl.seam import Seam
from sowctl.store.check import check_store
from sowctl.store.env import Store
from tests.crash.test_fail_at_n import FAILURES, chosen
from tests.support.faults import CountingSeam, FailAt, KillAt
from tests.support.instances import Lab, config_xml, message, topic_xml

VIEW = """
<View><Name>named</Name><MessageType>json</MessageType>
<UnderlyingTopic><Join>[orders]./client = [clients]./id</Join></UnderlyingTopic>
<Projection><Field>[clients]./name AS /name</Field><Field>SUM([orders]./qty) AS /total</Field></Projection>
<Grouping><Field>[clients]./name</Field></Grouping></View>
"""
XML = config_xml(topic_xml("orders") + topic_xml("clients") + VIEW, ("orders",))
STRIDE = 9
Pairs = list[tuple[bytes, bytes]]


@pytest.fixture(autouse=True)
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are stored and used even for few records."""
    for name in ("min_column_records", "max_changed_divisor", "max_stale_divisor", "min_kept_changes"):
        monkeypatch.setattr(VIEW_LIMITS, name, 0)


def first(lab: Lab) -> None:
    lab.publish("orders", *(message(id=number, client=f"c{number % 3}", qty=number) for number in range(20)))
    lab.publish("clients", *(message(id=f"c{number}", name=f"name {number}") for number in range(3)))


def behind(lab: Lab) -> None:
    first(lab)
    read(lab)
    lab.publish("orders", message(id=1, client="c0", qty=100))
    lab.publish("clients", message(id="c1", name="name 2"))


def spoilt(lab: Lab) -> None:
    behind(lab)
    lab.config.write_text(XML.replace("SUM(", "AVG("))


CASES: dict[str, Callable[[Lab], None]] = {"made": first, "caught up": behind, "made anew": spoilt}


def cache(lab: Lab) -> Path:
    return lab.directory / "sow" / "orders.json.sow-views" / "named.json.sow"


def read(lab: Lab, seam: Seam | None = None) -> Pairs:
    instance = lab.open(seam)
    topic = find_topic(instance, "named", derived=True)
    with closing(open_target(instance, Target(topic=topic), None)) as source:
        return [pair for keys, values in source.read_batches(10) for pair in zip(keys, values, strict=True)]


def held(lab: Lab) -> Pairs | None:
    """Return the contents of the cache as stored; None if it does not exist."""
    if not cache(lab).exists():
        return None
    assert not [finding for finding in check_store(cache(lab)) if finding.level.name == "ERROR"]
    with Store.open(cache(lab), write=False) as store, store.open_snapshot() as snapshot:
        assert read_state(snapshot) is not None
        return [pair for keys, values in snapshot.scan_records() for pair in zip(keys, values, strict=True)]


class Case:
    """A lab that can be reset to the state before the refresh."""

    def __init__(self, memory: Path, prepare: Callable[[Lab], None]) -> None:
        self.lab = Lab(memory / "lab", XML)
        prepare(self.lab)
        self.kept = memory / "kept"
        shutil.copytree(self.lab.directory, self.kept)
        self.old = held(self.lab)
        seam = CountingSeam()
        self.new = read(self.lab, seam)
        self.points = seam.points
        assert self.old != self.new

    def restore(self) -> None:
        shutil.rmtree(self.lab.directory)
        shutil.copytree(self.kept, self.lab.directory)


def killed(lab: Lab, seam: Seam) -> bool:
    child = os.fork()
    if child == 0:
        gc.freeze()
        try:
            read(lab, seam)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", CASES)
def test_a_refresh_that_is_killed_leaves_the_old_state_or_the_new_one(
    memory: Path, name: str, seed: int, deep: bool
) -> None:
    case = Case(memory, CASES[name])
    seen = set()
    for n in chosen(len(case.points), seed, 1 if deep else STRIDE):
        for after in (False, True) if deep else ((n // 2 + seed) % 2 == 0,):
            case.restore()
            problem = f"killed {'behind' if after else 'before'} call {n} of {len(case.points)} ({case.points[n - 1]})"
            assert killed(case.lab, KillAt(n, after=after)), problem
            found = held(case.lab)
            assert found in (case.old, case.new), problem
            seen.add(found == case.new)
            assert read(case.lab) == case.new, problem
            assert held(case.lab) == case.new, problem
    assert False in seen


@pytest.mark.parametrize("name", CASES)
def test_a_refresh_that_fails_answers_without_a_cache_or_says_why(
    memory: Path, name: str, seed: int, deep: bool
) -> None:
    case = Case(memory, CASES[name])
    answered = 0
    for number, n in enumerate(chosen(len(case.points), seed, 1 if deep else STRIDE)):
        code, forever, after = FAILURES[(seed + number) % len(FAILURES)]
        case.restore()
        problem = f"call {n} ({case.points[n - 1]}): {errno.errorcode[code]}, {forever=}, {after=}"
        try:
            assert read(case.lab, FailAt(n, code, forever, after=after)) == case.new, problem
            answered += 1
        except SowError as error:
            assert error.exit_status in (6, 11), f"{problem}: {error.code} {error.message}"
        assert held(case.lab) in (case.old, case.new), problem
        assert read(case.lab) == case.new, problem
    assert answered

"""SIGKILL of a backup, a restore or a publisher at any moment: visible backups are complete; the next run succeeds."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.engine.maintenance.backup.folder import read_backups
from sowctl.engine.verbs.upkeep.backup import verify_backup
from sowctl.findings import Level
from sowctl.seam import SEAM
from sowctl.values.times import system_clock
from tests.support.backups import BackupLab, checks_here
from tests.support.instances import config_xml, topic_xml
from tests.support.processes import Child

__all__ = ["checks_here"]
XML = config_xml(topic_xml("t") + topic_xml("alone"), ("t",))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put temporary files of killed processes into the directory of the test, which is removed with it."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))


@pytest.fixture
def lab(tmp_path: Path, checks_here: None) -> Iterator[BackupLab]:
    made = BackupLab(tmp_path / "lab", XML, clock=system_clock, journal_size=20_000)  # type: ignore[arg-type]
    made.publish("t", '{"id":0}')
    made.publish("alone", '{"id":0}')
    made.take()
    yield made


def publishing(lab: BackupLab, child: Child) -> None:
    for number in itertools.count():
        lab.publish("t", *(f'{{"id":{number % 50},"n":{number},"k":{k}}}' for k in range(10)))
        lab.publish("alone", f'{{"id":{number % 50},"n":{number}}}')


def backing_up(lab: BackupLab, child: Child) -> None:
    while True:
        lab.take()


def restoring(lab: BackupLab, child: Child) -> None:
    for number in itertools.count():
        lab.bring_back(f"restored-{number}")


def test_kills_at_random_moments(lab: BackupLab, deep: bool) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for turn in range(200 if deep else 5):
        children = [
            Child(lambda child, work=work: work(lab, child))  # type: ignore[misc]
            for work in (publishing, backing_up, restoring)
        ]
        time.sleep(chance.uniform(0.0, 0.6))
        for child in children:
            child.signal(signal.SIGKILL)
            assert child.join() == -signal.SIGKILL, (seed, turn)
        for one in read_backups(lab.backups):
            verify_backup(lab.backups, one.path.name, lab.opened, seam=SEAM, wait=0)
        for place in sorted(lab.directory.parent.glob("restored-*")):
            if any(place.iterdir()):
                there = lab.beside(place)
                assert not [finding for finding in there.findings() if finding.level >= Level.WARNING], (seed, turn)
            shutil.rmtree(place)
        lab.publish("t", '{"id":51}')
        lab.take()
        # One backup of each round is kept as the base of later ones.
        for one in read_backups(lab.backups)[:-2]:
            shutil.rmtree(one.path)
    assert not [finding for finding in lab.findings() if finding.level >= Level.ERROR]

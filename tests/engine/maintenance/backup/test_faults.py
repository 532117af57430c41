"""Backup and restore killed at every call, and with every call failing once: the new state, or the one before."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.engine.maintenance.backup.folder import read_backups
from sowctl.engine.verbs.upkeep.backup import verify_backup
from sowctl.errors import SowError
from sowctl.findings import Level
from sowctl.seam import SEAM, Seam
from tests.support.backups import XML, BackupLab, checks_here
from tests.support.faults import CountingSeam, FailAt, ShortWriteAt, died_at_call
from tests.support.instances import config_xml, topic_xml

__all__ = ["checks_here"]

SMALL = config_xml(topic_xml("t") + topic_xml("alone"), ("t",))
SHORT_STEP = 9
"""In the short form every ninth call fails, different ones in each run."""
SHARED = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None


class SmallLab(BackupLab):
    """Two topics, one of them with a journal of several files."""

    def round(self, number: int) -> None:
        self.clock.tick(1)
        for name in ("t", "alone"):
            self.publish(name, *(f'{{"id":{number},"n":{n}}}' for n in range(3)))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put temporary files of killed processes into the directory of the test, which is removed with it."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))


@pytest.fixture
def lab(tmp_path: Path, checks_here: None) -> Iterator[SmallLab]:
    made = SmallLab(tmp_path / "lab", SMALL, journal_size=1200)
    for number in range(4):
        made.round(number)
    yield made


def sound(lab: BackupLab) -> list[str]:
    """Return the names of the backups after verifying each; assert that nothing else has a visible name."""
    if not lab.backups.is_dir():
        return []
    found = [one.path.name for one in read_backups(lab.backups)]
    for name in found:
        verify_backup(lab.backups, name, lab.opened, seam=SEAM, wait=0)
    shown = {entry.name for entry in lab.backups.iterdir() if not entry.name.startswith(".")}
    assert shown == set(found)
    return found


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("earlier", [False, True], ids=["first", "second"])
def test_a_backup_killed_at_every_call(lab: SmallLab, deep: bool, seed: int, *, earlier: bool, after: bool) -> None:
    if earlier:
        lab.take()
        lab.round(9)
    lab.clock.tick(1)
    expected, there = lab.digests(), len(sound(lab))
    step = 1 if deep else SHORT_STEP
    n = 1 + seed % step
    while died_at_call(n, lambda seam: lab.take(seam), after=after):
        found = sound(lab)
        assert len(found) in (there, there + 1)
        for name in found[there:]:
            shutil.rmtree(lab.backups / name)
        n += step
    assert n > 40
    assert len(sound(lab)) == there + 1
    lab.clock.tick(1)
    lab.take()
    # The leftovers of killed processes are removed.
    assert not [entry.name for entry in lab.backups.iterdir() if entry.name.endswith(".new")]
    assert lab.digests() == expected


@pytest.mark.parametrize("forever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_backup_with_a_failing_call_at_every_place(
    lab: SmallLab, deep: bool, seed: int, code: int, *, forever: bool
) -> None:
    expected = lab.digests()
    counting = CountingSeam()
    lab.take(counting)
    shutil.rmtree(lab.backups)
    step = 1 if deep else SHORT_STEP
    for n in range(1 + seed % step, counting.count + 1, step):
        seam = FailAt(n, code, forever)
        lab.clock.tick(1)
        try:
            lab.take(seam)
        except SowError as error:
            assert error.exit_status in (5, 6), (n, error)
            assert sound(lab) == [] or "rename" in counting.points[n - 1] or "sync" in counting.points[n - 1]
        else:
            assert seam.failed
        shutil.rmtree(lab.backups, ignore_errors=True)
        assert lab.digests() == expected
    assert not [finding for finding in lab.findings() if finding.level >= Level.ERROR]


def test_short_writes_are_gone_on_with(lab: SmallLab) -> None:
    for n in range(1, 8):
        lab.clock.tick(1)
        lab.take(ShortWriteAt(n))
    sound(lab)


def whole_or_nothing(lab: BackupLab, to: Path, expected: dict[str, str]) -> bool:
    if not to.exists() or not any(to.iterdir()):
        return False
    restored = lab.beside(to)
    assert restored.digests() == expected
    assert not [finding for finding in restored.findings() if finding.level >= Level.WARNING]
    return True


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("back", [False, True], ids=["instant", "earlier"])
def test_a_restore_killed_at_every_call(lab: SmallLab, deep: bool, seed: int, *, back: bool, after: bool) -> None:
    lab.take()
    expected = lab.digests()
    txid = None
    if back:
        # The store of t is then ahead of the txid and is rebuilt; alone is restored from the first backup.
        txid = 12
        lab.round(7)
        lab.take()
        lab.round(8)
        lab.take()
        shutil.rmtree(read_backups(lab.backups)[1].path)
    to = lab.directory.parent / "restored"

    def work(seam: Seam) -> None:
        lab.bring_back(seam=seam, txid=txid)

    step = 1 if deep else SHORT_STEP
    n = 1 + seed % step
    while died_at_call(n, work, after=after):
        if whole_or_nothing(lab, to, expected):
            shutil.rmtree(to)
        n += step
    assert n > 40
    assert whole_or_nothing(lab, to, expected)
    lab.bring_back("again", txid=txid)
    shutil.rmtree(to)
    work(SEAM)
    assert not [entry.name for entry in to.parent.iterdir() if entry.name.startswith(f".{to.name}.")]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_restore_with_a_failing_call_at_every_place(lab: SmallLab, deep: bool, seed: int, code: int) -> None:
    lab.take()
    expected = lab.digests()
    to = lab.directory.parent / "restored"
    counting = CountingSeam()
    lab.bring_back(seam=counting)
    shutil.rmtree(to)
    step = 1 if deep else SHORT_STEP
    for n in range(1 + seed % step, counting.count + 1, step):
        try:
            lab.bring_back(seam=FailAt(n, code))
        except SowError as error:
            assert error.exit_status in (5, 6), (n, error)
        if whole_or_nothing(lab, to, expected):
            shutil.rmtree(to)
    lab.bring_back()
    assert whole_or_nothing(lab, to, expected)


def test_the_instance_of_every_kind_of_file_survives_a_kill_in_between(
    tmp_path: Path, checks_here: None, seed: int, deep: bool
) -> None:
    """A kill at some calls, with queues, history and expiration too: a test of every call takes too long."""
    lab = BackupLab(tmp_path / "lab", XML, journal_size=2000)
    for number in range(3):
        lab.round(number)
    lab.lease(1)
    expected = lab.digests()
    step = 10 if deep else 23
    n = 1 + seed % step
    while died_at_call(n, lambda seam: lab.take(seam), after=False):
        sound(lab)
        n += step
    sound(lab)
    restored, _ = lab.bring_back()
    assert restored.digests() == expected

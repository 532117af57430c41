"""A power cut at any moment of a backup or a restore: a visible backup is complete, and the instance is unchanged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.seam import SEAM, Seam
from tests.engine.maintenance.backup.test_faults import SmallLab, lab, sound, temporary, whole_or_nothing
from tests.support.backups import checks_here
from tests.support.crashstates import CrashState, Recorder

__all__ = ["checks_here", "lab", "temporary"]
PLACES = ("lab", "backups", "restored")


def put(root: Path, state: CrashState) -> None:
    """Replace the directories of the test by those of the state."""
    for place in PLACES:
        shutil.rmtree(root / place, ignore_errors=True)
    for name, content in state.files.items():
        if not name.startswith(PLACES):
            continue
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)


def cut(root: Path, work: Callable[[Seam], object], seed: int, limit: int, *, forget: bool = False) -> list[CrashState]:
    """Return ``limit`` states that a power cut in ``work`` may leave, and some from after its end.

    LMDB writes the stores of the instance; the seam writes the store files of a backup.
    """
    recorder = Recorder(root, forget_syncs=forget, databases=("lab/sow/*.sow",))
    work(recorder)
    recorder.acknowledge()
    states = list(recorder.states())
    ended = [state for state in states if state.acknowledged]
    chance = random.Random(seed)
    return chance.sample(states, min(len(states), limit)) + chance.sample(ended, min(len(ended), limit // 4))


@pytest.mark.parametrize("earlier", [False, True], ids=["first", "second"])
def test_the_power_goes_in_a_backup(lab: SmallLab, seed: int, deep: bool, *, earlier: bool) -> None:
    if earlier:
        lab.take()
        lab.round(9)
    lab.clock.tick(1)
    expected, there = lab.digests(), len(sound(lab))
    states = cut(lab.directory.parent, lab.take, seed, 1 << 30 if deep else 24)
    for state in states:
        put(lab.directory.parent, state)
        assert len(sound(lab)) in ({there + 1} if state.acknowledged else {there, there + 1}), state.label
        assert lab.digests() == expected, state.label
    print(f"{len(states)} states")
    lab.clock.tick(1)
    lab.take()
    assert not [entry.name for entry in lab.backups.iterdir() if entry.name.endswith(".new")]


@pytest.mark.parametrize("back", [False, True], ids=["instant", "earlier"])
def test_the_power_goes_in_a_restore(lab: SmallLab, seed: int, deep: bool, *, back: bool) -> None:
    lab.take()
    expected, txid = lab.digests(), None
    if back:
        txid = 12
        lab.round(7)
        lab.take()
    to = lab.directory.parent / "restored"

    def work(seam: Seam) -> None:
        lab.bring_back(seam=seam, txid=txid)

    states = cut(lab.directory.parent, work, seed, 1 << 30 if deep else 24)
    for state in states:
        put(lab.directory.parent, state)
        assert whole_or_nothing(lab, to, expected) or not state.acknowledged, state.label
    print(f"{len(states)} states")
    shutil.rmtree(to, ignore_errors=True)
    work(SEAM)
    assert whole_or_nothing(lab, to, expected)


def test_without_syncs_the_loss_is_seen(lab: SmallLab, seed: int) -> None:
    """The control group: without syncs, the name of a backup may be on the disk before its files."""
    states = cut(lab.directory.parent, lab.take, seed, 400, forget=True)

    def is_whole(state: CrashState) -> bool:
        put(lab.directory.parent, state)
        try:
            return len(sound(lab)) == 1
        except Exception:
            return False

    assert not all(is_whole(state) for state in states if state.acknowledged)

"""Stores under construction: one whose builder is gone is cleared away."""

from __future__ import annotations

import os
from pathlib import Path

from sowctl.seam import SEAM
from sowctl.store.opening.replace import build
from tests.support.faults import KillAt
from tests.support.stores import DEFINITION, START, batch, new_store


def test_a_builder_that_is_gone_is_cleared_away_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    pid = os.fork()
    if pid == 0:
        with build(path, DEFINITION, seam=KillAt(1, points=["lmdb.sync"]), now=START) as builder:
            builder.append(*batch(range(50), 2))
            builder.finish()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    (stale,) = tmp_path.glob("*.new-*")
    with build(path, DEFINITION, seam=SEAM, now=START) as living:
        assert not stale.exists()
        with build(path, DEFINITION, seam=SEAM, now=START):
            assert living.path.exists()
        living.put_in_place()
    assert not list(tmp_path.glob("*.new-*"))

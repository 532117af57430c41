"""Task attempts: the files that they leave, and those of attempts that fail or lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.bulk.commit import commit_run
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.bulk.task import StageTask
from sowctl.errors import UsageError
from sowctl.messages.framing.envelope import Envelope
from tests.support.instances import message, verified
from tests.support.staged import SKIP, leftovers, make, stage


def test_delete_by_sow_key(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        lab.publish("log", message(id=1), message(id=2))
        key = str(lab.records("log")[0].sow_key)
        instance = lab.open()
        with hold_staging_area(instance, instance.topic("log").config) as area:
            plan = area.build_plan(SKIP, operation="delete")
            envelopes = [Envelope(sow_key=text) for text in (f"{key:0>30}", "7", "x", "\u0667", "9" * 5000)]
            report = commit_run(area, plan, [stage(plan, "t", 0, [""] * 5, envelopes=envelopes)])
        assert (report.deleted, report.missing, report.rejected) == (1, 1, 3)
        assert len(lab.query("log")) == 1
        with pytest.raises(UsageError):
            area.build_plan(SKIP, operation="upsert")  # type: ignore[arg-type]


def test_positions_that_go_back_make_another_segment(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        instance = lab.open()
        with hold_staging_area(instance, instance.topic("log").config) as area:
            plan = area.build_plan(SKIP)
            with StageTask(plan, "t") as task:
                task.add_messages([message(id=1, v="last").encode()], 5, [0])
                task.add_messages([message(id=1, v="first").encode()], 2, [0])
                done = task.finish()
            assert len(done.segments) == 2
            commit_run(area, plan, [done])
        assert lab.query("log") == [message(id=1, v="last")]


def test_an_attempt_that_fails_or_loses_leaves_nothing(tmp_path: Path) -> None:
    with verified(make(tmp_path)) as lab:
        instance = lab.open()
        with hold_staging_area(instance, instance.topic("log").config) as area:
            plan = area.build_plan(SKIP)
            with pytest.raises(OSError, match="gone"), StageTask(plan, "t-0") as task:
                task.add_messages([message(id=1).encode()], 5, [0])
                task.add_messages([message(id=1).encode()], 2, [0])
                raise OSError("gone")
            assert not list(area.directory.glob("t-0*"))
            stage(plan, "t-1", 0, [message(id=1, v="lost")])
            report = commit_run(area, plan, [stage(plan, "t-2", 0, [message(id=1, v="won")])])
            assert report.published == 1
        assert lab.query("log") == [message(id=1, v="won")]
        assert not leftovers(lab)

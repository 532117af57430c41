"""check: findings, one line on what was verified and what was not, and the resulting exit status."""

from __future__ import annotations

import pytest

from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.check import check_instance
from sowctl.findings import Level
from tests.support.damage import overwrite
from tests.support.instances import Lab, message, numbered


def test_sound_files_give_no_finding_and_are_counted(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    lab.publish("past", message(id=1), message(id=1, v=2))
    run = check_instance(lab.open())
    assert (list(run), run.status) == ([], 0)
    report = run.report
    assert (report.stores, report.records, report.journal_files) == (2, 4, 1)
    assert report.bytes > 0 < report.journal_bytes
    assert "t.json.sow: 3 records" in run.coverage
    assert "journal: 1 file," in run.coverage
    assert "not verified: " in run.coverage  # topics that were never published to
    assert "alone: no store" in report.not_verified


def test_of_some_targets_nothing_else_is_read(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    for target in (resolve_targets(lab.open(), "t")[0], Target(path=lab.store("t"))):
        run = check_instance(lab.open(), [target])
        assert (list(run), run.status, run.report.stores, run.report.journal_files) == ([], 0, 1, 0)
        assert "journal" not in run.coverage


def test_nothing_at_all(lab: Lab) -> None:
    run = check_instance(lab.open(), [])
    assert (list(run), run.coverage, run.status) == ([], "checked nothing", 0)


def test_a_store_that_is_gone_is_a_warning_with_the_way_back(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    lab.forget("t")
    run = check_instance(lab.open(), resolve_targets(lab.open(), "t"))
    (finding,) = run
    assert (finding.id, finding.level) == ("SOW-CHK-001", Level.WARNING)
    assert str(finding.hint).startswith("sowctl replay t ")
    assert (run.status, run.report.not_verified) == (0, ("t: no store",))


@pytest.mark.parametrize("offset", [0, 4096])
def test_damage_is_status_5(lab: Lab, offset: int) -> None:
    numbered(lab, "t", 1, 3)
    kept = lab.store("t").read_bytes()
    overwrite(lab.store("t"), offset, bytes(8192))
    run = check_instance(lab.open(), resolve_targets(lab.open(), "t"))
    found = list(run)
    assert any(finding.level is Level.ERROR for finding in found)
    assert run.status == 5
    lab.store("t").write_bytes(kept)


def test_a_store_of_another_definition_is_sound_and_refused(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    text = lab.config.read_text()
    lab.config.write_text(text.replace("<Key>/id</Key>", "<Key>/v</Key>", 1))
    run = check_instance(lab.open(), resolve_targets(lab.open(), "t"))
    (finding,) = run
    assert (finding.id, run.status) == ("SOW-CHK-002", 8)
    assert finding.hint is not None
    assert "sowctl replay --rekey t" in finding.hint
    lab.config.write_text(text)

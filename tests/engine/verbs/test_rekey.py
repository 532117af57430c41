"""A changed Key: every command detects records under former keys, and replay --rekey gives them new ones."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from sowctl.engine.options import ReplayOptions
from sowctl.engine.reports import ReplayReport
from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.writing.session import WriteSession
from sowctl.errors import RefusedError, UsageError
from sowctl.findings import Level
from sowctl.journal.format import DELETE, INSERTED_FLAG
from tests.engine.conftest import MakeLab
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml

HISTORY = "<History><Window>1h</Window><Granularity>1s</Granularity></History>"
SHAPES = {
    "plain": ("", True),
    "history": (HISTORY, True),
    "fading": ("<Expiration>enabled</Expiration>", True),
    "transient": ("<Durability>transient</Durability>", True),
}


def _xml(key: str | None, more: str = "", *, transient: bool = False) -> str:
    file = None if transient else "sow/%n.sow"
    return config_xml(topic_xml("x", more, key=key, file=file) + topic_xml("other"), ("x", "other"))


def _change(lab: Lab, key: str | None, more: str = "", *, transient: bool = False) -> None:
    lab.config.write_text(_xml(key, more, transient=transient))


def _replay(lab: Lab, **options: object) -> ReplayReport:
    instance = lab.open()
    return replay_topics(instance, [instance.topic("x").config], ReplayOptions(**options))[0]  # type: ignore[arg-type]


def _rows(lab: Lab) -> list[dict[str, int]]:
    return sorted((json.loads(text) for text in lab.query("x")), key=lambda row: row["id"])


@pytest.fixture(params=sorted(SHAPES))
def shape(request: pytest.FixtureRequest) -> str:
    return SHAPES[str(request.param)][0]


@pytest.fixture
def changed(make_lab: MakeLab, shape: str) -> Lab:
    """Three records under /id, two of them with one /k; then the Key is /k."""
    transient = "transient" in shape
    lab = make_lab(_xml("/id", shape, transient=transient))
    lab.publish("x", message(id=1, k=2), message(id=3, k=2), message(id=5, k=6))
    lab.clock.tick(5)
    lab.publish("other", message(id=1))
    _change(lab, "/k", shape, transient=transient)
    return lab


def test_nothing_is_written_beside_former_keys(changed: Lab, shape: str) -> None:
    if "transient" not in shape:
        for act in (lambda: changed.publish("x", message(id=9, k=2)), lambda: _replay(changed)):
            with pytest.raises(RefusedError) as caught:
                act()
            assert caught.value.code in ("SOW-STO-024", "SOW-RPL-010")
            assert "replay --rekey x" in str(caught.value.hint)
        with pytest.raises(RefusedError):
            _replay(changed, rebuild=True)
        assert _replay(changed, verify=True).action == "differs"
        (finding,) = [one for one in changed.findings() if one.id == "SOW-CHK-002"]
        assert "replay --rekey x" in str(finding.hint)
        changed.forget("x")
        with pytest.raises(RefusedError):
            _replay(changed)
        with pytest.raises(RefusedError):
            _replay(changed, into=str(changed.directory / "new"))
    with pytest.raises(RefusedError) as caught:
        changed.publish("x", message(id=9, k=2))
    assert caught.value.code == "SOW-RPL-010"
    assert _rows(changed) == [{"id": 1, "k": 2}, {"id": 3, "k": 2}, {"id": 5, "k": 6}]
    _replay(changed, rekey=True)


def test_rekeyed_records_are_one_group_and_the_journal_alone_says_the_same(changed: Lab, shape: str) -> None:
    report = _replay(changed, rekey=True, dry_run=True)
    assert (report.action, report.entries, report.dry_run) == ("re-keyed", 5, True)
    assert len(_rows(changed)) == 3
    report = _replay(changed, rekey=True)
    assert report.action == "re-keyed"
    assert re.findall(r"\d+", str(report.note)) == ["3", "2", "1"]
    assert _rows(changed) == [{"id": 3, "k": 2}, {"id": 5, "k": 6}]
    with open_log(changed.open()) as log:
        group = [e for b in log.iter_blocks() for e in b.iter_entries() if b.header.group == 5 and e.topic[0] == "x"]
    assert [entry.operation == DELETE for entry in group] == [True, True, True, False, False]
    assert all(entry.flags & INSERTED_FLAG for entry in group[3:])
    if "transient" not in shape:
        assert str(report.moved).endswith(".replaced-1")
        assert _replay(changed, verify=True).action == "verified"
        digest = changed.digest("x")
        changed.forget("x")
        assert _replay(changed).action == "rebuilt"
        assert changed.digest("x") == digest
    assert changed.publish("x", message(id=9, k=2), message(id=7, k=8)).updated == 1
    assert _rows(changed) == [{"id": 5, "k": 6}, {"id": 7, "k": 8}, {"id": 9, "k": 2}]
    assert _replay(changed, rekey=True).action in ("current", "re-keyed")
    assert _rows(changed) == [{"id": 5, "k": 6}, {"id": 7, "k": 8}, {"id": 9, "k": 2}]


def test_a_store_that_was_rebuilt_under_former_keys_is_noticed(make_lab: MakeLab, tmp_path: Path) -> None:
    """As an earlier release handled a changed Key: check, verify and rebuild report it, and --rekey fixes it."""
    lab = make_lab(_xml("/id"))
    lab.publish("x", *(message(id=number, k=number % 7 + 100) for number in range(40)))
    _change(lab, "/k")
    lab.forget("x")
    instance = lab.open()
    from sowctl.engine.fold.rebuild import rebuild_stores

    with open_log(instance) as log:
        rebuild_stores(instance, log, [instance.topic("x").config])
    (finding,) = [one for one in lab.findings() if one.level >= Level.ERROR]
    assert finding.id == "SOW-CHK-003"
    assert "40 of 40" in finding.message
    assert _replay(lab, verify=True).action == "differs"
    with pytest.raises(RefusedError):
        _replay(lab, rebuild=True)
    assert _replay(lab, rekey=True).action == "re-keyed"
    assert [row["id"] for row in _rows(lab)] == list(range(33, 40))


def test_one_block_of_former_keys_among_many_is_found(make_lab: MakeLab) -> None:
    """A block was written under one definition: a sample of each block's records is enough."""
    lab = make_lab(_xml("/k"))
    lab.publish("x", *(message(id=number, k=number) for number in range(3000)))
    _change(lab, "/id")
    lab.forget("x")
    instance = lab.open()
    from sowctl.engine.fold.rebuild import rebuild_stores

    with open_log(instance) as log:
        rebuild_stores(instance, log, [instance.topic("x").config])
    lab.publish("x", message(id=5000, k=6000))
    _change(lab, "/k")
    lab.forget("x")
    with pytest.raises(RefusedError) as caught:
        _replay(lab)
    assert caught.value.code == "SOW-RPL-010"
    _replay(lab, rekey=True)
    assert len(lab.query("x")) == 3001


def test_records_without_a_new_key_are_refused_and_nothing_is_written(make_lab: MakeLab) -> None:
    lab = make_lab(_xml("/id"))
    lab.publish("x", message(id=1, k=2), message(id=3))
    _change(lab, "/k")
    with pytest.raises(RefusedError) as caught:
        _replay(lab, rekey=True)
    assert caught.value.code == "SOW-RPL-011"
    with open_log(lab.open()) as log:
        assert log.read_last_txid() == 2
    _change(lab, None)
    with pytest.raises(RefusedError) as caught:
        _replay(lab, rekey=True)
    assert caught.value.code == "SOW-RPL-011"
    _change(lab, "/id")


def test_null_keys_given_on_purpose_stay(make_lab: MakeLab) -> None:
    lab = make_lab(_xml("/id"))
    lab.publish("x", message(v=1), message(id=3), allow_null_key=True)
    assert _replay(lab, rebuild=True).action == "rebuilt"
    assert _replay(lab, rekey=True).action == "current"


def test_user_keys_become_fields_and_expirations_stay(make_lab: MakeLab) -> None:
    more = "<Expiration>enabled</Expiration>"
    lab = make_lab(_xml(None, more))
    lab.publish("x", message(id=1), sow_key="abc", expiration=60)
    lab.publish("x", message(id=2), sow_key="abd")
    expires = {record.payload: record.expiration for record in lab.records("x")}
    _change(lab, "/id", more)
    lab.clock.tick(1)
    _replay(lab, rekey=True)
    assert {record.payload: record.expiration for record in lab.records("x")} == expires
    assert lab.publish("x", message(id=1)).unchanged == 1
    lab.clock.tick(61)
    lab.publish("x", message(id=1))
    assert len(lab.query("x")) == 2


def test_what_expired_and_was_removed_does_not_come_back(make_lab: MakeLab) -> None:
    more = "<Expiration>10s</Expiration>"
    lab = make_lab(_xml("/id", more))
    lab.publish("x", message(id=1, k=1), message(id=4, k=7))
    lab.clock.tick(20)
    lab.open().topic("x").expire()
    lab.publish("x", message(id=2, k=3))
    _change(lab, "/k", more)
    _replay(lab, rekey=True)
    assert _rows(lab) == [{"id": 2, "k": 3}]
    assert _replay(lab, rebuild=True).action == "rebuilt"
    assert _replay(lab, verify=True).action == "verified"


def test_keys_change_hands(make_lab: MakeLab) -> None:
    """A key that is deleted as a former one and created as a new one ends with the new record."""
    lab = make_lab(_xml("/id"))
    lab.publish("x", message(id=1, k=2), message(id=2, k=1), message(id=3, k=3), message(id=4, k=3))
    _change(lab, "/k")
    _replay(lab, rekey=True)
    assert _rows(lab) == [{"id": 1, "k": 2}, {"id": 2, "k": 1}, {"id": 4, "k": 3}]
    assert _replay(lab, verify=True).action == "verified"
    assert lab.publish("x", message(id=9, k=3)).updated == 1


def test_journals_that_do_not_reach_back_get_every_record(make_lab: MakeLab) -> None:
    lab = make_lab(_xml("/id"))
    lab.journal_size = 1024
    for number in range(40):
        lab.publish("x", message(id=number, k=number % 30 if number else 0, v="x" * 100))
    for file in lab.journals()[:3]:
        file.unlink()
    _change(lab, "/k")
    _replay(lab, rekey=True)
    assert sorted(row["k"] for row in _rows(lab)) == list(range(30))
    lab.forget("x")
    assert _replay(lab, force=True).action == "rebuilt"
    assert sorted(row["k"] for row in _rows(lab)) == list(range(30))


def test_a_run_that_goes_on_under_the_former_key_stops(make_lab: MakeLab) -> None:
    """Its batch is rejected before any of it is in the journal."""
    import subprocess
    import sys

    lab = make_lab(_xml("/id"))
    lab.publish("x", message(id=1, k=2))
    with WriteSession(lab.open()) as session:
        writer = session.open_topic(session.instance.topic("x").config)
        with session.hold_batch_locks([writer]):
            pass
        _change(lab, "/k")
        command = [sys.executable, "-m", "sowctl", "-c", str(lab.config), "replay", "--rekey", "x"]
        subprocess.run(command, check=True, capture_output=True)
        with pytest.raises(RefusedError) as caught, session.hold_batch_locks([writer]):
            pass
    assert caught.value.code == "SOW-ENG-086"


def test_a_group_without_its_store_is_gone_on_with(changed: Lab, shape: str, tmp_path: Path) -> None:
    """The process died between the two: the former store still exists, and the group is in the journal."""
    if "transient" in shape:
        _replay(changed, rekey=True)
        return
    shutil.copy(changed.store("x"), tmp_path / "former")
    _replay(changed, rekey=True)
    digest = changed.digest("x")
    changed.forget("x")
    shutil.copy(tmp_path / "former", changed.store("x"))
    assert len(_rows(changed)) == 2
    with pytest.raises(RefusedError):
        changed.publish("x", message(id=9, k=2))
    with open_log(changed.open()) as log:
        before = log.read_last_txid()
        report = _replay(changed, rekey=True)
        assert (report.action, log.read_last_txid()) == ("re-keyed", before)
    assert changed.digest("x") == digest


def test_what_rekey_is_not_combined_with(changed: Lab, tmp_path: Path) -> None:
    for options in ({"verify": True}, {"into": str(tmp_path / "x")}, {"journal": str(changed.directory / "journal")}):
        with pytest.raises(UsageError) as caught:
            _replay(changed, rekey=True, **options)
        assert caught.value.code in ("SOW-RPL-014", "SOW-RPL-003")
    _replay(changed, rekey=True)


def test_times_do_not_go_back(changed: Lab) -> None:
    changed.clock.tick(-100)
    _replay(changed, rekey=True)
    times = [record.timestamp for record in changed.records("x")]
    assert min(times) >= changed.clock.at + 100 * SECOND - 5 * SECOND


@pytest.mark.parametrize("count", [1, 2])
def test_few_records_that_all_have_their_keys_already_stay_as_they_are(make_lab: MakeLab, count: int) -> None:
    lab = make_lab(_xml("/id"))
    lab.publish("x", *(message(id=number, k=number) for number in range(count)))
    digest = lab.digest("x")
    assert _replay(lab, rekey=True).action == "current"
    assert lab.digest("x") == digest

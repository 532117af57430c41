"""Recovery: cases C42-C48 and every row of the matrix of behaviour 1.6, with every form of RecoveryPoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.identity.hashes import hash_client_name
from tests.support.instances import SECOND, START, Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
TRANSIENT = "<Durability>transient</Durability>"
ME = hash_client_name("me")


def _lab(make_lab: MakeLab, *parts: str, logged: bool = True, transient: bool = False) -> Lab:
    kept = topic_xml("t", TRANSIENT, *parts, file=None) if transient else topic_xml("t", *parts)
    return make_lab(config_xml(kept + topic_xml("other"), ("t", "other") if logged else ()))


def _fill(lab: Lab) -> list[str]:
    """Publish records 1 to 6, one per second, with sequence numbers; then delete the third and replace the second."""
    for number in range(1, 7):
        lab.publish("t", message(id=number, v=1), client="me", sequence=number)
        lab.clock.tick(1)
    lab.open().topic("t").delete(filter="/id = 3")
    lab.publish("t", message(id=2, v=2))
    return sorted([message(id=2, v=2), *(message(id=number, v=1) for number in (1, 4, 5, 6))])


# a store, and a journal


def test_c42_a_store_that_is_up_to_date_stays_as_it_is(make_lab: MakeLab) -> None:
    lab = _lab(make_lab)
    expected = _fill(lab)
    before = lab.store("t").read_bytes()
    assert sorted(lab.query("t")) == expected
    assert lab.open().topic("t").replay().action == "current"
    lab.publish("other", '{"id":1}')
    assert sorted(lab.query("t")) == expected
    assert lab.store("t").read_bytes() == before


def test_c42_a_store_that_is_ahead_of_its_journal_is_an_error(make_lab: MakeLab, tmp_path: Path) -> None:
    """Stricter than "no change": journal files are missing at the end, and new txids would be assigned twice."""
    lab = _lab(make_lab)
    lab.publish("t", '{"id":1}')
    shutil.copytree(lab.directory / "journal", tmp_path / "old")
    lab.publish("t", '{"id":2}')
    shutil.move(lab.directory / "journal", tmp_path / "new")
    shutil.copytree(tmp_path / "old", lab.directory / "journal")
    for act in (lambda: lab.query("t"), lambda: lab.publish("t", '{"id":3}')):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.code == "SOW-JRN-013"
    shutil.rmtree(lab.directory / "journal")
    shutil.move(tmp_path / "new", lab.directory / "journal")


def test_c43_a_store_that_is_behind_gets_what_is_newer(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = _lab(make_lab)
    for number in range(1, 9):
        lab.publish("t", message(id=number))
    shutil.copy(lab.store("t"), tmp_path / "eight")
    lab.publish("t", '{"id":9}')
    lab.open().topic("t").delete(filter="/id = 1")
    expected = sorted(lab.query("t"))
    lab.forget("t")
    shutil.copy(tmp_path / "eight", lab.store("t"))
    assert sorted(lab.query("t")) == expected
    report = lab.open().topic("t").replay()
    assert (report.action, report.entries, report.applied) == ("caught up", 2, 10)
    assert sorted(lab.query("t")) == expected


def test_c44_a_missing_store_is_the_fold_of_the_log(make_lab: MakeLab) -> None:
    lab = _lab(make_lab)
    expected, digest = _fill(lab), lab.digest("t")
    lab.forget("t")
    assert (sorted(lab.query("t")), lab.digest("t")) == (expected, digest)
    assert lab.publish("t", message(id=1, v=1)).unchanged == 1
    assert sorted(lab.query("t")) == expected


def test_a_damaged_store_is_rebuilt_by_replay_alone(make_lab: MakeLab) -> None:
    lab = _lab(make_lab)
    expected, digest = _fill(lab), lab.digest("t")
    lab.store("t").write_bytes(b"no store" * 999)
    for act in (lambda: lab.query("t"), lambda: lab.publish("t", '{"id":1}')):
        with pytest.raises(DamageError) as caught:
            act()
        assert "sowctl replay" in str(caught.value.hint)
    assert lab.open().topic("t").replay().action == "rebuilt"
    assert (sorted(lab.query("t")), lab.digest("t")) == (expected, digest)


def test_c48_what_only_removed_journals_held_is_gone(make_lab: MakeLab) -> None:
    """Discarding these records needs ``replay``; a reader or writer that needs those journals fails with an error."""
    lab = _lab(make_lab)
    lab.journal_size = 1024
    for number in range(40):
        lab.publish("t", message(id=number, v="x" * 200))
    files = lab.journals()
    for file in files[: len(files) // 2]:
        file.unlink()
    lab.forget("t")
    with pytest.raises(MissingError) as caught:
        lab.query("t")
    assert caught.value.code == "SOW-ENG-011"
    report = lab.open().topic("t").replay()
    left = sorted(lab.query("t"))
    assert left == sorted(message(id=number, v="x" * 200) for number in range(40 - report.entries, 40))
    assert 0 < report.entries < 40


# a store, and no journal


def test_a_topic_without_a_journal_is_used_as_it_is(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, logged=False)
    expected = _fill(lab)
    before = lab.store("t").read_bytes()
    assert sorted(lab.query("t")) == expected
    assert lab.store("t").read_bytes() == before


def test_a_topic_without_a_journal_only_expires(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, "<Expiration>30s</Expiration>", logged=False)
    lab.publish("t", '{"id":1}')
    lab.publish("t", '{"id":2}', expiration=0)
    lab.clock.tick(31)
    assert lab.query("t") == ['{"id":2}']
    lab.publish("t", '{"id":3}')
    assert lab.open().topic("t").info().records == 2


def test_a_missing_store_without_a_journal_is_an_empty_topic(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, logged=False)
    _fill(lab)
    lab.forget("t")
    assert lab.query("t") == []
    assert lab.publish("t", '{"id":7}').inserted == 1
    assert lab.query("t") == ['{"id":7}']


def test_a_damaged_store_without_a_journal_waits_for_somebody(make_lab: MakeLab) -> None:
    """Its records cannot be restored, so no new store is begun until the file has been moved aside."""
    lab = _lab(make_lab, logged=False)
    _fill(lab)
    lab.store("t").write_bytes(b"no store" * 999)
    for act in (lambda: lab.query("t"), lambda: lab.publish("t", '{"id":7}')):
        with pytest.raises(DamageError):
            act()
    lab.forget("t")
    assert lab.publish("t", '{"id":7}').inserted == 1


# transient topics


def test_c46_a_transient_topic_is_the_fold_of_the_log(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, transient=True)
    expected = _fill(lab)
    assert sorted(lab.query("t")) == expected
    assert lab.publish("t", message(id=1, v=1), message(id=3, v=1)).inserted == 1
    assert len(lab.query("t")) == 6
    assert not list(lab.directory.glob("**/*.sow"))


def test_c47_a_transient_topic_without_a_journal_is_empty(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, logged=False, transient=True)
    for act in (
        lambda: lab.publish("t", '{"id":1}'),
        lambda: lab.publish("t", '{"id":1}', delta=True),
        lambda: lab.open().topic("t").delete(filter="1 = 1"),
    ):
        with pytest.raises(RefusedError) as caught:
            act()
        assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-021", 8)
    assert lab.query("t") == []


def test_a_volatile_topic_lives_as_long_as_its_command(make_lab: MakeLab) -> None:
    lab = _lab(make_lab, logged=False, transient=True)
    report = lab.publish("t", '{"id":1}', '{"id":1}', '{"id":1,"v":2}', allow_volatile=True, batch=1)
    assert (report.inserted, report.unchanged, report.updated) == (1, 1, 1)
    report = lab.publish("t", '{"id":1}', allow_volatile=True)
    assert report.inserted == 1
    assert not list(lab.directory.glob("**/*.sow"))


# RecoveryPoint

ALL = ["1", "2", "4", "5", "6"]
POINTS = {
    "epoch": ALL,
    "Epoch": ALL,
    "0": ALL,
    "1970-01-01T00:00:00Z": ALL,
    "20260105T080003Z": ["2", "4", "5", "6"],
    "2026-01-05T08:00:03.000001Z": ["2", "5", "6"],
    "2026-01-05T08:00:03Z": ["2", "4", "5", "6"],
    f"{ME}|4|": ["2", "5", "6"],
    f"{ME}|5": ["2", "6"],
    f"{ME}|77|": [],
    "12345|1|": [],
    "0|1|": [],
    "2026-01-05T09:00:00Z": [],
    "now": [],
}


def _ids(rows: list[str]) -> list[str]:
    return sorted(row[6] for row in rows)


@pytest.mark.parametrize(("point", "expected"), POINTS.items())
def test_c45_a_missing_store_begins_at_its_recovery_point(make_lab: MakeLab, point: str, expected: list[str]) -> None:
    lab = _lab(make_lab, f"<RecoveryPoint>{point}</RecoveryPoint>")
    _fill(lab)
    assert _ids(lab.query("t")) == ALL
    lab.forget("t")
    assert _ids(lab.query("t")) == expected
    lab.publish("t", '{"id":9}')
    assert _ids(lab.query("t")) == [*expected, "9"]
    lab.forget("t")
    assert lab.open().topic("t").replay().records == 6, "replay begins at the log's beginning"
    # An instant gives no note; a bookmark that is not found does, with its text.
    assert any(point in note and "'t'" in note for note in lab.notes) == ("77" in point or "12345" in point)


@pytest.mark.parametrize(("point", "expected"), POINTS.items())
def test_c46_a_transient_topic_begins_at_its_recovery_point(make_lab: MakeLab, point: str, expected: list[str]) -> None:
    lab = _lab(make_lab, f"<RecoveryPoint>{point}</RecoveryPoint>", transient=True)
    _fill(lab)
    assert _ids(lab.query("t")) == expected
    present = {row[6]: row for row in lab.query("t")}
    report = lab.publish("t", *(message(id=number, v=1) for number in (1, 2, 9)))
    assert report.inserted == len({"1", "2", "9"} - set(present))
    for second in (0.5, 2.5, 4.5, 5.5):
        then = _ids(lab.query("t", at=START + round(second * SECOND)))
        assert set(then) <= set(expected) | {"3"}, "no earlier state holds what recovery leaves out"


def test_removed_journals_do_not_matter_before_the_recovery_point(make_lab: MakeLab) -> None:
    for point, count in (("2026-01-05T08:00:30Z", 10), ("now", 0), ("epoch", None), ("2026-01-05T08:00:02Z", None)):
        lab = make_lab(
            config_xml(topic_xml("t", f"<RecoveryPoint>{point}</RecoveryPoint>"), ("t",)), f"lab-{count}-{point[-3:]}"
        )
        lab.journal_size = 1024
        for number in range(40):
            lab.publish("t", message(id=number, v="x" * 200))
            lab.clock.tick(1)
        for file in lab.journals()[:4]:
            file.unlink()
        lab.forget("t")
        if count is None:
            for act in (lambda lab=lab: lab.query("t"), lambda lab=lab: lab.publish("t", '{"id":1}')):
                with pytest.raises(MissingError) as caught:
                    act()
                assert caught.value.code == "SOW-ENG-011"
        else:
            assert len(lab.query("t")) == count
            lab.publish("t", '{"id":99}')
            assert len(lab.query("t")) == count + 1

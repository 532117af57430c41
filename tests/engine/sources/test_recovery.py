"""Opening stores that are behind, ahead, missing, or new to the journal (behaviour C42-C47, 1.6)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sowctl.engine.verbs.check import check_instance
from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.findings import Level
from tests.support.instances import Lab, config_xml, keep_store, message, numbered, put_back, topic_xml


def test_a_store_that_is_up_to_date_is_left_alone(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    before = lab.store("t").read_bytes()
    assert lab.open().topic("t").replay().action == "current"
    assert len(lab.query("t")) == 3
    assert lab.store("t").read_bytes() == before


def test_a_store_ahead_of_its_log_is_an_error_not_nothing_to_do(
    lab: Lab, tmp_path: Path
) -> None:  # C42, decided stricter
    numbered(lab, "t", 1, 8)
    shutil.copytree(lab.directory / "journal", tmp_path / "old")
    numbered(lab, "t", 9, 10)
    shutil.copytree(lab.directory / "journal", tmp_path / "new")
    shutil.rmtree(lab.directory / "journal")
    shutil.copytree(tmp_path / "old", lab.directory / "journal")
    for act in (lambda: lab.query("t"), lambda: lab.publish("t", '{"id":11}'), lambda: lab.open().topic("t").replay()):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.hint
    assert any(f.level >= Level.ERROR for f in check_instance(lab.open()))
    shutil.rmtree(lab.directory / "journal")
    shutil.copytree(tmp_path / "new", lab.directory / "journal")
    assert len(lab.query("t")) == 10


@pytest.mark.parametrize("topic", ["t", "past"])
def test_a_store_behind_its_log_gets_what_is_newer(lab: Lab, tmp_path: Path, topic: str) -> None:  # C43
    numbered(lab, topic, 1, 8)
    keep_store(lab, topic, tmp_path / "eight")
    lab.publish(topic, '{"id":9}')
    lab.open().topic(topic).delete(filter="/id = 2")
    digest = lab.digest(topic)
    expected = sorted(lab.query(topic))
    put_back(lab, topic, tmp_path / "eight")
    assert sorted(lab.query(topic)) == expected
    assert lab.open().topic(topic).info().lag == 2
    assert lab.digest(topic) == digest
    report = lab.open().topic(topic).replay()
    assert (report.action, report.entries, report.applied) == ("caught up", 2, 10)
    assert sorted(lab.query(topic)) == expected
    assert lab.digest(topic) == digest


def test_a_writer_catches_up_before_it_decides(lab: Lab, tmp_path: Path) -> None:
    numbered(lab, "t", 1, 3)
    keep_store(lab, "t", tmp_path / "three")
    numbered(lab, "t", 4, 5)
    put_back(lab, "t", tmp_path / "three")
    report = lab.publish("t", '{"id":4}', '{"id":6}')
    assert (report.unchanged, report.inserted) == (1, 1)
    assert len(lab.query("t")) == 6


@pytest.mark.parametrize("topic", ["t", "past", "quotes"])
def test_a_missing_store_is_folded_from_the_whole_log(lab: Lab, topic: str) -> None:  # C44
    numbered(lab, topic, 1, 8)
    lab.publish(topic, '{"id":3,"v":2}')
    lab.open().topic(topic).delete(filter="/id = 5")
    expected, digest = sorted(lab.query(topic)), lab.digest(topic)
    assert len(expected) == 7
    lab.forget(topic)
    assert sorted(lab.query(topic)) == expected
    assert not lab.store(topic).exists(), "a reader creates no file"
    lab.publish(topic, '{"id":3,"v":2}')
    assert any("missing" in note for note in lab.notes)
    lab.forget(topic)
    lab.open().topic(topic).replay()
    assert sorted(lab.query(topic)) == expected
    assert digest != lab.digest(topic)


def test_recovery_point_now_starts_empty(make_lab) -> None:  # type: ignore[no-untyped-def]  # C45
    lab = make_lab(config_xml(topic_xml("t", "<RecoveryPoint>now</RecoveryPoint>"), ("t",)))
    numbered(lab, "t", 1, 4)
    lab.forget("t")
    assert lab.query("t") == []
    lab.publish("t", '{"id":9}')
    assert lab.query("t") == ['{"id":9}']
    assert lab.open().topic("t").replay(rebuild=True).records == 5


def test_recovery_point_of_an_instant(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t", "<RecoveryPoint>2026-01-05T08:00:02Z</RecoveryPoint>"), ("t",)))
    for number in range(4):
        lab.publish("t", message(id=number))
        lab.clock.tick(1)
    lab.forget("t")
    assert sorted(lab.query("t")) == ['{"id":2}', '{"id":3}']


def test_recovery_point_of_a_bookmark(make_lab) -> None:  # type: ignore[no-untyped-def]
    from sowctl.identity.hashes import hash_client_name

    point = f"{hash_client_name('c')}|2|"
    lab = make_lab(config_xml(topic_xml("t", f"<RecoveryPoint>{point}</RecoveryPoint>"), ("t",)))
    lab.publish("t", *(message(id=number) for number in range(4)), client="c", sequence=1)
    lab.forget("t")
    assert sorted(lab.query("t")) == ['{"id":2}', '{"id":3}']


def test_a_transient_topic_is_folded_at_every_read(make_lab) -> None:  # type: ignore[no-untyped-def]  # C46
    held = topic_xml("t")
    volatile = held.replace("<FileName>sow/%n.sow</FileName>", "<Durability>transient</Durability>")
    lab = make_lab(config_xml(held, ("t",)))
    numbered(lab, "t", 1, 3)
    lab.config.write_text(config_xml(volatile, ("t",)))
    lab.forget("t")
    assert len(lab.query("t")) == 3
    assert not lab.store("t").exists()
    assert lab.open().topic("t").replay().action == "skipped"
    lab.config.write_text(lab.xml)


def test_a_transient_topic_without_a_journal_is_refused_and_empty(make_lab) -> None:  # type: ignore[no-untyped-def]  # C47
    lab = make_lab(config_xml(topic_xml("gone", "<Durability>transient</Durability>", file=None), ()))
    with pytest.raises(RefusedError):
        lab.publish("gone", '{"id":1}')
    assert lab.query("gone") == []


def test_a_topic_with_a_past_does_not_join_a_running_journal(make_lab) -> None:  # type: ignore[no-untyped-def]
    """The journal could not restore its older records; a rebuild would lose them and report success."""
    both = topic_xml("a") + topic_xml("b")
    lab = make_lab(config_xml(both, ("a",)))
    numbered(lab, "a", 1, 3)
    numbered(lab, "b", 1, 9)
    lab.config.write_text(config_xml(both, ("a", "b")))
    assert len(lab.query("b")) == 9
    for act in (
        lambda: lab.publish("b", '{"id":10}'),
        lambda: lab.open().topic("b").delete(filter="/id = 1"),
        lambda: lab.open().topic("b").replay(),
        lambda: lab.open().topic("b").replay(rebuild=True),
    ):
        with pytest.raises(RefusedError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-022"
    assert len(lab.query("b")) == 9
    assert lab.publish("a", '{"id":4}').inserted == 1


def test_a_new_journal_notes_the_past_of_its_topics(make_lab) -> None:  # type: ignore[no-untyped-def]
    both = topic_xml("a") + topic_xml("b")
    lab = make_lab(config_xml(both, ()))
    numbered(lab, "b", 1, 9)
    lab.config.write_text(config_xml(both, ("a", "b")))
    assert lab.publish("a", '{"id":1}').first_txid == 10
    lab.publish("b", '{"id":10}')
    lab.open().topic("b").delete(filter="/id = 1")
    assert len(lab.query("b")) == 9
    with pytest.raises(RefusedError):
        lab.open().topic("b").replay(rebuild=True)
    lab.forget("b")
    with pytest.raises(MissingError):
        lab.query("b")


def test_a_topic_that_leaves_the_journal_keeps_its_records(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))
    numbered(lab, "t", 1, 5)
    numbered(lab, "u", 1, 1)
    lab.config.write_text(config_xml(topic_xml("t") + topic_xml("u"), ("u",)))
    lab.publish("t", '{"id":6}')
    assert len(lab.query("t")) == 6
    lab.publish("u", '{"id":6}')
    assert len(lab.query("u")) == 2

"""What opening does to stores that are behind, ahead, missing, or without a journal (semantics C42-C48, 1.6)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sowctl.engine.check import check
from sowctl.errors import DamageError, MissingError, RefusedError, SowError
from sowctl.findings import Level
from tests.support.damage import overwrite
from tests.support.instances import Lab, config_xml, message, topic_xml


def _numbered(lab: Lab, topic: str, first: int, last: int) -> None:
    for number in range(first, last + 1):
        lab.publish(topic, message(id=number))


def _keep(lab: Lab, topic: str, place: Path) -> None:
    """Copy a store away; no process has it open."""
    shutil.copy(lab.store(topic), place)


def _put_back(lab: Lab, topic: str, place: Path) -> None:
    lab.forget(topic)
    shutil.copy(place, lab.store(topic))


def test_a_store_that_is_up_to_date_is_left_alone(lab: Lab) -> None:
    _numbered(lab, "t", 1, 3)
    before = lab.store("t").read_bytes()
    assert lab.open().topic("t").replay().action == "current"
    assert len(lab.query("t")) == 3
    assert lab.store("t").read_bytes() == before


def test_a_store_ahead_of_its_log_is_an_error_not_nothing_to_do(
    lab: Lab, tmp_path: Path
) -> None:  # C42, decided stricter
    _numbered(lab, "t", 1, 8)
    shutil.copytree(lab.directory / "journal", tmp_path / "old")
    _numbered(lab, "t", 9, 10)
    shutil.copytree(lab.directory / "journal", tmp_path / "new")
    shutil.rmtree(lab.directory / "journal")
    shutil.copytree(tmp_path / "old", lab.directory / "journal")
    for act in (lambda: lab.query("t"), lambda: lab.publish("t", '{"id":11}'), lambda: lab.open().topic("t").replay()):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.hint
    assert any(f.level >= Level.ERROR for f in check(lab.open()))
    shutil.rmtree(lab.directory / "journal")
    shutil.copytree(tmp_path / "new", lab.directory / "journal")
    assert len(lab.query("t")) == 10


@pytest.mark.parametrize("topic", ["t", "past"])
def test_a_store_behind_its_log_gets_what_is_newer(lab: Lab, tmp_path: Path, topic: str) -> None:  # C43
    _numbered(lab, topic, 1, 8)
    _keep(lab, topic, tmp_path / "eight")
    lab.publish(topic, '{"id":9}')
    lab.open().topic(topic).delete(filter="/id = 2")
    digest = lab.digest(topic)
    expected = sorted(lab.query(topic))
    _put_back(lab, topic, tmp_path / "eight")
    assert sorted(lab.query(topic)) == expected
    assert lab.open().topic(topic).info().lag == 2
    assert lab.digest(topic) == digest
    report = lab.open().topic(topic).replay()
    assert (report.action, report.entries, report.applied) == ("caught up", 2, 10)
    assert sorted(lab.query(topic)) == expected
    assert lab.digest(topic) == digest


def test_a_writer_catches_up_before_it_decides(lab: Lab, tmp_path: Path) -> None:
    _numbered(lab, "t", 1, 3)
    _keep(lab, "t", tmp_path / "three")
    _numbered(lab, "t", 4, 5)
    _put_back(lab, "t", tmp_path / "three")
    report = lab.publish("t", '{"id":4}', '{"id":6}')
    assert (report.unchanged, report.inserted) == (1, 1)
    assert len(lab.query("t")) == 6


@pytest.mark.parametrize("topic", ["t", "past", "quotes"])
def test_a_missing_store_is_folded_from_the_whole_log(lab: Lab, topic: str) -> None:  # C44
    _numbered(lab, topic, 1, 8)
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
    _numbered(lab, "t", 1, 4)
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
    from sowctl.identity.hashes import client_hash

    point = f"{client_hash('c')}|2|"
    lab = make_lab(config_xml(topic_xml("t", f"<RecoveryPoint>{point}</RecoveryPoint>"), ("t",)))
    lab.publish("t", *(message(id=number) for number in range(4)), client="c", sequence=1)
    lab.forget("t")
    assert sorted(lab.query("t")) == ['{"id":2}', '{"id":3}']


def test_a_transient_topic_is_folded_at_every_read(make_lab) -> None:  # type: ignore[no-untyped-def]  # C46
    held = topic_xml("t")
    volatile = held.replace("<FileName>sow/%n.sow</FileName>", "<Durability>transient</Durability>")
    lab = make_lab(config_xml(held, ("t",)))
    _numbered(lab, "t", 1, 3)
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
    with pytest.raises(MissingError):
        lab.query("gone")


def _pruned(lab: Lab, topic: str = "t") -> int:
    """Several journal files of one topic, the oldest ones removed; the first txid that is left."""
    for number in range(60):
        lab.publish(topic, message(id=number % 20, v="x" * 100))
        lab.clock.tick(1)
    files = lab.journals()
    assert len(files) > 3
    for file in files[: len(files) // 2]:
        file.unlink()
    from sowctl.engine.positions import open_log

    with open_log(lab.open()) as log:
        return log.first_txid


@pytest.fixture
def small(make_lab) -> Lab:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t") + topic_xml("late"), ("t", "late")))
    lab.journal_size = 1024
    return lab  # type: ignore[no-any-return]


def test_a_store_survives_the_removal_of_old_journals(small: Lab) -> None:
    _pruned(small)
    assert len(small.query("t")) == 20
    assert small.publish("t", '{"id":99}').inserted == 1
    assert small.open().topic("t").replay().action == "current"


def test_pruned_journals_refuse_a_rebuild_unless_forced(small: Lab) -> None:  # C48
    first = _pruned(small)
    with pytest.raises(RefusedError) as refused:
        small.open().topic("t").replay(rebuild=True)
    assert refused.value.code == "SOW-RPL-002"
    report = small.open().topic("t").replay(rebuild=True, force=True)
    assert report.moved is not None
    assert Path(report.moved).exists()
    assert report.note is not None
    assert report.entries == 60 - first + 1
    assert len(small.query("t")) == min(20, 60 - first + 1)
    Path(report.moved).unlink()


def test_a_missing_store_that_the_journals_do_not_cover(small: Lab) -> None:
    first = _pruned(small)
    small.forget("t")
    for act in (lambda: small.query("t"), lambda: small.publish("t", '{"id":99}')):
        with pytest.raises(MissingError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-011"
    assert not small.store("t").exists()
    report = small.open().topic("t").replay()
    assert (report.action, report.entries) == ("rebuilt", 60 - first + 1)


def test_a_topic_whose_first_entry_is_left_is_covered(small: Lab) -> None:
    _pruned(small)
    small.publish("late", '{"id":1}')
    small.forget("late")
    assert small.query("late") == ['{"id":1}']
    assert small.open().topic("late").replay().action == "rebuilt"


def test_a_gap_between_store_and_journals_is_damage(small: Lab, tmp_path: Path) -> None:
    small.publish("t", '{"id":1}')
    _keep(small, "t", tmp_path / "one")
    _pruned(small)
    shutil.copy(small.store("t"), tmp_path / "good")
    _put_back(small, "t", tmp_path / "one")
    for act in (lambda: small.query("t"), lambda: small.publish("t", '{"id":2}')):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-001"
    _put_back(small, "t", tmp_path / "good")


def test_removed_journals_begin_anew_above_the_stores(lab: Lab) -> None:  # section 11, 33
    _numbered(lab, "t", 1, 5)
    shutil.rmtree(lab.directory / "journal")
    assert len(lab.query("t")) == 5
    assert lab.publish("t", '{"id":6}').first_txid == 6
    assert len(lab.query("t")) == 6
    with pytest.raises(RefusedError):
        lab.open().topic("t").replay(rebuild=True)
    lab.forget("t")
    with pytest.raises(MissingError):
        lab.query("t")
    assert lab.open().topic("t").replay().records == 1


def test_a_foreign_journal_is_refused(make_lab) -> None:  # type: ignore[no-untyped-def]
    one, two = make_lab(name="one"), make_lab(name="two")
    _numbered(one, "t", 1, 5)
    two._random.calls = 100
    _numbered(two, "t", 1, 9)
    shutil.rmtree(one.directory / "journal")
    shutil.copytree(two.directory / "journal", one.directory / "journal")
    for act in (lambda: one.query("t"), lambda: one.publish("t", '{"id":11}'), lambda: one.open().topic("t").replay()):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-003"
    one.forget("t")
    assert len(one.query("t")) == 9


def test_a_topic_with_a_past_does_not_join_a_running_journal(make_lab) -> None:  # type: ignore[no-untyped-def]
    """The journal could not bring its older records back; a rebuild would lose them and call itself complete."""
    both = topic_xml("a") + topic_xml("b")
    lab = make_lab(config_xml(both, ("a",)))
    _numbered(lab, "a", 1, 3)
    _numbered(lab, "b", 1, 9)
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
    _numbered(lab, "b", 1, 9)
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
    _numbered(lab, "t", 1, 5)
    _numbered(lab, "u", 1, 1)
    lab.config.write_text(config_xml(topic_xml("t") + topic_xml("u"), ("u",)))
    lab.publish("t", '{"id":6}')
    assert len(lab.query("t")) == 6
    lab.publish("u", '{"id":6}')
    assert len(lab.query("u")) == 2


@pytest.mark.parametrize("topic", ["t", "past"])
@pytest.mark.parametrize("harm", ["garbage", "empty", "cut", "page"])
def test_a_damaged_store_is_named_and_replay_repairs_it(lab: Lab, topic: str, harm: str) -> None:
    _numbered(lab, topic, 1, 30)
    expected, digest = sorted(lab.query(topic)), lab.digest(topic)
    path = lab.store(topic)
    size = path.stat().st_size
    if harm == "garbage":
        path.write_bytes(b"garbage" * 1000)
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[: size // 2])
    else:
        overwrite(path, 0, bytes(8192))
    bytes_found = path.read_bytes()
    for act in (lambda: lab.query(topic), lambda: lab.publish(topic, '{"id":1}'), lambda: lab.digest(topic)):
        with pytest.raises(SowError) as caught:
            act()
        assert caught.value.exit_status == 5
        assert "sowctl replay" in (caught.value.hint or "")
    assert any(f.level >= Level.ERROR for f in check(lab.open()))
    assert lab.open().topic(topic).info().state == "damaged"
    report = lab.open().topic(topic).replay()
    assert report.action == "rebuilt"
    assert report.moved is not None
    assert Path(report.moved).read_bytes() == bytes_found
    assert sorted(lab.query(topic)) == expected
    assert lab.digest(topic) == digest


def test_a_damaged_store_of_a_topic_without_a_journal_stays_damaged(lab: Lab) -> None:
    _numbered(lab, "t", 1, 1)
    _numbered(lab, "alone", 1, 5)
    whole = lab.store("alone").read_bytes()
    lab.store("alone").write_bytes(b"garbage" * 1000)
    for act in (lambda: lab.query("alone"), lambda: lab.publish("alone", '{"id":1}')):
        with pytest.raises(DamageError):
            act()
    assert lab.open().topic("alone").replay().action == "skipped"
    lab.forget("alone")
    lab.store("alone").write_bytes(whole)
    assert len(lab.query("alone")) == 5
    lab.forget("alone")
    with pytest.raises(MissingError):
        lab.query("alone")
    lab.publish("alone", '{"id":1}')
    assert len(lab.query("alone")) == 1


def test_replay_leaves_a_store_alone_that_the_journals_cannot_explain(small: Lab, tmp_path: Path) -> None:
    small.publish("t", '{"id":1}')
    _keep(small, "t", tmp_path / "one")
    _pruned(small)
    _keep(small, "t", tmp_path / "good")
    _put_back(small, "t", tmp_path / "one")
    with pytest.raises(DamageError):
        small.open().topic("t").replay()
    assert small.store("t").read_bytes() == (tmp_path / "one").read_bytes()
    _put_back(small, "t", tmp_path / "good")


def test_replay_leaves_the_store_in_place_when_the_journal_is_damaged(lab: Lab) -> None:
    lab.publish("t", *(message(id=number) for number in range(50)))
    lab.publish("t", '{"id":99}')
    journal = lab.journals()[0]
    good = journal.read_bytes()
    overwrite(journal, len(good) // 3, b"damage")
    for harm in (False, True):
        if harm:
            overwrite(lab.store("t"), 0, bytes(8192))
        before = lab.store("t").read_bytes()
        with pytest.raises(DamageError) as caught:
            lab.open().topic("t").replay(rebuild=not harm)
        assert str(journal) in str(caught.value.place)
        assert lab.store("t").read_bytes() == before
        assert not list(lab.store("t").parent.glob("*.damaged-*"))
    journal.write_bytes(good)
    assert lab.open().topic("t").replay().moved is not None
    assert len(lab.query("t")) == 51


def test_the_topics_file_may_be_lost_or_wrong(lab: Lab) -> None:
    _numbered(lab, "t", 1, 5)
    _numbered(lab, "past", 1, 5)
    derived = lab.directory / "journal" / "test.topics"
    assert derived.exists()
    good = derived.read_bytes()
    for content in (None, b"", b"garbage", good[:-3], good[:20] + bytes(8) + good[28:], bytes(len(good))):
        derived.unlink(missing_ok=True)
        if content is not None:
            derived.write_bytes(content)
        assert len(lab.query("t")) == 5
        assert lab.publish("t", '{"id":1}').unchanged == 1
        assert not [f for f in check(lab.open()) if f.level >= Level.ERROR]


def test_the_store_of_another_topic_is_not_taken_for_this_one(lab: Lab) -> None:
    _numbered(lab, "t", 1, 3)
    _numbered(lab, "quotes", 7, 8)
    good, other = lab.store("t").read_bytes(), lab.store("quotes").read_bytes()
    lab.forget("t")
    lab.store("t").write_bytes(other)
    for act in (
        lambda: lab.query("t"),
        lambda: lab.query("t", at=1),
        lambda: lab.digest("t"),
        lambda: lab.open().topic("t").replay(),
        lambda: lab.open().topic("t").replay(rebuild=True),
        lambda: lab.open().topic("t").replay(verify=True),
        lambda: lab.publish("t", message(id=9)),
        lambda: lab.publish("t", message(id=9), dry_run=True),
    ):
        with pytest.raises(RefusedError):
            act()
    assert lab.store("t").read_bytes() == other
    assert lab.open().topic("t").info().state == "unreadable"
    report = lab.open().topic("t").replay(rebuild=True, force=True)
    assert Path(str(report.moved)).read_bytes() == other
    assert len(lab.query("t")) == 3
    assert good


def test_an_idle_topic_outlives_the_files_that_never_named_it_again(small: Lab) -> None:
    """Its store stands before the oldest file that is left, and nothing of it is missing."""
    small.publish("late", message(id=1))
    _pruned(small)
    assert small.query("late") == [message(id=1)]
    assert small.open().topic("late").replay().action == "current"
    assert not [f for f in check(small.open()) if f.level >= Level.ERROR]
    before = small.store("late").read_bytes()
    small.publish("late", message(id=2))
    small.forget("late")
    small.store("late").write_bytes(before)
    assert sorted(small.query("late")) == [message(id=1), message(id=2)]
    assert small.open().topic("late").replay().action == "caught up"
    assert not [f for f in check(small.open()) if f.level >= Level.ERROR]

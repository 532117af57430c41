"""Removed journal files: what stores can do without them, and which folds are no longer possible (behaviour C48)."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.journal import EntryFilter, dump_entries, list_files
from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.findings import Level
from tests.support.instances import SECOND, START, Lab, config_xml, keep_store, message, numbered, put_back, topic_xml


def _pruned(lab: Lab, topic: str = "t") -> int:
    """Publish several journal files of one topic and remove the oldest; return the first remaining txid."""
    for number in range(60):
        lab.publish(topic, message(id=number % 20, v="x" * 100))
        lab.clock.tick(1)
    files = lab.journals()
    assert len(files) > 3
    for file in files[: len(files) // 2]:
        file.unlink()
    from sowctl.engine.topics.positions import open_log

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
        assert "sowctl replay t" in str(caught.value.hint)
    assert not small.store("t").exists()
    planned = small.open().topic("t").replay(dry_run=True)
    why, gone = str(planned.note).split("; ")
    assert (planned.action, why, f"txid {first}:" in gone, planned.incomplete) == ("rebuilt", "missing", True, True)
    aside = small.open().topic("t").replay(into=str(small.directory / "aside"))
    report = small.open().topic("t").replay()
    assert (report.action, report.entries, report.note) == ("rebuilt", 60 - first + 1, gone)
    assert (aside.entries, aside.note) == (report.entries, gone)
    assert aside.incomplete and report.incomplete


def test_a_topic_whose_first_entry_is_left_is_covered(small: Lab) -> None:
    _pruned(small)
    small.publish("late", '{"id":1}')
    small.forget("late")
    assert small.query("late") == ['{"id":1}']
    late = small.open().topic("late").replay()
    assert (late.action, late.incomplete) == ("rebuilt", False)


def test_a_gap_between_store_and_journals_is_damage(small: Lab, tmp_path: Path) -> None:
    small.publish("t", '{"id":1}')
    keep_store(small, "t", tmp_path / "one")
    _pruned(small)
    shutil.copy(small.store("t"), tmp_path / "good")
    put_back(small, "t", tmp_path / "one")
    for act in (lambda: small.query("t"), lambda: small.publish("t", '{"id":2}')):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-001"
    put_back(small, "t", tmp_path / "good")


def test_removed_journals_begin_anew_above_the_stores(lab: Lab) -> None:  # section 11, 33
    numbered(lab, "t", 1, 5)
    shutil.rmtree(lab.directory / "journal")
    assert len(lab.query("t")) == 5
    assert lab.publish("t", '{"id":6}').first_txid == 6
    assert [note for note in lab.notes if str(lab.directory / "journal") in note and " 5," in note]
    assert len(lab.query("t")) == 6
    with pytest.raises(RefusedError):
        lab.open().topic("t").replay(rebuild=True)
    lab.forget("t")
    with pytest.raises(MissingError):
        lab.query("t")
    assert lab.open().topic("t").replay().records == 1


def test_replay_leaves_a_store_alone_that_the_journals_cannot_explain(small: Lab, tmp_path: Path) -> None:
    small.publish("t", '{"id":1}')
    keep_store(small, "t", tmp_path / "one")
    _pruned(small)
    keep_store(small, "t", tmp_path / "good")
    put_back(small, "t", tmp_path / "one")
    with pytest.raises(DamageError):
        small.open().topic("t").replay()
    assert small.store("t").read_bytes() == (tmp_path / "one").read_bytes()
    put_back(small, "t", tmp_path / "good")


def test_an_idle_topic_outlives_the_files_that_never_named_it_again(small: Lab) -> None:
    """The position of its store is before the oldest remaining file, and it lacks no entry."""
    small.publish("late", message(id=1))
    _pruned(small)
    assert small.query("late") == [message(id=1)]
    assert small.open().topic("late").replay().action == "current"
    assert not [f for f in check_instance(small.open()) if f.level >= Level.ERROR]
    before = small.store("late").read_bytes()
    small.publish("late", message(id=2))
    small.forget("late")
    small.store("late").write_bytes(before)
    assert sorted(small.query("late")) == [message(id=1), message(id=2)]
    assert small.open().topic("late").replay().action == "caught up"
    assert not [f for f in check_instance(small.open()) if f.level >= Level.ERROR]


def test_archived_and_compressed_journals_are_read_like_the_others(make_lab) -> None:  # type: ignore[no-untyped-def]
    """behaviour 1.6 and 6.1: by a query, a replay, a dump, a list and a check."""
    archive = "<JournalArchiveDirectory>archive</JournalArchiveDirectory>"
    xml = config_xml(topic_xml("t"), ("t",)).replace("</JournalDirectory>", f"</JournalDirectory>{archive}")
    lab = make_lab(xml)
    lab.journal_size = 1024
    for number in range(60):
        lab.publish("t", message(id=number % 20, v="x" * 100))
        lab.clock.tick(1)
    files = lab.journals()
    everything = [record.txid for batch in dump_entries(lab.open(), EntryFilter()) for record in batch.records]
    then = lab.open().topic("t").digest(START + 30 * SECOND)
    place = lab.directory / "archive"
    place.mkdir()
    for number, file in enumerate(files[: len(files) // 2]):
        moved = Path(shutil.move(file, place))
        if number % 2:
            moved.with_name(f"{moved.name}.gz").write_bytes(gzip.compress(moved.read_bytes()))
            moved.unlink()
    assert [record.txid for batch in dump_entries(lab.open(), EntryFilter()) for record in batch.records] == everything
    assert [one.number for one in list_files(lab.open())] == list(range(len(files)))
    assert lab.open().topic("t").digest(START + 30 * SECOND) == then
    assert [one for one in check_instance(lab.open()) if one.level > Level.INFO] == []
    lab.forget("t")
    assert len(lab.query("t")) == 20
    assert lab.open().topic("t").replay(rebuild=True).entries == 60
    shutil.move(place, lab.directory / "elsewhere")
    lab.forget("t")
    with pytest.raises(MissingError) as caught:
        lab.query("t")
    assert caught.value.code == "SOW-ENG-011"
    assert f"{lab.directory / 'journal'} and {place}" in caught.value.message


def test_an_older_store_is_behind_a_journal_that_began_above_it_and_was_pruned(small: Lab, tmp_path: Path) -> None:
    small.publish("t", message(id=1))
    kept = shutil.copy(small.store("t"), tmp_path / "kept")
    for file in small.journals():
        file.unlink()
    small.publish("t", message(id=2))
    small.publish("late", *(message(id=n, v=f"{n}" * 200) for n in range(30)))
    small.publish("late", message(id=99))
    put_back(small, "t", kept)
    assert len(small.query("t")) == 2
    first, *rest = small.journals()
    assert rest
    aside = shutil.move(first, tmp_path)
    for ask in (lambda: small.query("t"), lambda: small.publish("t", message(id=3))):
        with pytest.raises(DamageError) as caught:
            ask()
        assert caught.value.code == "SOW-ENG-001"
    shutil.move(aside, first)
    assert len(small.query("t")) == 2

"""Stores and journals that are damaged, or belong to another topic or instance: reported, kept aside, rebuilt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sowctl.engine.verbs.check import check_instance
from sowctl.errors import DamageError, RefusedError, SowError
from sowctl.findings import Level
from tests.support.damage import overwrite
from tests.support.instances import Lab, message, numbered


def test_a_foreign_journal_is_refused(make_lab) -> None:  # type: ignore[no-untyped-def]
    one, two = make_lab(name="one"), make_lab(name="two")
    numbered(one, "t", 1, 5)
    two._random.calls = 100
    numbered(two, "t", 1, 9)
    shutil.rmtree(one.directory / "journal")
    shutil.copytree(two.directory / "journal", one.directory / "journal")
    for act in (lambda: one.query("t"), lambda: one.publish("t", '{"id":11}'), lambda: one.open().topic("t").replay()):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-003"
    one.forget("t")
    assert len(one.query("t")) == 9


@pytest.mark.parametrize("topic", ["t", "past"])
@pytest.mark.parametrize("harm", ["garbage", "empty", "cut", "page"])
def test_a_damaged_store_is_named_and_replay_repairs_it(lab: Lab, topic: str, harm: str) -> None:
    numbered(lab, topic, 1, 30)
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
    assert any(f.level >= Level.ERROR for f in check_instance(lab.open()))
    assert lab.open().topic(topic).info().state == "damaged"
    report = lab.open().topic(topic).replay()
    assert report.action == "rebuilt"
    assert report.moved is not None
    assert Path(report.moved).read_bytes() == bytes_found
    assert sorted(lab.query(topic)) == expected
    assert lab.digest(topic) == digest


def test_a_damaged_store_of_a_topic_without_a_journal_stays_damaged(lab: Lab) -> None:
    numbered(lab, "t", 1, 1)
    numbered(lab, "alone", 1, 5)
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
    assert lab.query("alone") == []
    lab.publish("alone", '{"id":1}')
    assert len(lab.query("alone")) == 1


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
    numbered(lab, "t", 1, 5)
    numbered(lab, "past", 1, 5)
    derived = lab.directory / "journal" / "test.topics"
    assert derived.exists()
    good = derived.read_bytes()
    for content in (None, b"", b"garbage", good[:-3], good[:20] + bytes(8) + good[28:], bytes(len(good))):
        derived.unlink(missing_ok=True)
        if content is not None:
            derived.write_bytes(content)
        assert len(lab.query("t")) == 5
        assert lab.publish("t", '{"id":1}').unchanged == 1
        assert not [f for f in check_instance(lab.open()) if f.level >= Level.ERROR]


def test_the_store_of_another_topic_is_not_taken_for_this_one(lab: Lab) -> None:
    numbered(lab, "t", 1, 3)
    numbered(lab, "quotes", 7, 8)
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

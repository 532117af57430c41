"""Two diverged copies of an instance: the store of one is not accepted by the other (sow-store(5), meta record)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sowctl.engine.topics.positions import open_log
from sowctl.errors import DamageError, SowError
from sowctl.findings import Level
from sowctl.store.env import Store
from tests.support import staged
from tests.support.chains import MakeLab, chained
from tests.support.damage import overwrite
from tests.support.instances import Lab, message, numbered
from tests.support.replays import run


@pytest.fixture(params=["t", "past"])
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fork(lab: Lab, topic: str, tmp_path: Path) -> Lab:
    """Return a copy of ``lab`` with five new records; the original gets five others under the same txids."""
    numbered(lab, topic, 1, 5)
    copy = tmp_path / "copy"
    shutil.copytree(lab.directory, copy)
    other = Lab(copy, lab.xml, clock=lab.clock)
    numbered(lab, topic, 11, 15)
    numbered(other, topic, 21, 25)
    return other


def _swap(lab: Lab, fork: Lab, topic: str) -> bytes:
    """Put the original's store beside the copy's journal."""
    content = lab.store(topic).read_bytes()
    fork.forget(topic)
    fork.store(topic).write_bytes(content)
    return content


@pytest.mark.parametrize("more", [0, 1, 4])
def test_the_store_of_another_copy_is_refused_and_made_anew(lab: Lab, fork: Lab, topic: str, more: int) -> None:
    """Whether the journal ends at the position of the store or continues after it."""
    expected = [message(id=number) for number in (*range(1, 6), *range(21, 26))]
    for number in range(more):
        fork.publish(topic, message(id=31 + number))
        expected.append(message(id=31 + number))
    foreign = _swap(lab, fork, topic)
    handle = fork.open().topic(topic)
    for act in (lambda: fork.query(topic), lambda: fork.publish(topic, message(id=9)), lambda: fork.digest(topic)):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.code == "SOW-ENG-085"
        assert "sowctl replay" in str(caught.value.hint)
    assert "SOW-ENG-085" in [finding.id for finding in fork.findings() if finding.level >= Level.ERROR]
    (report,) = run(fork, topic, verify=True)
    assert report.action == "differs"
    assert "another copy" in str(report.note)
    report = handle.replay()
    assert report.action == "rebuilt"
    assert str(report.moved).endswith(".replaced-1")
    assert Path(str(report.moved)).read_bytes() == foreign
    assert sorted(fork.query(topic)) == sorted(expected)
    assert not [finding for finding in fork.findings() if finding.level >= Level.ERROR]


def test_a_copy_that_nothing_was_published_to_catches_up(lab: Lab, topic: str, tmp_path: Path) -> None:
    """The store of a copy is an older state of the same history."""
    numbered(lab, topic, 1, 5)
    shutil.copy(lab.store(topic), tmp_path / "older")
    numbered(lab, topic, 6, 8)
    lab.forget(topic)
    shutil.copy(tmp_path / "older", lab.store(topic))
    assert len(lab.query(topic)) == 8
    assert run(lab, topic)[0].action == "caught up"


def test_a_store_that_does_not_know_its_block_is_not_compared(lab: Lab, fork: Lab, topic: str) -> None:
    """Stores of earlier releases, and stores last written by such a release."""
    _swap(lab, fork, topic)
    with Store.open(fork.store(topic), write=True) as store:
        store.write(lambda txn: txn.set_applied_position(txn.meta.lineage, txn.meta.applied))
    assert len(fork.query(topic)) == 10
    fork.publish(topic, message(id=41))
    with Store.open(fork.store(topic), write=False) as store:
        assert store.read_meta().block is not None


def test_damage_of_the_journal_at_that_place_is_named_as_the_journals(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.publish("t", message(id=2))
    with Store.open(lab.store("t"), write=False) as store:
        block = store.read_meta().block
    assert block is not None
    lab.publish("quotes", message(id=3))
    (lab.directory / "journal" / "test.topics").unlink()
    good = lab.journals()[0].read_bytes()
    overwrite(lab.journals()[0], block[1] + 20, b"\xff\xff")
    with pytest.raises(SowError) as caught:
        lab.query("t")
    assert caught.value.code == "SOW-JRN-010"
    with pytest.raises(SowError) as caught:
        run(lab, "t", verify=True)
    assert caught.value.code == "SOW-JRN-010"
    lab.journals()[0].write_bytes(good)


def test_the_file_of_chains_of_another_copy_goes_with_its_store(make_lab: MakeLab, tmp_path: Path) -> None:
    """Otherwise messages would get keys of chains that this journal does not contain."""
    lab = chained(make_lab)
    lab.publish("c", message(id=1))
    copy = tmp_path / "copy"
    shutil.copytree(lab.directory, copy)
    fork = Lab(copy, lab.xml, clock=lab.clock)
    lab.publish("c", message(id=2, parent=1))
    fork.publish("c", message(id=2))
    _swap(lab, fork, "c")
    shutil.copy(f"{lab.store('c')}.chains", f"{fork.store('c')}.chains")
    run(fork, "c")
    assert len(list(fork.directory.rglob("c.json.sow.chains.replaced-1"))) == 1
    fork.publish("c", message(id=2, v=1))
    assert sorted(fork.query("c")) == [message(id=1), message(id=2, v=1)]


@pytest.mark.parametrize("way", ["publish", "delete", "rebuild", "staged"])
def test_every_way_of_writing_notes_the_last_block(lab: Lab, way: str) -> None:
    lab.publish("t", message(id=1), message(id=2))
    if way == "delete":
        lab.open().topic("t").delete(filter="/id = 1")
    elif way == "rebuild":
        run(lab, "t", rebuild=True)
    elif way == "staged":
        staged.run(lab, "t", [message(id=7)])
    with Store.open(lab.store("t"), write=False) as store:
        meta = store.read_meta()
    with open_log(lab.open()) as log:
        assert meta.block is not None
        assert meta.block == log.find_block_ending_at(meta.applied)

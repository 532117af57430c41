"""A journal directory that is shorter than its synced state is damaged for every command, and no txid is reused.

The end of the last file (its last block or a part of it), the last file, or all files but the first are cut off.
A store with the entries, the topics file, or both prove the loss.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.journal import EntryFilter, dump_entries, list_files
from sowctl.errors import DamageError, SowError
from sowctl.findings import Level
from tests.engine.conftest import MakeLab
from tests.support.instances import Lab, config_xml, keep_store, message, put_back, topic_xml

TOPICS = topic_xml("t") + topic_xml("past", "<History><Window>1h</Window><Granularity>1s</Granularity></History>")
Cut = Callable[[Lab], None]


@pytest.fixture
def lab(make_lab: MakeLab, tmp_path: Path) -> Lab:
    """Several files, and stores that are up to date. Not verified at the end: its journal stays damaged."""
    made = Lab(tmp_path / "short", config_xml(TOPICS, ("t", "past")), journal_size=1500)
    for number in range(30):
        made.clock.tick(1)
        made.publish("t", message(id=number, text="x" * 40))
        made.publish("past", message(id=number % 3, text="y" * 40))
    assert len(made.journals()) > 4
    return made


def last_file(lab: Lab) -> None:
    lab.journals()[-1].unlink()


def all_but_the_first(lab: Lab) -> None:
    for path in lab.journals()[1:]:
        path.unlink()


def last_block(lab: Lab) -> None:
    with open_log(lab.open()) as log:
        last = list(log.iter_blocks())[-1]
        path, offset = last.path, last.start.offset
    os.truncate(path, offset)


def part_of_the_last_block(lab: Lab) -> None:
    path = lab.journals()[-1]
    os.truncate(path, path.stat().st_size - 30)


def every_block_of_the_last_file(lab: Lab) -> None:
    with open_log(lab.open()) as log:
        first = next(block for block in log.iter_blocks() if block.path == lab.journals()[-1])
    os.truncate(first.path, first.start.offset)


def no_topics_file(lab: Lab) -> None:
    (lab.directory / "journal" / "test.topics").unlink()


def no_stores(lab: Lab) -> None:
    for name in ("t", "past"):
        lab.forget(name)


def nothing(lab: Lab) -> None:
    return


CODES = {"SOW-JRN-010", "SOW-JRN-013", "SOW-ENG-002"}
CUTS = (last_file, all_but_the_first, last_block, part_of_the_last_block, every_block_of_the_last_file)


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(SowError) as caught:
        act()
    assert caught.value.exit_status == DamageError.exit_status, caught.value
    return caught.value.code


@pytest.mark.parametrize("left", [nothing, no_topics_file, no_stores], ids=lambda left: left.__name__)
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
def test_it_is_damage_for_readers_writers_lists_and_dumps(lab: Lab, cut: Cut, left: Cut) -> None:
    left(lab)
    cut(lab)
    before = {path: path.read_bytes() for path in lab.journals()}
    handle = lab.open()
    acts: list[Callable[[], object]] = [
        lambda: lab.publish("t", message(id=99)),
        lambda: lab.query("t"),
        lambda: lab.query("past"),
        lambda: list(list_files(handle)),
        lambda: list(dump_entries(handle, EntryFilter())),
    ]
    # A bare directory has no stores: only the topics file proves the loss.
    if left is not no_topics_file:
        acts.append(lambda: list(dump_entries(handle, EntryFilter(), directory=lab.directory / "journal")))
        acts.append(lambda: list(list_files(handle, lab.directory / "journal")))
    for act in acts:
        assert code_of(act) in CODES
    assert {path: path.read_bytes() for path in lab.journals()} == before
    assert [finding for finding in lab.findings() if finding.level >= Level.ERROR]


def every_file(lab: Lab) -> None:
    for path in lab.journals():
        path.unlink()


def test_a_journal_without_a_file_is_damage_where_a_store_lacks_entries(lab: Lab, tmp_path: Path) -> None:
    """The topics file has the last entry of each topic; only entries that a store lacks are lost."""
    keep_store(lab, "t", tmp_path / "older")
    lab.publish("t", message(id=77))
    every_file(lab)
    assert message(id=77) in lab.query("t")
    put_back(lab, "t", tmp_path / "older")
    assert code_of(lambda: lab.query("t")) == "SOW-JRN-013"
    assert code_of(lambda: lab.publish("t", message(id=99))) == "SOW-JRN-013"
    assert "SOW-JRN-013" in [finding.id for finding in lab.findings()]
    assert not lab.journals()
    lab.query("past")


def test_no_txid_is_given_twice_where_all_files_are_gone(lab: Lab) -> None:
    with open_log(lab.open()) as log:
        last, lineage = log.read_last_txid(), log.lineage
    every_file(lab)
    assert lab.publish("t", message(id=99)).first_txid > last
    with open_log(lab.open()) as log:
        assert log.lineage != lineage

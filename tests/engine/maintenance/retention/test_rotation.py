"""journal rotate: the active file becomes one that other commands may process, even after a fault."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sowctl.engine.maintenance.retention.archive import archive_files
from sowctl.engine.maintenance.retention.compression import compress_files
from sowctl.engine.maintenance.retention.prune import KeepRule, prune_files
from sowctl.engine.maintenance.retention.rotation import rotate_journal
from sowctl.errors import LockedError, MissingError, SowError
from sowctl.findings import Finding, Level
from sowctl.journal.lock import JournalLock
from sowctl.seam import SEAM, Seam
from tests.support.faults import CountingSeam, FailAt, choose_kills, died_at_call
from tests.support.instances import Lab, config_xml, message, topic_xml

SHORT_STEP = 3
"""In the short form every third call fails or kills, different ones in each run."""
XML = config_xml(topic_xml("t"), ("t",)).replace(
    "<JournalSize>", "<JournalArchiveDirectory>archive</JournalArchiveDirectory><JournalSize>"
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path / "lab", XML)
    made.publish("t", message(id=1), message(id=2))
    made.clock.tick(5)
    return made


def errors(lab: Lab) -> list[Finding]:
    return [finding for finding in lab.findings() if finding.level >= Level.ERROR]


def test_the_active_file_is_finished_and_publishing_goes_on(lab: Lab) -> None:
    (first,) = lab.journals()
    before, digest = first.read_bytes(), lab.digest("t")
    done = rotate_journal(lab.open())
    assert done is not None
    assert (done.path, done.first_txid, done.last_txid, done.size) == (first, 1, 2, len(before))
    assert lab.journals() == [first, done.next_path]
    assert first.read_bytes() == before
    assert lab.publish("t", message(id=3)).last_txid == 3
    assert len(lab.query("t")) == 3
    lab.open().topic("t").delete(filter="/id = 3")
    lab.forget("t")
    assert lab.digest("t") == digest
    assert not errors(lab)


def test_a_file_without_entries_stays(lab: Lab) -> None:
    assert rotate_journal(lab.open()) is not None
    files = lab.journals()
    assert rotate_journal(lab.open()) is None
    assert rotate_journal(lab.open(), dry_run=True) is None
    assert lab.journals() == files


def test_a_dry_run_changes_nothing(lab: Lab) -> None:
    (first,) = lab.journals()
    done = rotate_journal(lab.open(), dry_run=True)
    assert done is not None
    assert (done.path, done.dry_run, done.last_txid) == (first, True, None)
    assert lab.journals() == [first]


def test_the_finished_file_can_be_compressed_archived_and_pruned(lab: Lab) -> None:
    assert list(compress_files(lab.open())) == []
    rotate_journal(lab.open())
    (packed,) = compress_files(lab.open())
    assert packed.compressed_size is None or packed.compressed.exists()
    # A writer continues although the previous file is compressed, or has moved.
    lab.publish("t", message(id=3))
    rotate_journal(lab.open())
    assert len(list(archive_files(lab.open()))) == 2
    lab.publish("t", message(id=4))
    rotate_journal(lab.open())
    assert prune_files(lab.open(), KeepRule(keep_size=1)).removed == 3
    assert lab.publish("t", message(id=5)).last_txid == 5
    assert not errors(lab)


def test_without_a_journal_there_is_nothing_to_finish(tmp_path: Path) -> None:
    made = Lab(tmp_path / "lab", XML)
    with pytest.raises(MissingError) as caught:
        rotate_journal(made.open())
    assert caught.value.code == "SOW-JRN-001"
    assert made.journals() == []


def test_it_waits_for_the_lock_of_the_journal(lab: Lab) -> None:
    lock = JournalLock(lab.directory / "journal", "test", SEAM, "publish", lab.clock())
    lock.acquire(0)
    try:
        with pytest.raises(LockedError) as caught:
            rotate_journal(lab.open(lock_wait=0))
    finally:
        lock.release()
        lock.close()
    assert caught.value.code == "SOW-JRN-030"
    assert len(lab.journals()) == 1


def count_calls(lab: Lab) -> int:
    seam = CountingSeam(("file.", "directory."))
    rotate_journal(lab.open(seam))
    return seam.count


def judge(lab: Lab, number: int) -> None:
    """Assert that all records are present, writers work, and another run completes the rotation."""
    assert len(lab.query("t")) == 2
    lab.publish("t", message(id=9))
    rotate_journal(lab.open())
    assert len(lab.journals()) in (2, 3), number
    lab.forget("t")
    assert len(lab.query("t")) == 3
    assert not errors(lab), number
    assert not list((lab.directory / "journal").glob(".*.journal.new")), number


def fresh(tmp_path: Path, number: int) -> Lab:
    made = Lab(tmp_path / f"lab-{number}", XML)
    made.publish("t", message(id=1), message(id=2))
    return made


def test_a_failure_at_any_call_loses_nothing(tmp_path: Path, seed: int, deep: bool) -> None:
    count = count_calls(fresh(tmp_path, 0))
    assert count > 4
    step = 1 if deep else SHORT_STEP
    for number in range(1 + seed % step, count + 1, step):
        lab = fresh(tmp_path, number)
        try:
            rotate_journal(lab.open(FailAt(number, errno.ENOSPC, points=("file.", "directory."))))
        except SowError as error:
            assert error.code.startswith("SOW-JRN-02"), number
        judge(lab, number)


def test_a_kill_at_any_call_loses_nothing(tmp_path: Path, seed: int, deep: bool) -> None:
    def work(seam: Seam) -> None:
        rotate_journal(lab.open(seam))

    lab = fresh(tmp_path, 0)
    seam = CountingSeam()
    rotate_journal(lab.open(seam))
    for after in (False, True):
        step = 1 if deep else SHORT_STEP
        for number in choose_kills(seam.count, after=after)[(seed + after) % step :: step]:
            lab = fresh(tmp_path, 1000 * after + number + 1)
            assert died_at_call(number, work, after=after)
            judge(lab, number)

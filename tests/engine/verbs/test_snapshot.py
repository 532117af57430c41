"""snapshot: a store file with a past state of a topic, installed whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.topics.positions import read_meta
from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.get import get_records
from sowctl.engine.verbs.snapshot import SnapshotReport, write_snapshot, write_snapshots
from sowctl.errors import LockedError, MissingError, RefusedError
from sowctl.seam import SEAM
from sowctl.store.opening.access import StoreFiles
from sowctl.store.opening.locks import WriterLock
from tests.support.instances import SECOND, Lab, message, numbered


def _snapshot(lab: Lab, path: Path, topic: str = "t", at: int | None = None, *, force: bool = False) -> SnapshotReport:
    return write_snapshot(lab.open(), resolve_targets(lab.open(), topic)[0], at, path, force=force)


def test_the_file_holds_the_records_and_the_report_says_what(lab: Lab, tmp_path: Path) -> None:
    numbered(lab, "t", 1, 3)
    path = tmp_path / "t.sow"
    report = _snapshot(lab, path)
    payload = sum(len(message(id=n)) for n in (1, 2, 3))
    assert report == SnapshotReport("t", "json", str(path), 3, payload, lab.clock.at, lab.digest("t"))
    batch, _ = get_records(lab.open(), Target(path=path), ["3", "1"])
    assert [record.payload.decode() for record in batch.records] == [message(id=3), message(id=1)]
    assert list(check_instance(lab.open(), [Target(path=path)])) == []


def test_the_file_follows_no_journal_and_knows_its_last_txid(lab: Lab, tmp_path: Path) -> None:
    numbered(lab, "t", 1, 3)
    path = tmp_path / "t.sow"
    _snapshot(lab, path)
    meta = read_meta(path, lab.open())
    assert (meta.has_journal, meta.applied, meta.last_time) == (False, 3, lab.clock.at)


def test_as_of_an_instant_without_versions(lab: Lab, tmp_path: Path) -> None:
    lab.publish("past", message(id=1, v=1))
    lab.clock.tick(60)
    lab.publish("past", message(id=1, v=2), message(id=2))
    then = lab.clock.at - 30 * SECOND
    path = tmp_path / "past.sow"
    report = _snapshot(lab, path, "past", then)
    assert (report.records, report.at) == (1, then)
    assert lab.open().topic("past").digest(then).digest == report.digest
    assert read_meta(path, lab.open()).versions == 0


def test_what_has_expired_is_not_in_it(lab: Lab, tmp_path: Path) -> None:
    lab.publish("quotes", message(id=1))
    lab.clock.tick(30)
    assert _snapshot(lab, tmp_path / "q.sow", "quotes").records == 0


def test_a_file_that_is_there_is_kept_unless_forced(lab: Lab, tmp_path: Path) -> None:
    numbered(lab, "t", 1, 1)
    path = tmp_path / "t.sow"
    path.write_bytes(b"mine")
    with pytest.raises(RefusedError) as caught:
        _snapshot(lab, path)
    assert (caught.value.code, caught.value.exit_status, path.read_bytes()) == ("SOW-SNP-001", 8, b"mine")
    assert _snapshot(lab, path, force=True).records == 1


def test_files_of_several_topics_are_replaced_together_or_not_at_all(lab: Lab, tmp_path: Path) -> None:
    numbered(lab, "t", 1, 1)
    targets = [*resolve_targets(lab.open(), "t"), Target(path=tmp_path / "missing.sow")]
    into = tmp_path / "into"
    [first] = write_snapshots(lab.open(), targets[:1], None, into)
    before = Path(first.path).read_bytes()
    numbered(lab, "t", 2, 3)
    with pytest.raises(MissingError):
        write_snapshots(lab.open(), targets, None, into, force=True)
    assert Path(first.path).read_bytes() == before
    assert [report.records for report in write_snapshots(lab.open(), targets[:1], None, into, force=True)] == [3]
    assert [file.name for file in into.iterdir() if "new" in file.name] == []


def test_a_file_in_use_keeps_the_others_and_what_lies_beside_them(lab: Lab, tmp_path: Path) -> None:
    numbered(lab, "t", 1, 1)
    numbered(lab, "past", 1, 1)
    targets = [*resolve_targets(lab.open(), "t"), *resolve_targets(lab.open(), "past")]
    into = tmp_path / "into"
    first, second = (Path(one.path) for one in write_snapshots(lab.open(), targets, None, into))
    beside = into / f"{first.name}.bak"
    beside.write_text("mine")
    before = second.read_bytes()
    for file in (first, second):
        with WriterLock(StoreFiles.from_path(file), SEAM, "another").hold(0.0):
            other = second if file == first else first
            kept = other.read_bytes()
            numbered(lab, "t", 2, 2)
            with pytest.raises(LockedError):
                write_snapshots(lab.open(), targets, None, into, force=True)
            assert other.read_bytes() == kept
    first.unlink()
    with WriterLock(StoreFiles.from_path(second), SEAM, "another").hold(0.0), pytest.raises(LockedError):
        write_snapshots(lab.open(), targets, None, into, force=True)
    assert (first.exists(), second.read_bytes() == before, beside.read_text()) == (False, True, "mine")


def test_nothing_is_left_where_there_is_nothing_to_read(lab: Lab, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(MissingError):
        write_snapshot(lab.open(), Target(path=tmp_path / "missing.sow"), None, tmp_path / "no.sow")
    assert sorted(tmp_path.iterdir()) == before


def test_a_topic_to_which_nothing_was_published_is_empty(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "alone.sow"
    assert _snapshot(lab, path, "alone").records == 0
    assert list(check_instance(lab.open(), [Target(path=path)])) == []
    assert any("alone" in note for note in lab.notes)

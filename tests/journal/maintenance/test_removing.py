"""Removal of the oldest files: the rest never has a gap, however it ends, and readers report the first txid."""

from __future__ import annotations

import errno
import gzip
import itertools
import shutil
from pathlib import Path

import pytest

from sowctl.errors import MissingError, StorageError
from sowctl.journal.block import Position
from sowctl.journal.check import check_journal
from sowctl.journal.format import FILE_HEADER_SIZE
from sowctl.journal.listing import find_files, list_files
from sowctl.journal.maintenance.relocation import remove_files
from sowctl.journal.maintenance.survey import SurveyedFile, survey_files
from sowctl.journal.reader import Journal
from sowctl.seam import SEAM, Seam
from tests.support.crashstates import Recorder
from tests.support.faults import CountingSeam, FailAt, died_at_call
from tests.support.journals import INSTANCE, NO_SYNC, ORDERS, TRADES, group, open_writer, publish, texts


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A journal of some files: two in the archive, one of them in both places, one compressed."""
    place = tmp_path / "kept"
    place.mkdir()
    with open_writer(place / "log", NO_SYNC, journal_size=1600) as writer:
        for number in range(16):
            publish(writer, group(texts(10, tag=f"g{number}"), topic=number % 2, time=1000 + number), now=5000 + number)
    files = sorted((place / "log").glob("*.journal"))
    assert len(files) > 4
    (place / "archive").mkdir()
    shutil.move(files[0], place / "archive")
    (place / "archive" / f"{files[1].name}.gz").write_bytes(gzip.compress(files[1].read_bytes()))
    files[2].with_name(f"{files[2].name}.gz").write_bytes(gzip.compress(files[2].read_bytes()))
    files[2].unlink()
    return place


def fresh(kept: Path) -> Path:
    place = kept.parent / "place"
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(kept, place)


def surveyed(place: Path) -> list[SurveyedFile]:
    return survey_files(place / "log", INSTANCE, SEAM, place / "archive")


def read(place: Path) -> list[tuple[int, bytes]]:
    with Journal.open(place / "log", INSTANCE, archive=place / "archive") as journal:
        return [(entry.txid, entry.payload) for block in journal.iter_blocks() for entry in block.iter_entries()]


def go(place: Path, seam: Seam, last: int = 3) -> int:
    return remove_files([file for file in surveyed(place) if file.number < last], seam)


def judge(place: Path, whole: list[tuple[int, bytes]], problem: str) -> None:
    """Check that the rest is a valid journal starting with a whole file, and that the removal completes."""
    left = read(place)
    assert left and whole[-len(left) :] == left, problem
    assert list(check_journal(place / "log", INSTANCE, archive=place / "archive")) == [], problem
    go(place, SEAM)
    numbers = list(find_files(place / "log", INSTANCE, place / "archive"))
    assert numbers[0] == 3, problem
    assert not list((place / "archive").iterdir()), problem


def test_a_survey_tells_ages_and_what_files_hold(kept: Path) -> None:
    files = surveyed(kept)
    assert [file.number for file in files] == list(range(len(files)))
    assert [len(file.paths) for file in files[:4]] == [1, 2, 1, 1]
    assert files[2].is_compressed and not files[1].is_compressed
    assert files[1].size == sum(path.stat().st_size for path in files[1].paths)
    entries = read(kept)
    for file, following in itertools.pairwise(files):
        assert file.is_finished and file.last_txid == following.first_txid - 1
        # Ten entries a group, one group in each microsecond.
        assert file.latest == 1000 + (file.last_txid - 1) // 10
        assert file.finished is not None and file.compute_age(file.finished + 7) == 7
        assert max(file.find_last_txid(ORDERS), file.find_last_txid(TRADES)) == file.last_txid
    assert files[-1].last_txid is None and files[-1].compute_age(10**9) is None
    assert files[0].first_txid == entries[0][0]


def test_a_file_is_not_older_than_its_latest_entry(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC, journal_size=1100) as writer:
        publish(writer, group(texts(10), time=90_000), now=10)
        publish(writer, group(texts(10), time=90_001), now=20)
        publish(writer, group(texts(10), time=90_002), now=30)
    first, *_ = survey_files(tmp_path, INSTANCE, SEAM)
    assert first.finished is not None and first.finished < first.latest
    assert first.compute_age(90_005) == 90_005 - first.latest


def test_killed_at_every_call(kept: Path) -> None:
    whole = read(kept)
    for after in (False, True):
        n = 0
        while True:
            n += 1
            place = fresh(kept)
            if not died_at_call(n, lambda seam, place=place: go(place, seam), after=after):  # type: ignore[misc]
                break
            judge(place, whole, f"killed at call {n}, {after=}")
        assert n > 8


def test_an_error_at_every_call(kept: Path) -> None:
    whole = read(kept)
    place, counting = fresh(kept), CountingSeam()
    go(place, counting)
    for n in range(1, counting.count + 1):
        place = fresh(kept)
        problem = f"call {n} ({counting.points[n - 1]})"
        with pytest.raises(StorageError) as caught:
            go(place, FailAt(n, errno.EIO))
        assert caught.value.code == "SOW-JRN-062", problem
        judge(place, whole, problem)


def test_a_power_cut_at_every_call(kept: Path, tmp_path: Path) -> None:
    whole = read(kept)
    place = fresh(kept)
    recorder = Recorder(place)
    go(place, recorder)
    states = list(recorder.states())
    assert len(states) >= 4
    for number, state in enumerate(states):
        target = tmp_path / "after" / str(number)
        target.parent.mkdir(exist_ok=True)
        state.materialise(target)
        judge(target, whole, state.label)


def test_a_reader_names_the_first_txid_that_is_left(kept: Path) -> None:
    place = fresh(kept)
    with Journal.open(place / "log", INSTANCE, archive=place / "archive") as journal:
        blocks = journal.iter_blocks()
        next(blocks)
        first = surveyed(place)[3].first_txid
        go(place, SEAM)
        with pytest.raises(MissingError) as caught:
            list(blocks)
        assert caught.value.code == "SOW-JRN-063"
        assert caught.value.facts["first_txid"] == first
        assert f"{first}" in caught.value.message
        # When used again, the same reader starts with the first remaining block.
        assert next(journal.iter_blocks()).first_txid == first
        assert journal.first_txid == first


def test_a_reader_that_knew_the_end_of_a_file_that_is_gone_goes_on(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC, journal_size=1600) as writer, Journal.open(tmp_path, INSTANCE) as journal:
        publish(writer, group(texts(10)))
        end = journal.find_end()
        assert end.number == 0
        for _ in range(12):
            publish(writer, group(texts(10)))
        files = survey_files(tmp_path, INSTANCE, SEAM)
        journal.list_files()
        remove_files(files[:-1], SEAM)
        # Seen before its removal, and requested by position, as a queue does.
        assert journal.find_block_at(Position(0, FILE_HEADER_SIZE, 0)) is None
        first = files[-1].first_txid
        for after in (end.txid, 0, first):
            found = [entry.txid for block in journal.iter_blocks(after=after) for entry in block.iter_entries()]
            assert found[0] <= max(first, after + 1) and found[-1] == 130
        found = [entry.txid for block in journal.iter_blocks(start=end) for entry in block.iter_entries()]
        assert (found[0], found[-1]) == (first, 130)


def test_a_look_while_files_go_finds_no_gap(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is listed while its oldest files are removed: an older one was seen, a younger one was not."""
    from sowctl.journal import listing

    place = fresh(kept)
    whole = find_files(place / "log", INSTANCE, place / "archive")
    looks = [{number: paths for number, paths in whole.items() if number not in gone} for gone in ({1}, {0, 2}, {0, 1})]
    monkeypatch.setattr(listing, "find_files", lambda *_: looks.pop(0))
    assert list(list_files(place / "log", INSTANCE, place / "archive")) == list(whole)[2:]
    assert looks == []

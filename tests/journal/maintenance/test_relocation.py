"""Moving a journal file to the archive: interrupted at any call, in any way, every reader still finds every entry."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sowctl.errors import StorageError
from sowctl.journal.check import check_journal
from sowctl.journal.maintenance.relocation import build_hidden_path, move_file
from sowctl.journal.reader import Journal
from sowctl.seam import SEAM, Seam
from tests.support.crashstates import Recorder
from tests.support.faults import CountingSeam, FailAt, died_at_call
from tests.support.journals import INSTANCE, NO_SYNC, group, open_writer, publish, texts

R = TypeVar("R")


class Across(Seam):
    """Two directories on different file systems: hard links fail. Other calls go to another seam."""

    def __init__(self, other: Seam = SEAM) -> None:
        self.other = other

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        if point == "file.link":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return self.other.call(point, function, *args, **kwargs)


def within(other: Seam) -> Seam:
    return other


WAYS = {"within a file system": within, "across file systems": Across}
Way = Callable[[Seam], Seam]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A journal of some files, to be copied."""
    place = tmp_path / "kept" / "log"
    place.parent.mkdir()
    with open_writer(place, NO_SYNC, journal_size=1600) as writer:
        for number in range(9):
            publish(writer, group(texts(10, tag=f"g{number}"), topic=number % 2, time=1000 + number))
    assert len(list(place.glob("*.journal"))) > 2
    return place


@pytest.fixture
def log(kept: Path, tmp_path: Path) -> Path:
    return fresh(kept, tmp_path)


def fresh(kept: Path, place: Path) -> Path:
    """The journal as it was, without an archive."""
    for name in ("log", "archive"):
        shutil.rmtree(place / name, ignore_errors=True)
    return shutil.copytree(kept, place / "log")


def read(log: Path) -> list[tuple[int, bytes]]:
    with Journal.open(log, INSTANCE, archive=log.parent / "archive") as journal:
        return [(entry.txid, entry.payload) for block in journal.iter_blocks() for entry in block.iter_entries()]


def first_file(log: Path) -> Path:
    return min(log.glob("*.journal"))


def go(log: Path, seam: Seam) -> Path | None:
    source = first_file(log)
    return move_file(source, log.parent / "archive", seam) if source.name.endswith("0000000000.journal") else None


def judge(log: Path, whole: list[tuple[int, bytes]], problem: str) -> None:
    """Check that every entry is readable, and that the move, when repeated, completes and leaves no other files."""
    assert read(log) == whole, problem
    archive = log.parent / "archive"
    assert list(check_journal(log, INSTANCE, archive=archive)) == [], problem
    go(log, SEAM)
    assert read(log) == whole, problem
    assert [path.name for path in archive.iterdir()] == [f"{INSTANCE}.0000000000.journal"], problem
    assert not (log / f"{INSTANCE}.0000000000.journal").exists(), problem


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_file_is_moved_with_its_mode_and_times(log: Path, way: Way) -> None:
    whole, source = read(log), first_file(log)
    source.chmod(0o600)
    os.utime(source, ns=(10**18, 10**18))
    target = move_file(source, log.parent / "archive", way(SEAM))
    assert target == log.parent / "archive" / source.name
    assert not source.exists() and not build_hidden_path(target).exists()
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.stat().st_mtime_ns == 10**18
    assert read(log) == whole


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_killed_at_every_call(kept: Path, tmp_path: Path, way: Way) -> None:
    log = fresh(kept, tmp_path)
    whole = read(log)
    for after in (False, True):
        n = 0
        while True:
            n += 1
            log = fresh(kept, tmp_path)
            if not died_at_call(n, lambda seam, log=log: go(log, way(seam)), after=after):  # type: ignore[misc]
                break
            judge(log, whole, f"killed at call {n}, {after=}")
        assert n > (8 if way is within else 14)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_an_error_at_every_call(kept: Path, tmp_path: Path, way: Way, code: int) -> None:
    log = fresh(kept, tmp_path)
    whole = read(log)
    counting = CountingSeam()
    go(log, way(counting))
    for n in range(1, counting.count + 1):
        for forever in (False, True):
            log = fresh(kept, tmp_path)
            problem = f"call {n} ({counting.points[n - 1]}), {forever=}"
            with pytest.raises(StorageError) as caught:
                go(log, way(FailAt(n, code, forever)))
            assert caught.value.code == "SOW-JRN-061", problem
            assert not list((tmp_path / "archive").glob(".*")), problem
            judge(log, whole, problem)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_power_cut_at_every_call(log: Path, way: Way, tmp_path: Path) -> None:
    whole = read(log)
    recorder = Recorder(tmp_path)
    go(log, way(recorder))
    states = list(recorder.states())
    assert len(states) >= (4 if way is within else 8)
    for number, state in enumerate(states):
        place = tmp_path / "after" / str(number)
        place.parent.mkdir(exist_ok=True)
        state.materialise(place)
        assert read(place / "log") == whole, state.label
        go(place / "log", SEAM)
        assert read(place / "log") == whole, state.label


def test_power_cuts_are_seen(log: Path, tmp_path: Path) -> None:
    """A move that never syncs loses the file in some state: the test above can detect it."""
    whole = read(log)
    recorder = Recorder(tmp_path, forget_syncs=True)
    go(log, Across(recorder))
    lost = 0
    for number, state in enumerate(recorder.states()):
        place = tmp_path / "after" / str(number)
        place.parent.mkdir(exist_ok=True)
        state.materialise(place)
        try:
            lost += read(place / "log") != whole
        except Exception:
            lost += 1
    assert lost


def test_a_copy_that_reads_differently_is_not_taken(log: Path) -> None:
    """A disk that stores other bytes than were written."""

    class Forgetful(Seam):
        def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
            if point == "file.write":
                data = bytearray(args[1])
                data[len(data) // 2] ^= 1
                return function(args[0], bytes(data))
            return function(*args, **kwargs)

    whole = read(log)
    with pytest.raises(StorageError) as caught:
        go(log, Across(Forgetful()))
    assert caught.value.code == "SOW-JRN-061" and "reads differently" in caught.value.message
    judge(log, whole, "a copy that differs")


def test_what_lies_in_the_archive_already(kept: Path, tmp_path: Path) -> None:
    for content in ("the same", "a part", "a copy gone bad"):
        log = fresh(kept, tmp_path)
        whole, source = read(log), first_file(log)
        target = tmp_path / "archive" / source.name
        target.parent.mkdir()
        raw = source.read_bytes()
        if content == "a part":
            raw = raw[: len(raw) - 7]
        elif content == "a copy gone bad":
            raw = raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:]
        target.write_bytes(raw)
        for way in WAYS.values():
            go(log, way(SEAM))
        judge(log, whole, content)
        assert (tmp_path / "archive" / source.name).read_bytes() == (kept / source.name).read_bytes()


def test_a_link_is_never_followed(log: Path, tmp_path: Path) -> None:
    source = first_file(log)
    outside = tmp_path / "outside"
    outside.write_bytes(b"keep me")
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / source.name).symlink_to(outside)
    move_file(source, tmp_path / "archive", Across())
    assert outside.read_bytes() == b"keep me"
    assert not (tmp_path / "archive" / source.name).is_symlink()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_readers_in_the_middle_of_a_file_go_on(log: Path, way: Way) -> None:
    """After each block that a reader got, all finished files are moved: the reader misses and repeats nothing."""
    whole = read(log)
    archive = log.parent / "archive"
    found = []
    with Journal.open(log, INSTANCE, archive=archive) as journal:
        for block in journal.iter_blocks():
            found += [(entry.txid, entry.payload) for entry in block.iter_entries()]
            for path in sorted(log.glob("*.journal"))[:-1]:
                move_file(path, archive, way(SEAM))
    assert found == whole
    assert len(list(log.glob("*.journal"))) == 1

"""Compression of a journal file: interrupted at any call, in any way, every reader still finds every entry."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from pathlib import Path

import pytest
import zstandard

from sowctl.errors import StorageError
from sowctl.journal.check import check_journal
from sowctl.journal.maintenance.file_compression import compress_file
from sowctl.journal.maintenance.relocation import build_hidden_path
from sowctl.journal.reader import Journal
from sowctl.seam import SEAM, Seam
from tests.support.crashstates import Recorder
from tests.support.faults import CountingSeam, FailAt, ShortWriteAt, died_at_call
from tests.support.journals import INSTANCE, NO_SYNC, group, open_writer, publish, texts

NAME = f"{INSTANCE}.0000000000.journal"
KINDS = (".zst", ".gz")


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


def fresh(kept: Path, place: Path) -> Path:
    shutil.rmtree(place / "log", ignore_errors=True)
    return shutil.copytree(kept, place / "log")


def read(log: Path) -> list[tuple[int, bytes]]:
    with Journal.open(log, INSTANCE) as journal:
        return [(entry.txid, entry.payload) for block in journal.iter_blocks() for entry in block.iter_entries()]


def go(log: Path, kind: str, seam: Seam) -> None:
    if (log / NAME).exists():
        compress_file(log / NAME, kind, seam)


def judge(log: Path, kind: str, whole: list[tuple[int, bytes]], content: bytes, problem: str) -> None:
    """Check that every entry is readable, and that compression, when repeated, completes and leaves no other files."""
    assert read(log) == whole, problem
    assert list(check_journal(log, INSTANCE)) == [], problem
    go(log, kind, SEAM)
    assert read(log) == whole, problem
    assert [path.name for path in log.iterdir() if NAME in path.name] == [NAME + kind], problem
    packed = (log / (NAME + kind)).read_bytes()
    assert (gzip.decompress(packed) if kind == ".gz" else zstandard.decompress(packed)) == content, problem


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_keeps_its_mode_times_and_content(kept: Path, tmp_path: Path, kind: str) -> None:
    log = fresh(kept, tmp_path)
    whole, content = read(log), (log / NAME).read_bytes()
    (log / NAME).chmod(0o600)
    os.utime(log / NAME, ns=(10**18, 10**18))
    target = compress_file(log / NAME, kind, SEAM)
    assert target.name == NAME + kind
    assert (target.stat().st_mode & 0o777, target.stat().st_mtime_ns) == (0o600, 10**18)
    judge(log, kind, whole, content, "compressed")


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_call(kept: Path, tmp_path: Path, kind: str) -> None:
    log = fresh(kept, tmp_path)
    whole, content = read(log), (log / NAME).read_bytes()
    for after in (False, True):
        n = 0
        while True:
            n += 1
            log = fresh(kept, tmp_path)
            if not died_at_call(n, lambda seam, log=log: go(log, kind, seam), after=after):  # type: ignore[misc]
                break
            judge(log, kind, whole, content, f"killed at call {n}, {after=}")
        assert n > 12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize(("forever", "after"), [(False, False), (True, False), (False, True)])
def test_every_call_fails(kept: Path, tmp_path: Path, kind: str, code: int, forever: bool, after: bool) -> None:
    log = fresh(kept, tmp_path)
    whole, content = read(log), (log / NAME).read_bytes()
    counting = CountingSeam()
    go(log, kind, counting)
    for n in range(1, counting.count + 1):
        log = fresh(kept, tmp_path)
        problem = f"call {n} ({counting.points[n - 1]})"
        # The second call checks whether a compressed file exists: if that fails, it cannot fail afterwards.
        if after and n == 2:
            continue
        with pytest.raises(StorageError) as caught:
            go(log, kind, FailAt(n, code, forever, after=after))
        assert (caught.value.code, caught.value.exit_status) == ("SOW-JRN-070", 6), problem
        if code == errno.ENOSPC:
            assert "disk is full" in caught.value.message
        assert not build_hidden_path(log / (NAME + kind)).exists(), problem
        judge(log, kind, whole, content, problem)


def test_a_short_write_is_gone_on_with(kept: Path, tmp_path: Path) -> None:
    for n, keep in ((1, None), (1, 1)):
        log = fresh(kept, tmp_path)
        whole, content = read(log), (log / NAME).read_bytes()
        go(log, ".zst", ShortWriteAt(n, keep=keep))
        judge(log, ".zst", whole, content, f"write {n}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_power_cut_at_every_call(kept: Path, tmp_path: Path, kind: str) -> None:
    log = fresh(kept, tmp_path)
    whole, content = read(log), (log / NAME).read_bytes()
    recorder = Recorder(tmp_path)
    go(log, kind, recorder)
    states = list(recorder.states())
    assert len(states) >= 6
    for number, state in enumerate(states):
        place = tmp_path / "after" / str(number)
        place.parent.mkdir(exist_ok=True)
        state.materialise(place)
        judge(place / "log", kind, whole, content, state.label)


class Liar(Seam):
    """A disk that changes one bit of everything that is written in more than ten bytes."""

    def call(self, point, function, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        if point == "file.write" and len(args[1]) > 10:
            args = (args[0], bytes([args[1][0] ^ 1]) + bytes(args[1][1:]))
        return function(*args, **kwargs)


@pytest.mark.parametrize("kind", KINDS)
def test_what_reads_differently_is_not_taken(kept: Path, tmp_path: Path, kind: str) -> None:
    log = fresh(kept, tmp_path)
    whole, content = read(log), (log / NAME).read_bytes()
    with pytest.raises(StorageError) as caught:
        go(log, kind, Liar())
    assert "reads differently" in caught.value.message
    assert (log / NAME).read_bytes() == content
    judge(log, kind, whole, content, "a lie")


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_a_compressed_file_is_replaced(kept: Path, tmp_path: Path, kind: str) -> None:
    """It was left by another program that was interrupted, or holds more than this file."""
    for wrong in (b"", b"\x1f\x8b half", b"nothing at all"):
        log = fresh(kept, tmp_path)
        whole, content = read(log), (log / NAME).read_bytes()
        (log / (NAME + kind)).write_bytes(wrong)
        judge(log, kind, whole, content, repr(wrong))
    log = fresh(kept, tmp_path)
    compressed = gzip.compress if kind == ".gz" else zstandard.compress
    (log / (NAME + kind)).write_bytes(compressed(content) + compressed(b"more"))
    judge(log, kind, whole, content, "more")

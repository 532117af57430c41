"""The n-th system call fails, is cut short, or is the last one: the journal remains valid, and the error says why."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sowctl.errors import StorageError
from sowctl.findings import Level
from sowctl.journal.check import check_journal
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path, save_topics_file
from sowctl.seam import Seam
from tests.support.faults import CountingSeam, FailAt, KillAt, ShortWriteAt, choose_kills
from tests.support.journals import INSTANCE, NO_SYNC, contents, group, open_writer, publish

SHARED = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
Told = Callable[[int], None]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 3)


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SHARED) as name:
        yield Path(name)


BATCHES = [[2, 1], [5], [1, 1, 1], [4], [7, 2]]
SUBMITTED = [b"entry %d " % number + b"x" * 40 for number in range(sum(map(sum, BATCHES)))]


def write_all(directory: Path, seam: Seam, told: Told) -> None:
    """Write several batches with rolls; ``told`` receives the number of acknowledged entries."""
    done = 0
    with open_writer(directory, seam, journal_size=1400) as writer:
        for number, batch in enumerate(BATCHES):
            with writer.hold_lock():
                for size in batch:
                    writer.append_group(group(SUBMITTED[done : done + size], topic=number % 2), number * 10**7)
                    done += size
                writer.sync()
            told(done)


def torn_start(directory: Path) -> None:
    """A journal that ends in an unfinished group and a torn block; its topics file was written before these."""
    with open_writer(directory, NO_SYNC) as writer:
        publish(writer, group([b"first"]))
    topics_file = build_topics_path(directory, INSTANCE).read_bytes()
    with open_writer(directory, NO_SYNC) as writer:
        whole = (directory / f"{INSTANCE}.0000000000.journal").read_bytes()
        with writer.hold_lock():
            writer.append_group(group([b"unfinished"] * 8), 1, last=False)
            more = (directory / f"{INSTANCE}.0000000000.journal").read_bytes()
    (directory / f"{INSTANCE}.0000000000.journal").write_bytes(more[: len(more) - 40])
    build_topics_path(directory, INSTANCE).write_bytes(topics_file)
    assert len(whole) < len(more)


def examine(directory: Path, acknowledged: int, before: list[bytes], problem: str) -> None:
    """Check that the journal is readable, a prefix with everything acknowledged, clean, and usable by the next
    writer."""
    found = [payload for _, payload in contents(directory)] if Journal.exists(directory, INSTANCE) else []
    assert found[: len(before)] == before[: len(found)], problem
    fresh = found[len(before) :]
    assert fresh == SUBMITTED[: len(fresh)], problem
    assert len(fresh) >= acknowledged, problem
    with open_writer(directory, NO_SYNC) as writer:
        publish(writer, group([b"next"]))
    assert [payload for _, payload in contents(directory)] == [*found, b"next"], problem
    assert [f for f in check_journal(directory, INSTANCE) if f.level > Level.INFO] == [], problem


def attempt(directory: Path, seam: Seam, start: Callable[[Path], None] | None) -> tuple[int, StorageError | None]:
    """Run the workload; return the number of acknowledged entries, and the error."""
    acknowledged = [0]
    try:
        write_all(directory, seam, lambda count: acknowledged.append(count))
    except StorageError as error:
        return acknowledged[-1], error
    return acknowledged[-1], None


def calls(memory: Path, start: Callable[[Path], None] | None) -> int:
    directory = memory / "count"
    if start:
        start(directory)
    seam = CountingSeam()
    attempt(directory, seam, start)
    return seam.count


FAILURES = [
    (errno.EIO, False, False),
    (errno.EIO, True, False),
    (errno.EIO, False, True),
    (errno.ENOSPC, True, False),
    (errno.EINTR, False, False),
    (errno.EINTR, True, False),
]


SHORT_STEP = 3
"""In the short form every third call fails or kills, starting at a random one."""


@pytest.mark.parametrize("start", [None, torn_start], ids=["new", "torn"])
@pytest.mark.parametrize(("code", "forever", "after"), FAILURES)
def test_the_nth_call_fails(
    memory: Path, start: Callable[[Path], None] | None, code: int, forever: bool, after: bool, seed: int, deep: bool
) -> None:
    total = calls(memory, start)
    before = [b"first"] if start else []
    raised = 0
    step = 1 if deep else SHORT_STEP
    for n in range(1 + seed % step, total + 1, step):
        directory = memory / f"run{n}"
        if start:
            start(directory)
        seam = FailAt(n, code, forever, after=after)
        acknowledged, error = attempt(directory, seam, start)
        problem = f"call {n} of {total}, {error}"
        assert seam.failed, problem
        raised += error is not None
        if error is None:
            assert acknowledged == len(SUBMITTED), problem
        else:
            assert error.exit_status == 6, problem
            if error.code == "SOW-JRN-021" and code == errno.ENOSPC:
                assert "disk is full" in error.message
            if (safe := error.facts.get("acknowledged_txid")) is not None and not start:
                assert safe >= acknowledged, problem
        examine(directory, acknowledged, before, problem)
    # A third of the calls is no measure of the share.
    assert raised > (total // 2 if deep else 0)


@pytest.mark.parametrize("start", [None, torn_start], ids=["new", "torn"])
@pytest.mark.parametrize("then", [None, errno.ENOSPC], ids=["goes-on", "full"])
@pytest.mark.parametrize("keep", [0, 1, None])
def test_the_nth_write_is_short(
    memory: Path, start: Callable[[Path], None] | None, then: int | None, keep: int | None
) -> None:
    for n in range(1, 40):
        directory = memory / f"run{n}"
        if start:
            start(directory)
        seam = ShortWriteAt(n, keep=keep, then=then)
        acknowledged, error = attempt(directory, seam, start)
        if seam.count < n:
            assert n > 8
            return
        if then is None and keep != 0:
            assert error is None
        examine(directory, acknowledged, [b"first"] if start else [], f"write {n}, {error}")
    raise AssertionError("the workload never ended")


def _tell(pipe: int, count: int) -> None:
    os.write(pipe, bytes([count]))


@pytest.mark.parametrize("start", [None, torn_start], ids=["new", "torn"])
def test_killed_at_the_nth_call(memory: Path, start: Callable[[Path], None] | None, seed: int, deep: bool) -> None:
    total = calls(memory, start)
    kills = [(n, late) for late in (False, True) for n in choose_kills(total, after=late)]
    step = 1 if deep else SHORT_STEP
    for n, after in kills[seed % step :: step]:
        directory = memory / f"run{n}-{after}"
        if start:
            start(directory)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                write_all(directory, KillAt(n, after=after), partial(_tell, write))
            finally:
                os._exit(0)
        os.close(write)
        told = b""
        while chunk := os.read(read, 100):
            told += chunk
        os.close(read)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        examine(directory, told[-1] if told else 0, [b"first"] if start else [], f"killed at call {n}, {after=}")


def test_a_torn_tail_is_repaired_once_whatever_happened_before(memory: Path) -> None:
    """A kill between the copy and the truncation leaves the copy; the next writer makes another one."""
    torn_start(memory / "log")
    child = os.fork()
    if child == 0:
        try:
            open_writer(memory / "log", KillAt(1, points=("file.truncate",)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with open_writer(memory / "log"):
        pass
    copies = sorted((memory / "log").glob("*.torn-*"))
    assert [path.name[-7:] for path in copies] == [".torn-1", ".torn-2"]
    assert copies[0].read_bytes() == copies[1].read_bytes()


@pytest.mark.parametrize("point", ["file.write", "file.rename"])
def test_a_topics_file_that_cannot_be_written_leaves_nothing_behind(point: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        save_topics_file(tmp_path, INSTANCE, b"content", FailAt(1, errno.ENOSPC, points=(point,)))
    assert list(tmp_path.iterdir()) == []

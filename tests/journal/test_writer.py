"""Writing: groups, batches, locks, several writers."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sowctl.errors import LockedError, StorageError
from sowctl.findings import Level
from sowctl.journal import lock as lock_module
from sowctl.journal.blockcodec import CODEC_NONE, CODEC_ZSTD
from sowctl.journal.check import check_journal
from sowctl.journal.lock import JournalLock
from sowctl.journal.reader import Journal
from sowctl.seam import SEAM, Seam
from tests.support.faults import CountingSeam
from tests.support.journals import (
    INSTANCE,
    LINEAGE,
    NO_SYNC,
    ORDERS,
    TRADES,
    contents,
    group,
    open_writer,
    publish,
    texts,
)


def problems(directory: Path) -> list[str]:
    return [str(finding) for finding in check_journal(directory, INSTANCE) if finding.level > Level.INFO]


def test_a_new_journal_starts_above_the_floor(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    with open_writer(directory, floor=41) as writer:
        assert (writer.lineage, writer.last_txid, writer.synced_txid) == (LINEAGE, 41, 41)
        assert publish(writer, group([b"x", b"y"]), group([b"z"])) == [(42, 43), (44, 44)]
        assert writer.synced_txid == 44
    assert contents(directory) == [(42, b"x"), (43, b"y"), (44, b"z")]
    with open_writer(directory, lineage=b"z" * 16, floor=99) as writer:
        assert (writer.lineage, writer.last_txid) == (LINEAGE, 44)


def test_modes(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_writer(tmp_path / "log") as writer:
            publish(writer, group([b"x"]))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "log").iterdir()} == {0o640}


def test_the_topics_file_keeps_the_mode_that_it_was_given(tmp_path: Path) -> None:
    for _ in range(2):
        with open_writer(tmp_path) as writer:
            publish(writer, group([b"x"]))
        told = tmp_path / f"{INSTANCE}.topics"
        expected = told.stat().st_mode | 0o004
        told.chmod(stat.S_IMODE(expected))
    assert told.stat().st_mode == expected
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"x"]))
    assert told.stat().st_mode == expected


def test_a_topics_file_that_may_not_be_read_is_no_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"x"]))

    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    with Journal.open(tmp_path, INSTANCE) as log, pytest.raises(StorageError) as caught:
        log.read_last_txid()
    assert (caught.value.code, caught.value.exit_status) == ("SOW-JRN-053", 6)


def test_one_write_and_one_sync_per_batch(tmp_path: Path) -> None:
    seam = CountingSeam()
    with open_writer(tmp_path, seam) as writer:
        start = seam.count
        publish(writer, group(texts(5000)))
        assert seam.points[start:] == ["file.lock", "file.write", "file.sync"]
        start = seam.count
        publish(writer, group(texts(3)), group(texts(2)))
        assert seam.points[start:] == ["file.lock", "file.write", "file.write", "file.sync"]


def test_what_is_not_synced_is_synced_when_the_lock_goes(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        with writer.hold_lock():
            writer.append_group(group([b"x"]), 1000)
            assert (writer.last_txid, writer.synced_txid) == (1, 0)
        assert writer.synced_txid == 1


def test_what_is_appended_during_a_sync_is_not_synced_by_it(tmp_path: Path) -> None:
    class AppendDuringSync(Seam):
        """Appends a group while the first of two syncs is under way."""

        def call(self, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            if point == "file.sync" and armed and armed.pop():
                writer.append_group(group([b"y"]), 1000)
            return found

    armed: list[bool] = []
    with open_writer(tmp_path, AppendDuringSync()) as writer, writer.hold_lock():
        writer.append_group(group([b"x"]), 1000)
        armed.append(True)
        writer.sync()
        assert (writer.last_txid, writer.synced_txid) == (2, 1)
        writer.sync()
        assert writer.synced_txid == 2


@pytest.mark.parametrize("codec", [CODEC_NONE, CODEC_ZSTD])
def test_a_group_that_another_thread_compresses_has_the_same_bytes(tmp_path: Path, codec: int) -> None:
    # Blocks of empty payloads, of many, of one large payload, and a last one too small to be compressed.
    payloads = [b""] * 1024 + [b'{"id":%d,"name":"a"}' % number for number in range(5000)]
    payloads += [bytes(5 << 20), b"x"]
    whole = group(payloads, times=array("q", range(len(payloads))))
    done: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        for name, helper in (("alone", None), ("beside", pool)):
            with open_writer(tmp_path / name, codec=codec) as writer:
                for one in (whole, group([b"small"])):
                    with writer.hold_lock():
                        writer.append_group(
                            one, 1000, pool=helper, meanwhile=lambda writer=writer: done.append(writer.last_txid)
                        )  # type: ignore[misc]
    # Called once for each group, before its txids are used.
    assert done == [0, len(payloads)] * 2
    files = [(tmp_path / name / f"{INSTANCE}.0000000000.journal") for name in ("alone", "beside")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert [payload for _, payload in contents(tmp_path / "beside")] == [*payloads, b"small"]


def test_what_was_to_be_done_meanwhile_fails_before_anything_is_written(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("no")

    with ThreadPoolExecutor(1) as pool, open_writer(tmp_path) as writer:
        for payloads in (texts(2), texts(5000)):
            with writer.hold_lock(), pytest.raises(ValueError, match="no"):
                writer.append_group(group(payloads), 1, pool=pool, meanwhile=fail)
        assert publish(writer, group([b"x"])) == [(1, 1)]
    assert contents(tmp_path) == [(1, b"x")]


def test_nothing_is_done_without_the_lock(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        for action in (lambda: writer.append_group(group([b"x"]), 1), writer.sync, writer.abort_group):
            with pytest.raises(ValueError, match="not locked"):
                action()
        with writer.hold_lock(), pytest.raises(ValueError, match="already"), writer.hold_lock():
            pass


def test_a_lineage_needs_sixteen_bytes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="16"):
        open_writer(tmp_path, lineage=b"short")


def test_a_group_in_pieces_is_one_group(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        with writer.hold_lock():
            assert writer.append_group(group([b"a", b"b"]), 1, last=False) == (1, 2)
            assert contents(tmp_path) == []
            assert writer.append_group(group([b"c"], topic=1), 1, last=False) == (3, 3)
            assert writer.append_group(group([b"d"]), 1) == (4, 4)
        assert writer.find_topic_state(ORDERS).last_txid == 4
        assert writer.find_topic_state(TRADES).position == writer.find_topic_state(ORDERS).position
    assert contents(tmp_path) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]
    with Journal.open(tmp_path, INSTANCE) as journal:
        assert {block.header.group for block in journal.iter_blocks()} == {1}


@pytest.mark.parametrize("how", ["abort", "leave", "raise"])
def test_a_group_that_is_not_ended_has_not_happened(tmp_path: Path, how: str) -> None:
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"before"]))
        try:
            with writer.hold_lock():
                writer.append_group(group([b"a", b"b"], topic=1), 1, last=False)
                if how == "abort":
                    writer.abort_group()
                if how == "raise":
                    raise KeyError
        except KeyError:
            pass
        assert writer.find_topic_state(TRADES).last_txid == 0
        assert publish(writer, group([b"after"])) == [(4, 4)]
    assert contents(tmp_path) == [(1, b"before"), (4, b"after")]
    assert problems(tmp_path) == []


def test_refresh_hands_over_what_others_wrote(tmp_path: Path) -> None:
    with open_writer(tmp_path, journal_size=1500) as one, open_writer(tmp_path, journal_size=1500) as two:
        assert one.read_new_blocks() == []
        for number in range(8):
            publish(two, group(texts(3, tag=f"two{number}")))
            publish(two, group(texts(2, tag=f"two{number}")))
            with one.hold_lock():
                found = one.read_new_blocks()
                assert [len(block) for block in found] == [3, 2]
                assert one.read_new_blocks() == []
                one.append_group(group(texts(1)), 1000)
                assert one.read_new_blocks() == []
            with two.hold_lock():
                assert [len(block) for block in two.read_new_blocks()] == [1]
        assert one.last_txid == two.last_txid - 0
        assert two.find_topic_state(ORDERS).last_txid == two.last_txid


def test_small_blocks_are_not_compressed(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"small"]), group(texts(100)))
    with Journal.open(tmp_path, INSTANCE) as journal:
        assert [block.header.codec for block in journal.iter_blocks()] == [0, 1]
    with open_writer(tmp_path / "plain", codec=CODEC_NONE) as writer:
        publish(writer, group(texts(100)))
    with Journal.open(tmp_path / "plain", INSTANCE) as journal:
        assert [block.header.codec for block in journal.iter_blocks()] == [0]


def test_the_lock_names_its_holder_and_ends_on_time(tmp_path: Path) -> None:
    with open_writer(tmp_path, holder="sowctl publish\norders") as one, one.hold_lock():
        start = time.monotonic()
        with pytest.raises(LockedError) as caught:
            open_writer(tmp_path, lock_wait=0.05)
        assert 0.04 < time.monotonic() - start < 8
    assert caught.value.facts["pid"] == str(os.getpid())
    assert caught.value.facts["command"] == "sowctl publish orders"
    assert "1970-01-01" in caught.value.message
    with open_writer(tmp_path, lock_wait=0.0) as two:
        assert publish(two, group([b"x"])) == [(1, 1)]


def test_a_waiting_writer_gets_the_lock(tmp_path: Path) -> None:
    with open_writer(tmp_path) as one, open_writer(tmp_path) as two:
        done: list[int] = []

        def wait() -> None:
            with two.hold_lock():
                done.append(two.append_group(group([b"second"]), 1)[0])

        with one.hold_lock():
            one.append_group(group([b"first"]), 1)
            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.03)
            assert done == []
        thread.join(5)
        assert done == [2]


def _appender(directory: str, name: int, count: int) -> None:
    with open_writer(Path(directory), NO_SYNC, journal_size=6000, lock_wait=30.0) as writer:
        for number in range(count):
            publish(writer, group([b"%d-%d" % (name, number)] * (number % 3 + 1), topic=name % 2))


def test_processes_that_write_by_turns_leave_one_chain(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with open_writer(tmp_path):
        pass
    workers = [context.Process(target=_appender, args=(str(tmp_path), name, 60)) for name in range(3)]
    for worker in workers:
        worker.start()
    seen: list[list[tuple[int, bytes]]] = []
    while any(worker.is_alive() for worker in workers):
        seen.append(contents(tmp_path))
        time.sleep(0.02)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    entries = contents(tmp_path)
    assert [txid for txid, _ in entries] == list(range(1, 3 * 120 + 1))
    for found in seen:
        assert entries[: len(found)] == found
    for name in range(3):
        numbers = [int(text.split(b"-")[1]) for _, text in entries if text.startswith(b"%d-" % name)]
        assert numbers == sorted(numbers)
    assert problems(tmp_path) == []


def test_two_handles_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    with open_writer(tmp_path) as one, open_writer(tmp_path, lock_wait=0.01) as two:
        with one.hold_lock(), pytest.raises(LockedError), two.hold_lock():
            pass
        with two.hold_lock():
            pass


def test_short_holds_let_others_go_first_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    # It is held for a millisecond each time.
    clock = (number / 1000 for number in range(1000))
    monkeypatch.setattr(lock_module, "time", SimpleNamespace(sleep=pauses.append, monotonic=clock.__next__))
    lock = JournalLock(tmp_path, INSTANCE, SEAM, "worker", 1)
    for number in range(60):
        lock.acquire(0)
        lock.release()
        # Another process requests the lock in vain each time.
        os.utime(lock.path, ns=(number, number))
    lock.close()
    assert 2 <= len(pauses) <= 3, "once for every 20 ms, and not every time"


@pytest.mark.parametrize("hold", [0.03, 0.001])
def test_one_that_takes_the_lock_again_and_again_lets_others_in(tmp_path: Path, hold: float) -> None:
    """It releases the lock only briefly, between two batches; a waiting process tries every 20 ms."""
    going, held = threading.Event(), list[float]()

    def bulk() -> None:
        lock = JournalLock(tmp_path, INSTANCE, SEAM, "bulk", 1)
        while not going.is_set():
            lock.acquire(5.0)
            time.sleep(hold)
            held.append(time.monotonic())
            lock.release()
        lock.close()

    other = JournalLock(tmp_path, INSTANCE, SEAM, "other", 1)
    thread = threading.Thread(target=bulk)
    thread.start()
    try:
        waits = []
        for _ in range(8):
            while len(held) < 2:
                time.sleep(0.001)
            begin = time.monotonic()
            other.acquire(5.0)
            waits.append(time.monotonic() - begin)
            other.release()
            held.clear()
    finally:
        going.set()
        thread.join()
        other.close()
    # Without a guaranteed turn it would have waited until the other one ends.
    assert max(waits) < 3.0

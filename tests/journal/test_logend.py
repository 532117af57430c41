"""The end of a journal: torn and unfinished tails, rolls, the topics file, and the state after a failed write."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sowctl.errors import DamageError, StorageError
from sowctl.findings import Level
from sowctl.journal.check import check_journal
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.lock import is_locked
from sowctl.journal.logend import TOPICS_SAVE_INTERVAL_MICROS
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from tests.support.faults import CountingSeam, FailAt
from tests.support.journals import INSTANCE, NO_SYNC, TRADES, contents, group, open_writer, publish, sequences, texts


def problems(directory: Path) -> list[str]:
    return [str(finding) for finding in check_journal(directory, INSTANCE) if finding.level > Level.INFO]


def test_an_unfinished_group_of_a_dead_writer_is_closed_by_the_next(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"before"]))
    file = tmp_path / f"{INSTANCE}.0000000000.journal"
    whole = file.stat().st_size
    topics_file = build_topics_path(tmp_path, INSTANCE).read_bytes()
    with open_writer(tmp_path) as writer, writer.hold_lock():
        writer.append_group(group([b"a", b"b"]), 1, last=False)
        unfinished = file.read_bytes()
    file.write_bytes(unfinished)
    build_topics_path(tmp_path, INSTANCE).write_bytes(topics_file)
    with Journal.open(tmp_path, INSTANCE) as journal:
        assert [block.last_txid for block in journal.iter_blocks()] == [1]
        assert journal.tail_report is not None
        assert (journal.tail_report.size, journal.tail_report.open_group) == (0, 2)
        assert journal.read_last_txid() == 1
        assert journal.find_end().offset == whole
    assert [finding.id for finding in check_journal(tmp_path, INSTANCE)] == ["SOW-JRN-041"]
    with open_writer(tmp_path) as writer:
        assert writer.tail_report is not None
        assert writer.last_txid == 3
        with writer.hold_lock():
            assert writer.tail_report is None
        assert publish(writer, group([b"after"])) == [(4, 4)]
    assert contents(tmp_path) == [(1, b"before"), (4, b"after")]
    assert file.read_bytes().startswith(unfinished)
    assert problems(tmp_path) == []


def test_a_group_that_a_living_process_appends_is_no_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_locked(tmp_path, INSTANCE)
    with open_writer(tmp_path) as writer:
        with writer.hold_lock():
            writer.append_group(group([b"a", b"b"]), 1, last=False)
            assert is_locked(tmp_path, INSTANCE)
            assert problems(tmp_path) == []

            def finished(directory: Path, instance: str) -> bool:
                # Between the end of reading and the check.
                writer.append_group(group([b"c"]), 1)
                return False

            monkeypatch.setattr("sowctl.journal.check.is_locked", finished)
            assert problems(tmp_path) == []
            monkeypatch.undo()
        assert not is_locked(tmp_path, INSTANCE)
    assert problems(tmp_path) == []


def test_a_torn_tail_is_kept_beside_and_cut(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"before"]))
    file = tmp_path / f"{INSTANCE}.0000000000.journal"
    good = file.read_bytes()
    for number, rest in enumerate((b"torn", b"\0" * 5000, os.urandom(700)), 1):
        good = file.read_bytes()
        file.write_bytes(good + rest)
        with open_writer(tmp_path) as writer:
            assert writer.tail_report is not None
            assert writer.tail_report.size == len(rest)
            publish(writer, group([b"after"]))
        assert (tmp_path / f"{file.name}.torn-{number}").read_bytes() == rest
        assert file.read_bytes().startswith(good)
    assert len(contents(tmp_path)) == 4
    assert problems(tmp_path) == []


def test_an_acknowledged_end_is_never_cut(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"one"]))
        publish(writer, group([b"two"]))
    file = tmp_path / f"{INSTANCE}.0000000000.journal"
    damaged = bytearray(file.read_bytes())
    damaged[-2] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(DamageError) as caught:
        open_writer(tmp_path, acknowledged=2)
    assert caught.value.facts["first_txid"] == 2
    assert file.read_bytes() == damaged
    with pytest.raises(DamageError):
        contents(tmp_path)  # the topics file knows too
    build_topics_path(tmp_path, INSTANCE).unlink()
    with pytest.raises(DamageError):
        contents(tmp_path, acknowledged=2)
    assert contents(tmp_path, acknowledged=1) == [(1, b"one")]
    file.write_bytes(damaged[: len(damaged) - 100])
    with pytest.raises(DamageError):
        open_writer(tmp_path, acknowledged=2)


def test_rolling_keeps_groups_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 3)
    with open_writer(tmp_path, journal_size=2000) as writer:
        for number in range(20):
            publish(writer, group(texts(number % 12 + 1), topic=number % 2, time=1000 + number), now=1000 + number)
        end = writer.find_end()
    with Journal.open(tmp_path, INSTANCE) as journal:
        files: dict[int, set[int]] = {}
        for block in journal.iter_blocks():
            files.setdefault(block.header.group, set()).add(block.start.number)
        assert {len(numbers) for numbers in files.values()} == {1}
        assert len(journal.list_files()) > 4
        assert journal.find_end() == end
    assert problems(tmp_path) == []


def test_a_checkpoint_spares_the_files_before(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC, journal_size=1024) as writer:
        for number in range(12):
            one = group(
                texts(4), publishers=[(5, "me")], publisher_indexes=0, sequences=sequences(10 * number, 4), topic=1
            )
            publish(writer, one, group(texts(2)))
        state = writer.find_topic_state(TRADES)
    build_topics_path(tmp_path, INSTANCE).unlink()
    files = sorted(tmp_path.glob("*.journal"))
    for path in files[:-1]:
        path.write_bytes(path.read_bytes()[:80])
    with Journal.open(tmp_path, INSTANCE) as journal:
        assert journal.find_topic_state(TRADES) == state
        assert journal.find_highest_sequence(5) == 113


def test_the_topics_file_is_written_now_and_then(tmp_path: Path) -> None:
    path = build_topics_path(tmp_path, INSTANCE)
    with open_writer(tmp_path, now=0) as writer:
        publish(writer, group([b"x"]), now=1)
        assert not path.exists()
        publish(writer, group([b"y"]), now=TOPICS_SAVE_INTERVAL_MICROS)
        first = path.read_bytes()
        publish(writer, group([b"z"]), now=TOPICS_SAVE_INTERVAL_MICROS + 1)
        assert path.read_bytes() == first
    assert path.read_bytes() != first


@pytest.mark.parametrize("point", ["file.open", "file.rename"])
def test_the_hint_of_a_full_disk_tells_whether_anything_was_written(tmp_path: Path, point: str) -> None:
    with open_writer(tmp_path) as writer:
        publish(writer, group([b"before"]))
    for begins in (False, True):
        seam = FailAt(10**9, errno.ENOSPC, forever=True, points=(point,))
        writer = open_writer(tmp_path, seam)
        with writer.hold_lock(), pytest.raises(StorageError) as caught:
            if begins:
                writer.append_group(group([b"own"]), 1000)
                writer.sync()
            seam.n = seam.count + 1
            writer.begin_next_file(2000)
        writer.close()
        assert ("not on disk" in str(caught.value.hint)) is begins


def test_a_failed_sync_poisons_the_writer_and_takes_back(tmp_path: Path) -> None:
    seam = FailAt(10**9, errno.EIO, points=("file.sync",))
    writer = open_writer(tmp_path, seam)
    publish(writer, group([b"kept"]))
    seam.n = seam.count + 1
    with pytest.raises(StorageError) as caught:
        publish(writer, group([b"lost"]))
    assert caught.value.code == "SOW-JRN-021"
    assert "txid 1 " in caught.value.message
    assert caught.value.facts == {"acknowledged_txid": 1, "cut_back": True}
    for action in (lambda: publish(writer, group([b"more"])), lambda: writer.hold_lock().__enter__()):
        with pytest.raises(StorageError) as again:
            action()
        assert again.value.code == "SOW-JRN-022"
    writer.close()
    assert contents(tmp_path) == [(1, b"kept")]
    with open_writer(tmp_path) as writer:
        assert publish(writer, group([b"next"])) == [(2, 2)]


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EDQUOT, "quota"), (errno.EACCES, "Permission denied")]
)
def test_errors_in_plain_words(tmp_path: Path, code: int, words: str) -> None:
    with open_writer(tmp_path, FailAt(1, code, points=("file.write",))) if False else open_writer(tmp_path):
        pass
    with (
        pytest.raises(StorageError, match=words) as caught,
        open_writer(tmp_path, FailAt(1, code, points=("file.write",))) as writer,
    ):
        publish(writer, group([b"x"]))
    assert caught.value.exit_status == 6


def test_an_interrupt_in_the_middle_of_a_write_is_taken_back(tmp_path: Path) -> None:
    class Interrupt(CountingSeam):
        armed = False

        def reached(self, number, point, function, args, kwargs):  # type: ignore[no-untyped-def]
            result = function(*args, **kwargs)
            if self.armed and point == "file.write":
                raise KeyboardInterrupt
            return result

    seam = Interrupt()
    with open_writer(tmp_path, seam) as writer:
        publish(writer, group([b"kept"]))
        seam.armed = True
        with pytest.raises(KeyboardInterrupt):
            publish(writer, group([b"half"]))
        seam.armed = False
        assert contents(tmp_path) == [(1, b"kept")]
        assert publish(writer, group([b"next"])) == [(2, 2)]
    assert contents(tmp_path) == [(1, b"kept"), (2, b"next")]
    assert problems(tmp_path) == []

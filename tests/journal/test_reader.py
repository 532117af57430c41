"""Reading: ranges, topics, positions, files, a missing topics file, and modules that reading never imports."""

from __future__ import annotations

import random
import subprocess
import sys
from array import array
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sowctl.errors import DamageError, MissingError, StorageError
from sowctl.journal.block import Block, Position
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from tests.support.faults import FailAt
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
    sequences,
    texts,
)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of several files: orders and trades alternate, groups of 1 to 9 entries, blocks of at most 4."""
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 4)
    monkeypatch.setattr(JOURNAL_LIMITS, "mark_interval_bytes", 700)
    directory = tmp_path / "log"
    with open_writer(directory, NO_SYNC, journal_size=4000) as writer:
        for number in range(40):
            count = number % 9 + 1
            one = group(
                texts(count, tag=f"g{number}-"),
                topic=number % 2,
                time=1000 + number,
                publishers=[(11, "alice"), (12, "bob")],
                publisher_indexes=number % 2,
                sequences=sequences(100 * number, count),
            )
            publish(writer, one, now=1000 + number)
    return directory


def spans(blocks: object) -> list[tuple[int, int]]:
    return [(block.first_txid, block.last_txid) for block in blocks]  # type: ignore[attr-defined]


def test_files_follow_each_other(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal:
        files = journal.list_files()
        assert len(files) > 3
        assert journal.first_txid == files[0].first_txid == 1
        for before, after in pairwise(files):
            assert (before.number + 1, before.last_txid) == (after.number, after.first_txid - 1)
            assert before.size <= 4000
        assert files[-1].last_txid is None
        assert journal.lineage == LINEAGE
        assert journal.read_last_txid() == sum(number % 9 + 1 for number in range(40))


def test_every_range_gives_the_blocks_that_touch_it(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal:
        everything = list(journal.iter_blocks())
        total = everything[-1].last_txid
        assert [txid for block in everything for txid in range(block.first_txid, block.last_txid + 1)] == list(
            range(1, total + 1)
        )
        for after in range(0, total + 2, 3):
            expected = [span for span in spans(everything) if span[1] > after]
            assert spans(journal.iter_blocks(after=after)) == expected
            until = after + 20
            assert spans(journal.iter_blocks(after, until)) == [span for span in expected if span[0] <= until]
            for topic in (ORDERS, TRADES, ("other", "json")):
                wanted = [
                    (b.first_txid, b.last_txid) for b in everything if topic in b.topic_refs and b.last_txid > after
                ]
                assert spans(journal.iter_blocks(after, topic=topic)) == wanted


def test_every_position_between_groups_is_a_place_to_go_on(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal:
        everything = list(journal.iter_blocks())
        for index, block in enumerate(everything):
            assert spans(journal.iter_blocks(start=block.start)) == spans(everything[index:])
            assert spans(journal.iter_blocks(start=block.end)) == spans(everything[index + 1 :])
        assert spans(journal.iter_blocks(start=journal.find_end())) == []


def test_a_wrong_position_only_tells_after_which_txid(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal:
        everything = spans(journal.iter_blocks())
        for wrong in (Position(0, 91, 5), Position(99, 80, 5), Position(0, 10**9, 5), Position(1, 0, 5)):
            assert spans(journal.iter_blocks(start=wrong)) == [span for span in everything if span[1] > 5]


def test_topic_states_and_sequences(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal:
        entries = [entry for block in journal.iter_blocks() for entry in block.iter_entries()]
        for topic in (ORDERS, TRADES):
            last = [entry for entry in entries if entry.topic == topic][-1]
            state = journal.find_topic_state(topic)
            assert (state.last_txid, state.last_time) == (last.txid, last.time)
            assert state.position is not None
            found = [block for block in journal.iter_blocks(start=state.position) if topic in block.topic_refs]
            assert found[-1].last_txid == last.txid
        assert set(journal.read_topic_states()) == {ORDERS, TRADES}
        assert journal.find_topic_state(("other", "json")).position is None
        for publisher in (11, 12):
            assert journal.find_highest_sequence(publisher) == max(
                e.sequence for e in entries if e.publisher == publisher
            )
        assert journal.find_highest_sequence(13) == 0


def facts(directory: Path) -> tuple:
    with Journal.open(directory, INSTANCE) as journal:
        return (
            journal.read_topic_states(),
            journal.find_end(),
            journal.find_highest_sequence(11),
            journal.find_highest_sequence(12),
            spans(journal.iter_blocks(after=40, topic=TRADES)),
            spans(journal.iter_blocks(after=journal.read_last_txid() - 9)),
        )


def test_the_topics_file_may_be_lost_scribbled_or_old(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_topics_path(directory, INSTANCE)
    right = path.read_bytes()
    expected = facts(directory)
    path.unlink()
    assert facts(directory) == expected
    rng = random.Random(4)
    for _ in range(60):
        wrong = bytearray(right)
        wrong[rng.randrange(len(wrong))] ^= 1 << rng.randrange(8)
        path.write_bytes(wrong)
        assert facts(directory) == expected
    for size in range(0, len(right), 7):
        path.write_bytes(right[:size])
        assert facts(directory) == expected
    path.write_bytes(right)
    with open_writer(directory, NO_SYNC) as writer:
        publish(writer, group([b"new"], topic=1, time=2000))
        old = path.read_bytes()
        assert old == right
    newest = facts(directory)
    path.write_bytes(right)
    assert facts(directory) == newest != expected


def test_a_topics_file_of_another_history_is_not_believed(directory: Path) -> None:
    path = build_topics_path(directory, INSTANCE)
    expected = facts(directory)
    with open_writer(directory, NO_SYNC) as writer:
        publish(writer, group([b"x" * 300], topic=1, time=9999))
        end = writer.find_end()
    later = path.read_bytes()
    last = sorted(directory.glob("*.journal"))[-1]
    with last.open("r+b") as file:
        file.truncate(expected[1].offset)
    with pytest.raises(DamageError):
        facts(directory)
    path.unlink()
    assert facts(directory) == expected
    with open_writer(directory, NO_SYNC) as writer:
        publish(writer, group([b"y" * 299], topic=0, time=5000))
        assert writer.find_end() == end
    path.write_bytes(later)
    with Journal.open(directory, INSTANCE) as journal:
        assert journal.find_topic_state(ORDERS).last_time == 5000
        assert journal.find_topic_state(TRADES) == expected[0][TRADES]


def test_an_idle_topic_costs_no_walk(directory: Path) -> None:
    seam = FailAt(10**9, 5, points=("file.read",))
    with Journal.open(directory, INSTANCE, seam=seam) as journal:
        state = journal.find_topic_state(ORDERS)
        reads = seam.count
        assert reads < 6
        assert list(journal.iter_blocks(after=state.last_txid, topic=ORDERS)) == []
        assert seam.count - reads < 4


def test_a_reader_sees_what_is_appended_while_it_is_open(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal, open_writer(directory, NO_SYNC, journal_size=1500) as writer:
        position = journal.find_end()
        for number in range(12):
            publish(writer, group(texts(5, tag=f"n{number}"), time=3000))
            found = list(journal.iter_blocks(start=position))
            assert sum(len(block) for block in found) == 5
            position = journal.find_end()
            assert position == writer.find_end()
        assert len(journal.list_files()) > 6


def test_a_walk_survives_a_roll_in_the_middle(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal, open_writer(directory, NO_SYNC, journal_size=1100) as writer:
        walk = journal.iter_blocks(after=journal.read_last_txid() - 20)
        first = next(walk)
        for number in range(6):
            publish(writer, group(texts(9, tag=f"n{number}"), time=3000))
            assert journal.read_last_txid() == writer.last_txid
        rest = list(walk)
        assert spans([first, *rest]) == spans(journal.iter_blocks(after=first.first_txid - 1, until=rest[-1].last_txid))


def test_blocks_outlive_the_journal(directory: Path) -> None:
    with Journal.open(directory, INSTANCE) as journal:
        blocks = list(journal.iter_blocks())
    assert sum(len(block.list_payloads()) for block in blocks) == blocks[-1].last_txid


def test_no_journal_is_missing(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        assert not Journal.exists(place, INSTANCE)
        with pytest.raises(MissingError) as caught:
            Journal.open(place, INSTANCE)
        assert caught.value.code == "SOW-JRN-001"
    (tmp_path / f".{INSTANCE}.0000000000.journal.new").write_bytes(b"unfinished")
    assert not Journal.exists(tmp_path, INSTANCE)


def test_reading_changes_no_byte(directory: Path) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}
    with Journal.open(directory, INSTANCE) as journal:
        list(journal.iter_blocks())
        journal.read_topic_states()
        journal.list_files()
    assert before == {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


@pytest.mark.parametrize(
    "ask",
    [
        lambda journal, last: journal.first_txid,
        lambda journal, last: journal.reaches_txid(last),
        lambda journal, last: journal.covers_topic_after(ORDERS, last),
        lambda journal, last: journal.covers_topic(ORDERS),
    ],
    ids=["first_txid", "reaches", "goes_on_from", "covers"],
)
def test_questions_about_the_past_while_the_oldest_files_are_removed(
    directory: Path, ask: Callable[[Journal, int], object]
) -> None:
    oldest = sorted(directory.glob("*.journal"))[:2]
    with Journal.open(directory, INSTANCE) as journal:
        last = journal.read_last_txid()
        for path in oldest:
            path.unlink()
        with Journal.open(directory, INSTANCE) as fresh:
            assert ask(journal, last) == ask(fresh, last)


@pytest.mark.parametrize("victim", [0, 1, -1])
def test_a_missing_file_is_damage_unless_it_is_at_the_front(directory: Path, victim: int) -> None:
    files = sorted(directory.glob("*.journal"))
    total = len(contents(directory))
    files[victim].unlink()
    if victim == 0:
        with Journal.open(directory, INSTANCE) as journal:
            first = journal.first_txid
            assert first > 1
            assert [entry.txid for b in journal.iter_blocks() for entry in b.iter_entries()] == list(
                range(first, total + 1)
            )
    elif victim == 1:
        with pytest.raises(DamageError) as caught:
            contents(directory)
        assert caught.value.code == "SOW-JRN-006"
    else:
        with pytest.raises(DamageError) as caught:
            contents(directory)
        assert caught.value.code == "SOW-JRN-013"
        build_topics_path(directory, INSTANCE).unlink()
        assert len(contents(directory)) < total
        with pytest.raises(DamageError) as caught:
            contents(directory, acknowledged=total)
        assert caught.value.code == "SOW-JRN-013"


def test_files_that_were_swapped_or_come_from_elsewhere_are_damage(directory: Path, tmp_path: Path) -> None:
    files = sorted(directory.glob("*.journal"))
    first, second = files[0].read_bytes(), files[1].read_bytes()
    files[0].write_bytes(second)
    files[1].write_bytes(first)
    with pytest.raises(DamageError) as caught:
        contents(directory)
    assert caught.value.code == "SOW-JRN-005"
    with open_writer(tmp_path / "other", NO_SYNC, lineage=b"o" * 16) as writer:
        publish(writer, group([b"foreign"]))
    files[1].write_bytes(second)
    files[0].write_bytes((tmp_path / "other" / files[0].name).read_bytes())
    with pytest.raises(DamageError) as caught:
        contents(directory)
    assert caught.value.code == "SOW-JRN-005"


def test_a_file_cut_at_a_block_is_a_gap(directory: Path) -> None:
    files = sorted(directory.glob("*.journal"))
    with Journal.open(directory, INSTANCE) as journal:
        second = [block for block in journal.iter_blocks() if block.start.number == 1]
        total = journal.read_last_txid()
    group_end = [block for block in second if block.header.is_last][-2].end
    with files[1].open("r+b") as file:
        file.truncate(group_end.offset)
    with pytest.raises(DamageError) as caught:
        contents(directory)
    assert caught.value.code == "SOW-JRN-011"
    with Journal.open(directory, INSTANCE) as journal:
        items = list(journal.iter_blocks(resync=True))
    (damage,) = [item for item in items if not isinstance(item, Block)]
    assert damage.first_txid == group_end.txid + 1
    kept = sum(len(item) for item in items if isinstance(item, Block))
    assert kept == total - (damage.last_txid - damage.first_txid + 1)


@pytest.mark.parametrize("code", [5, 13])
def test_an_unreadable_disk_is_a_storage_error(directory: Path, code: int) -> None:
    for n in range(1, 12):
        with pytest.raises(StorageError) as caught, Journal.open(directory, INSTANCE, seam=FailAt(n, code)) as journal:
            list(journal.iter_blocks())
            journal.refresh_state()
        assert caught.value.code == "SOW-JRN-020"


def test_quiet_commands_import_neither_zstandard_nor_numpy(directory: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from sowctl.journal.reader import Journal\n"
        f"journal = Journal.open(pathlib.Path({str(directory)!r}), {INSTANCE!r})\n"
        "state = journal.find_topic_state(('orders', 'json'))\n"
        "assert list(journal.iter_blocks(after=state.last_txid, topic=('orders', 'json'))) == []\n"
        "print(sorted({'zstandard', 'numpy', 'xxhash', 'lmdb'} & set(sys.modules)))\n"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root)
    assert result.stdout.strip() == "[]"


def test_times_and_topics_of_mixed_blocks(tmp_path: Path) -> None:
    directory = tmp_path / "mixed"
    with open_writer(directory, NO_SYNC) as writer:
        mixed = group(texts(6), topic=[0, 1, 1, 0, 1, 0], times=array("q", [1, 2, 3, 4, 5, 6]))
        publish(writer, mixed)
        assert writer.find_topic_state(TRADES).last_time == 5
        assert writer.find_topic_state(ORDERS).last_txid == 6
    with Journal.open(directory, INSTANCE) as journal:
        (block,) = journal.iter_blocks(topic=TRADES)
        assert [entry.topic for entry in block.iter_entries()] == [ORDERS, TRADES, TRADES, ORDERS, TRADES, ORDERS]
        assert (block.header.earliest, block.header.latest) == (1, 6)

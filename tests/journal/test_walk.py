"""The classification of damage, case by case, and what a salvage keeps of a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.errors import DamageError
from sowctl.journal.block import Block, Damage
from sowctl.journal.files import JournalFile
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from sowctl.journal.walk import Walker
from sowctl.seam import SEAM
from tests.support.damage import overwrite
from tests.support.journals import INSTANCE, NO_SYNC, contents, group, open_writer, publish, texts


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 4)
    monkeypatch.setattr(JOURNAL_LIMITS, "min_compressed_bytes", 1 << 30)


def journal_path(directory: Path, number: int = 0) -> Path:
    return directory / f"{INSTANCE}.{number:010d}.journal"


def forget_topics(directory: Path) -> None:
    build_topics_path(directory, INSTANCE).unlink(missing_ok=True)


def spans(directory: Path) -> list[tuple[int, int]]:
    """Return (start, end) of every block of the first file, including aborted ones."""
    file = JournalFile(journal_path(directory), 0, SEAM)
    walker = Walker(file, file.header.blocks_offset, file.header.first_txid - 1, is_last=False)
    found = [(ref.offset, ref.end_offset) for item in walker.iter_groups() if isinstance(item, list) for ref in item]
    file.close()
    return found


def salvage(directory: Path, acknowledged: int = 0) -> tuple[list[int], list[Damage]]:
    txids: list[int] = []
    damages: list[Damage] = []
    with Journal.open(directory, INSTANCE, acknowledged=acknowledged) as journal:
        for item in journal.iter_blocks(resync=True):
            if isinstance(item, Block):
                txids += range(item.first_txid, item.last_txid + 1)
            else:
                damages.append(item)
    return txids, damages


def three_groups(directory: Path, middle: int = 12) -> list[tuple[int, int]]:
    with open_writer(directory, NO_SYNC) as writer:
        for size in (2, middle, 3):
            publish(writer, group(texts(size, size=300)))
    forget_topics(directory)
    return spans(directory)


@pytest.mark.parametrize(("part", "lost"), [("header", range(7, 11)), ("body", range(7, 11))])
def test_one_block_is_lost_of_a_group_in_the_middle(tmp_path: Path, part: str, lost: range) -> None:
    places = three_groups(tmp_path)
    start, end = places[2]
    overwrite(journal_path(tmp_path), start + 50 if part == "header" else end - 9, b"~")
    with pytest.raises(DamageError) as caught:
        contents(tmp_path)
    assert (caught.value.facts["first_txid"], caught.value.facts["last_txid"]) == (lost[0], lost[-1])
    txids, (damage,) = salvage(tmp_path)
    assert txids == [txid for txid in range(1, 18) if txid not in lost]
    assert (damage.offset, damage.size) == (start, end - start)


def test_a_group_whose_end_is_damaged_is_saved_as_far_as_it_goes(tmp_path: Path) -> None:
    places = three_groups(tmp_path)
    overwrite(journal_path(tmp_path), places[3][0], b"~")
    txids, (damage,) = salvage(tmp_path)
    assert txids == [*range(1, 11), *range(15, 18)]
    assert (damage.first_txid, damage.last_txid) == (11, 14)


def test_a_damaged_abort_marker_does_not_bring_its_group_back(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC) as writer:
        publish(writer, group(texts(2)))
        with writer.hold_lock():
            writer.append_group(group(texts(6, tag="never")), 1, last=False)
            writer.abort_group()
        publish(writer, group(texts(2)))
    forget_topics(tmp_path)
    marker = spans(tmp_path)[3]
    assert marker[1] - marker[0] == 104
    overwrite(journal_path(tmp_path), marker[0] + 20, b"~")
    with pytest.raises(DamageError):
        contents(tmp_path)
    txids, (damage,) = salvage(tmp_path)
    assert txids == [1, 2, 9, 10]
    assert (damage.offset, damage.size) == (marker[0], 104)


def test_a_damaged_block_before_an_abort_marker_saves_nothing(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC) as writer:
        publish(writer, group(texts(2)))
        with writer.hold_lock():
            writer.append_group(group(texts(6, tag="never")), 1, last=False)
            writer.abort_group()
        publish(writer, group(texts(2)))
    forget_topics(tmp_path)
    overwrite(journal_path(tmp_path), spans(tmp_path)[2][0] + 20, b"~")
    txids, (damage,) = salvage(tmp_path)
    assert txids == [1, 2, 9, 10]
    assert (damage.first_txid, damage.last_txid) == (7, 8)


def test_an_earlier_file_that_ends_within_a_group_is_damage(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC, journal_size=3500) as writer:
        publish(writer, group(texts(2)))
        publish(writer, group(texts(12, size=100)))
        publish(writer, group(texts(12, size=100)))
    forget_topics(tmp_path)
    first = journal_path(tmp_path)
    places = spans(tmp_path)
    first.write_bytes(first.read_bytes()[: places[1][1]])
    with pytest.raises(DamageError) as caught:
        contents(tmp_path)
    assert caught.value.code == "SOW-JRN-012"
    txids, (damage, gap) = salvage(tmp_path)
    assert (damage.error.code, gap.error.code) == ("SOW-JRN-012", "SOW-JRN-011")
    assert (gap.first_txid, gap.last_txid) == (7, 14)
    assert txids == [*range(1, 7), *range(15, 27)]


def test_an_unfinished_group_that_a_store_has_applied_is_damage(tmp_path: Path) -> None:
    places = three_groups(tmp_path)
    path = journal_path(tmp_path)
    path.write_bytes(path.read_bytes()[: places[2][1]])
    assert [txid for txid, _ in contents(tmp_path, acknowledged=2)] == [1, 2]
    for acknowledged in (3, 6, 14, 17):
        with pytest.raises(DamageError) as caught:
            contents(tmp_path, acknowledged)
        assert caught.value.code == "SOW-JRN-013"
        txids, (damage,) = salvage(tmp_path, acknowledged)
        assert txids == list(range(1, 11))
        assert damage.error.code == "SOW-JRN-013"


def test_a_broken_block_of_a_group_that_never_ended_is_a_tear(tmp_path: Path) -> None:
    places = three_groups(tmp_path)
    path = journal_path(tmp_path)
    path.write_bytes(path.read_bytes()[: places[2][1]])
    overwrite(path, places[1][1] - 5, b"~")
    with Journal.open(tmp_path, INSTANCE) as journal:
        assert [block.last_txid for block in journal.iter_blocks()] == [2]
        assert journal.tail_report is not None
        assert journal.tail_report.offset == places[1][0]
    with open_writer(tmp_path, NO_SYNC) as writer:
        assert publish(writer, group([b"next"])) == [(3, 3)]


def test_the_synced_txid_of_a_later_block_makes_it_damage(tmp_path: Path) -> None:
    """Two groups with one sync: the first may be missing. With a sync between them it may not."""
    for name, together in (("one", True), ("two", False)):
        directory = tmp_path / name
        with open_writer(directory, NO_SYNC) as writer:
            publish(writer, group(texts(2)))
            groups = [group(texts(4, size=400)), group(texts(4, size=400))]
            if together:
                publish(writer, *groups)
            else:
                publish(writer, groups[0])
                publish(writer, groups[1])
        forget_topics(directory)
        start, end = spans(directory)[1]
        overwrite(journal_path(directory), start, bytes(end - start))
        if together:
            assert [txid for txid, _ in contents(directory)] == [1, 2]
        else:
            with pytest.raises(DamageError):
                contents(directory)
        overwrite(journal_path(directory), start, b"\xff" * (end - start))
        with pytest.raises(DamageError):
            contents(directory)


def test_a_reader_that_meets_a_moving_end_looks_again(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC) as writer:
        publish(writer, group(texts(2)))
        path = journal_path(tmp_path)
        small = path.read_bytes()
        publish(writer, group(texts(9, size=200)))
        forget_topics(tmp_path)
        whole = path.read_bytes()
        path.write_bytes(whole[:-200])
        file = JournalFile(path, 0, SEAM)
        walker = Walker(file, file.header.blocks_offset, 0, is_last=True)
        walk = walker.iter_groups()
        first = next(walk)
        assert isinstance(first, list)
        path.write_bytes(whole)
        second = next(walk)
        assert isinstance(second, list)
        assert second[-1].header.last_txid == 11
        assert list(walk) == []
        assert walker.tail is None
        file.close()
        path.write_bytes(small)


def test_blocks_behind_the_size_that_a_walk_knows_prove_nothing(tmp_path: Path) -> None:
    """A writer keeps appending: the last read ended within a block, and now intact blocks follow it."""
    with open_writer(tmp_path, NO_SYNC) as writer:
        for size in (2, 4, 4):
            publish(writer, group(texts(size, size=200)))
    forget_topics(tmp_path)
    places = spans(tmp_path)
    file = JournalFile(journal_path(tmp_path), 0, SEAM)
    file.size = places[1][1] - 100
    walker = Walker(file, file.header.blocks_offset, 0, is_last=True)
    walker._retries = 0
    assert [item[-1].header.last_txid for item in walker.iter_groups() if isinstance(item, list)] == [2]
    assert walker.tail is not None
    assert (walker.tail.offset, walker.tail.size) == (places[1][0], file.size - places[1][0])
    file.close()


def test_the_last_witness_is_the_topics_file(tmp_path: Path) -> None:
    with open_writer(tmp_path, NO_SYNC) as writer:
        publish(writer, group(texts(2)))
        publish(writer, group(texts(3)))
    end = spans(tmp_path)[-1][1]
    overwrite(journal_path(tmp_path), end - 3, b"~")
    with pytest.raises(DamageError):
        contents(tmp_path)
    with pytest.raises(DamageError):
        open_writer(tmp_path)
    forget_topics(tmp_path)
    assert [txid for txid, _ in contents(tmp_path)] == [1, 2]

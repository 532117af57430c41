"""Repair of a journal: valid entries are kept, gaps are reported, whatever was damaged or fails."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sowctl.checksum import crc32
from sowctl.errors import DamageError, StorageError
from sowctl.findings import Level
from sowctl.journal.block import Gap
from sowctl.journal.check import check_journal
from sowctl.journal.files import JournalFile
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.maintenance.repair import RepairPlan, plan_repair, repair_file
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from sowctl.seam import SEAM, Seam
from tests.support.crashstates import Recorder
from tests.support.faults import CountingSeam, FailAt, died_at_call
from tests.support.journals import INSTANCE, NO_SYNC, group, open_writer, publish, sequences, texts

Entries = dict[int, bytes]


@pytest.fixture(autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JOURNAL_LIMITS, "max_block_entries", 3)
        yield


def build(directory: Path, rng: random.Random, groups: int = 14) -> Entries:
    """Write groups of one to ten entries in blocks of three, some aborted, to several files; return the visible
    entries."""
    with open_writer(directory, NO_SYNC, journal_size=rng.choice([1500, 4000])) as writer:
        for number in range(groups):
            size = rng.randrange(1, 11)
            one = group(
                texts(size, tag=f"g{number}-"),
                topic=number % 2,
                publishers=[(5, "me")],
                publisher_indexes=0,
                sequences=sequences(number * 100, size),
            )
            if rng.random() < 0.2:
                with writer.hold_lock():
                    writer.append_group(one, 1000, last=False)  # aborted when the lock goes
            else:
                publish(writer, one)
    return read(directory)[0]


def read(directory: Path, acknowledged: int = 0) -> tuple[Entries, list[Gap]]:
    """Return the entries that a reader sees, and the gaps that are reported to it."""
    gaps: list[Gap] = []
    with Journal.open(directory, INSTANCE, acknowledged=acknowledged) as journal:
        journal.on_gap = gaps.append
        found = {entry.txid: entry.payload for block in journal.iter_blocks() for entry in block.iter_entries()}
        journal.read_last_txid()
    return found, gaps


def blocks(directory: Path) -> list[tuple[Path, int, int, int]]:
    """Return file, offset, end and last txid of every block of a valid journal, including markers."""
    found = []
    for path in sorted(directory.glob("*.journal")):
        with closing(JournalFile(path, int(path.name[-18:-8]), SEAM)) as file:
            at = file.header.blocks_offset
            while (ref := file.find_block_at(at)) is not None:
                found.append((path, ref.offset, ref.end_offset, ref.header.last_txid))
                at = ref.end_offset
    return found


def receipts_named(directory: Path) -> list[str]:
    """Return the receipts named by gaps in the files, including those of aborted groups."""
    found = []
    for path in sorted(directory.glob("*.journal")):
        with closing(JournalFile(path, int(path.name[-18:-8]), SEAM)) as file:
            at = file.header.blocks_offset
            while (ref := file.find_block_at(at)) is not None:
                found += [ref.read_gap().receipt] if ref.header.is_gap else []
                at = ref.end_offset
    return sorted(found)


def repaired(directory: Path, acknowledged: int, seam: Seam = SEAM) -> RepairPlan:
    found = plan_repair(directory, INSTANCE, seam, acknowledged)
    for path, cuts in found.cuts.items():
        repair_file(path, cuts, seam, 5)
    return found


def hurt(directory: Path, rng: random.Random, places: list[tuple[Path, int, int, int]]) -> set[int]:
    """Damage some blocks: a bit, a header, several in a row, the end of a file; return the indexes of damaged
    blocks."""
    gone: set[int] = set()
    for _ in range(rng.randrange(1, 4)):
        index = rng.randrange(len(places))
        path, start, end, _ = places[index]
        content = bytearray(path.read_bytes())
        if len(content) < end:
            continue
        kind = rng.choice(["bit", "header", "row", "end", "zeros"])
        if kind == "bit":
            content[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
            gone.add(index)
        elif kind == "header":
            content[start : start + 104] = rng.randbytes(104)
            gone.add(index)
        elif kind == "zeros":
            content[start:end] = bytes(end - start)
            gone.add(index)
        elif kind == "row":
            row = [at for at, place in enumerate(places) if place[0] == path and at >= index][:4]
            last = min(places[row[-1]][2], len(content))
            content[start + 3 : last - 1] = rng.randbytes(last - start - 4)
            gone.update(row)
        else:
            cut = rng.randrange(start, end)
            del content[cut:]
            gone.update(at for at, place in enumerate(places) if place[0] == path and place[2] > cut)
        path.write_bytes(content)
    return gone


@pytest.mark.parametrize("number", range(60))
def test_what_is_sound_stays_and_what_is_missing_is_named(tmp_path: Path, seed: int, number: int) -> None:
    rng = random.Random(seed * 1000 + number)
    log = tmp_path / "log"
    whole = build(log, rng)
    places = blocks(log)
    last = places[-1][3]
    kept = {path: path.read_bytes() for path in log.glob("*.journal")}
    if rng.random() < 0.5:
        build_topics_path(log, INSTANCE).unlink()
    gone = hurt(log, rng, places)
    intact = {at: place for at, place in enumerate(places) if at not in gone}
    found = repaired(log, last)
    problem = f"seed {seed}, {number}: {found}"
    assert found.left == [] and found.tail is None, problem
    after, gaps = read(log, last)
    # The last block of a group decides whether it was committed. If it is lost together with entries, the group counts
    # as committed, as for every reader that skips damage.
    unsure = {txid for group, marker in aborted(kept, places) if marker in gone for txid in group}
    assert {txid for txid in after if txid not in whole} <= unsure, problem
    after_known = {txid: payload for txid, payload in after.items() if txid in whole}
    assert after_known.items() <= whole.items(), problem
    missing = whole.keys() - after.keys()
    named = {txid for gap in gaps for txid in range(gap.first_txid, gap.last_txid + 1)}
    assert missing <= named and not named & after.keys(), problem
    # Every byte of an intact block is still at its offset.
    for path, start, end, _ in intact.values():
        assert path.read_bytes()[start:end] == kept[path][start:end], problem
    # The entries of intact blocks are still readable if they were readable before.
    there = {txid for path, start, end, txid in intact.values() for txid in _txids(kept, path, start)}
    assert there & whole.keys() <= after.keys(), problem
    findings = [one for one in check_journal(log, INSTANCE, acknowledged=last) if one.level > Level.INFO]
    assert {one.id for one in findings} <= {"SOW-JRN-071"}, (problem, findings)
    assert len(findings) >= len(gaps)
    assert plan_repair(log, INSTANCE, SEAM, last).cuts == {}, problem
    for receipt in log.glob("*.cut-*"):
        line, _, cut = receipt.read_bytes().partition(b"\n")
        facts = json.loads(line)
        assert (len(cut), crc32(cut)) == (facts["size"], facts["crc"])
    # No txid is assigned twice.
    with open_writer(log, NO_SYNC, acknowledged=last) as writer:
        ((first, _),) = publish(writer, group([b"next"], time=5000))
    assert first == last + 1, problem
    assert read(log, last)[0] == after | {first: b"next"}, problem


def aborted(kept: dict[Path, bytes], places: list[tuple[Path, int, int, int]]) -> list[tuple[range, int]]:
    """Return the txids of every aborted group, with the index of the block that marks it."""
    found = []
    for index, (path, start, _, last) in enumerate(places):
        raw = kept[path][start : start + 104]
        if int.from_bytes(raw[10:12], "little") & 2:
            found.append((range(int.from_bytes(raw[16:24], "little"), last + 1), index))
    return found


def _txids(kept: dict[Path, bytes], path: Path, start: int) -> range:
    """Return the txids of the block at an offset of a file before the damage."""
    raw = kept[path][start : start + 104]
    count, first = int.from_bytes(raw[12:16], "little"), int.from_bytes(raw[24:32], "little")
    return range(first, first + count)


def test_a_lost_end_becomes_a_gap(tmp_path: Path) -> None:
    log = tmp_path / "log"
    build(log, random.Random(3))
    with open_writer(log, NO_SYNC) as writer:
        publish(writer, group(texts(2), time=3000))
    whole = read(log)[0]
    path, start, _, last = blocks(log)[-1]
    path.write_bytes(path.read_bytes()[:start])
    with pytest.raises(DamageError):
        read(log, last)
    repaired(log, last)
    after, gaps = read(log, last)
    assert [gap.last_txid for gap in gaps] == [last]
    assert whole.keys() - after.keys() == set(range(gaps[0].first_txid, last + 1)) & whole.keys()


def test_a_torn_tail_is_left_to_the_writer(tmp_path: Path) -> None:
    log = tmp_path / "log"
    build(log, random.Random(4))
    build_topics_path(log, INSTANCE).unlink()
    path, start, end, _ = blocks(log)[-1]
    path.write_bytes(path.read_bytes()[: end - 3])
    found = plan_repair(log, INSTANCE, SEAM, 0)
    assert found.cuts == {} and found.left == []
    assert found.tail is not None and found.tail.offset <= start and found.tail.size in (0, end - 3 - start)


def test_the_receipt_knows_what_a_sound_map_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open_writer(log, NO_SYNC) as writer:
        for number in range(3):
            publish(
                writer,
                group(
                    [b"x" * 50],
                    topic=number % 2,
                    publishers=[(5, "me")],
                    publisher_indexes=0,
                    sequences=sequences(number, 1),
                ),
            )
    path, _, end, _ = blocks(log)[1]
    content = bytearray(path.read_bytes())
    content[end - 2] ^= 1
    path.write_bytes(content)
    repaired(log, 3)
    (receipt,) = log.glob("*.cut-*")
    facts = json.loads(receipt.read_bytes().partition(b"\n")[0])
    assert (facts["first_txid"], facts["last_txid"], facts["topics"]) == (2, 2, [["trades", "fix"]])
    assert facts["publishers"] == [["me", 1]] and facts["lineage"] == bytes(range(16)).hex()
    (gap,) = read(log, 3)[1]
    assert (gap.topic_refs, gap.receipt) == ((("trades", "fix"),), receipt.name)
    # The gap is reported to readers of the affected topic, and not to readers of another one.
    for topic, told in ((("orders", "json"), 0), (("trades", "fix"), 1)):
        with Journal.open(log, INSTANCE) as journal:
            gaps: list[Gap] = []
            journal.on_gap = gaps.append
            list(journal.iter_blocks(topic=topic))
            assert len(gaps) == told
            # The sequence numbers of publishers are still known.
            assert journal.find_highest_sequence(5) == 2
            assert journal.has_block((0, gap.offset, 12345), 2)
            assert not journal.has_block((0, gap.offset, 12345), 3)


def test_what_has_no_room_for_a_gap_and_what_is_compressed_is_left(tmp_path: Path) -> None:
    import zstandard

    log = tmp_path / "log"
    build(log, random.Random(6))
    path, _, end, _ = blocks(log)[1]
    content = bytearray(path.read_bytes())
    content[end - 2] ^= 1
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.compress(bytes(content)))
    path.unlink()
    found = plan_repair(log, INSTANCE, SEAM, 0)
    assert found.cuts == {}
    assert [one.id for one in found.left] == ["SOW-JRN-010"] and "zstd -d" in (found.left[0].hint or "")


@pytest.fixture
def broken(tmp_path: Path) -> tuple[Path, Entries, int]:
    """A journal with two damaged blocks in its first file and one in its last, to be copied."""
    log = tmp_path / "kept" / "log"
    log.parent.mkdir()
    build(log, random.Random(7))
    places = blocks(log)
    chosen = [places[1], places[3], places[-2]]
    last = places[-1][3]
    for path, start, end, _ in chosen:
        content = bytearray(path.read_bytes())
        content[(start + end) // 2] ^= 8
        path.write_bytes(content)
    whole = fresh(log, tmp_path)
    repaired(whole, last)
    return log, read(whole, last)[0], last


def fresh(kept: Path, place: Path) -> Path:
    shutil.rmtree(place / "log", ignore_errors=True)
    return shutil.copytree(kept, place / "log")


def judge(log: Path, expected: Entries, last: int, problem: str) -> None:
    """Check that the journal is unchanged or repaired; a repeated repair completes, with one receipt per gap."""
    findings = {one.id for one in check_journal(log, INSTANCE, acknowledged=last) if one.level > Level.INFO}
    assert findings <= {"SOW-JRN-010", "SOW-JRN-071", "SOW-JRN-014"}, (problem, findings)
    repaired(log, last)
    assert read(log, last)[0] == expected, problem
    assert not list(log.glob(".*.new")), problem
    assert sorted(path.name for path in log.glob("*.cut-*")) == receipts_named(log), problem


def test_killed_at_every_call(broken: tuple[Path, Entries, int], tmp_path: Path, deep: bool) -> None:
    kept, expected, last = broken
    for after in (False, True):
        # In the short form every third call: before the first, fourth, ... call, and after the second, fifth, ...
        n = 0 if deep else after - 2
        while True:
            n += 1 if deep else 3
            log = fresh(kept, tmp_path)
            work = lambda seam, log=log: repaired(log, last, seam)  # noqa: E731
            if not died_at_call(n, work, after=after):
                break
            judge(log, expected, last, f"killed at call {n}, {after=}")
        assert n > 40


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("forever", [False, True])
def test_every_call_fails(broken: tuple[Path, Entries, int], tmp_path: Path, code: int, forever: bool) -> None:
    kept, expected, last = broken
    log = fresh(kept, tmp_path)
    counting = CountingSeam()
    repaired(log, last, counting)
    for n in range(1, counting.count + 1):
        log = fresh(kept, tmp_path)
        problem = f"call {n} ({counting.points[n - 1]})"
        with pytest.raises(StorageError) as caught:
            repaired(log, last, FailAt(n, code, forever))
        assert caught.value.exit_status == 6, problem
        judge(log, expected, last, problem)


def test_a_power_cut_at_every_call(broken: tuple[Path, Entries, int], tmp_path: Path) -> None:
    kept, expected, last = broken
    log = fresh(kept, tmp_path)
    recorder = Recorder(tmp_path)
    repaired(log, last, recorder)
    states = list(recorder.states())
    assert len(states) > 20
    for number, state in enumerate(states):
        place = tmp_path / "after" / str(number)
        place.parent.mkdir(exist_ok=True)
        state.materialise(place)
        repaired(place / "log", last)
        assert read(place / "log", last)[0] == expected, state.label


def test_a_reader_and_a_writer_that_have_the_file_open_go_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open_writer(log, NO_SYNC) as writer:
        for number in range(4):
            publish(writer, group([f"p{number}".encode() * 30]))
        reader = Journal.open(log, INSTANCE)
        assert reader.read_last_txid() == 4
        path, _, end, _ = blocks(log)[1]
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, b"?", end - 2)
        os.close(fd)
        repaired(log, 4)
        assert publish(writer, group([b"next"])) == [(5, 5)]
        gaps: list[Gap] = []
        reader.on_gap = gaps.append
        assert reader.read_last_txid() == 5
        assert [entry.txid for block in reader.iter_blocks() for entry in block.iter_entries()] == [1, 3, 4, 5]
        assert [gap.first_txid for gap in gaps] == [2]
        reader.close()

"""Journals of every released format version remain readable, and the current writer still produces the same bytes.

``tests/formats/v1/chained.*`` was written by :func:`write_golden`; ``golden.*``, and ``packed.*`` with compression, by
the release before blocks and files named their previous block; ``mended.*`` has gaps. To create the files of a new
format version: ``python -m tests.journal.test_golden DIRECTORY``.
"""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

import pytest

from sowctl.journal.block import Gap
from sowctl.journal.blockcodec import CODEC_NONE, CODEC_ZSTD
from sowctl.journal.check import check_journal
from sowctl.journal.entries import EntryBatch
from sowctl.journal.format import DELETE, NO_PUBLISHER, PUBLISH
from sowctl.journal.logend import NewJournal
from sowctl.journal.maintenance.repair import plan_repair, repair_file
from sowctl.journal.reader import Journal
from sowctl.journal.writer import JournalWriter
from tests.support.journals import NO_SYNC

FORMATS = Path(__file__).parents[1] / "formats"
V1 = FORMATS / "v1"
START = 1_767_225_600_000_000
LINEAGE = bytes(range(0x10, 0x20))
ORDERS, TRADES = ("orders", "json"), ("trades/fx", "nvfix")


def number_key(number: int) -> bytes:
    return (number * 0x0123_4567_89AB_CDEF % (1 << 64)).to_bytes(8, "big")


def full_group() -> EntryBatch:
    """Return a group that uses every column, with some texts absent and one empty."""
    return EntryBatch(
        topic_refs=[ORDERS, TRADES],
        publishers=[(7094790850998930143, "pubber"), (13948331409633568391, "bkmrk")],
        operations=bytes([PUBLISH, PUBLISH, DELETE, PUBLISH]),
        topic_indexes=[0, 1, 0, 1],
        keys=b"".join(map(number_key, range(1, 5))),
        checks=b"".join(map(number_key, range(11, 15))),
        times=array("q", [START, START + 1, START + 2, START + 2]),
        expirations=array("q", [0, START + 5_000_000, 0, -1]),
        publisher_indexes=array("H", [0, 1, NO_PUBLISHER, 0]),
        sequences=array("Q", [1, 2**64 - 1, 0, 2]),
        flags=array("H", [1 | 32, 2 | 32, 4, 1 | 2 | 4]),
        payloads=[b'{"id":1,"name":"M\xc3\xbcller"}', b"35=D\x0155=EUR\x01", b"", b"\x00\xff\x1b[31m"],
        user_keys=[b"one", None, None, b""],
        correlation_ids=[None, b"c-2", None, b"c-4"],
        logical_topics=[None, None, b"orders/de", b"trades/fx/eur"],
    )


def plain_group(count: int, start: int) -> EntryBatch:
    """Plain publishes to one topic."""
    return EntryBatch(
        topic_refs=[ORDERS],
        publishers=[],
        operations=bytes([PUBLISH]) * count,
        keys=b"".join(map(number_key, range(start, start + count))),
        checks=b"".join(map(number_key, range(start, start + count))),
        times=START + start,
        flags=32,
        payloads=[b'{"id":%d,"text":"%s"}' % (start + index, b"ab" * index) for index in range(count)],
    )


def write_golden(directory: Path, instance: str, codec: int, size: int) -> None:
    """Two files: all columns, an aborted group, plain groups, a roll."""
    with JournalWriter.open(
        directory,
        instance,
        seam=NO_SYNC,
        journal_size=size,
        codec=codec,
        now=START,
        new=NewJournal(LINEAGE, floor=100),
    ) as writer:
        for group in (full_group(), plain_group(3, 10)):
            with writer.hold_lock():
                writer.append_group(group, START)
        with writer.hold_lock():
            writer.append_group(plain_group(2, 20), START, last=False)
            writer.abort_group()
        for count, start in ((12, 30), (30, 50), (1, 90)):
            with writer.hold_lock():
                writer.append_group(plain_group(count, start), START + start)


GROUPS = [(101, full_group()), (105, plain_group(3, 10)), (110, plain_group(12, 30)), (122, plain_group(30, 50))]
GROUPS.append((152, plain_group(1, 90)))


@pytest.mark.parametrize("instance", ["golden", "packed", "chained"])
def test_version_1_is_read(instance: str) -> None:
    """``golden`` and ``packed`` were written before blocks named their previous block, ``chained`` after that."""
    with Journal.open(V1, instance, acknowledged=152) as journal:
        assert journal.lineage == LINEAGE
        assert [info.number for info in journal.list_files()] == [0, 1]
        assert journal.first_txid == 101
        entries = [entry for block in journal.iter_blocks() for entry in block.iter_entries()]
        assert journal.find_highest_sequence(13948331409633568391) == 2**64 - 1
        assert journal.find_topic_state(TRADES).last_txid == 104
        assert journal.read_last_txid() == 152
    expected = [(first + index, group, index) for first, group in GROUPS for index in range(len(group))]
    assert len(entries) == len(expected)
    for entry, (txid, group, index) in zip(entries, expected, strict=True):
        assert (entry.txid, entry.payload, entry.operation) == (txid, group.payloads[index], group.operations[index])
        assert (entry.key, entry.check) == (group.keys[8 * index :][:8], group.checks[8 * index :][:8])
        assert entry.time == (group.times if isinstance(group.times, int) else group.times[index])
    first, second, third, fourth = entries[:4]
    assert (first.client, second.client, third.client, fourth.client) == ("pubber", "bkmrk", None, "pubber")
    assert [entry.user_key for entry in entries[:5]] == [b"one", None, None, b"", None]
    assert [entry.correlation_id for entry in entries[:5]] == [None, b"c-2", None, b"c-4", None]
    assert [entry.logical_topic for entry in entries[:5]] == [None, None, b"orders/de", b"trades/fx/eur", None]
    assert [entry.flags for entry in entries[:5]] == [33, 34, 4, 7, 32]
    assert [entry.expiration for entry in entries[:4]] == [0, START + 5_000_000, 0, -1]
    assert [entry.sequence for entry in entries[:4]] == [1, 2**64 - 1, 0, 2]
    assert [entry.topic for entry in entries[:4]] == [ORDERS, TRADES, ORDERS, TRADES]
    assert list(check_journal(V1, instance, acknowledged=152)) == []


def test_the_writer_still_makes_the_same_bytes(tmp_path: Path) -> None:
    write_golden(tmp_path, "chained", CODEC_NONE, 4200)
    kept = {path.name: path.read_bytes() for path in V1.glob("chained.*")}
    assert len(kept) == 3
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".lock"} == kept


def write_mended(directory: Path) -> None:
    """Write ``mended``: as ``chained``, with one block with an intact map cut out (txids 105 to 107), and an unreadable
    one (110 to 121)."""
    write_golden(directory, "mended", CODEC_NONE, 4200)
    (directory / "mended.topics").unlink()
    with Journal.open(directory, "mended") as log:
        found = {block.first_txid: block for block in log.iter_blocks()}
    for txid, wrong in ((105, b"?"), (110, bytes(90))):
        block = found[txid]
        content = bytearray(block.path.read_bytes())
        at = block.end.offset - 1 if txid == 105 else block.start.offset
        content[at : at + len(wrong)] = wrong
        block.path.write_bytes(content)
    for path, cuts in plan_repair(directory, "mended", NO_SYNC, 152).cuts.items():
        repair_file(path, cuts, NO_SYNC, START)


def test_gaps_are_read_and_made_as_ever(tmp_path: Path) -> None:
    gaps: list[Gap] = []
    with Journal.open(V1, "mended", acknowledged=152) as journal:
        journal.on_gap = gaps.append
        txids = [entry.txid for block in journal.iter_blocks() for entry in block.iter_entries()]
        assert journal.read_last_txid() == 152
    assert txids == [101, 102, 103, 104, *range(122, 153)]
    assert [(gap.first_txid, gap.last_txid, gap.topic_refs) for gap in gaps] == [
        (105, 107, (ORDERS,)),
        (110, 121, None),
    ]
    assert {finding.id for finding in check_journal(V1, "mended", acknowledged=152)} == {"SOW-JRN-071"}
    write_mended(tmp_path)
    kept = {path.name: path.read_bytes() for path in V1.glob("mended.*")}
    assert len(kept) == 4
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".lock"} == kept


if __name__ == "__main__":
    write_mended(Path(sys.argv[1]))
    write_golden(Path(sys.argv[1]), "chained", CODEC_NONE, 4200)
    write_golden(Path(sys.argv[1]), "packed", CODEC_ZSTD, 2700)

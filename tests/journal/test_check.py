"""The check: intact journals are clean, a finding has an id, a location and a level, and everything was checked."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.errors import MissingError
from sowctl.findings import Finding, Level
from sowctl.journal import blockcodec
from sowctl.journal import format as fmt
from sowctl.journal.block import Position
from sowctl.journal.check import JournalCoverage, check_journal
from sowctl.journal.group import EncodedBlock, encode_blocks
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.reader import Journal
from sowctl.journal.state import JournalState, build_topics_path, load_topics_state, save_topics_file
from sowctl.seam import SEAM
from tests.support.journals import (
    INSTANCE,
    LINEAGE,
    NO_SYNC,
    ORDERS,
    TRADES,
    group,
    open_writer,
    publish,
    sequences,
    texts,
)


def findings(directory: Path, acknowledged: int = 0) -> list[Finding]:
    return list(check_journal(directory, INSTANCE, acknowledged=acknowledged))


def ids(directory: Path, acknowledged: int = 0) -> list[str]:
    return [finding.id for finding in findings(directory, acknowledged)]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 4)
    with open_writer(tmp_path, NO_SYNC, journal_size=3000) as writer:
        for number in range(20):
            one = group(
                texts(number % 7 + 1),
                topic=number % 2,
                time=1000 + number,
                publishers=[(5, "me")],
                publisher_indexes=0,
                sequences=sequences(10 * number, number % 7 + 1),
            )
            publish(writer, one)
        with writer.hold_lock():
            writer.append_group(group(texts(2)), 1, last=False)
            writer.abort_group()
        publish(writer, group([b"end"], time=2000))
    return tmp_path


def test_a_clean_journal_has_no_findings_and_is_read_whole(directory: Path) -> None:
    coverage = JournalCoverage()
    assert list(check_journal(directory, INSTANCE, coverage=coverage)) == []
    files = list(directory.glob("*.journal"))
    assert coverage.files == len(files) > 2
    assert coverage.bytes == sum(path.stat().st_size for path in files)
    assert coverage.groups == 21
    assert coverage.entries == sum(number % 7 + 1 for number in range(20)) + 2 + 1
    with Journal.open(directory, INSTANCE) as journal:
        assert coverage.blocks == len(list(journal.iter_blocks())) + 2
        assert ids(directory, journal.read_last_txid()) == []
        assert ids(directory, journal.read_last_txid() + 1) == ["SOW-JRN-013"]


def test_no_journal_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        findings(tmp_path)


def test_a_torn_tail_and_an_unfinished_group_are_warnings(directory: Path) -> None:
    last = sorted(directory.glob("*.journal"))[-1]
    size = last.stat().st_size
    with last.open("ab") as file:
        file.write(b"torn")
    (finding,) = findings(directory)
    assert (finding.id, finding.level, finding.place.offset) == ("SOW-JRN-040", Level.WARNING, size)
    assert finding.place.file == str(last)


def test_missing_and_foreign_files(directory: Path, tmp_path: Path) -> None:
    files = sorted(directory.glob("*.journal"))
    second = files[1].read_bytes()
    files[1].unlink()
    assert ids(directory) == ["SOW-JRN-006", "SOW-JRN-011"]
    files[1].write_bytes(b"no journal at all")
    assert ids(directory)[0] == "SOW-JRN-002"
    other = tmp_path / "other"
    with open_writer(other, NO_SYNC, lineage=b"o" * 16) as writer:
        publish(writer, group([b"x"]))
    files[1].write_bytes(second)
    files[0].write_bytes((other / files[0].name).read_bytes())
    assert "SOW-JRN-005" in ids(directory)


def test_a_newer_file_is_a_finding(directory: Path) -> None:
    import zlib

    path = sorted(directory.glob("*.journal"))[-1]
    raw = bytearray(path.read_bytes())
    raw[8] = 9
    raw[76:80] = zlib.crc32(raw[:76]).to_bytes(4, "little")
    path.write_bytes(raw)
    assert ids(directory) == ["SOW-JRN-003"]


def test_topics_files(directory: Path) -> None:
    path = build_topics_path(directory, INSTANCE)
    right = path.read_bytes()
    path.write_bytes(right[:-1])
    (finding,) = findings(directory)
    assert (finding.id, finding.level) == ("SOW-JRN-043", Level.INFO)
    told = load_topics_state(directory, INSTANCE, LINEAGE)
    assert told is None
    path.write_bytes(right)
    told = load_topics_state(directory, INSTANCE, LINEAGE)
    assert told is not None
    told.topic_states[ORDERS] = replace(told.topic_states[ORDERS], last_time=7)
    save_topics_file(directory, INSTANCE, told.encode_topics_file(LINEAGE), SEAM)
    (finding,) = findings(directory)
    assert (finding.id, finding.level) == ("SOW-JRN-044", Level.ERROR)


def forge(directory: Path, *blocks: EncodedBlock, checkpoint: bytes | None = None) -> None:
    """Write a journal file with these blocks, with every CRC correct."""
    directory.mkdir(exist_ok=True)
    empty = JournalState(Position(0, 0, 0)).encode_checkpoint()
    content = fmt.pack_file_header(LINEAGE, 1, 0, 5, empty if checkpoint is None else checkpoint)
    for block in blocks:
        seed = blockcodec.compute_header_seed(LINEAGE, 0, len(content))
        content += blockcodec.pack_block_header(block.header, block.header.first_txid - 1, seed) + b"".join(block.body)
    (directory / fmt.format_file_name(INSTANCE, 0)).write_bytes(content)


def block(first: int = 1, **columns: object) -> EncodedBlock:
    payloads = columns.pop("payloads", [b"a", b"bc"])
    (encoded,) = encode_blocks(group(payloads, **columns), blockcodec.CODEC_NONE, first, first, True)  # type: ignore[arg-type]
    return encoded


def test_time_that_goes_back_in_a_topic(tmp_path: Path) -> None:
    forge(tmp_path, block(time=10), block(3, time=9, topic=1), block(5, time=9))
    found = findings(tmp_path)
    assert [finding.id for finding in found] == ["SOW-JRN-042"] * 1
    assert "txid 5" in found[0].message
    forge(tmp_path, block(times=array("q", [5, 4]), topic=[0, 1]))
    assert ids(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"earliest": 3}, "times"),
        ({"latest": 3}, "times"),
    ],
)
def test_headers_that_contradict_their_block(tmp_path: Path, change: dict, words: str) -> None:
    one = block()
    forge(tmp_path, replace(one, header=replace(one.header, **change)))
    (finding,) = findings(tmp_path)
    assert finding.id == "SOW-JRN-014"
    assert words in finding.message


def remapped(one: EncodedBlock, names: blockcodec.BlockMap) -> EncodedBlock:
    import zlib

    raw = blockcodec.pack_block_map(names)
    header = replace(one.header, map_size=len(raw), map_crc=zlib.crc32(raw))
    return EncodedBlock(header, names, (raw, one.body[1], one.body[2]))


def test_maps_that_contradict_their_block(tmp_path: Path) -> None:
    one = block(publishers=[(5, "me")], publisher_indexes=0, sequences=array("Q", [3, 4]))
    topic, publisher = one.names.topic_rows[0], one.names.publishers[0]
    for names in (
        blockcodec.BlockMap((replace(topic, last_txid=1),), (publisher,)),
        blockcodec.BlockMap((replace(topic, last_time=1),), (publisher,)),
        blockcodec.BlockMap((topic, blockcodec.MapTopic(TRADES, 1, 1)), (publisher,)),
        blockcodec.BlockMap((topic,), (replace(publisher, sequence=3),)),
        blockcodec.BlockMap((topic,), (publisher, blockcodec.MapPublisher(6, "x", 1))),
        blockcodec.BlockMap((), (publisher,)),
        blockcodec.BlockMap((topic,), ()),
    ):
        forge(tmp_path, remapped(one, names))
        assert ids(tmp_path) == ["SOW-JRN-014"]


def test_an_operation_that_is_not_known(tmp_path: Path) -> None:
    forge(tmp_path, block(operations=b"\1\x09"))
    assert ids(tmp_path) == ["SOW-JRN-014"]


def test_a_gap_between_blocks(tmp_path: Path) -> None:
    forge(tmp_path, block(), block(4), block(6))
    assert ids(tmp_path) == ["SOW-JRN-011"]


def test_checkpoints(tmp_path: Path, directory: Path) -> None:
    forge(tmp_path / "junk", block(), checkpoint=b"junk")
    assert ids(tmp_path / "junk") == ["SOW-JRN-004"]
    path = sorted(directory.glob("*.journal"))[1]
    raw = path.read_bytes()
    header = fmt.unpack_file_header(raw[:80], "")
    other = JournalState(Position(0, 0, 0))
    forged = fmt.pack_file_header(LINEAGE, header.first_txid, 1, header.created, other.encode_checkpoint())
    moved = forged.ljust(header.blocks_offset, b"\0")
    assert len(forged) < header.blocks_offset
    path.write_bytes(moved[: len(forged)])
    assert "SOW-JRN-014" in ids(directory)


def test_a_damaged_file_does_not_accuse_the_next_one(directory: Path) -> None:
    path = sorted(directory.glob("*.journal"))[0]
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    (finding,) = findings(directory)
    assert finding.id == "SOW-JRN-010"
    assert finding.hint is not None

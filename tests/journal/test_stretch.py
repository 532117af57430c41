"""Stretches together return what a reader returns, each by itself, wherever a file is cut."""

from __future__ import annotations

import pickle
import random
from itertools import islice
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.engine.maintenance.retention.journal_repair import repair_journal
from sowctl.errors import DamageError
from sowctl.journal.block import Block, Gap
from sowctl.journal.files import JournalFile
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.reader import Journal
from sowctl.journal.stretch import Segment, Stretch, cut_stretches, find_spans, locate_by_index
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.journals import INSTANCE, NO_SYNC, ORDERS, group, open_writer, publish, texts

Parts = list[tuple[Stretch, ...]]


def stock(directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch, entries: int = 3) -> None:
    """Write a journal of several files: groups of one or many blocks, some aborted, some payloads that look like
    blocks."""
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", entries)
    rng = random.Random(seed)
    with open_writer(directory, NO_SYNC, journal_size=20_000) as writer:
        for step in range(50):
            count = rng.choice((1, 2, 3, 20, 60))
            payloads = texts(count, size=rng.choice((20, 300)))
            if step and step % 7 == 0:
                # Copied bytes of other blocks are not the start of a block.
                raw = sorted(directory.glob("*.journal"))[0].read_bytes()
                payloads[0] = raw[100 : 100 + rng.randrange(200, 4000)]
            if step % 10 == 9:
                with writer.hold_lock():
                    writer.append_group(group(payloads, step % 2), 1000, last=False)
                    writer.abort_group()
            else:
                publish(writer, group(payloads, step % 2))


def parts_of(log: Journal, size: int, after: int = 0, until: int | None = None) -> Parts:
    return cut_stretches(
        find_spans(log.list_segments(), after, log.read_last_txid() if until is None else until, log.locate_txid), size
    )


def read(directory: Path, parts: Parts, after: int = 0, until: int | None = None) -> list[Block]:
    """Return the blocks that other processes read."""
    found = []
    for part in pickle.loads(pickle.dumps(parts)):
        with Journal.open(directory, INSTANCE) as log:
            found += [block for one in part for block in log.iter_stretch_blocks(one, after, until)]
    return found


@pytest.mark.parametrize("entries", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_stretches_hold_every_block_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, entries: int
) -> None:
    stock(tmp_path, seed, monkeypatch, entries)
    monkeypatch.setattr(JOURNAL_LIMITS, "offset_precision_bytes", 500)
    rng = random.Random(seed)
    with Journal.open(tmp_path, INSTANCE) as log:
        stored, last = sum(segment.size for segment in log.list_segments()), log.read_last_txid()
        whole = [block.start for block in log.iter_blocks()]
        assert len(log.list_files()) > 3
        for size in (1, 1025, 3000, 7777, 19_999, stored // 3, 1 << 30):
            parts = parts_of(log, size)
            assert len(parts) <= -(-stored // max(size, 1024)) + 1
            assert [block.start for block in read(tmp_path, parts)] == whole
            after, until = sorted(rng.sample(range(last + 1), 2))
            inner = parts_of(log, size, after, until)
            wanted = [block.start for block in log.iter_blocks(after=after, until=until)]
            assert [block.start for block in read(tmp_path, inner, after, until)] == wanted
        assert parts_of(log, 1, last) == []
        of_topic = [
            block.start for part in parts for one in part for block in log.iter_stretch_blocks(one, topic=ORDERS)
        ]
        assert of_topic == [block.start for block in log.iter_blocks(topic=ORDERS)]


@pytest.mark.parametrize("entries", [1, 7])
def test_places_are_the_same_wherever_the_walk_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    stock(tmp_path, 5, monkeypatch, entries)
    with Journal.open(tmp_path, INSTANCE) as log:
        assert len(log.list_files()) > 3
        # No file is as large as the first figure, so with it each walk starts where its file does.
        for after in range(0, log.read_last_txid() + 1, 7):
            found = []
            for exact in (1 << 30, 500, 1):
                monkeypatch.setattr(JOURNAL_LIMITS, "offset_precision_bytes", exact)
                found.append(list(islice(log.iter_group_positions(after), 3)))
            assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("last", [False, True])
def test_a_group_as_large_as_a_load_is_cut_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 5)
    with open_writer(tmp_path, NO_SYNC, journal_size=20_000) as writer:
        publish(writer, group(texts(10)))
        publish(writer, group(texts(3000)))
        if not last:
            publish(writer, group(texts(10)))
    asked: list[int] = []
    plain = JournalFile.find_block_at

    def counted(file: JournalFile, offset: int) -> object:
        asked.append(offset)
        return plain(file, offset)

    with Journal.open(tmp_path, INSTANCE) as log:
        whole = [block.start for block in log.iter_blocks()]
        parts = parts_of(log, 10_000)
    assert len(parts) > 5
    found = []
    monkeypatch.setattr(JournalFile, "find_block_at", counted)
    for part in parts:
        some = [block.start for block in read(tmp_path, [part])]
        assert len(some) < len(whole) / 2
        found += some
    assert found == whole
    # No stretch searches for the end of a group that extends to the end of its file.
    assert len(asked) < 2 * len(whole)


def test_what_a_writer_adds_later_belongs_to_no_stretch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock(tmp_path, 1, monkeypatch)
    with Journal.open(tmp_path, INSTANCE) as log:
        whole, parts = [block.start for block in log.iter_blocks()], parts_of(log, 3000)
    with open_writer(tmp_path, NO_SYNC, journal_size=20_000) as writer:
        for _ in range(30):
            publish(writer, group(texts(50)))
    assert [block.start for block in read(tmp_path, parts)] == whole


def test_a_file_that_changed_since_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock(tmp_path, 2, monkeypatch)
    with Journal.open(tmp_path, INSTANCE) as log:
        whole, parts = [block.start for block in log.iter_blocks()], parts_of(log, 3000)
        places = [(block.path, block.start.offset) for block in log.iter_blocks()]
    rng = random.Random(3)
    for _ in range(30):
        path, at = rng.choice(places)
        raw = path.read_bytes()
        if rng.random() < 0.5:
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 255]) + raw[at + 1 :])
        else:
            path.write_bytes(raw[:at])
        with pytest.raises(DamageError) as caught:
            read(tmp_path, parts)
        assert caught.value.code in ("SOW-JRN-010", "SOW-JRN-011", "SOW-JRN-012")
        path.write_bytes(raw)
    assert [block.start for block in read(tmp_path, parts)] == whole


def test_what_only_looks_like_the_next_block_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stretch checks where the next one will start: no block is read twice or omitted."""
    stock(tmp_path, 2, monkeypatch)
    with Journal.open(tmp_path, INSTANCE) as log:
        segment = log.list_segments()[0]
        starts = [block.start.offset for block in log.iter_blocks() if block.start.number == 0]
        # The end of the first stretch is in the middle of a block.
        first = Stretch(0, 0, (starts[4] + starts[5]) // 2, segment.last_txid, segment.last_block)
        assert [block.start.offset for block in log.iter_stretch_blocks(first)] == starts[:5]
        plain = JournalFile.find_next_block
        lying = {starts[5]: starts[6]}

        def wrong(file: JournalFile, offset: int, at_a_time: int = 1) -> object:
            found = plain(file, offset, at_a_time)
            return found if found is None else file.find_block_at(lying.get(found.offset, found.offset))

        monkeypatch.setattr(JournalFile, "find_next_block", wrong)
        with pytest.raises(DamageError):
            list(log.iter_stretch_blocks(first))


@pytest.mark.parametrize("harm", ["header", "rest"])
def test_a_block_that_is_missing_where_a_plan_begins_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """No previous stretch would check it, and the index of a manifest is used without a check."""
    stock(tmp_path, 2, monkeypatch)
    with Journal.open(tmp_path, INSTANCE) as log:
        blocks = [block for block in log.iter_blocks() if block.start.number == 0]
        begin = next(block for block in blocks[len(blocks) // 2 :] if block.header.group == block.first_txid)
        after, offset = begin.first_txid - 1, begin.start.offset
        segment = replace(
            log.list_segments()[0], index=((blocks[0].first_txid - 1, blocks[0].start.offset), (after, offset))
        )
        wanted = [block.start for block in blocks if block.first_txid > after]
    parts = cut_stretches(find_spans([segment], after, segment.last_txid), 1 << 30)
    assert [block.start for block in read(tmp_path, parts, after)] == wanted
    raw = begin.path.read_bytes()
    lost = bytes([raw[offset + 50] ^ 1]) if harm == "header" else bytes(len(raw) - offset - 50)
    begin.path.write_bytes(raw[: offset + 50] + lost + raw[offset + 50 + len(lost) :])
    for size in (1, 3000, 1 << 30):
        with pytest.raises(DamageError) as caught:
            read(tmp_path, cut_stretches(find_spans([segment], after, segment.last_txid), size), after)
        assert caught.value.code == "SOW-JRN-010" and caught.value.facts["offset"] == offset


@pytest.mark.parametrize("seed", range(4))
def test_gaps_are_told_and_read_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 5)
    lab = Lab(tmp_path, config_xml(topic_xml("a"), ("a",)), journal_size=20_000)
    rng = random.Random(seed)
    for _ in range(30):
        lab.publish("a", *[message(id=n, pad=rng.randbytes(50).hex()) for n in range(rng.choice((1, 30)))])
    for path in lab.journals()[:-1]:
        raw = bytearray(path.read_bytes())
        at = rng.randrange(len(raw) // 3, len(raw))
        raw[at : at + 300] = bytes(min(300, len(raw) - at))
        path.write_bytes(raw)
    repair_journal(lab.open())
    with Journal.open(tmp_path / "journal", "test") as log:
        told: list[Gap] = []
        log.on_gap = told.append
        whole = [block.start for block in log.iter_blocks()]
        wanted, told[:] = list(told), []
        assert wanted
        for size in (1, 2500, 1 << 30):
            stretches = [one for part in parts_of(log, size) for one in part]
            assert [block.start for one in stretches for block in log.iter_stretch_blocks(one)] == whole
            assert told == wanted
            told.clear()


def segments(*sizes: int, packed: tuple[int, ...] = ()) -> list[Segment]:
    """Files with a txid per byte."""
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return [
        Segment(number, size, start + 1, start + size, is_packed=number in packed)
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]


def shares(sizes: list[Segment], size: int, **bounds: int) -> list[int]:
    last = sizes[-1].last_txid
    weights = {segment.number: segment.size for segment in sizes}
    return [
        sum((weights[one.number] if one.end is None else one.end) - one.offset for one in part)
        for part in cut_stretches(find_spans(sizes, bounds.get("after", 0), bounds.get("until", last)), size)
    ]


def test_a_plan_needs_no_more_than_segments() -> None:
    giga = 1 << 30
    assert shares(segments(giga, giga, giga), 256 << 20) == [256 << 20] * 12
    # Many small files are one part, and large ones are cut.
    assert shares(segments(*[1 << 20] * 512), 128 << 20) == [128 << 20] * 4
    assert len(shares(segments(giga, 5, 5, giga), giga)) == 3
    found = shares(segments(*[300_000_001] * 10), 100_000_000)
    assert max(found) < 1.3 * min(found) and sum(found) == 3_000_000_010
    # A compressed file is never cut.
    assert shares(segments(giga, giga, giga, packed=(1,)), 256 << 20).count(giga) == 1
    assert shares(segments(giga, giga, packed=(0, 1)), 1 << 20) == [giga, giga]
    assert len(shares(segments(*[1 << 20] * 100, packed=tuple(range(100))), 10 << 20)) == 10
    # Only files with requested txids are read.
    assert shares(segments(giga, giga, giga), giga, after=giga, until=2 * giga) == [giga]
    assert cut_stretches([], 1) == []


def test_an_index_bounds_what_is_read() -> None:
    place = Segment(0, 1 << 30, 1, 1000, index=((0, 80), (100, 1 << 20), (500, 1 << 25), (900, 1 << 29)))
    assert locate_by_index(place, 0) == (80, 80)
    assert locate_by_index(place, 100) == (1 << 20, 1 << 20)
    assert locate_by_index(place, 501) == (1 << 25, 1 << 29)
    assert locate_by_index(place, 950) == (1 << 29, 1 << 30)
    assert locate_by_index(Segment(0, 77, 1, 9), 5) == (0, 77)
    ((one,),) = cut_stretches(find_spans([place], 120, 480), 1 << 30)
    assert (one.offset, one.end) == (1 << 20, 1 << 25)


def test_a_txid_is_found_with_few_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert JOURNAL_LIMITS.offset_precision_bytes == 1 << 20
    monkeypatch.setattr(JOURNAL_LIMITS, "offset_precision_bytes", 2000)
    with open_writer(tmp_path, NO_SYNC) as writer:
        for _ in range(400):
            publish(writer, group(texts(5, size=200)))
    looks: list[int] = []
    plain = JournalFile.find_next_block

    def counted(file: JournalFile, offset: int, at_a_time: int = 1) -> object:
        looks.append(offset)
        return plain(file, offset, at_a_time)

    monkeypatch.setattr(JournalFile, "find_next_block", counted)
    with Journal.open(tmp_path, INSTANCE) as log:
        (segment,) = log.list_segments()
        for txid in (1, 7, 777, 1500, 1999):
            low, high = log.locate_txid(segment, txid)
            assert high - low < 2000
            inside = [block for block in log.iter_blocks() if low <= block.start.offset < high]
            assert any(block.first_txid <= txid <= block.last_txid for block in inside)
    assert len(looks) < 5 * 12

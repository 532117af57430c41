"""Deliberate damage: cuts at every byte, bit flips, moved blocks, zeroed sectors. Never silently wrong."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError, SowError, VersionError
from sowctl.findings import Level
from sowctl.journal.block import Block, Damage
from sowctl.journal.check import check_journal
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from tests.support.examples import examples
from tests.support.journals import INSTANCE, NO_SYNC, contents, group, open_writer, publish, sequences, texts

SHARED = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""In memory if the system has such a file system."""


@dataclass
class Sample:
    """An intact journal: its entries, and the offsets of its blocks, per file."""

    directory: Path
    entries: list[tuple[int, bytes]]
    groups: list[int]
    files: dict[Path, bytes]
    blocks: dict[Path, list[tuple[int, int, range]]]

    def restore(self) -> None:
        for path in self.directory.iterdir():
            if path not in self.files:
                path.unlink()
        for path, content in self.files.items():
            path.write_bytes(content)


def build(directory: Path, sizes: list[int], width: int, file_size: int = 1 << 20, **options: int) -> Sample:
    with open_writer(directory, NO_SYNC, journal_size=file_size, **options) as writer:
        for number, size in enumerate(sizes):
            one = group(
                texts(size, size=width, tag=f"g{number}-"),
                topic=number % 2,
                publishers=[(5, "me")],
                publisher_indexes=0,
                sequences=sequences(number * 100, size),
            )
            publish(writer, one)
    build_topics_path(directory, INSTANCE).unlink()
    blocks: dict[Path, list[tuple[int, int, range]]] = {}
    entries: list[tuple[int, bytes]] = []
    with Journal.open(directory, INSTANCE) as journal:
        for block in journal.iter_blocks():
            txids = range(block.first_txid, block.last_txid + 1)
            blocks.setdefault(block.path, []).append((block.start.offset, block.end.offset, txids))
            entries += zip(txids, block.list_payloads(), strict=True)
    ends = [sum(sizes[:index]) for index in range(len(sizes) + 1)]
    files = {path: path.read_bytes() for path in directory.iterdir()}
    return Sample(directory, entries, ends, files, blocks)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory if the system has one: thousands of variants are written to it."""
    with tempfile.TemporaryDirectory(dir=SHARED) as name:
        yield Path(name) / "log"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "max_block_entries", 6)


def salvage(directory: Path, acknowledged: int) -> tuple[dict[int, bytes], list[Damage], int | None]:
    """Return what a resyncing reader finds: entries, damages, and the offset of a torn tail."""
    found: dict[int, bytes] = {}
    damages: list[Damage] = []
    with Journal.open(directory, INSTANCE, acknowledged=acknowledged) as journal:
        for item in journal.iter_blocks(resync=True):
            if isinstance(item, Block):
                found.update(zip(range(item.first_txid, item.last_txid + 1), item.list_payloads(), strict=True))
            else:
                damages.append(item)
        report = journal.tail_report
    return found, damages, report.offset if report else None


def test_a_cut_at_every_byte_leaves_the_exact_prefix(memory: Path, deep: bool) -> None:
    sample = build(memory, [1, 3, 9, 2, 14, 1], 40 if deep else 16)
    ((path, whole),) = ((p, c) for p, c in sample.files.items() if p.suffix == ".journal")
    blocks = sample.blocks[path]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size < blocks[0][0]:
            with pytest.raises(DamageError):
                contents(memory)
            continue
        with Journal.open(memory, INSTANCE) as journal:
            found = [(txid, p) for b in journal.iter_blocks() for txid, p in enumerate(b.list_payloads(), b.first_txid)]
            report = journal.tail_report
        complete = [end for _, end, txids in blocks if txids[-1] in sample.groups and end <= size]
        count = next((txids[-1] for _, end, txids in blocks if complete and end == complete[-1]), 0)
        assert found == sample.entries[:count]
        good = max([blocks[0][0], *[end for _, end, _ in blocks if end <= size]])
        is_between = size == (complete[-1] if complete else blocks[0][0])
        assert (report is None) == is_between
        if report is not None:
            assert report.size == size - good
        if size % 7 == 0:
            assert [f for f in check_journal(memory, INSTANCE) if f.level > Level.WARNING] == []
            with open_writer(memory, NO_SYNC) as writer:
                ((first, _),) = publish(writer, group([b"next"]))
            assert contents(memory) == [*sample.entries[:count], (first, b"next")]
            sample.restore()
    with pytest.raises(DamageError):
        path.write_bytes(whole[: blocks[-1][0]])
        contents(memory, acknowledged=sample.entries[-1][0])


STRIDE = 3
"""In the short form a bit of every ``STRIDE``-th byte is flipped, starting at a random one, each of its bits in
turn."""


def examine_flip(sample: Sample, path: Path, position: int, thorough: bool) -> None:
    """Check all requirements for a journal with one wrong bit at ``position`` of ``path``."""
    last = sample.entries[-1][0]
    in_checkpoint = 80 <= position < sample.blocks[path][0][0]
    try:
        found = contents(sample.directory)
    except (DamageError, VersionError):
        pass
    else:
        assert found == sample.entries[: len(found)]
        if in_checkpoint:
            assert len(found) == last  # no entry depends on it
        else:
            assert sample.groups[-2] <= len(found) < last
            with Journal.open(sample.directory, INSTANCE) as journal:
                list(journal.iter_blocks())
                assert journal.tail_report is not None
    try:
        found_by_txid, damages, torn = salvage(sample.directory, last)
    except (DamageError, VersionError):
        assert position < 80
        return
    assert damages or in_checkpoint
    assert found_by_txid.items() <= dict(sample.entries).items()
    hit = [txids for start, end, txids in sample.blocks[path] if start <= position < end]
    missing = {txid for txid, _ in sample.entries} - found_by_txid.keys()
    if hit:
        assert missing <= set(hit[0])
    for txid in missing:
        assert any(d.first_txid <= txid and (d.last_txid is None or txid <= d.last_txid) for d in damages)
    assert torn is None
    if thorough:
        assert any(f.level is Level.ERROR for f in check_journal(sample.directory, INSTANCE, acknowledged=last))
        assert any(f.level >= Level.WARNING for f in check_journal(sample.directory, INSTANCE))


@pytest.mark.parametrize("codec", [0, 1], ids=["plain", "zstd"])
def test_every_byte_flipped_is_reported(memory: Path, seed: int, deep: bool, codec: int) -> None:
    sizes, width, file_size = ([9, 4, 6, 12, 5], 80, 2000) if codec else ([8, 10, 6, 15, 5], 150, 5000)
    if deep:
        sizes, width, file_size = [9, 40, 6, 90, 5], 200 if codec else 420, 12000 if codec else 40000
    sample = build(memory, sizes, width, file_size, codec=codec)
    journals = [path for path in sorted(sample.files) if path.suffix == ".journal"]
    size = sum(len(sample.files[path]) for path in journals)
    assert len(journals) > 1
    assert size >= ((20000, 3000) if codec else (65536, 8192))[not deep]
    for path in journals:
        with path.open("r+b", buffering=0) as file:
            for position, byte in enumerate(sample.files[path]):
                if not deep and (position + seed) % STRIDE:
                    continue
                for bit in range(8) if deep else [(position + seed) % 8]:
                    os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), position)
                    examine_flip(sample, path, position, (position + seed) % (12 if deep else 36) == 0)
                os.pwrite(file.fileno(), bytes([byte]), position)


def test_blocks_that_were_moved_dropped_or_doubled_are_damage(memory: Path) -> None:
    sample = build(memory, [2, 2, 8, 2, 2, 13, 2], 30)
    path = next(iter(sample.blocks))
    whole, spans = sample.files[path], sample.blocks[path]
    last = sample.entries[-1][0]
    parts = [whole[start:end] for start, end, _ in spans]
    head = whole[: spans[0][0]]
    rng = random.Random(8)
    arrangements = [parts[:i] + parts[i + 1 :] for i in range(len(parts))]
    arrangements += [parts[: i + 1] + parts[i:] for i in range(len(parts))]
    for _ in range(200):
        shuffled = parts[:]
        rng.shuffle(shuffled)
        arrangements.append(shuffled)
    for left in range(len(parts)):
        for right in range(left):
            swapped = parts[:]
            swapped[left], swapped[right] = swapped[right], swapped[left]
            arrangements.append(swapped)
    for arrangement in arrangements:
        if arrangement == parts:
            continue
        path.write_bytes(head + b"".join(arrangement))
        doubled = arrangement[: len(parts)] == parts
        try:
            found = contents(memory, acknowledged=last)
        except DamageError:
            assert not doubled
        else:
            assert doubled
            assert found == sample.entries
        salvaged, _, _ = salvage(memory, last)
        assert salvaged.items() <= dict(sample.entries).items()
        levels = {finding.level for finding in check_journal(memory, INSTANCE, acknowledged=last)}
        assert Level.WARNING in levels if doubled else Level.ERROR in levels


def test_a_zeroed_stretch_is_a_tear_only_where_nothing_was_synced(memory: Path) -> None:
    sample = build(memory, [6, 6, 6, 6], 300)
    path = next(iter(sample.blocks))
    whole, spans = sample.files[path], sample.blocks[path]
    for index, (start, end, txids) in enumerate(spans):
        path.write_bytes(whole[:start] + bytes(end - start) + whole[end:])
        if index < len(spans) - 1:
            with pytest.raises(DamageError) as caught:
                contents(memory)
            assert caught.value.facts["first_txid"] == txids[0]
            assert caught.value.facts["last_txid"] == txids[-1]
            assert caught.value.facts["offset"] == start
        else:
            assert contents(memory) == sample.entries[: txids[0] - 1]


def test_damage_names_file_offset_and_txids(memory: Path) -> None:
    sample = build(memory, [6, 6, 6], 300)
    path = next(iter(sample.blocks))
    start, end, txids = sample.blocks[path][1]
    wrong = bytearray(sample.files[path])
    wrong[end - 1] ^= 1
    path.write_bytes(wrong)
    with pytest.raises(DamageError) as caught:
        contents(memory)
    assert caught.value.exit_status == 5
    assert caught.value.place == f"{path}@{start}"
    assert f"txids {txids[0]} to {txids[-1]}" in caught.value.message
    found, damages, _ = salvage(memory, 0)
    assert [(d.offset, d.size, d.first_txid, d.last_txid) for d in damages] == [
        (start, end - start, txids[0], txids[-1])
    ]
    assert sorted(found) == [txid for txid, _ in sample.entries if txid not in txids]


def test_a_map_that_is_read_without_its_block_is_checked_too(memory: Path) -> None:
    sample = build(memory, [6, 6, 6, 6], 300)
    path = next(iter(sample.blocks))
    start, end, _ = sample.blocks[path][1]
    whole = sample.files[path]
    size = whole[start:end].index(b"orders" if b"orders" in whole[start:end] else b"trades")
    for position in range(start + 104, start + size + 12):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        with Journal.open(memory, INSTANCE) as journal:
            with pytest.raises(DamageError):
                list(journal.iter_blocks(topic=("other", "json")))
            with pytest.raises(DamageError):
                journal.read_topic_states()


def test_a_journal_inside_a_payload_is_no_journal(memory: Path) -> None:
    sample = build(memory, [3, 3], 60, codec=0)
    inner = sample.files[next(iter(sample.blocks))]
    outer = build(memory.parent / "outer", [1], 10)
    with open_writer(outer.directory, NO_SYNC, codec=0) as writer:
        publish(writer, group([inner * 3, b"behind"]))
    path = next(iter(outer.blocks))
    whole = path.read_bytes()
    build_topics_path(outer.directory, INSTANCE).unlink()
    for cut in range(len(outer.files[path]) + 1, len(whole), 97):
        path.write_bytes(whole[:cut])
        assert contents(outer.directory) == outer.entries


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_any_mutation_ends_in_a_reported_error_or_the_truth(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(dir=SHARED) as name:
        sample = build(Path(name) / "log", [3, 7, 2, 5], 30, 1500)
        last = sample.entries[-1][0]
        for _ in range(15):
            path = data.draw(st.sampled_from(sorted(sample.blocks)))
            wrong = bytearray(sample.files[path])
            start = data.draw(st.integers(0, len(wrong) - 1))
            stop = data.draw(st.integers(start, min(start + 60, len(wrong))))
            wrong[start:stop] = data.draw(st.binary(max_size=60))
            path.write_bytes(wrong)
            try:
                assert contents(sample.directory, last) == sample.entries
            except SowError as error:
                assert error.exit_status in (5, 9)
            try:
                found, _, _ = salvage(sample.directory, last)
                assert found.items() <= dict(sample.entries).items()
            except SowError as error:
                assert error.exit_status in (5, 9)
            list(check_journal(sample.directory, INSTANCE, acknowledged=last))
            path.write_bytes(sample.files[path])

"""Journal files in the archive and compressed ones: part of the log wherever they are stored, each read once."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path

import pytest
import zstandard

from sowctl.errors import DamageError, RefusedError
from sowctl.findings import Level
from sowctl.journal.block import Position
from sowctl.journal.check import JournalCoverage, check_journal
from sowctl.journal.decompression import DecompressedFile, decode_frame_table, encode_frame_table
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.logend import NewJournal
from sowctl.journal.maintenance import file_compression
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from sowctl.journal.stretch import cut_stretches, find_spans
from sowctl.journal.writer import JournalWriter
from tests.support.damage import truncate
from tests.support.journals import INSTANCE, LINEAGE, NO_SYNC, group, open_writer, publish, texts


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """About six files, of 190 entries in total."""
    place = tmp_path / "log"
    with open_writer(place, NO_SYNC, journal_size=1600) as writer:
        for number in range(19):
            publish(writer, group(texts(10, tag=f"g{number}"), topic=number % 2, time=1000 + number))
    assert len(list(place.glob("*.journal"))) > 4
    return place


def pack(path: Path, kind: str) -> Path:
    """Compress a file in place; ``+``: as two concatenated streams; ``frames``: as sowctl does."""
    if kind == "frames":
        return file_compression.compress_file(path, ".zst", NO_SYNC)
    content = path.read_bytes()
    half = len(content) // 2
    pieces = [content[:half], content[half:]] if kind.endswith("+") else [content]
    if kind.startswith("gz"):
        packed, suffix = b"".join(map(gzip.compress, pieces)), ".gz"
    else:
        packed, suffix = b"".join(map(zstandard.ZstdCompressor().compress, pieces)), ".zst"
    target = path.with_name(path.name + suffix)
    target.write_bytes(packed)
    path.unlink()
    return target


def read(directory: Path, archive: Path | None) -> list[tuple[int, bytes]]:
    with Journal.open(directory, INSTANCE, archive=archive) as journal:
        return [(entry.txid, entry.payload) for block in journal.iter_blocks() for entry in block.iter_entries()]


def problems(directory: Path, archive: Path | None) -> list[str]:
    found = check_journal(directory, INSTANCE, archive=archive)
    return [str(finding) for finding in found if finding.level > Level.INFO]


@pytest.mark.parametrize("kind", ["gz", "gz+", "zst", "zst+", "frames"])
def test_compressed_files_hold_what_they_held(directory: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "frame_bytes", 300)
    monkeypatch.setattr(JOURNAL_LIMITS, "offset_precision_bytes", 100)
    monkeypatch.setattr(JOURNAL_LIMITS, "min_stretch_bytes", 100)
    whole = read(directory, None)
    files = sorted(directory.glob("*.journal"))
    length = files[0].stat().st_size
    for path in files[:-1]:
        pack(path, kind)
        assert read(directory, None) == whole
    coverage = JournalCoverage()
    assert list(check_journal(directory, INSTANCE, coverage=coverage)) == []
    assert coverage.entries == len(whole)
    with Journal.open(directory, INSTANCE) as journal:
        assert [info.number for info in journal.list_files()] == list(range(len(files)))
        for txid in (1, 57, 99, 188):
            blocks = list(journal.iter_blocks(after=txid - 1, until=txid))
            assert blocks[0].first_txid <= txid <= blocks[-1].last_txid
        topic = ("orders", "json")
        assert journal.find_topic_state(topic).last_txid == 190 and journal.covers_topic(topic)
        stretches = [
            one
            for part in cut_stretches(find_spans(journal.list_segments(), 0, journal.read_last_txid()), 1)
            for one in part
        ]
        assert journal.count_bytes_between(Position(0, length, 10), Position(1, 500, 15)) >= 500
        again = [
            payload
            for one in stretches
            for block in journal.iter_stretch_blocks(one)
            for payload in block.list_payloads()
        ]
        places = [list(journal.iter_group_positions(after)) for after in range(0, 190, 10)]
    assert again == [payload for _, payload in whole]
    assert all(found[0].txid == 10 * number for number, found in enumerate(places))
    # A compressed file is only split according to its frame table.
    numbers = [one.number for one in stretches]
    assert sorted(set(numbers)) == list(range(len(files)))
    assert (len(numbers) > 2 * len(files)) == (kind == "frames")


def test_of_a_file_with_a_table_of_frames_only_what_is_asked_for_is_unpacked(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "frame_bytes", 200)
    path = sorted(directory.glob("*.journal"))[1]
    content = path.read_bytes()
    packed = file_compression.compress_file(path, ".zst", NO_SYNC)
    # Any zstd reader reads it from the start, too.
    streamed = zstandard.ZstdDecompressor().stream_reader(packed.read_bytes(), read_across_frames=True).read()
    assert streamed == content
    raw, asked = packed.read_bytes(), list[tuple[int, int]]()

    def fetched(size: int, offset: int) -> bytes:
        asked.append((offset, size))
        return raw[offset : offset + size]

    file = DecompressedFile(fetched, packed, NO_SYNC, lambda: len(raw))
    assert file.is_seekable and file.measure_size() == len(content)
    table = len(asked)
    assert file.read(450, 100) == content[450:550]
    assert len(asked) == table + 1
    assert file.read(590, 20) == content[590:610]
    assert len(asked) == table + 2
    assert file.read(0, 1 << 20) == content
    assert file.read(len(content), 10) == b""
    file.close()
    assert decode_frame_table(fetched, 10) is None


def test_a_table_of_frames_that_does_not_fit_is_not_followed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JOURNAL_LIMITS, "frame_bytes", 200)
    whole = read(directory, None)
    path = sorted(directory.glob("*.journal"))[1]
    packed = file_compression.compress_file(path, ".zst", NO_SYNC)
    raw = packed.read_bytes()
    frames = decode_frame_table(lambda size, at: raw[at : at + size], len(raw))
    assert frames is not None and len(frames) > 3
    body = raw[: sum(size for size, _ in frames)]
    # Without a frame table, or with the table of another file, it is read from the start.
    for table in (b"", encode_frame_table([(size + 1, content) for size, content in frames])):
        packed.write_bytes(body + table)
        assert read(directory, None) == whole
    (one, held), (two, more), *rest = frames
    for wrong in (
        [(one + 1, held), (two - 1, more)],
        [(one, held + 1), (two, more - 1)],
        [(one, held - 1), (two, more + 1)],
    ):
        packed.write_bytes(body + encode_frame_table([*wrong, *rest]))
        with pytest.raises(DamageError) as caught:
            read(directory, None)
        assert caught.value.code in ("SOW-JRN-050", "SOW-JRN-002", "SOW-JRN-004", "SOW-JRN-010")


def test_the_archive_is_read_where_it_is_named(directory: Path, tmp_path: Path) -> None:
    whole = read(directory, None)
    archive = tmp_path / "archive"
    archive.mkdir()
    files = sorted(directory.glob("*.journal"))
    for number, path in enumerate(files[:3]):
        moved = Path(shutil.move(path, archive))
        if number == 1:
            pack(moved, "zst")
    assert read(directory, archive) == whole
    assert problems(directory, archive) == []
    assert [txid for txid, _ in read(directory, None)] == list(range(len(whole) - len(read(directory, None)) + 1, 191))
    (archive / files[0].name).rename(directory / files[0].name)
    assert read(directory, archive) == whole
    with pytest.raises(DamageError) as caught:
        read(directory, tmp_path / "nowhere")
    assert caught.value.code == "SOW-JRN-006"
    assert "nowhere" in caught.value.message


def test_a_file_that_is_there_twice_is_read_once(directory: Path, tmp_path: Path) -> None:
    whole = read(directory, None)
    archive = tmp_path / "archive"
    archive.mkdir()
    first, second, *_ = sorted(directory.glob("*.journal"))
    for copied in (first, second):
        shutil.copy(copied, archive)
    pack(archive / first.name, "gz")
    # an unfinished copy: cut anywhere, and ignored
    truncate(archive / second.name, 40)
    (directory / f"{second.name}.gz").write_bytes(b"\x1f\x8b half")
    assert read(directory, archive) == whole
    assert problems(directory, archive) == []
    with open_writer(tmp_path / "other", NO_SYNC, lineage=b"o" * 16) as writer:
        publish(writer, group([b"foreign"]))
    shutil.copy(tmp_path / "other" / first.name, archive / first.name)
    with pytest.raises(DamageError) as caught:
        read(directory, archive)
    assert caught.value.code == "SOW-JRN-051"
    assert any("SOW-JRN-051" in problem for problem in problems(directory, archive))


def test_a_compressed_file_that_is_damaged_is_damage(
    directory: Path, monkeypatch: pytest.MonkeyPatch, deep: bool
) -> None:
    whole = read(directory, None)
    path = sorted(directory.glob("*.journal"))[1]
    content = path.read_bytes()
    rng = random.Random(3)
    monkeypatch.setattr(JOURNAL_LIMITS, "frame_bytes", 400)
    for kind in ("gz", "zst", "frames"):
        packed = pack(path, kind)
        right = packed.read_bytes()
        cuts = range(len(right)) if deep else rng.sample(range(len(right)), 12)
        wrong = [right[:cut] for cut in cuts] + [right + b"behind"]
        for _ in range(12):
            flipped = bytearray(right)
            flipped[rng.randrange(len(right))] ^= 1 << rng.randrange(8)
            wrong.append(bytes(flipped))
        for broken in wrong:
            packed.write_bytes(broken)
            try:
                found = read(directory, None)
            except DamageError:
                assert problems(directory, None) != []
            else:
                assert found == whole  # a bit that means nothing, such as a time in the header of gzip
        packed.unlink()
        path.write_bytes(content)


def open_with(directory: Path, archive: Path | None = None) -> JournalWriter:
    return JournalWriter.open(
        directory, INSTANCE, seam=NO_SYNC, now=1000, new=NewJournal(LINEAGE), lock_wait=5.0, archive=archive
    )


@pytest.mark.parametrize("where", ["compressed", "archived"])
def test_a_writer_goes_on_behind_a_last_file_that_it_cannot_append_to(
    directory: Path, tmp_path: Path, where: str
) -> None:
    whole = read(directory, None)
    archive = tmp_path / "archive"
    archive.mkdir()
    last = sorted(directory.glob("*.journal"))[-1]
    moved = pack(last, "gz") if where == "compressed" else Path(shutil.move(last, archive))
    kept = moved.read_bytes()
    with open_with(directory, archive) as writer:
        assert publish(writer, group([b"next"], time=2000)) == [(191, 191)]
    assert read(directory, archive) == [*whole, (191, b"next")]
    assert moved.read_bytes() == kept
    assert problems(directory, archive) == []


def test_a_torn_file_in_the_archive_is_not_written_behind(directory: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    last = sorted(directory.glob("*.journal"))[-1]
    moved = Path(shutil.move(last, archive))
    build_topics_path(directory, INSTANCE).unlink()
    truncate(moved, moved.stat().st_size - 1)
    with pytest.raises(RefusedError) as caught:
        open_with(directory, archive)
    assert caught.value.code == "SOW-JRN-052"
    shutil.move(moved, last)
    with open_with(directory, archive) as writer:
        assert [tail.size > 0 for tail in writer.take_cut_tails()] == [True]
        publish(writer, group([b"next"], time=2000))
    assert problems(directory, archive) == []


def test_a_file_that_moves_while_it_is_read_is_found_again(directory: Path, tmp_path: Path) -> None:
    whole = read(directory, None)
    archive = tmp_path / "archive"
    archive.mkdir()
    with Journal.open(directory, INSTANCE, archive=archive) as journal:
        walk = journal.iter_blocks()
        found = [entry.txid for entry in next(walk).iter_entries()]
        for path in sorted(directory.glob("*.journal"))[1:4]:
            shutil.move(path, archive)
        pack(archive / sorted(p.name for p in archive.iterdir())[0], "gz")
        found += [entry.txid for block in walk for entry in block.iter_entries()]
    assert found == [txid for txid, _ in whole]

"""Upload of finished files to a URL: the manifest describes their contents; an interrupted run leaves a valid
archive."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sowctl.errors import DamageError, MissingError, RefusedError, StorageError
from sowctl.journal.archive import manifest
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.maintenance import upload
from sowctl.journal.maintenance.file_compression import compress_file
from sowctl.journal.maintenance.survey import SurveyedFile, survey_files
from sowctl.journal.maintenance.upload import ArchiveUpload, UploadedSegment, verify_segment
from sowctl.journal.reader import Journal
from sowctl.journal.stretch import cut_stretches, find_spans
from sowctl.remote.place import Place, RemotePath, parse_url
from sowctl.seam import SEAM, Seam
from tests.support.journals import INSTANCE, NO_SYNC, ORDERS, TRADES, contents, group, open_writer, publish, texts
from tests.support.objectstore import ObjectStore

R = TypeVar("R")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A journal of nine finished files and one open file; every file has a group of some blocks."""
    place = tmp_path / "log"
    with open_writer(place, NO_SYNC, journal_size=1600) as writer:
        for number in range(10):
            publish(writer, group(texts(12, tag=f"g{number}"), topic=number % 2, time=1000 + number))
    return place


@pytest.fixture
def target(lake: ObjectStore) -> RemotePath:
    """A directory in an object store."""
    return parse_url(lake.url("trading/journal"))


@pytest.fixture
def near(tmp_path: Path) -> RemotePath:
    """A directory of this machine, accessed in the same way: for tests that do not depend on the store."""
    pytest.importorskip("pyarrow")
    return parse_url(str(tmp_path / "far"))


def sealed(log: Path) -> list[SurveyedFile]:
    return [file for file in survey_files(log, INSTANCE, NO_SYNC) if file.is_finished]


def send(
    log: Path, target: RemotePath, count: int | None = None, seam: Seam = SEAM, **more: Any
) -> list[UploadedSegment]:
    return list(ArchiveUpload(target, INSTANCE, seam, 7, **more).upload_files(sealed(log)[:count]))


def entries(directory: Place, **more: Any) -> list[tuple[int, bytes]]:
    with Journal.open(directory, INSTANCE, **more) as journal:
        return [(entry.txid, entry.payload) for block in journal.iter_blocks() for entry in block.iter_entries()]


def in_parts(directory: Place, size: int, **more: Any) -> list[tuple[int, bytes]]:
    """Read as tasks do: each opens the journal by itself."""
    with Journal.open(directory, INSTANCE, **more) as journal:
        segments = journal.list_segments()
        parts = cut_stretches(
            find_spans(segments, segments[0].first_txid - 1, segments[-1].last_txid, journal.locate_txid), size
        )
    found = []
    for part in parts:
        with Journal.open(directory, INSTANCE, **more) as journal:
            blocks = [block for one in part for block in journal.iter_stretch_blocks(one)]
        found += [(entry.txid, entry.payload) for block in blocks for entry in block.iter_entries()]
    return found


def test_the_archive_is_read_as_the_journal(log: Path, target: RemotePath) -> None:
    assert [one.anew for one in send(log, target)] == [True] * 9
    kept = [row for row in contents(log) if row[0] <= 108]
    assert entries(target) == kept == in_parts(target, 1)
    with Journal.open(log, INSTANCE) as whole, Journal.open(target, INSTANCE) as journal:
        assert (journal.first_txid, journal.read_last_txid()) == (1, 108)
        assert journal.lineage == whole.lineage and journal.covers_topic(ORDERS)
        assert [file.first_txid for file in journal.list_files()] == [file.first_txid for file in whole.list_files()][
            :-1
        ]
        assert journal.read_topic_states() == whole.read_state_before(109).topic_states


def test_a_plan_asks_for_the_manifest_and_nothing_else(log: Path, target: RemotePath, lake: ObjectStore) -> None:
    send(log, target)
    lake.requests.clear()
    with Journal.open(target, INSTANCE) as journal:
        segments = journal.list_segments()
        assert len(find_spans(segments, 5, 100, journal.locate_txid)) == 9 == len(list(journal.iter_group_positions()))
        assert all(journal.sample_header(one) is not None for one in segments)
        assert journal.read_last_txid() == 108 and journal.read_topic_states().keys() == {ORDERS, TRADES}
        assert journal.covers_topic(TRADES) and len(journal.list_files()) == 9
    assert {key for _, key in lake.requests} == {"lake/trading/journal/inst.manifest"}


def test_what_was_pruned_here_is_read_there(log: Path, near: RemotePath) -> None:
    whole = contents(log)
    send(log, near)
    for file in sealed(log)[:5]:
        file.path.unlink()
    assert entries(log, archive=near) == whole == in_parts(log, 1 << 20, archive=near)
    with Journal.open(log, INSTANCE, archive=near) as journal:
        assert [isinstance(file.path, RemotePath) for file in journal.list_files()] == [True] * 5 + [False] * 5
        # within and after the archive
        for after, until in ((0, 20), (30, 75), (59, None), (100, None)):
            wanted = [row for row in whole if row[0] > after and (until is None or row[0] <= until)]
            found = [
                (entry.txid, entry.payload)
                for block in journal.iter_blocks(after, until)
                for entry in block.iter_entries()
            ]
            assert [row for row in found if row[0] > after and (until is None or row[0] <= until)] == wanted
    for file in sealed(log):
        file.path.unlink()
    for path in log.glob("*.journal"):
        path.unlink()
    (log / "inst.topics").unlink(missing_ok=True)
    assert entries(log, archive=near) == [row for row in whole if row[0] <= 108]


def test_compressed_files_stay_compressed(log: Path, near: RemotePath, tmp_path: Path) -> None:
    whole = contents(log)
    for number, file in enumerate(sealed(log)):
        if number % 3:
            compress_file(file.path, ".gz" if number % 2 else ".zst", NO_SYNC)
    send(log, near)
    assert sum(path.suffix in (".gz", ".zst") for path in (tmp_path / "far").iterdir()) == 6
    assert entries(near) == [row for row in whole if row[0] <= 108] == in_parts(near, 1)


def test_again_sends_what_is_new(log: Path, target: RemotePath, lake: ObjectStore) -> None:
    send(log, target, 4)
    before = dict(lake.objects)
    lake.requests.clear()
    assert [one.anew for one in send(log, target, 4)] == [False] * 4
    assert not [method for method, _ in lake.requests if method in ("PUT", "POST")]
    assert lake.objects == before
    assert [one.anew for one in send(log, target)] == [False] * 4 + [True] * 5
    assert len(entries(target)) == 108


class DieAfter(Seam):
    """Interrupts the run at a write to the store, before or after it."""

    def __init__(self, count: int, *, done: bool) -> None:
        self.count, self.done = count, done

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        if point != "remote.write":
            return function(*args, **kwargs)
        self.count -= 1
        if self.count == 0 and self.done:
            function(*args, **kwargs)
        if self.count == 0:
            raise KeyboardInterrupt
        return function(*args, **kwargs)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("writes", range(1, 13))
def test_a_run_that_dies_at_any_write(
    log: Path, near: RemotePath, monkeypatch: pytest.MonkeyPatch, writes: int, done: bool
) -> None:
    """The archive is as described by the last manifest; the next run completes it."""
    monkeypatch.setattr(JOURNAL_LIMITS, "manifest_interval_files", 3)
    with pytest.raises(KeyboardInterrupt):
        send(log, near, seam=DieAfter(writes, done=done))
    # three segments and a manifest, three times
    manifests = (writes - (not done)) // 4
    if not manifests:
        with pytest.raises(MissingError) as caught:
            entries(near)
        assert caught.value.code == "SOW-JRN-081"
    else:
        assert len(entries(near)) == manifests * 36
    send(log, near)
    assert len(entries(near)) == 108


def test_what_came_there_before_an_error_is_kept(log: Path, target: RemotePath, lake: ObjectStore) -> None:
    lake.refused.add("lake/trading/journal/inst.0000000005.journal")
    with pytest.raises(StorageError) as caught:
        send(log, target)
    assert caught.value.code == "SOW-RMT-004"
    assert len(entries(target)) == 60


def test_a_damaged_file_is_not_sent(log: Path, near: RemotePath) -> None:
    path = sealed(log)[2].path
    raw = bytearray(path.read_bytes())
    raw[-300] ^= 1
    raw[140] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DamageError) as caught:
        send(log, near)
    assert str(path) in str(caught.value.place)
    assert len(entries(near)) == 24


def test_segments_that_are_missing_or_others(log: Path, target: RemotePath, lake: ObjectStore) -> None:
    send(log, target)
    name = "lake/trading/journal/inst.0000000003.journal"
    sound = lake.objects[name]
    del lake.objects[name]
    with pytest.raises(DamageError) as caught:
        entries(target)
    assert (caught.value.code, caught.value.place) == ("SOW-JRN-083", "s3://" + name)
    lake.objects[name] = sound[:-1]
    with pytest.raises(DamageError) as caught:
        entries(target)
    assert (caught.value.code, caught.value.place) == ("SOW-JRN-084", "s3://" + name)
    # the same size: the checksums of the blocks find it, and so does the digest
    lake.objects[name] = sound[:-1] + bytes([sound[-1] ^ 1])
    with pytest.raises(DamageError) as caught:
        entries(target)
    assert caught.value.code == "SOW-JRN-010" and str(caught.value.place).startswith("s3://" + name + "@")
    segment = manifest.require_manifest(target, INSTANCE).map_segments()[3]
    with pytest.raises(DamageError) as caught:
        verify_segment(target, segment)
    assert caught.value.code == "SOW-JRN-084" and segment.sha256 in caught.value.message
    assert [one.anew for one in send(log, target, verify=True)] == [False] * 3 + [True] + [False] * 5
    assert len(entries(target)) == 108


class FailingDisk(Seam):
    """One file fails to be read for the upload, that is, in large pieces; reading it as a journal works."""

    def call(self, name: str, function: Callable[..., R], *args: Any) -> R:
        if name == "file.read" and upload._SEND_CHUNK_BYTES in args:
            raise OSError(errno.EIO, "Input/output error")
        return super().call(name, function, *args)


def test_a_file_that_cannot_be_read_here_is_not_told_of_the_url(log: Path, near: RemotePath) -> None:
    with pytest.raises(StorageError) as caught:
        send(log, near, seam=FailingDisk())
    first = sealed(log)[0].path
    assert (caught.value.code, caught.value.place) == ("SOW-JRN-020", str(first))
    assert "Input/output error" in caught.value.message


def test_files_that_do_not_belong_there_are_refused(log: Path, near: RemotePath, tmp_path: Path) -> None:
    send(log, near, 4)
    files = sealed(log)
    with pytest.raises(RefusedError) as caught:
        list(ArchiveUpload(near, INSTANCE, SEAM, 7).upload_files(files[6:]))
    assert caught.value.code == "SOW-JRN-085" and "0000000003" in caught.value.message
    other = tmp_path / "other"
    with open_writer(other, NO_SYNC, journal_size=1600, lineage=bytes(16)) as writer:
        for number in range(3):
            publish(writer, group(texts(12, tag=f"o{number}")))
    with pytest.raises(RefusedError) as caught:
        send(other, near)
    assert caught.value.code == "SOW-JRN-085" and len(entries(near)) == 48


def test_an_archive_may_begin_late(log: Path, near: RemotePath) -> None:
    whole = contents(log)
    for file in sealed(log)[:4]:
        file.path.unlink()
    send(log, near)
    with Journal.open(near, INSTANCE) as journal:
        assert journal.first_txid == 49 and not journal.covers_topic(ORDERS)
        assert journal.find_prior_state(ORDERS).last_txid == 36
    assert entries(near) == [row for row in whole if 49 <= row[0] <= 108]


def test_a_directory_of_this_machine(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    target = parse_url(f"file://{tmp_path}/far/away")
    send(log, target)
    assert not list((tmp_path / "far").rglob("*.new"))
    # read as an archive at a URL, and as a directory of journal files
    assert entries(target) == entries(tmp_path / "far" / "away")


@pytest.mark.parametrize("number", [3, 8])
def test_a_segment_of_this_machine_that_is_cut_or_missing_is_no_shorter_journal(
    log: Path, near: RemotePath, tmp_path: Path, number: int
) -> None:
    send(log, near)
    far = tmp_path / "far"
    assert len(entries(far)) == 108
    segment = far / f"{INSTANCE}.{number:010d}.journal"
    sound = segment.read_bytes()
    segment.write_bytes(sound[:-100])
    for code in ("SOW-JRN-084", "SOW-JRN-083"):
        with pytest.raises(DamageError) as caught:
            entries(far)
        assert (caught.value.code, caught.value.place) == (code, str(segment))
        # next to the journal's own files, which are read first
        assert entries(log, archive=far) == contents(log)
        segment.unlink(missing_ok=True)
    segment.write_bytes(sound)
    told = far / f"{INSTANCE}.manifest"
    told.write_bytes(told.read_bytes()[:1500])
    with pytest.raises(DamageError) as caught:
        entries(far)
    assert (caught.value.code, caught.value.place) == ("SOW-JRN-080", str(told))
    told.unlink()
    assert len(entries(far)) == 108


def test_groups_that_did_not_happen(tmp_path: Path, near: RemotePath) -> None:
    log = aborted(tmp_path)
    send(log, near)
    assert in_parts(near, 1) == entries(near)
    found = manifest.require_manifest(near, INSTANCE).segments
    assert sum(one.entries for one in found) == len(entries(near)) < found[-1].last_txid


def aborted(tmp_path: Path) -> Path:
    """A journal with an aborted group between two others, and a further file."""
    log = tmp_path / "torn"
    with open_writer(log, NO_SYNC) as writer:
        publish(writer, group(texts(8)))
        whole = next(log.glob("*.journal")).stat().st_size
        publish(writer, group(texts(3000)))  # of three blocks
    path = next(log.glob("*.journal"))
    with Journal.open(log, INSTANCE) as journal:
        ends = [ref.offset for ref in journal.iter_block_refs() if ref.offset > whole]
    assert ends
    # without its last block the group is not committed
    os.truncate(path, ends[-1])
    (log / "inst.topics").unlink(missing_ok=True)
    for size in (1 << 30, 100):
        with open_writer(log, NO_SYNC, journal_size=size) as writer:
            publish(writer, group(texts(8)))
    assert len(list(log.glob("*.journal"))) > 1
    return log


def test_a_manifest_that_was_changed_or_cut(log: Path, target: RemotePath, lake: ObjectStore) -> None:
    send(log, target, 3)
    name = "lake/trading/journal/inst.manifest"
    sound = lake.objects[name]
    for end in range(len(sound) - 1):
        with pytest.raises(DamageError) as caught:
            manifest.decode_manifest(sound[:end], "place")
        assert caught.value.code == "SOW-JRN-080"
    changed = sound.replace(b'"first_txid":13', b'"first_txid":12')
    lake.objects[name] = changed
    with pytest.raises(DamageError):
        entries(target)
    later = sound.replace(b'"version":1', b'"version":2')
    with pytest.raises(Exception, match="version 2") as newer:
        manifest.decode_manifest(later, "place")
    assert newer.value.code == "SOW-JRN-082"  # type: ignore[attr-defined]


def test_a_journal_that_was_lost_here_goes_on_from_a_copy(log: Path, near: RemotePath, tmp_path: Path) -> None:
    """A process rereads a manifest only when necessary."""
    send(log, near, 4)
    with Journal.open(near, INSTANCE, reaching=10) as journal:
        assert journal.read_last_txid() == 48
    send(log, near)
    with Journal.open(near, INSTANCE, reaching=100) as journal:
        assert journal.read_last_txid() == 108
    shutil.rmtree(log)
    assert len(entries(near)) == 108

"""Taking a backup: its files, the files shared with other backups, and a consistent state of one instant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.engine.maintenance.backup.folder import TREE_NAME, read_backups
from sowctl.engine.maintenance.backup.manifest import MANIFEST_NAME, BackupManifest, decode_manifest
from sowctl.engine.maintenance.retention.archive import archive_files
from sowctl.engine.verbs.journal import list_files
from sowctl.engine.verbs.upkeep.backup import list_backups, verify_backup
from sowctl.errors import DamageError, LockedError, MissingError, SowError, VersionError
from sowctl.seam import SEAM
from tests.support.backups import NAMES, XML, BackupLab, checks_here
from tests.support.faraway import far_away

__all__ = ["checks_here"]


@pytest.fixture
def lab(tmp_path: Path, checks_here: None) -> Iterator[BackupLab]:
    made = BackupLab(tmp_path / "lab", XML, journal_size=2000)
    for number in range(6):
        made.round(number)
    (made.directory / "places.bookmarks").write_bytes(b"")
    yield made


def roles(manifest: BackupManifest) -> dict[str, int]:
    found: dict[str, int] = {}
    for file in manifest.files:
        found[file.role] = found.get(file.role, 0) + 1
    return found


def how(manifest: BackupManifest) -> dict[str, str]:
    return {file.path: file.how for file in manifest.files}


def test_everything_that_cannot_be_derived_is_in_it(lab: BackupLab) -> None:
    lab.lease(1)
    manifest, path = lab.take()
    assert roles(manifest) == {
        "configuration": 1,
        "journal": len(lab.journals()),
        "store": len(NAMES),
        "queue": 1,
        "bookmarks": 1,
    }
    assert manifest.kind == "full"
    assert manifest.reason is not None
    assert decode_manifest((path / MANIFEST_NAME).read_bytes(), "here") == manifest
    there = {str(file.relative_to(path / TREE_NAME)) for file in (path / TREE_NAME).rglob("*") if file.is_file()}
    assert there == {file.path for file in manifest.files}
    assert {topic.topic: topic.digest for topic in manifest.topics} == lab.digests()


def test_finished_journal_files_are_links_and_the_last_one_is_a_copy(lab: BackupLab) -> None:
    manifest, path = lab.take()
    *finished, last = lab.journals()
    for file in finished:
        assert (path / TREE_NAME / "journal" / file.name).stat().st_ino == file.stat().st_ino
    copy = path / TREE_NAME / "journal" / last.name
    assert copy.stat().st_ino != last.stat().st_ino
    before = copy.read_bytes()
    lab.round(50)
    assert copy.read_bytes() == before
    assert manifest.last_txid == 48


def test_it_goes_on_from_the_backup_before(lab: BackupLab) -> None:
    first, path = lab.take()
    lab.clock.tick(1)
    lab.publish("t", '{"id":1}')
    second, other = lab.take()
    assert (second.kind, second.base) == ("incremental", path.name)
    shared = how(second)
    assert shared["sow/t.json.sow"] == "copied"
    assert shared["sow/past.json.sow"] == shared["sow/alone.json.sow"] == "kept"
    kept = other / TREE_NAME / "sow/past.json.sow"
    assert kept.stat().st_ino == (path / TREE_NAME / "sow/past.json.sow").stat().st_ino
    assert [row.kind for row in list_backups(lab.backups)] == ["full", "incremental"]
    for name in (path.name, other.name):
        verify_backup(lab.backups, name, lab.opened, seam=SEAM, wait=0)
    third, _ = lab.take(full=True)
    assert (third.kind, third.base, third.reason) == ("full", None, "asked for")
    assert "kept" not in how(third).values()
    assert first.last_txid < second.last_txid == third.last_txid


def test_a_backup_stands_without_the_others_and_without_the_instance(lab: BackupLab) -> None:
    lab.take()
    lab.round(7)
    manifest, path = lab.take()
    expected = lab.digests()
    for one in read_backups(lab.backups):
        if one.path != path:
            for file in sorted(one.path.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            one.path.rmdir()
    for file in sorted(lab.directory.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    verify_backup(lab.backups, None, lab.opened, seam=SEAM, wait=0)
    restored, _ = lab.bring_back()
    assert restored.digests() == expected
    assert manifest.base is not None


def test_where_the_start_was_pruned_it_is_a_full_one(lab: BackupLab) -> None:
    earlier, _ = lab.take()
    for number in range(10, 16):
        lab.round(number)
    for topic in ("t", "quotes", "past", "orders"):
        lab.query(topic)
    lab.open().topic("t").replay()
    for file in lab.journals()[:-1]:
        file.unlink()
    manifest, _ = lab.take()
    assert (manifest.kind, manifest.base) == ("full", None)
    last, first = earlier.last_txid, next(list_files(lab.open())).first_txid
    assert last < first - 1
    assert re.findall(r"\d+", str(manifest.reason)) == [str(first), str(last)]


def test_another_history_begins_a_full_one(lab: BackupLab) -> None:
    lab.take()
    restored, _ = lab.bring_back()
    restored.clock.tick(5)
    restored.round(80)
    manifest, _ = restored.take()
    assert (manifest.kind, manifest.base) == ("full", None) and "history" in str(manifest.reason)
    assert [one.last_txid for one in manifest.histories] == [48]


def test_where_links_are_not_possible_it_copies_and_links_to_the_copy(
    lab: BackupLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link(source: Path, target: Path, **options: bool) -> None:
        if lab.directory in Path(source).parents:
            raise OSError(18, "Invalid cross-device link")
        real(source, target, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", link)
    first, path = lab.take()
    assert set(how(first).values()) == {"copied"}
    lab.round(9)
    second, other = lab.take()
    name = f"journal/{lab.journals()[0].name}"
    assert how(second)[name] == "kept"
    assert (other / TREE_NAME / name).stat().st_ino == (path / TREE_NAME / name).stat().st_ino


def test_an_instance_without_a_journal(tmp_path: Path, checks_here: None) -> None:
    from tests.support.instances import config_xml, topic_xml

    lab = BackupLab(tmp_path / "lab", config_xml(topic_xml("alone"), ()))
    lab.publish("alone", '{"id":1}', '{"id":2}')
    manifest, _ = lab.take()
    assert (manifest.lineage, manifest.last_txid) == (None, 0)
    restored, report = lab.bring_back()
    assert restored.digests() == lab.digests()
    assert (report.history, report.next_txid) == (None, 0)


def test_damage_in_a_backup_is_found(lab: BackupLab) -> None:
    manifest, path = lab.take()
    for file in manifest.files:
        if file.size == 0:
            continue
        place = path / TREE_NAME / file.path
        content = place.read_bytes()
        place.unlink()
        middle = len(content) // 2
        place.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        with pytest.raises(DamageError, match="digest"):
            verify_backup(lab.backups, None, lab.opened, seam=SEAM, wait=0)
        place.unlink()
        with pytest.raises(DamageError, match="missing"):
            verify_backup(lab.backups, None, lab.opened, seam=SEAM, wait=0)
        place.write_bytes(content)
    verify_backup(lab.backups, None, lab.opened, seam=SEAM, wait=0)
    (path / TREE_NAME / "more").write_bytes(b"x")
    with pytest.raises(DamageError) as caught:
        verify_backup(lab.backups, None, lab.opened, seam=SEAM, wait=0)
    assert (caught.value.code, caught.value.place) == ("SOW-BAK-001", str(path / TREE_NAME / "more"))


def test_every_flipped_bit_of_a_manifest_is_found(lab: BackupLab) -> None:
    _, path = lab.take()
    raw = (path / MANIFEST_NAME).read_bytes()
    for at in range(0, len(raw), 7):
        flipped = raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :]
        with pytest.raises(DamageError):
            decode_manifest(flipped, "here")
    for at in range(0, len(raw), 97):
        with pytest.raises(DamageError):
            decode_manifest(raw[:at], "here")
    (path / MANIFEST_NAME).write_bytes(raw[:-30])
    (row,) = list_backups(lab.backups)
    assert row.problem is not None
    manifest, _ = lab.take()
    assert manifest.kind == "full"


def test_a_newer_manifest_is_not_called_damaged(lab: BackupLab) -> None:
    from xxhash import xxh3_128_hexdigest

    _, path = lab.take()
    body = (path / MANIFEST_NAME).read_bytes().rsplit(b"xxh3-128", 1)[0]
    facts = json.loads(body)
    facts["version"] = 2
    newer = json.dumps(facts).encode() + b"\n"
    with pytest.raises(VersionError):
        decode_manifest(newer + b"xxh3-128 " + xxh3_128_hexdigest(newer).encode() + b"\n", "here")


def test_a_damaged_store_gives_no_backup(lab: BackupLab) -> None:
    from tests.support.damage import overwrite

    store = lab.store("t")
    lab.open().close()
    content = store.read_bytes()
    at = content.rindex(b'"round":5')
    overwrite(store, at, b'"round":6')
    with pytest.raises(SowError) as caught:
        lab.take()
    assert caught.value.exit_status == 5
    assert list_backups(lab.backups) is not None
    assert read_backups(lab.backups) == []
    overwrite(store, at, b'"round":5')
    lab.take()


def test_one_backup_at_a_time_and_none_where_there_is_none(lab: BackupLab, tmp_path: Path) -> None:
    from sowctl.engine.maintenance.backup.folder import hold_directory

    with hold_directory(lab.backups, SEAM, 0), pytest.raises(LockedError), hold_directory(lab.backups, SEAM, 0):
        pass
    with pytest.raises(MissingError):
        list(list_backups(tmp_path / "nowhere"))
    with pytest.raises(MissingError):
        verify_backup(lab.backups, "20260101", lab.opened, seam=SEAM, wait=0)


def test_directories_and_files_are_not_for_everybody(lab: BackupLab) -> None:
    _, path = lab.take()
    lab.bring_back()
    for place in (path, lab.directory.parent / "restored"):
        for entry in (place, *place.rglob("*")):
            if entry.is_dir():
                assert entry.stat().st_mode & 0o777 == 0o750, entry
    assert (path / MANIFEST_NAME).stat().st_mode & 0o777 == 0o640


def test_what_lies_at_a_url_is_no_part_of_it(tmp_path: Path, checks_here: None) -> None:
    directory = "<JournalDirectory>journal</JournalDirectory>"
    assert directory in XML
    with far_away(tmp_path / "far") as far:
        archived = f"<JournalArchiveDirectory>{far.url('journal')}</JournalArchiveDirectory>"
        lab = BackupLab(tmp_path / "lab", XML.replace(directory, directory + archived), journal_size=2000)
        for number in range(6):
            lab.round(number)
        sent = list(archive_files(lab.open()))
        for one in sent[:-1]:
            one.path.unlink()
        far.is_away, far.asked = True, 0
        manifest, _ = lab.take()
        expected = lab.digests()
        restored, _ = lab.bring_back()
        restored.clock.at = manifest.time
        assert restored.digests() == expected and far.asked == 0
        assert manifest.archive is None and manifest.origin.archive is None
        assert roles(manifest)["journal"] == len(lab.journals())

"""Backups and restored journals of every released format version stay readable; the current writer makes these bytes.

:func:`write_golden` wrote ``tests/formats/v1/backup`` and ``tests/formats/v1/restored.*``. To make those of a new
version: ``python -m tests.engine.maintenance.backup.test_golden DIRECTORY``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.maintenance.backup.creation import take_backup
from sowctl.engine.maintenance.backup.folder import TREE_NAME
from sowctl.engine.maintenance.backup.journals import begin_history
from sowctl.engine.maintenance.backup.manifest import MANIFEST_NAME, decode_manifest, encode_manifest
from sowctl.engine.verbs.upkeep.backup import verify_backup
from sowctl.engine.verbs.upkeep.restore import restore_backup
from sowctl.journal.check import check_journal
from sowctl.journal.reader import Journal
from sowctl.seam import SEAM
from tests.support.backups import checks_here
from tests.support.instances import START, Clock, Lab, config_xml, message, topic_xml

__all__ = ["checks_here"]
V1 = Path(__file__).parents[3] / "formats" / "v1"
BACKUP = V1 / "backup"
LINEAGE = bytes(range(0x20, 0x30))


def opened(config: Path, root: Path) -> Instance:
    return Instance.open(config, root=root, environment={}, clock=Clock(START + 60_000_000))


def restored_journal(directory: Path) -> None:
    """Write the chained golden journal, ended by a restore: a file of version 2 follows it."""
    for path in V1.glob("chained.*.journal"):
        shutil.copy(path, directory / path.name.replace("chained", "restored"))
    begin_history(directory, "restored", None, lineage=LINEAGE, above=1000, now=START, seam=SEAM)


def write_golden(directory: Path) -> None:
    restored_journal(directory)
    lab = Lab(directory / "lab", config_xml(topic_xml("t") + topic_xml("alone"), ("t",)))
    for number in range(3):
        lab.clock.tick(1)
        lab.publish("t", message(id=number))
        lab.publish("alone", message(id=number))
    _, path = take_backup(lab.open(), directory / "backups")
    shutil.copytree(path, directory / "backup")


def test_the_manifest_keeps_its_bytes() -> None:
    raw = (BACKUP / MANIFEST_NAME).read_bytes()
    manifest = decode_manifest(raw, str(BACKUP))
    assert encode_manifest(manifest) == raw
    assert (manifest.version, manifest.kind, manifest.last_txid) == (1, "full", 3)
    assert [(topic.topic, topic.records) for topic in manifest.topics] == [("t", 3), ("alone", 3)]


@pytest.fixture
def backups(tmp_path: Path, checks_here: None) -> Path:
    shutil.copytree(BACKUP, tmp_path / "backups" / "golden")
    return tmp_path / "backups"


def test_a_backup_of_version_1_is_verified_and_restored(backups: Path, tmp_path: Path) -> None:
    report = verify_backup(backups, "golden", opened, seam=SEAM, wait=0)
    assert report.records == 6
    done = restore_backup(backups, tmp_path / "to", opened, seam=SEAM, now=START, lineage=LINEAGE)
    known = decode_manifest((BACKUP / MANIFEST_NAME).read_bytes(), "here")
    assert [topic.digest for topic in done.restored] == [topic.digest for topic in known.topics]
    assert {
        str(path.relative_to(backups / "golden" / TREE_NAME)) for path in (backups / "golden" / TREE_NAME).rglob("*.*")
    } == {file.path for file in known.files}


def test_a_restored_journal_is_read() -> None:
    with Journal.open(V1, "restored") as journal:
        assert journal.lineage == LINEAGE
        (ended,) = journal.histories
        assert (ended.lineage, ended.last_txid, ended.above, ended.time) == (bytes(range(0x10, 0x20)), 152, 1000, START)
        assert sum(len(block) for block in journal.iter_blocks()) == 50
        assert journal.read_last_txid() == 1000
    assert list(check_journal(V1, "restored")) == []


def test_a_restore_still_makes_the_same_bytes(tmp_path: Path) -> None:
    restored_journal(tmp_path)
    for path in V1.glob("restored.*.journal"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


if __name__ == "__main__":
    write_golden(Path(sys.argv[1]))

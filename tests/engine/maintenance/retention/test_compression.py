"""journal compress: which files it compresses, what it reports of them, and that queries and writers keep running."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sowctl.engine.maintenance.retention.compression import compress_files
from sowctl.errors import LockedError
from sowctl.journal.maintenance.lock import hold_maintenance_lock
from sowctl.seam import SEAM
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml


@pytest.fixture
def rolled(tmp_path: Path) -> Lab:
    """Files of about a minute each."""
    xml = config_xml(topic_xml("t"), ("t",)).replace(
        "<JournalSize>", "<JournalArchiveDirectory>archive</JournalArchiveDirectory><JournalSize>"
    )
    lab = Lab(tmp_path / "lab", xml, journal_size=1500)
    for number in range(30):
        lab.publish("t", message(id=number, text="x" * 40))
        lab.clock.tick(20)
    assert len(lab.journals()) > 4
    return lab


def names(lab: Lab) -> list[str]:
    return sorted(path.suffix for path in (lab.directory / "journal").glob("*.journal*"))


def test_a_dry_run_says_what_would_be_done(rolled: Lab) -> None:
    before = rolled.journals()
    rows = list(compress_files(rolled.open(), dry_run=True))
    assert [row.path for row in rows] == before[:-1]
    assert all(row.compressed_size is None and row.dry_run for row in rows)
    assert rolled.journals() == before


@pytest.mark.parametrize("kind", [".zst", ".gz"])
def test_finished_files_are_compressed_and_read(rolled: Lab, kind: str) -> None:
    before = rolled.journals()
    digest = rolled.digest("t")
    rows = list(compress_files(rolled.open(), kind=kind))
    assert [row.compressed.name for row in rows] == [path.name + kind for path in before[:-1]]
    assert [row.compressed_size for row in rows] == [row.compressed.stat().st_size for row in rows]
    assert rolled.journals() == before[-1:]
    assert list(compress_files(rolled.open(), kind=kind)) == []
    rolled.publish("t", message(id=99))
    rolled.forget("t")
    assert len(rolled.query("t")) == 31
    rolled.open().topic("t").delete(filter="/id = 99")
    assert rolled.digest("t") == digest
    assert rolled.findings() == []


def test_age_and_number_choose(rolled: Lab) -> None:
    count = len(rolled.journals())
    rows = list(compress_files(rolled.open(), keep=2, dry_run=True))
    assert len(rows) == count - 3
    chosen = [
        len(list(compress_files(rolled.open(), older_than=age * SECOND, dry_run=True))) for age in range(0, 700, 60)
    ]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] == count - 1 and chosen[-1] == 0


def test_what_was_interrupted_is_gone_on_with(rolled: Lab) -> None:
    first = rolled.journals()[0]
    content = first.read_bytes()
    list(compress_files(rolled.open()))
    first.write_bytes(content)  # as if the last step were missing
    (row,) = compress_files(rolled.open())
    assert row.path == first and not first.exists()
    assert rolled.findings() == []


def test_one_at_a_time(rolled: Lab) -> None:
    holding = hold_maintenance_lock(
        rolled.directory / "journal", "test", seam=SEAM, wait=1, holder="prune", now=rolled.clock()
    )
    with holding, pytest.raises(LockedError) as caught:
        list(compress_files(rolled.open(lock_wait=0)))
    assert caught.value.code == "SOW-JRN-060"


def test_what_a_killed_run_left_goes_with_the_next_one_of_any_kind(rolled: Lab) -> None:
    journal = rolled.directory / "journal"
    oldest = rolled.journals()[0].name
    (archive := rolled.directory / "archive").mkdir()
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = [
        journal / f".{oldest}.zst.new",
        journal / f".{oldest}.gz.new",
        journal / f".{oldest}.cut-1.new",
        journal / f".test.topics.{gone.pid}.new",
        archive / f".{oldest}.new",
    ]
    # Files that a publisher makes under another lock stay: its next journal file, and its topics file.
    others = [
        journal / f".{oldest}.new",
        journal / f".test.topics.{os.getpid()}.new",
        journal / f".other-{oldest}.zst.new",
        journal / ".notes.new",
    ]
    for path in (*left, *others):
        path.write_bytes(b"half")
    list(compress_files(rolled.open(), dry_run=True))
    assert all(path.exists() for path in left)
    list(compress_files(rolled.open(), keep=1000))
    assert [path for path in left if path.exists()] == []
    assert all(path.exists() for path in others), "files of others stay"

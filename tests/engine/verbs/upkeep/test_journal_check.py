"""journal check: it reads all files, reports damage, and reports files that it could not read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import zstandard

from sowctl.engine.verbs.upkeep.journal_check import check_journal
from sowctl.errors import MissingError
from sowctl.findings import Level
from sowctl.journal.reader import Journal
from tests.support.instances import Lab, config_xml, message, topic_xml

ARCHIVE = "<JournalArchiveDirectory>archive</JournalArchiveDirectory>"


@pytest.fixture
def rolled(tmp_path: Path) -> Lab:
    """About forty entries in several files."""
    xml = config_xml(topic_xml("t"), ("t",)).replace("<JournalSize>", f"{ARCHIVE}<JournalSize>")
    lab = Lab(tmp_path / "lab", xml, journal_size=1500)
    for number in range(20):
        lab.publish("t", message(id=number, text="x" * 40), message(id=number + 100, text="y" * 40))
    assert len(lab.journals()) > 3
    return lab


def test_all_files_are_read_wherever_they_lie(rolled: Lab) -> None:
    first, second, *rest = rolled.journals()
    archive = rolled.directory / "archive"
    archive.mkdir()
    shutil.move(first, archive / first.name)
    size = second.stat().st_size
    packed = second.with_name(f"{second.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(second.read_bytes()))
    second.unlink()
    run = check_journal(rolled.open())
    assert list(run) == []
    report = run.report
    assert (report.files, report.compressed, report.archived) == (len(rest) + 2, 1, 1)
    assert (report.entries, report.groups, report.not_verified) == (40, 20, ())
    plain = [(archive / first.name).stat().st_size, *(path.stat().st_size for path in rest)]
    assert report.bytes == sum(plain) + size
    assert report.stored == sum(plain) + packed.stat().st_size
    assert "1 compressed, 1 archived" in run.coverage
    assert "40 entries in 20 groups" in run.coverage and "not verified" not in run.coverage


def test_damage_is_found_and_said_not_to_be_read(rolled: Lab) -> None:
    path = rolled.journals()[1]
    with Journal.open(path.parent, "test") as log:
        block = next(block for block in log.iter_blocks() if block.path == path)
    content = bytearray(path.read_bytes())
    content[block.end.offset - 3] ^= 1
    path.write_bytes(content)
    run = check_journal(rolled.open())
    (finding,) = run
    assert (finding.id, finding.level, finding.place.offset) == ("SOW-JRN-010", Level.ERROR, block.start.offset)
    size = block.end.offset - block.start.offset
    assert run.report.not_verified == (f"{path.name}: {size:,} bytes at {block.start.offset}",)
    assert run.report.entries == 40 - len(block)
    assert f"not verified: {path.name}" in run.coverage


def test_a_file_that_cannot_be_opened_is_said(rolled: Lab) -> None:
    path = rolled.journals()[1]
    path.write_bytes(b"nothing of a journal" * 10)
    run = check_journal(rolled.open())
    assert "SOW-JRN-002" in {finding.id for finding in run}
    assert any(part.startswith(f"{path.name}: ") for part in run.report.not_verified)
    assert "not verified: " in run.coverage and path.name in run.coverage


def test_what_stores_prove_to_be_missing_is_found_and_not_so_of_another_directory(rolled: Lab, tmp_path: Path) -> None:
    copy = shutil.copytree(rolled.directory / "journal", tmp_path / "copy")
    for directory in (rolled.directory / "journal", copy):
        (directory / "test.topics").unlink()
    whole = rolled.journals()[-1]
    whole.unlink()
    (copy / whole.name).unlink()
    (finding,) = check_journal(rolled.open())
    assert finding.id == "SOW-JRN-013"
    assert list(check_journal(rolled.open(), copy)) == []


def test_no_journal_is_an_error(lab: Lab) -> None:
    with pytest.raises(MissingError):
        list(check_journal(lab.open()))

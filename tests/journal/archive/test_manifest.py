"""Manifests of archives remain readable for ever, and the current writer still produces the same bytes.

``tests/formats/v1/archive`` describes the finished files of some journals of ``tests/formats/v1``. To recreate them for
a later version: ``python -m tests.journal.archive.test_manifest DIRECTORY``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.journal.archive.manifest import decode_manifest, encode_manifest
from sowctl.journal.maintenance.survey import survey_files
from sowctl.journal.maintenance.upload import ArchiveUpload
from sowctl.journal.reader import Journal
from sowctl.remote.place import parse_url
from tests.support.journals import NO_SYNC

V1 = Path(__file__).parents[2] / "formats" / "v1"
MADE = 1_767_225_600_000_000
NAMES = ("chained", "mended", "restored")


def written(instance: str, directory: Path) -> bytes:
    """Upload a journal's finished files to ``directory`` and return the manifest."""
    files = [file for file in survey_files(V1, instance, NO_SYNC) if file.is_finished]
    list(ArchiveUpload(parse_url(str(directory)), instance, NO_SYNC, MADE).upload_files(files))
    return (directory / f"{instance}.manifest").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_the_first_version(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    golden = (V1 / "archive" / f"{name}.manifest").read_bytes()
    assert written(name, tmp_path) == golden
    assert encode_manifest(decode_manifest(golden, "")) == golden


def test_what_they_say() -> None:
    found = decode_manifest((V1 / "archive" / "chained.manifest").read_bytes(), "place")
    (segment,) = found.segments
    raw = (V1 / "chained.0000000000.journal").read_bytes()
    assert (found.instance, found.made, segment.size, segment.length) == ("chained", MADE, len(raw), len(raw))
    with Journal.open(V1, "chained") as journal:
        header = journal.list_files()[1].first_txid
        assert segment.last_txid == header - 1
        blocks = [block for block in journal.iter_blocks() if block.last_txid < header]
        assert sum(map(len, blocks)) == segment.entries
        assert {topic.topic for block in blocks for topic in block.map.topic_rows} == {
            row[:2] for row in segment.topics
        }
        assert found.build_end_state().topic_states == journal.read_state_before(header).topic_states
        assert found.build_end_state().publishers == journal.read_state_before(header).publishers
    assert (
        found.find_segment(101) is segment
        and found.find_segment(1) is None
        and found.find_segment(segment.last_txid + 1) is None
    )
    topic, latest = segment.topics[0][:2], segment.latest
    assert segment.may_hold_entries(topic, latest, None) and segment.may_hold_entries(None, None, latest)
    assert not segment.may_hold_entries(("other", "json"), None, None)
    assert not segment.may_hold_entries(topic, latest + 1, None) and not segment.may_hold_entries(
        topic, None, segment.earliest - 1
    )
    assert decode_manifest((V1 / "archive" / "mended.manifest").read_bytes(), "place").segments[0].gaps > 0


def test_a_plan_is_made_of_it() -> None:
    (one,) = decode_manifest((V1 / "archive" / "chained.manifest").read_bytes(), "").segments
    segment = one.build_segment()
    with Journal.open(V1, "chained") as journal:
        known = journal.list_segments()[0]
    assert segment == replace(known, index=one.index, mark=one.sha256[:16])
    assert [place.txid for place in one.iter_positions()] == [one.first_txid - 1]
    block = one.build_summary_header()
    assert (block.size, block.count, block.payloads_raw) == (one.size, one.entries, one.payload_bytes)
    packed = replace(one, name=one.name + ".zst")
    assert packed.build_segment().is_packed and not packed.build_segment().index


if __name__ == "__main__":
    for one in NAMES:
        with tempfile.TemporaryDirectory() as there:
            written(one, Path(there))
            shutil.copy(Path(there) / f"{one}.manifest", Path(sys.argv[1]))

"""The file with the last run of each action: its bytes, damaged files, and faults at every call."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sowctl.engine.maintenance.retention.action_log import (
    ActionState,
    decode_rows,
    encode_rows,
    find_actions_path,
    hold_actions,
    read_rows,
    write_rows,
)
from sowctl.errors import LockedError, StorageError, VersionError
from sowctl.seam import SEAM
from tests.support.faults import CountingSeam, FailAt, died_at_call
from tests.support.instances import START, Lab, config_xml, topic_xml

GOLDEN = Path(__file__).parents[3] / "formats" / "v1" / "actions.upkeep"
ROWS = {
    "00112233445566778899aabbccddeeff": ActionState(
        "old journals", 1_767_600_000_000_000, 1_767_600_000_000_000, "done"
    ),
    "ffeeddccbbaa99887766554433221100": ActionState("Łódź", 0, START + 1, "failed", "the disk is full"),
}


def test_golden() -> None:
    """Files of every released version stay readable, and the current writer makes these bytes."""
    assert decode_rows(GOLDEN.read_bytes(), "golden") == ROWS
    assert encode_rows(ROWS) == GOLDEN.read_bytes()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))


def test_where_it_lies(lab: Lab, tmp_path: Path) -> None:
    assert find_actions_path(lab.open()) == lab.directory / "journal" / "test.upkeep"
    assert (
        find_actions_path(Lab(tmp_path / "no", config_xml(topic_xml("t"), ())).open())
        == tmp_path / "no" / "test.upkeep"
    )


def test_damage_is_said_and_everything_is_due(lab: Lab) -> None:
    instance, path = lab.open(), lab.directory / "test.upkeep"
    assert read_rows(path, instance) == {} and lab.notes == []
    raw = encode_rows(ROWS)
    for wrong in (b"", raw[:9], raw[:-1], raw[:20] + b"\0" + raw[21:], b"x" * 50, encode_rows({})[:-1] + b"\xc1"):
        path.write_bytes(wrong)
        lab.notes.clear()
        assert read_rows(path, instance) == {}
        assert "damaged" in lab.notes[0]
    path.write_bytes(raw)
    assert read_rows(path, instance) == ROWS
    newer = raw[:8] + (2).to_bytes(4, "little") + raw[12:]
    path.write_bytes(newer)
    with pytest.raises(VersionError) as caught:
        read_rows(path, instance)
    assert caught.value.code == "SOW-UPK-005" and caught.value.exit_status == 9


def test_killed_or_failed_at_every_call_it_is_the_old_file_or_the_new_one(lab: Lab) -> None:
    instance, path = lab.open(), lab.directory / "test.upkeep"
    old, new = encode_rows({}), encode_rows(ROWS)
    for after in (False, True):
        n = 1
        path.write_bytes(old)
        while died_at_call(n, lambda seam: write_rows(path, ROWS, seam), after=after):
            assert path.read_bytes() in (old, new)
            write_rows(path, {}, SEAM)
            assert [one.name for one in lab.directory.glob(".*.new")] == []
            n += 1
        assert n >= 5
    counting = CountingSeam()
    write_rows(path, {}, counting)
    for n in range(1, counting.count + 1):
        with pytest.raises(StorageError) as caught:
            write_rows(path, ROWS, FailAt(n, errno.ENOSPC))
        assert caught.value.code == "SOW-UPK-004" and path.read_bytes() in (old, new)
        write_rows(path, {}, SEAM)
    assert read_rows(path, instance) == {}


def test_one_run_at_a_time(lab: Lab) -> None:
    path = find_actions_path(lab.open())
    with (
        hold_actions(path, lab.open()),
        pytest.raises(LockedError) as caught,
        hold_actions(path, lab.open(lock_wait=0)),
    ):
        pass
    assert caught.value.code == "SOW-UPK-006" and caught.value.exit_status == 11

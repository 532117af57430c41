"""doctor's diagnosis of an instance: it finds each fault, each finding has a next step, and nothing is changed."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from sowctl.engine.maintenance import diagnosis
from sowctl.engine.maintenance.diagnosis import (
    Diagnosis,
    diagnose_clock_lag,
    diagnose_file_system,
    diagnose_instance,
    diagnose_lock,
    diagnose_space,
    find_file_system_kind,
    measure_flush,
)
from sowctl.engine.maintenance.reclaimable import list_reclaimable
from sowctl.engine.verbs.upkeep.clean import clean_work_directories
from sowctl.store.repair.space import ReaderProcess, SpaceUsage
from tests.support.damage import overwrite
from tests.support.instances import SECOND, Lab, config_xml, message, topic_xml
from tests.support.processes import Child

MOUNTS = """\
22 1 254:1 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /dev/shm rw - tmpfs tmpfs rw
31 22 0:40 / /srv/data rw shared:7 - nfs4 server:/data rw
32 22 0:41 / /srv/data/local\\040disk rw - xfs /dev/vdb rw
33 22 0:42 / /mnt/s rw - fuse.sshfs me@there: rw
34 22 0:43 / /mnt/f rw - fuse.ntfs /dev/sdb rw
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    # Leave out files of other tests' processes.
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    lab = Lab(tmp_path, config_xml(topic_xml("t") + topic_xml("u"), ("t",)))
    for topic in "tu":
        lab.publish(topic, *(message(id=n) for n in range(50)))
    return lab


def found(lab: Lab) -> dict[str, Diagnosis]:
    return {one.name: one for one in diagnose_instance(lab.open())}


def test_a_sound_instance(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_read_text", lambda path: MOUNTS.splitlines()[0])
    monkeypatch.setattr(diagnosis, "measure_flush", lambda place: 0.001)
    for path in lab.directory.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o007)
    before = {path: path.stat().st_mtime_ns for path in lab.directory.rglob("*") if not path.name.endswith("-lock")}
    rows = found(lab)
    assert {one.state for one in rows.values()} == {"ok"}, rows
    assert "format 1, 50 records" in rows["store of t"].detail
    assert rows["journal"].detail == "1 file, txid 1 to 50"
    after = {path: path.stat().st_mtime_ns for path in lab.directory.rglob("*") if not path.name.endswith("-lock")}
    assert after == before


@pytest.mark.parametrize(
    ("place", "kind", "state"),
    [
        ("/var/lib", "ext4", "ok"),
        ("/dev/shm/x", "tmpfs", "warning"),
        ("/srv/data/sow", "nfs4", "problem"),
        ("/srv/data/local disk/sow", "xfs", "ok"),
        ("/mnt/s", "fuse.sshfs", "problem"),
        ("/mnt/f", "fuse.ntfs", "warning"),
    ],
)
def test_kinds_of_file_systems(place: str, kind: str, state: str) -> None:
    assert find_file_system_kind(Path(place), MOUNTS) == kind
    first = next(diagnose_file_system(Path(place), MOUNTS, lambda _: 0.001))
    assert first.state == state
    assert (first.hint is None) == (state == "ok")


def test_where_the_kind_is_not_known() -> None:
    assert find_file_system_kind(Path("/x"), "nonsense\n1 2 3\n") is None
    assert [one.state for one in diagnose_file_system(Path("/x"), "", lambda _: None)] == ["absent", "absent"]


def test_flushes_that_reach_no_disk(tmp_path: Path) -> None:
    assert [one.state for one in diagnose_file_system(Path("/var"), MOUNTS, lambda _: 5e-6)] == ["ok", "warning"]
    taken = measure_flush(tmp_path)
    assert taken is None or 0 < taken < 10
    assert list(tmp_path.iterdir()) == []
    assert measure_flush(tmp_path / "missing") is None


def space(**facts: object) -> SpaceUsage:
    usual = {"page_size": 4096, "pages": 10_000, "free_pages": 100, "file_bytes": 40_960_000, "map_bytes": 1 << 30}
    return SpaceUsage(**(usual | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "room", "states", "word"),
    [
        ({}, 1 << 40, ["ok"], "1% free"),
        ({}, 1 << 20, ["warning"], "free space"),
        ({"free_pages": 6000}, 1 << 40, ["warning"], "sowctl store compact t"),
        ({"pages": 100, "free_pages": 60}, 1 << 40, ["ok"], "60% free"),
        ({"oldest": ReaderProcess(77, 5, 3.0), "retained_pages": 10}, 1 << 40, ["ok"], "1% free"),
        ({"oldest": ReaderProcess(77, 5, 3.0), "retained_pages": 2000}, 1 << 40, ["ok", "warning"], "process 77"),
        ({"oldest": ReaderProcess(77, 5, None), "retained_pages": 1}, 1 << 40, ["ok", "warning"], "process 77"),
    ],
)
def test_use_of_a_store(facts: dict[str, object], room: int, states: list[str], word: str) -> None:
    rows = list(diagnose_space("store of t", "t", "format 1", space(**facts), room))
    assert [one.state for one in rows] == states
    assert word in f"{rows[-1].detail} {rows[-1].hint}"


def test_a_clock_that_is_behind(lab: Lab) -> None:
    assert found(lab)["clock"].state == "ok"
    lab.clock.tick(-3600)
    row = found(lab)["clock"]
    assert row.state == "problem"
    assert "1 h 00 min behind" in row.detail
    assert [one.state for one in diagnose_clock_lag(5, 0, "")] == ["ok"]
    assert [one.state for one in diagnose_clock_lag(5 * SECOND, 5 * SECOND + 900_000, "t")] == ["ok"]


def test_a_store_that_is_damaged_and_files_that_lie_about(lab: Lab) -> None:
    lab.store("t").with_name("t.json.sow.new-999999999-1").write_bytes(b"half")
    lab.store("t").with_name("t.json.sow.damaged-1").write_bytes(b"former")
    lab.store("t").chmod(0o644)
    overwrite(lab.store("u"), 0, b"no store" * 2000)
    rows = found(lab)
    left = rows["leftovers of t"]
    assert (left.state, "sowctl store clean t" in str(left.hint)) == ("warning", True)
    assert rows["kept of t"].state == "warning"
    assert rows["permissions of t"].hint == f"chmod o-rwx {lab.store('t')}"
    assert rows["store of u"].state == "problem"
    assert rows["store of u"].hint


def test_temporary_directories_of_killed_processes(lab: Lab, tmp_path: Path) -> None:
    dead = tmp_path / "temporary" / "sowctl-work-x"
    dead.mkdir(parents=True)
    (dead / "lock").write_text("4000000\n")
    (dead / "input.sow").write_bytes(bytes(5000))
    row = found(lab)["leftovers"]
    assert (row.state, "sowctl store clean" in str(row.hint)) == ("warning", True)
    space = {one.command: one.bytes for one in list_reclaimable(lab.open())}
    assert space["sowctl store clean"] == 5008
    assert [(one.path, one.pid) for one in clean_work_directories(dry_run=True)] == [(str(dead), 4000000)]
    assert [one.path for one in clean_work_directories()] == [str(dead)]
    assert not dead.exists() and "leftovers" not in found(lab)


def test_a_journal_of_which_a_file_is_missing(tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)), journal_size=2000)
    for number in range(6):
        lab.publish("t", *(message(id=n, text=os.urandom(30).hex()) for n in range(number * 50, number * 50 + 50)))
    lab.journals()[1].unlink()
    row = found(lab)["journal"]
    assert (row.state, bool(row.hint)) == ("problem", True)


def test_locks(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"")
    assert list(diagnose_lock("lock", path, "", None)) == []
    assert list(diagnose_lock("lock", tmp_path / "none", "", None)) == []

    def hold(child: Child) -> None:
        import fcntl

        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            child.say("held")
            os.read(child.inlet, 1)

    with Child(hold) as child:
        child.wait_for(b"held")
        (row,) = diagnose_lock("lock", path, ": process 5", child.pid)
        assert row.state == "ok" and row.detail.endswith(": process 5")
        os.utime(path, (time.time() - 500, time.time() - 500))
        assert [one.state for one in diagnose_lock("lock", path, "", child.pid)] == ["warning"]
        assert [one.state for one in diagnose_lock("lock", path, "", child.pid, dated=False)] == ["ok"]
        child.signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        (row,) = diagnose_lock("lock", path, "", child.pid)
        assert row.state == "problem"
        assert str(row.hint).startswith(f"kill -CONT {child.pid}")
        child.signal(signal.SIGCONT)

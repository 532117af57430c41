"""Staging at a URL: the same commit as from a directory, all or nothing; leftovers of a dead driver are removed."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from sowctl.engine.bulk import owner
from sowctl.engine.bulk.commit import commit_run
from sowctl.engine.bulk.remoteruns import remove_ended_runs
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.engine.options import PublishOptions
from sowctl.errors import DamageError, SowError, StorageError
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath, parse_url
from tests.support.faraway import far_away
from tests.support.instances import Lab, message, verified
from tests.support.objectstore import ObjectStore
from tests.support.staged import SKIP, make, stage

DIES = """
import os, signal, sys
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.remote.place import parse_url
from tests.support.staged import make, stage, SKIP
from pathlib import Path
instance = make(Path(sys.argv[1])).open()
with hold_staging_area(instance, instance.topic("log").config, directory=parse_url(sys.argv[2])) as area:
    stage(area.build_plan(SKIP), "t", 0, ['{"id":1}'])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["s3", "file"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> RemotePath:
    if request.param == "s3":
        return parse_url(request.getfixturevalue("lake").url("stage"))
    pytest.importorskip("pyarrow")
    return parse_url(str(tmp_path / "far"))


def files(root: RemotePath) -> list[str]:
    return [
        one.place.path.removeprefix(root.path + "/") for one in remote_files.list_files(root, below=True) if one.size
    ]


def loaded(lab: Lab, place: RemotePath | None, tasks: list[list[str]]) -> list[tuple[int, bytes]]:
    """Stage tasks there, some of them twice, commit the winners, and return the content of the topic."""
    instance = lab.open()
    with hold_staging_area(instance, instance.topic("log").config, directory=place) as area:
        plan = area.build_plan(SKIP, keep_rejects=True)
        stage(plan, "lost", 1, [message(id=1, n="lost")])
        done = [stage(plan, f"t{number}", number % 3, rows, 100 * number) for number, rows in enumerate(tasks)]
        report = commit_run(area, plan, done[::-1])
        refused = [name for name in (one.rejects for one in done) if name is not None]
        assert report.rejected == sum(len((area.directory / name).read_bytes().splitlines()) for name in refused)
        assert report.rejected > 0 and report.segments > 0
    return [(one.txid, one.payload) for one in lab.records("log")]


def test_what_is_committed_is_the_same(tmp_path: Path, root: RemotePath) -> None:
    chance = random.Random(11)
    tasks = [
        [message(id=chance.randrange(30), n=chance.random()) for _ in range(chance.randrange(1, 40))] + ["no message"]
        for _ in range(7)
    ]
    with verified(make(tmp_path / "there")) as there, verified(make(tmp_path / "here")) as here:
        assert loaded(there, root, tasks) == loaded(here, None, tasks)
    assert files(root) == []


def test_tasks_are_told_of_the_url_alone(tmp_path: Path, lake: ObjectStore) -> None:
    instance = make(tmp_path).open()
    with hold_staging_area(instance, instance.topic("log").config, directory=parse_url(lake.url("stage"))) as area:
        assert area.shared is not None and area.directory.is_dir()
        assert str(area.directory).encode() not in pickle.dumps(area.build_plan(SKIP).place)
    assert not area.directory.exists()


def failed(lab: Lab, root: RemotePath, spoil) -> SowError:  # type: ignore[no-untyped-def]
    instance = lab.open()
    with (
        pytest.raises(SowError) as caught,
        hold_staging_area(instance, instance.topic("log").config, directory=root) as area,
    ):
        plan = area.build_plan(PublishOptions())
        done = [stage(plan, "t", 0, [message(id=number) for number in range(50)])]
        assert area.shared is not None
        spoil(area.shared / done[0].segments[0].name)
        commit_run(area, plan, done)
    assert lab.query("log") == [message(id=-1)] and files(root) == []
    return caught.value


def test_nothing_is_committed_of_what_changed_there(tmp_path: Path, root: RemotePath) -> None:
    lab = make(tmp_path / "lab")
    lab.publish("log", message(id=-1))

    def cut(place: RemotePath) -> None:
        remote_files.write_file(place, [remote_files.read_file(place)[:-3]])

    def changed(place: RemotePath) -> None:
        raw = bytearray(remote_files.read_file(place))
        raw[len(raw) // 2] ^= 1
        remote_files.write_file(place, [bytes(raw)])

    for spoil, word in ((remote_files.delete_file, "missing"), (cut, "incomplete"), (changed, "damaged")):
        error = failed(lab, root, spoil)
        assert isinstance(error, DamageError) and error.code == "SOW-ENG-041", spoil
        assert word in error.message and error.hint


def test_a_store_that_does_not_answer(tmp_path: Path) -> None:
    lab = make(tmp_path / "lab")
    with far_away(tmp_path / "far") as far:
        far.is_away = True
        instance = lab.open()
        with (
            pytest.raises(StorageError) as caught,
            hold_staging_area(instance, instance.topic("log").config, directory=parse_url(far.url("stage"))),
        ):
            pytest.fail("begun")
        assert caught.value.code == "SOW-RMT-005" and caught.value.hint
        # a URL that becomes unreachable later stops the run; the next run removes its leftovers
        far.is_away = False
        with (
            pytest.raises(StorageError),
            hold_staging_area(instance, instance.topic("log").config, directory=parse_url(far.url("stage"))) as area,
        ):
            done = [stage(area.build_plan(SKIP), "t", 0, [message(id=1)])]
            far.is_away = True
            commit_run(area, area.build_plan(SKIP), done)
        assert not lab.store("log").exists() and len(list(far.path.glob("stage/run-*"))) == 1


def test_what_a_killed_driver_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    far, own = tmp_path / "far", tmp_path / "own"
    own.mkdir()
    command = [sys.executable, "-c", DIES, str(tmp_path / "lab"), str(far)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(own)}
    died = subprocess.run(command, check=False, env=environment)
    assert died.returncode == -signal.SIGKILL
    (left,) = far.iterdir()
    assert {path.name for path in left.iterdir()} == {"owner", "t-0.segment"}
    assert list(own.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    lab = make(tmp_path / "lab")
    instance = lab.open()
    with hold_staging_area(instance, instance.topic("log").config, directory=parse_url(str(far))) as area:
        (run,) = far.iterdir()
        assert area.shared == parse_url(str(run)) and [path.name for path in run.iterdir()] == ["owner"]
        # a live run stays
        assert remove_ended_runs(parse_url(str(far))) == [] and run.exists()
    assert list(far.iterdir()) == [] == list(own.iterdir()) and not lab.store("log").exists()


def test_drivers_elsewhere_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    root = parse_url(str(tmp_path / "far"))
    with socket.create_server(("127.0.0.1", 0)) as held:
        dead = held.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as held:
        ports = {"run-dead": [dead], "write-dead": [dead], "run-living": [held.getsockname()[1]], "other": [dead]}
        for name, found in ports.items():
            text = json.dumps({"host": "127.0.0.1", "pid": 1, "started": "1", "ports": found})
            remote_files.write_file(root / name / "owner", [text.encode()])
        remote_files.write_file(root / "run-nobody" / "x", [b"1"])
        assert remove_ended_runs(root) == []  # runs that just began count as live
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + owner.MIN_QUIET_SECONDS + 10)
        assert [one.name for one in remove_ended_runs(root)] == ["run-dead", "write-dead"]
        monkeypatch.setattr(time, "time", lambda: now + owner.UNREACHABLE_OWNER_SECONDS + 10)
        # a run whose owner is not proven dead is removed after UNREACHABLE_OWNER_SECONDS; foreign directories stay
        assert [one.name for one in remove_ended_runs(root)] == ["run-living", "run-nobody"]
    assert [one.name for one in remote_files.list_directories(root)] == ["other"]

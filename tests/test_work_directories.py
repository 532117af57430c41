"""Temporary directories: whose they are, and when another process removes them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sowctl.work_directories import (
    SPARK_PREFIX,
    WORK_PREFIX,
    create_work_directory,
    list_dead_directories,
    remove_dead_directories,
)

DRIVER = """
import sys, time
from sowctl.work_directories import create_work_directory
with create_work_directory() as work:
    (work / "scratch").mkdir()
    (work / "scratch" / "shuffle").write_bytes(bytes(1000))
    print(work, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_of_a_driver_that_lives_it_stays_and_of_one_that_was_killed_it_goes(root: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        env={**os.environ, "TMPDIR": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        work = Path(process.stdout.readline().strip())
        with create_work_directory() as own:
            assert own != work and (work / "scratch" / "shuffle").is_file()
        assert not own.exists() and work.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert [(one.path, one.pid) for one in list_dead_directories()] == [(work, process.pid)]
    assert list_dead_directories()[0].bytes > 1000 and work.is_dir()
    with create_work_directory(SPARK_PREFIX) as own:
        assert list(root.iterdir()) == [own]
    assert list(root.iterdir()) == []


def test_what_is_not_known_to_be_a_dead_drivers_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = root / f"{WORK_PREFIX}dead"
    for place in (dead, root / "elsewhere", root / "another"):
        place.mkdir()
        (place / "lock").touch()
    (root / f"{WORK_PREFIX}link").symlink_to(root / "elsewhere")
    # as earlier releases made it, and as it is for a moment before it is locked
    (root / f"{WORK_PREFIX}unlocked").mkdir()
    (root / f"{WORK_PREFIX}file").touch()
    stays = {one.name for one in root.iterdir()} - {dead.name}
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: dead.stat().st_uid + 1)
        assert remove_dead_directories() == [] and dead.is_dir()
    assert [one.path for one in remove_dead_directories()] == [dead]
    assert {one.name for one in root.iterdir()} == stays
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(root / "missing"))
    assert remove_dead_directories() == []


def test_without_locks_a_session_begins_all_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(fd: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with create_work_directory() as work:
        assert remove_dead_directories() == [] and work.is_dir()
    assert list(root.iterdir()) == []

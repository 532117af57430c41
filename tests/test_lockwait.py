"""Waiting for locks: for how long, what who waits is told meanwhile, and which process is named."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sowctl import lockwait
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli

CONFIG = """\
<AMPSConfig>
  <Name>test</Name>
  <SOW>
    <Topic><Name>logged</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic><Name>alone</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
  </SOW>
  <TransactionLog>
    <JournalDirectory>journal</JournalDirectory>
    <Topic><Name>logged</Name><MessageType>json</MessageType></Topic>
  </TransactionLog>
</AMPSConfig>
"""
HOLDER = "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.flock(file, 2); print(flush=True); sys.stdin.read()"


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Another program holds a lock on a file without writing its name there; its process number."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.communicate()


def test_attempts_are_made_until_one_succeeds_or_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    answers = iter([False, False, False, True])
    assert lockwait.wait_for_lock(lambda: next(answers), 60, (0.001, 0.002), lambda: told.append("x"))
    assert told == []
    assert not lockwait.wait_for_lock(lambda: False, 0, (0.001, 0.002), lambda: told.append("x"))
    monkeypatch.setattr(lockwait.LOCK_WAIT_LIMITS, "notice_delay_seconds", 0.0)
    assert not lockwait.wait_for_lock(lambda: False, 0.05, (0.001, 0.002), lambda: told.append("x"))
    assert told == ["x"]


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system has no table of locks")
def test_the_holders_of_a_lock_are_known(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert lockwait.find_lock_holders(path) is None
    path.touch()
    assert lockwait.find_lock_holders(path) == set()
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if lockwait.find_lock_holders(path) == set():
            pytest.skip("the table of locks names another device for this file system")
        assert lockwait.find_lock_holders(path) == {os.getpid()}
    with locked(path) as pid:
        assert lockwait.find_lock_holders(path) == {pid}


@pytest.mark.parametrize("topic", ["logged", "alone"])
def test_a_long_wait_is_said_and_names_the_process(topic: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockwait.LOCK_WAIT_LIMITS, "notice_delay_seconds", 0.0)
    Path("sowctl.xml").write_text(CONFIG)
    assert cli("publish", topic, stdin=b'{"id":1}\n').err.startswith(f"{topic}: 1 inserted")
    (path,) = Path("journal").glob("*.lock") if topic == "logged" else Path("sow").glob("alone*-writer")
    with locked(path) as pid:
        named = lockwait.find_lock_holders(path) == {pid}
        result = cli("publish", topic, "--lock-wait", "100ms", stdin=b'{"id":2}\n')
        quiet = cli("publish", topic, "--lock-wait", "100ms", "-q", stdin=b'{"id":2}\n')
    assert result.status == 11
    (note, error) = [line for line in result.err.splitlines() if not line.startswith("  hint")]
    assert note.startswith("waiting for the ")
    assert error.startswith("error[SOW-")
    if named:
        assert f"process {pid}" in note
        assert f"process {pid}" in error
    assert "waiting" not in quiet.err

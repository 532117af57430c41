"""A forked process: what it sends comes in order, what goes wrong there is told here, and none is ever left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sowctl.errors import InputError
from sowctl.forked_process import (
    PIPE_BYTES,
    ForkedProcess,
    ProcessLostError,
    SendFunction,
    Work,
    can_fork,
    count_processors,
    start_process,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
WAIT_SECONDS = 20.0
FORMS = pytest.mark.parametrize("spooled", [False, True])


@contextmanager
def fork(work: Work, *, spooled: bool = False, kept_files: tuple[int, ...] | None = None) -> Iterator[ForkedProcess]:
    """A process that is ended at the end, and must be gone then."""
    process = ForkedProcess(work, spooled=spooled, kept_files=kept_files)
    pid = process.pid
    try:
        yield process
    finally:
        process.terminate()
    assert process.pid == 0
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def frames(process: ForkedProcess) -> list[bytes]:
    found = []
    while (frame := process.receive()) is not None:
        found.append(frame)
    return found


@FORMS
def test_frames_come_as_they_were_sent(spooled: bool) -> None:
    def work(send: SendFunction) -> None:
        send(b"one")
        send()
        send(b"a", b"", b"b")

    with fork(work, spooled=spooled) as process:
        assert frames(process) == [b"one", b"", b"ab"]


@FORMS
def test_a_frame_may_be_larger_than_the_pipe(spooled: bool) -> None:
    large = os.urandom(1 << 10) * (3 * PIPE_BYTES >> 10)

    def work(send: SendFunction) -> None:
        send(large)
        send(b"x")

    with fork(work, spooled=spooled) as process:
        assert frames(process) == [large, b"x"]


@FORMS
def test_an_error_of_the_program_comes_behind_what_was_sent_before(spooled: bool) -> None:
    def work(send: SendFunction) -> None:
        send(b"before")
        raise InputError("SOW-MSG-001", "not a message", place="in:7", line=7)

    with fork(work, spooled=spooled) as process:
        if not spooled:
            assert process.receive() == b"before"
        with pytest.raises(InputError) as caught:
            process.receive()
    assert (caught.value.code, caught.value.place, caught.value.facts["line"]) == ("SOW-MSG-001", "in:7", 7)


def test_any_other_error_is_told_by_its_name() -> None:
    def work(_: SendFunction) -> None:
        raise ValueError("no such thing")

    with fork(work) as process, pytest.raises(RuntimeError, match="ValueError: no such thing"):
        process.receive()
    with fork(work, spooled=True) as process:
        assert not process.wait_for_success()


@FORMS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR2])
def test_a_process_that_dies_by_a_signal_is_lost(number: signal.Signals, spooled: bool) -> None:
    def work(send: SendFunction) -> None:
        send(b"before")
        os.kill(os.getpid(), number)

    with fork(work, spooled=spooled) as process:
        if spooled:
            assert not process.wait_for_success()
        else:
            assert process.receive() == b"before"
        with pytest.raises(ProcessLostError):
            process.receive()


def test_a_process_that_dies_within_a_frame_is_lost() -> None:
    large = bytes(3 * PIPE_BYTES)
    with fork(lambda send: send(large)) as process:
        until(process.has_data)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(ProcessLostError):
            process.receive()


def test_signals_of_the_terminal_are_for_the_first_process() -> None:
    def work(send: SendFunction) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        send(b"alive")

    with fork(work) as process:
        assert frames(process) == [b"alive"]


def test_a_process_that_waits_for_ever_is_ended() -> None:
    with fork(lambda _: time.sleep(600)) as process:
        assert not process.has_data()
        process.terminate()
        process.terminate()


def test_a_signal_that_comes_with_the_fork_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    real = os.fork

    def interrupted() -> int:
        if pid := real():
            begun.append(pid)
            os.kill(os.getpid(), signal.SIGINT)
        return pid

    monkeypatch.setattr(os, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ForkedProcess(lambda _: time.sleep(600))
    with pytest.raises(ChildProcessError):
        os.waitpid(begun[0], os.WNOHANG)


def test_a_signal_ends_the_wait_for_a_frame() -> None:
    with fork(lambda _: time.sleep(600)) as process:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            process.receive()


@pytest.mark.parametrize("spooled", [False, True])
def test_no_process_outlives_the_one_that_made_it(tmp_path: Path, spooled: bool) -> None:
    """Two of them, of which the second has inherited what the first one's pipe ends in."""
    program = f"""
import os, signal, time
from sowctl.forked_process import ForkedProcess
both = [ForkedProcess(lambda _: time.sleep(600), spooled={spooled}) for _ in range(2)]
print(*(one.pid for one in both), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=WAIT_SECONDS)
    for pid in map(int, done.stdout.split()):
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
    assert len(done.stdout.split()) == 2


def test_other_files_are_closed_where_some_are_kept(tmp_path: Path) -> None:
    def work(send: SendFunction) -> None:
        send(*(b"%d" % is_open(one.fileno()) for one in (kept, other)))

    with (tmp_path / "a").open("w") as kept, (tmp_path / "b").open("w") as other:
        for spooled in (False, True):
            with fork(work, spooled=spooled, kept_files=(kept.fileno(),)) as process:
                assert frames(process) == [b"10"]
            with fork(work, spooled=spooled) as process:
                assert frames(process) == [b"11"]
        assert is_open(other.fileno())


def test_without_a_further_process_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError("no process")

    monkeypatch.setattr(os, "fork", refuse)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path is wanted
    assert start_process(lambda _: None, spooled=True) is None
    with pytest.raises(BlockingIOError):
        ForkedProcess(lambda _: None)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_process_with_threads_must_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert can_fork()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not can_fork()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert count_processors() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert count_processors() == 0


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true: object) -> None:
    assert callable(true)
    last = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < last
        time.sleep(0.01)

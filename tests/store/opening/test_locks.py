"""The writer lock: who waits, for how long, and with which message. The gate: to which file the lock file belongs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sowctl.errors import LockedError
from sowctl.seam import SEAM, Seam
from sowctl.store.builder import build_store
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.opening.locks import Gate, StoreFiles, WriterLock, read_gate_inode, write_gate_inode
from tests.support.stores import DEFINITION, START, batch, contents, new_store

HOLDER = """
import sys, time
from sowctl.store.env import Store
from tests.support.stores import batch
with Store.open(sys.argv[1], write=True, command="sowctl publish orders") as store, store.hold_writer_lock(5):
    print("held", flush=True)
    sys.stdin.readline()
    store.write(lambda txn: txn.put_records(*batch(range(5), 2)))
"""


@contextmanager
def held_by_another(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the writer lock until it is instructed to write and end."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            if process.poll() is None:
                process.communicate("\n", timeout=20)


def test_who_waits_too_long_is_told_who_holds_it(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True, lock_wait=0.2) as store, held_by_another(path) as holder:
        start = time.monotonic()
        with pytest.raises(LockedError) as raised:
            store.write(lambda txn: None)
        assert 0.2 <= time.monotonic() - start < 8
        error = raised.value
        assert (error.code, error.exit_status) == ("SOW-STO-030", 11)
        assert f"process {holder.pid} on {os.uname().nodename} (sowctl publish orders), since 20" in error.message
        assert error.facts["holder_pid"] == holder.pid
        with store.open_snapshot() as snapshot:
            assert snapshot.record_count == 3


def test_opening_to_write_waits_and_reading_does_not(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with held_by_another(path):
        with pytest.raises(LockedError):
            Store.open(path, write=True)
        assert len(contents(path)[0]) == 3


def test_who_waits_long_enough_gets_it(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True, lock_wait=20) as store, held_by_another(path) as holder:
        assert holder.stdin is not None
        threading.Timer(0.1, lambda: holder.stdin.write("\n") and holder.stdin.flush()).start()  # type: ignore[union-attr]
        assert store.write(lambda txn: txn.record_count) == 5


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with held_by_another(path) as holder:
        holder.kill()
        holder.wait()
        with Store.open(path, write=True) as store:
            store.write(lambda txn: txn.put_records(*batch(range(4), 2)))
    assert len(contents(path)[0]) == 4


def test_a_signal_ends_the_waiting(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True, lock_wait=60) as store, held_by_another(path):
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            store.write(lambda txn: None)
        assert time.monotonic() - start < 30


def test_it_is_reentrant_in_a_thread_and_excludes_other_threads(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True) as store:
        refused = []

        def other() -> None:
            try:
                store.write(lambda txn: None)
            except LockedError as error:
                refused.append(error.code)

        with store.hold_writer_lock(0):
            store.write(lambda txn: txn.put_records(*batch(range(4), 2)))
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        assert refused == ["SOW-STO-030"]
        other()
        assert refused == ["SOW-STO-030"]


def test_a_lock_file_that_was_removed_and_made_again_is_noticed(tmp_path: Path) -> None:
    files = StoreFiles.from_path(new_store(tmp_path / "x.sow"))
    first = WriterLock(files, SEAM, "one")
    with first.hold(0):
        files.writer.unlink()
        files.writer.touch()
        with WriterLock(files, SEAM, "two").hold(0):
            assert "two" in files.writer.read_text()
    assert files.writer.read_text() == ""


def test_a_lock_file_that_vanishes_between_opening_and_locking_does_not_count(tmp_path: Path) -> None:
    files = StoreFiles.from_path(new_store(tmp_path / "x.sow"))

    class Vanish(Seam):
        times = 0

        def call(self, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
            if point == "file.lock" and self.times < 2:
                self.times += 1
                files.writer.unlink()
                files.writer.touch()
            return function(*args, **kwargs)

    seam = Vanish()
    with WriterLock(files, seam, "one").hold(5):
        assert seam.times == 2
        with pytest.raises(LockedError), WriterLock(files, SEAM, "two").hold(0):
            pass


def test_a_forked_child_does_not_let_go_of_its_parents_lock(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow", 3)
    with Store.open(path, write=True, command="parent") as store, store.hold_writer_lock(0):
        pid = os.fork()
        if pid == 0:
            store.lock.release()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        with pytest.raises(LockedError) as raised, WriterLock(StoreFiles.from_path(path), SEAM, "two").hold(0):
            pass
        assert "(parent)" in raised.value.message


def test_the_gate_remembers_an_inode_and_nothing_half_written(tmp_path: Path) -> None:
    files = StoreFiles.from_path(tmp_path / "x.sow")
    gate = Gate(files, SEAM, 0)
    with gate.hold(exclusive=True) as lock:
        assert read_gate_inode(lock) is None
        write_gate_inode(lock, 12345, SEAM)
    with gate.hold(exclusive=False) as lock, gate.hold(exclusive=False) as second:
        assert read_gate_inode(lock) == read_gate_inode(second) == 12345
    for cut in range(16):
        with gate.hold(exclusive=True) as lock:
            os.truncate(files.gate, cut)
            assert read_gate_inode(lock) is None


def test_a_gate_that_stays_closed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "x.sow")
    monkeypatch.setattr(STORE_LIMITS, "min_gate_wait_seconds", 0.1)
    with Gate(StoreFiles.from_path(path), SEAM, 0).hold(exclusive=True), pytest.raises(LockedError) as raised:
        Store.open(path, write=False)
    assert raised.value.code == "SOW-STO-031"
    assert f"another process ({os.getpid()})" in raised.value.message
    assert raised.value.hint is not None
    with build_store(path, DEFINITION, seam=SEAM, now=START) as builder:
        with Gate(StoreFiles.from_path(path), SEAM, 0).hold(exclusive=False), pytest.raises(LockedError) as raised:
            builder.install()
        assert raised.value.code == "SOW-STO-031"
        builder.install()

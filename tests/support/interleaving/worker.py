"""A process that runs a verb and waits for its turn before every call of the seam.

The process writes one line for each fact that the test needs, and reads one byte for each turn. A lock that is
requested in vain is reported with its path, so that the process gets no turn before the lock is free. Locks that the
engine waits for without the seam are requested in the same way; a sleep yields the turn. Clocks of the process are
stopped (nothing may time out), and syncs of the journal are made by the requesting thread.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from sowctl.engine.writing import group_commit
from sowctl.errors import SowError
from sowctl.seam import Seam
from sowctl.store import check as check_module
from tests.support.instances import CheckHere
from tests.support.interleaving.touches import Toucher

PATIENCE = 30.0
"""Seconds without output after which a process that had its turn is considered to wait without the seam."""

Line = dict[str, Any]


class _Inline:
    """An executor without threads."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future

    def shutdown(self, *_: object, **__: object) -> None:
        return


class Baton(Seam):
    """The seam within the process, and its other reports."""

    def __init__(self, root: Path, voice: int, turns: int) -> None:
        self._voice, self._turns = voice, turns
        self._thread = threading.get_ident()
        self.touched = Toucher(root)
        self._now = 0.0
        self._flock = fcntl.flock

    def settle(self) -> None:
        """Make the other parts of the process use the baton wherever they wait."""
        group_commit.create_sync_pool = _Inline  # type: ignore[assignment, misc]
        check_module.StoreCheck = CheckHere  # type: ignore[misc]
        time.sleep = lambda seconds: self.wait("sleep")  # type: ignore[misc, assignment]
        time.monotonic = self._tick  # type: ignore[misc]
        fcntl.flock = self._lock  # type: ignore[misc]
        stat = os.stat

        def seen(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
            self.touched.add(path, "r")
            return stat(path, *args, **kwargs)

        os.stat = seen  # type: ignore[assignment]
        sys.addaudithook(self.touched.audit)

    def _tick(self) -> float:
        self._now += 1e-6
        return self._now

    def say(self, **line: object) -> None:
        view = memoryview(json.dumps(line).encode() + b"\n")
        while view:
            view = view[os.write(self._voice, view) :]

    def wait(self, point: str, paths: list[str] | None = None, since: list[Any] | None = None) -> None:
        """Wait for the turn of this process."""
        self.say(wait=point, paths=paths or [], since=self.touched.take() if since is None else since)
        if not os.read(self._turns, 1):
            os._exit(3)  # the test is gone

    def call(self, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if threading.get_ident() != self._thread:
            self.say(stray=point)
            return function(*args, **kwargs)
        since = self.touched.take()
        self.wait(point, self.touched.call(point, function, args), since)
        result = function(*args, **kwargs)
        if point == "lmdb.begin":
            self.touched.began(result, getattr(function, "__self__", None))
        return result

    def _lock(self, fd: int, kind: int) -> None:
        if threading.get_ident() != self._thread:
            return self._flock(fd, kind)
        if kind & fcntl.LOCK_UN:
            self.touched.add(_path_of(fd), "w")
            return self._flock(fd, kind)
        while True:
            try:
                return self._flock(fd, kind | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno != errno.EWOULDBLOCK:
                    raise
                self.say(refused=_path_of(fd), shared=bool(kind & fcntl.LOCK_SH))
                if kind & fcntl.LOCK_NB:
                    raise
                self.wait("lock")


def _path_of(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


class Worker:
    """The process, from the side of the test."""

    def __init__(
        self, number: int, root: Path, work: Callable[[Baton], None], hear: Callable[[int, Line], None]
    ) -> None:
        """Run ``work`` in a separate process, up to its first call; ``hear`` receives every line that is not a wait."""
        self.number, self._hear = number, hear
        inlet, self._turns = os.pipe()
        self._heard, voice = os.pipe()
        self.point = ""
        self.paths: list[str] = []
        self.since: frozenset[tuple[str, str]] = frozenset()
        self.refused: tuple[str, bool] | None = None
        self.status: int | None = None
        self._text = b""
        self.pid = os.fork()
        if self.pid == 0:
            self._child(root, work, voice, inlet)
        os.close(inlet)
        os.close(voice)
        self.listen()

    @staticmethod
    def _child(root: Path, work: Callable[[Baton], None], voice: int, turns: int) -> None:
        gc.freeze()  # a collection would copy every page that it shares with its parent
        gc.disable()
        code = 1
        baton = Baton(root, voice, turns)
        try:
            baton.settle()
            work(baton)
            baton.say(last=baton.touched.take())
            code = 0
        except SowError as error:
            baton.say(error=error.code, message=error.message, place=str(error.place))
            code = 0
        except BaseException:
            baton.say(foreign=traceback.format_exc())
        finally:
            os._exit(code)

    @property
    def waits(self) -> bool:
        return self.status is None

    def turn(self) -> None:
        """Let it make its call, and continue to the next one."""
        os.write(self._turns, b"x")
        self.listen()

    def listen(self) -> None:
        """Read its output up to its next wait, or its end. Raises AssertionError if it waits without the seam."""
        refused = None
        while True:
            while b"\n" in self._text:
                raw, _, self._text = self._text.partition(b"\n")
                line = json.loads(raw)
                if "wait" in line:
                    self.point, self.paths = line["wait"], line["paths"]
                    self.since = frozenset((path, kind) for path, kind in line["since"])
                    # After a request in vain it waits for the lock if it sleeps now; otherwise it continues without it.
                    self.refused = refused if self.point in ("sleep", "lock") else None
                    return
                if "refused" in line:
                    refused = line["refused"], line["shared"]
                elif "last" in line:
                    self.since = frozenset((path, kind) for path, kind in line["last"])
                else:
                    self._hear(self.number, line)
            if not select.select([self._heard], [], [], PATIENCE)[0]:
                raise AssertionError(f"process {self.number} waits beside the seam, after {self.point} {self.paths}")
            data = os.read(self._heard, 1 << 16)
            if not data:
                self._reap()
                return
            self._text += data

    def is_blocked(self) -> bool:
        """Return whether it waits for a lock of another process. No process runs at this time."""
        if self.refused is None:
            return False
        path, shared = self.refused
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def _reap(self) -> None:
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._turns)
        os.close(self._heard)

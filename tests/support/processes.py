"""Real processes for tests: forked children that are always reaped, with pipes for input and output; and the Java
processes that a command left running.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ClassVar

MARK = "SOWCTL_TEST_MARK"
"""The variable by whose value :func:`machines` identifies the processes of a test, and their descendants."""


def machines(mark: str) -> set[int]:
    """Return the Java processes with ``mark`` as :data:`MARK` in their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in path.read_bytes() and "java" in (path.parent / "comm").read_text():
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def find_tree(pid: int) -> list[int]:
    """A process and everything that it started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents.setdefault(int(_read_stat(entry)[1]), []).append(int(entry.parent.name))
    found = [pid]
    for one in found:
        found.extend(parents.get(one, []))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process has not ended yet; one that nobody has waited for has."""
    try:
        return _read_stat(Path(f"/proc/{pid}/stat"))[0] not in "ZX"
    except OSError:
        return False


def count_cpu_seconds(pids: list[int]) -> float:
    """The processor time of processes, and of their children that have ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            ticks += sum(map(int, _read_stat(Path(f"/proc/{pid}/stat"))[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def kill_tree(pid: int, patience: float) -> None:
    """Kill a process and everything that it started, and wait at most ``patience`` seconds for their end."""
    killed = find_tree(pid)
    for one in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    # a virtual machine takes a moment to die, and what it staged is its own until then
    deadline = time.monotonic() + patience
    while (alive := [one for one in killed if is_alive(one)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive


def _read_stat(path: Path) -> list[str]:
    """The words of a process's status behind its name, which may have blanks: state, parent, ..."""
    return path.read_text().rpartition(")")[2].split()


QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Java used by one test or a few: compiling everything twice would take most of its time."""


class Child:
    """A forked process that runs ``work(self)``: it reads its input from ``inlet`` and writes lines with :meth:`say`.

    For the parent: ``feed`` is the other end of the inlet. Ends with status 0, or 1 after a traceback on stderr.
    """

    _living: ClassVar[set[Child]] = set()

    def __init__(self, work: Callable[[Child], None]) -> None:
        self.inlet, self.feed = os.pipe()
        self._heard, self._voice = os.pipe()
        self.status: int | None = None
        self._text = b""
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            gc.freeze()  # a collection would copy every page that it shares with its parent
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.close(self.feed)
                os.close(self._heard)
                for other in list(Child._living):
                    other.forget()
                work(self)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(self.inlet)
        os.close(self._voice)
        Child._living.add(self)

    @classmethod
    def end_all(cls) -> None:
        """End every child that was not closed."""
        for child in list(cls._living):
            child.close()

    def forget(self) -> None:
        """Close the parent's ends of the pipes."""
        for end in (self.feed, self._heard):
            if end >= 0:
                os.close(end)
        self.feed = self._heard = -1
        Child._living.discard(self)

    def say(self, line: str | bytes) -> None:
        """In the child: send one line to the parent."""
        data = line.encode() if isinstance(line, str) else line
        view = memoryview(data + b"\n")
        while view:
            view = view[os.write(self._voice, view) :]

    def hear(self, timeout: float = 0.0) -> bytes:
        """Return the output since the last call, waiting at most ``timeout`` seconds for the first byte."""
        found = b""
        while self._heard >= 0 and select.select([self._heard], [], [], 0 if found else timeout)[0]:
            data = os.read(self._heard, 1 << 16)
            if not data:
                break
            found += data
        self._text += found
        return found

    def wait_for(self, word: bytes, timeout: float = 20.0) -> None:
        """Wait until the child has written ``word``."""
        end = time.monotonic() + timeout
        while word not in self._text:
            assert time.monotonic() < end, f"waited {timeout} s for {word!r}, heard {self._text[-300:]!r}"
            if not self.hear(0.05) and self.ended():
                assert word in self._text + self.hear(), f"ended without {word!r}: {self._text[-300:]!r}"
                return

    @property
    def lines(self) -> list[bytes]:
        """Return all complete lines so far."""
        return self._text.split(b"\n")[:-1]

    def write(self, data: bytes) -> bool:
        """Send input to the child; False if it has ended."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.feed, view) :]
        except BrokenPipeError:
            return False
        return True

    def close_input(self) -> None:
        if self.feed >= 0:
            os.close(self.feed)
            self.feed = -1

    def signal(self, number: int) -> None:
        if self.status is None:
            os.kill(self.pid, number)

    def ended(self) -> bool:
        """Return whether it has ended; reaps it."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def join(self, timeout: float = 30.0) -> int:
        """Wait until it ends by itself; return its status (a signal is negative)."""
        self.close_input()
        end = time.monotonic() + timeout
        while not self.ended():
            self.hear(0.01)
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"a child did not end within {timeout} s; it said {self._text[-300:]!r}")
        self.hear()
        assert self.status is not None
        return self.status

    def kill(self) -> int:
        """Kill it with SIGKILL and reap it; return its status."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.hear()
        return self.status

    def close(self) -> None:
        self.kill()
        self.forget()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""State that the tests of a file leave in their process, in which the next file's tests run as well.

With ``-n`` files are assigned to processes dynamically: such state affects others only sometimes.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

from sowctl.store.opening import shared_environments

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD)
PASSED_OVER = ("PYTEST_", "SPARK_", "PYSPARK_", "JAVA_HOME")
"""Variables of the test runner and of Spark, whose session exists as long as the tests on Spark run."""
GRACE = 2.0
"""Seconds that a thread has to end."""


class State:
    """The state of this process when this is created."""

    def __init__(self) -> None:
        self.threads = set(threading.enumerate())
        self.children = _children()
        self.keepers = list(shared_environments._keepers)
        self.stores = set(shared_environments._shared)
        self.environment = {name: text for name, text in os.environ.items() if not name.startswith(PASSED_OVER)}
        self.handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self.directory = os.getcwd()  # noqa: PTH109 - as text
        self.temporary = tempfile.tempdir
        self.search = sorted({place for place in sys.path if "/userFiles-" not in place})

    def left(self) -> list[str]:
        """Return a line for each new or changed item of the state. Gives threads a moment to end."""
        if self._differences():
            for thread in set(threading.enumerate()) - self.threads:
                if not _of_spark(thread):
                    thread.join(GRACE)
            gc.collect()
        return self._differences()

    def _differences(self) -> list[str]:
        now = State()
        changed = {
            name
            for name in self.environment.keys() | now.environment.keys()
            if self.environment.get(name) != now.environment.get(name)
        }
        # Checked last whether it is alive: a thread that has ended no longer shows what it served.
        fresh = [thread for thread in now.threads - self.threads if not _of_spark(thread) and thread.is_alive()]
        lines = [f"a thread: {thread!r}" for thread in fresh]
        lines += [f"a process: {now.children[pid]}" for pid in now.children.keys() - self.children.keys()]
        lines += [f"an open store: {path}" for path in now.stores - self.stores]
        lines += [f"a variable: {name}={now.environment.get(name)}" for name in sorted(changed)]
        lines += [f"a handler of {n.name}" for n in SIGNALS if now.handlers[n] != self.handlers[n]]
        for what, before, after in (
            ("programs that keep stores open", self.keepers, now.keepers),
            ("the working directory", self.directory, now.directory),
            ("the directory of temporary files", self.temporary, now.temporary),
            ("the search path of modules", self.search, now.search),
        ):
            if before != after:
                lines.append(f"{what}: {before} -> {after}")
        return lines


def _of_spark(thread: threading.Thread) -> bool:
    """Return whether a thread serves a session of Spark, which exists as long as the tests on Spark run."""
    target = getattr(thread, "_target", None)
    owner = type(getattr(target, "__self__", None))
    homes = f"{type(thread).__module__} {getattr(target, '__module__', '')} {owner.__module__}"
    return thread.daemon and any(name in homes for name in ("py4j", "pyspark", "socketserver"))


def _children() -> dict[int, str]:
    """Return the unreaped child processes of this one with their names, except Spark's Java."""
    found = {}
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, path.read_text().split()):
            try:
                name = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            if name != "java":
                found[pid] = name
    return found

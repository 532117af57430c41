"""The staging directory of a write through a data source, and who it belongs to (sowctl-spark(7), WRITING).

Such a write is planned, run and committed in different processes, so no open file can say that it is alive. Its
directory names the virtual machine of the driver instead; once that has ended, the next write removes it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.bulk.staging import place_of
from sowctl.errors import StorageError

if TYPE_CHECKING:
    from sowctl.spark.origin import Origin

_PREFIX, _OWNER = "write-", "owner"
_TRIES = 5
_FORGOTTEN = 7 * 86400
"""Seconds after which a directory goes whose owner cannot be asked."""


class Staging(Struct, frozen=True):
    """One write's directory; ``owner`` says whose it is. Travels to the tasks."""

    directory: Path
    owner: str

    def open(self) -> Path:
        """The directory, made if it is not there. Raises StorageError ``SOW-ENG-044``."""
        for attempt in range(_TRIES):
            try:
                self.directory.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
                self.directory.mkdir(mode=0o750, exist_ok=True)
                owner = self.directory / _OWNER
                if not owner.exists():
                    owner.write_text(self.owner, "utf-8")
                break
            except OSError as problem:
                # Another write may have found the staging place empty and removed it in between.
                if isinstance(problem, FileNotFoundError) and attempt < _TRIES - 1:
                    continue
                raise StorageError(
                    "SOW-ENG-044",
                    f"no staging directory can be made: {problem.strerror or problem}",
                    place=str(self.directory),
                ) from problem
        return self.directory

    def remove(self) -> None:
        """Remove everything that was staged, winners and others.

        A task that has not noticed yet that its run is over finds no directory to write to, and cannot make it again.
        """
        # Renamed first, in one step: tasks that still run find no directory, however long removing the files takes.
        gone = self.directory.with_name(f"{self.directory.name}-{os.urandom(4).hex()}")
        with suppress(OSError):
            self.directory.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        with suppress(OSError):
            # The place itself goes only if it is empty; another write may be using it.
            self.directory.parent.rmdir()


def find_staging(origin: Origin, name: str | None, place: Path | None) -> Staging:
    """The staging directory of one write: a new one, or with a ``name`` always the same for this driver and topic.

    ``place`` is where instead of beside the instance's files. What drivers left that have ended is removed.
    """
    assert origin.topic is not None
    root = place if place is not None else place_of(origin.instance(), origin.topic)
    owner = json.dumps(_driver())
    with suppress(OSError):
        sweep(root)
    topic = f"{origin.topic.message_type}\0{origin.topic.name}"
    # A stream opens its directory anew for each batch and must find the same one, on the driver and in the tasks.
    mark = os.urandom(8).hex() if name is None else sha256(f"{owner}\0{topic}\0{name}".encode()).hexdigest()[:16]
    return Staging(root / f"{_PREFIX}{mark}", owner)


def sweep(root: Path) -> None:
    """Remove the directories of drivers that have ended."""
    here = socket.gethostname()
    for run in root.glob(f"{_PREFIX}*"):
        try:
            owner = json.loads((run / _OWNER).read_text("utf-8"))
            known = owner["host"] == here and owner["pid"] is not None
            # A process id is used again after a while; with the time of its start it is unmistakable.
            gone = known and _started(owner["pid"]) != owner["started"]
        except (OSError, ValueError, KeyError, TypeError):
            known = gone = False
        # The owner on another machine cannot be asked, so its directory gets a long time.
        if gone or (not known and _age(run) > _FORGOTTEN):
            shutil.rmtree(run, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _driver() -> dict[str, object]:
    """The virtual machine above this process, where the system tells."""
    pid: int | None = os.getpid()
    while pid is not None and pid > 1 and _name(pid) != "java":
        pid = _parent(pid)
    if pid is not None and pid <= 1:
        pid = None
    return {"host": socket.gethostname(), "pid": pid, "started": None if pid is None else _started(pid)}


def _facts(pid: int) -> tuple[str, list[str]] | None:
    """Name and further fields of ``/proc/PID/stat``; None where there is no such process or no such file."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name of a program may itself contain parentheses: the last one ends it.
    head, _, tail = text.rpartition(")")
    return head.partition("(")[2], tail.split()


def _name(pid: int) -> str | None:
    facts = _facts(pid)
    return None if facts is None else facts[0]


def _parent(pid: int) -> int | None:
    facts = _facts(pid)
    return None if facts is None else int(facts[1][1])


def _started(pid: int) -> str | None:
    """When a process began, as the system counts; None where there is none any more."""
    facts = _facts(pid)
    # A process that has ended but was not collected yet is gone as well.
    return None if facts is None or facts[1][0] in "ZX" else facts[1][19]

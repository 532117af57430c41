"""The staging directory of a write through a data source, and who it belongs to (sowctl-spark(7), WRITING).

Such a write is planned, run and committed in different processes, so no open file can say that it is alive. Its
directory names the virtual machine of the driver instead, and the ports at which others reach it; once that has ended,
the next write removes it, on whichever machine of the cluster it is planned. So are the copies of states that readings
make (:mod:`sowctl.spark.reading.storeplan`).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from contextlib import suppress
from hashlib import sha256
from operator import itemgetter
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
_QUIET = 600
"""Seconds without a change in a directory before its driver on another machine is called: what just began lives."""
_CALL = 2.0
"""Seconds that such a driver gets to take the call."""


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
    driver = _driver()
    owner = json.dumps(driver)
    with suppress(OSError):
        sweep(root)
    topic = f"{origin.topic.message_type}\0{origin.topic.name}"
    # A stream opens its directory anew for each batch and must find the same one, on the driver and in the tasks.
    # Ports come and go, so they are no part of its name.
    who = json.dumps({fact: driver.get(fact) for fact in ("host", "pid", "started")})
    mark = os.urandom(8).hex() if name is None else sha256(f"{who}\0{topic}\0{name}".encode()).hexdigest()[:16]
    return Staging(root / f"{_PREFIX}{mark}", owner)


def sweep(root: Path) -> None:
    """Remove the directories of drivers that have ended."""
    here = socket.gethostname()
    for run in root.glob(f"{_PREFIX}*"):
        gone: bool | None = None
        with suppress(OSError, ValueError, KeyError, TypeError):
            owner = json.loads((run / _OWNER).read_text("utf-8"))
            if owner["host"] != here:
                gone = True if _age(run) > _QUIET and _refuses(owner["host"], owner.get("ports", [])) else None
            elif owner["pid"] is not None:
                # A process id is used again after a while; with the time of its start it is unmistakable.
                gone = _started(owner["pid"]) != owner["started"]
        # An owner that cannot be asked gets a long time.
        if gone or (gone is None and _age(run) > _FORGOTTEN):
            shutil.rmtree(run, ignore_errors=True)


def _refuses(host: str, ports: list[int]) -> bool:
    """Whether a machine says that nothing listens any more where a driver listened.

    Executors on all machines of the cluster reach the driver at these ports, so this answer is believed; silence, or a
    name that is not known here, proves nothing.
    """
    for port in ports:
        try:
            socket.create_connection((host, port), _CALL).close()
        except ConnectionRefusedError:
            continue
        except OSError:
            pass
        return False
    return bool(ports)


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
    if pid is None:
        return {"host": socket.gethostname(), "pid": None, "started": None, "ports": []}
    return {"host": socket.gethostname(), "pid": pid, "started": _started(pid), "ports": _listening(pid)}


def _listening(pid: int) -> list[int]:
    """The ports at which a process can be reached from other machines."""
    try:
        held = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}  # noqa: PTH115 - no path of a file
    except OSError:
        return []
    found = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{name}").read_text("ascii").splitlines()[1:]:
                address, state, inode = itemgetter(1, 3, 9)(line.split())
                host, port = address.split(":")
                # State 0A listens. 127.0.0.0/8, as the system writes it, is for this machine alone.
                if state == "0A" and f"socket:[{inode}]" in held and not _is_local(host):
                    found.add(int(port, 16))
    return sorted(found)


def _is_local(address: str) -> bool:
    """Whether an address of ``/proc/net/tcp`` is one of 127.0.0.0/8, alone or as one of version 6, or ::1."""
    raw = bytes.fromhex(address)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    mapped = words[:-4] in (b"", bytes(10) + b"\xff\xff")
    return (mapped and words[-4] == 127) or words == bytes(15) + b"\x01"


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

"""The owner of a staging directory where no lock can tell it, and whether that process has ended.

A lock file says that a driver lives where one process plans, runs and commits on a file system with locks. A write
through a data source is planned and committed by different processes, and a URL has no locks: there a file names the
process of the driver, and the ports at which others reach it. Called by :mod:`sowctl.engine.bulk.staging` and by the
writers of :mod:`sowctl.spark`.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

OWNER_FILE_NAME = "owner"
"""The file in a staging directory that names its owner."""
UNREACHABLE_OWNER_SECONDS = 7 * 86400
"""Seconds after which a directory is removed whose owner cannot be asked."""
MIN_QUIET_SECONDS = 600
"""Seconds without a change in a directory before its driver on another machine is called: a run that has just begun
lives."""
_CONNECT_TIMEOUT_SECONDS = 2.0
"""Seconds that such a driver gets to take the call."""


def has_ended(owner: str | None, age: float) -> bool:
    """Return whether a named process has ended; ``age``: seconds since the directory was changed last."""
    # None: not known. A run must not be removed under a driver that lives, so only a proof counts, or a long time.
    gone: bool | None = None
    with suppress(OSError, ValueError, KeyError, TypeError):
        named = json.loads(owner or "")
        if named["host"] != socket.gethostname():
            gone = (
                True
                if age > MIN_QUIET_SECONDS and _refuses_connections(named["host"], named.get("ports", []))
                else None
            )
        elif named.get("boot", _read_boot_id()) != _read_boot_id():
            # Started again since, or a namesake of this machine, which is spared as long as it writes.
            gone = True if age > MIN_QUIET_SECONDS else None
        elif named.get("space", _read_pid_namespace()) != _read_pid_namespace():
            # Of a container with the name of its host: its process ids mean others here.
            gone = None
        elif named["pid"] is not None:
            # A process id is used again after a while; with the time of its start it is unmistakable.
            gone = _read_start_time(named["pid"]) != named["started"]
    return bool(gone) or (gone is None and age > UNREACHABLE_OWNER_SECONDS)


def describe_driver() -> str:
    """Describe this process, which drives a job; others reach it at the ports of its virtual machine."""
    ports = {
        port
        for pid in _find_child_pids(os.getpid())
        if _read_process_name(pid) == "java"
        for port in _find_listening_ports(pid)
    }
    return json.dumps({**_identify_process(os.getpid()), "ports": sorted(ports)})


def _refuses_connections(host: str, ports: list[int]) -> bool:
    """Return whether a machine refuses all calls at the ports at which a driver listened.

    Executors on all machines of the cluster reach the driver at these ports, so a refusal proves that it has ended; no
    answer, or a name that is not known here, proves nothing.
    """
    for port in ports:
        try:
            socket.create_connection((host, port), _CONNECT_TIMEOUT_SECONDS).close()
        except ConnectionRefusedError:
            continue
        except OSError:
            pass
        return False
    return bool(ports)


def find_driver_machine() -> dict[str, object]:
    """The virtual machine above this process, where the system tells."""
    pid: int | None = os.getpid()
    while pid is not None and pid > 1 and _read_process_name(pid) != "java":
        pid = _find_parent_pid(pid)
    if pid is not None and pid <= 1:
        pid = None
    return {**_identify_process(pid), "ports": [] if pid is None else _find_listening_ports(pid)}


def _identify_process(pid: int | None) -> dict[str, object]:
    """Identify a process of this machine among all others; None where it is not known."""
    started = None if pid is None else _read_start_time(pid)
    return {
        "host": socket.gethostname(),
        "boot": _read_boot_id(),
        "space": _read_pid_namespace(),
        "pid": pid,
        "started": started,
    }


def _read_boot_id() -> str | None:
    """The number of this run of the machine, where the system tells."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return None


def _read_pid_namespace() -> str | None:
    """The space in which process ids are those that are seen here, where the system tells."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path of a file
    return None


def _find_listening_ports(pid: int) -> list[int]:
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
                if state == "0A" and f"socket:[{inode}]" in held and not _is_loopback_address(host):
                    found.add(int(port, 16))
    return sorted(found)


def _is_loopback_address(address: str) -> bool:
    """Return whether an address of ``/proc/net/tcp`` is in 127.0.0.0/8, alone or as one of version 6, or is ::1."""
    raw = bytes.fromhex(address)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    mapped = words[:-4] in (b"", bytes(10) + b"\xff\xff")
    return (mapped and words[-4] == 127) or words == bytes(15) + b"\x01"


def _read_process_stat(pid: int) -> tuple[str, list[str]] | None:
    """Name and further fields of ``/proc/PID/stat``; None where there is no such process or no such file."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name of a program may itself contain parentheses: the last one ends it.
    head, _, tail = text.rpartition(")")
    return head.partition("(")[2], tail.split()


def _read_process_name(pid: int) -> str | None:
    facts = _read_process_stat(pid)
    return None if facts is None else facts[0]


def _find_parent_pid(pid: int) -> int | None:
    facts = _read_process_stat(pid)
    return None if facts is None else int(facts[1][1])


def _read_start_time(pid: int) -> str | None:
    """Return when a process began, in the system's units; None where there is none any more."""
    facts = _read_process_stat(pid)
    # A process that has ended but was not collected yet is gone as well.
    return None if facts is None or facts[1][0] in "ZX" else facts[1][19]


def _find_child_pids(parent: int) -> list[int]:
    """The processes that a process has started, and that are there."""
    return [int(one.name) for one in Path("/proc").glob("[0-9]*") if _find_parent_pid(int(one.name)) == parent]

"""The owner of a staging directory without a lock, and whether that process has ended.

If one process plans, runs and commits on a file system with locks, a lock file shows that it is running. But writes
through a data source are planned and committed by different processes, and URLs have no locks. In these cases, a file
identifies the process of the driver and the ports at which it is reachable. Called by
:mod:`sowctl.engine.bulk.staging` and by the writers of :mod:`sowctl.spark`.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

OWNER_FILE_NAME = "owner"
"""The file in a staging directory that identifies its owner."""
UNREACHABLE_OWNER_SECONDS = 7 * 86400
"""Age at which a directory is removed if the state of its owner is unknown."""
MIN_QUIET_SECONDS = 600
"""Time without changes in a directory before its driver on another machine is checked: a run that has just started is
alive."""
_CONNECT_TIMEOUT_SECONDS = 2.0
"""Timeout of the connection to a driver on another machine."""


def has_ended(owner: str | None, age: float) -> bool:
    """Return whether the ``owner`` has ended; ``age`` is the time in seconds since the last change of the directory."""
    # None: unknown. The run of a living driver must not be removed, so this requires proof, or a long time.
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
            # This machine was restarted, or another one has its name; that one is spared as long as it writes.
            gone = True if age > MIN_QUIET_SECONDS else None
        elif named.get("space", _read_pid_namespace()) != _read_pid_namespace():
            # A container with the name of its host: its process ids are not valid here.
            gone = None
        elif named["pid"] is not None:
            # Process ids are reused; together with the start time they are unique.
            gone = _read_start_time(named["pid"]) != named["started"]
    return bool(gone) or (gone is None and age > UNREACHABLE_OWNER_SECONDS)


def describe_driver() -> str:
    """Describe this process, the driver of a job, for the owner file, with the ports of its virtual machine."""
    ports = {
        port
        for pid in _find_child_pids(os.getpid())
        if _read_process_name(pid) == "java"
        for port in _find_listening_ports(pid)
    }
    return json.dumps({**_identify_process(os.getpid()), "ports": sorted(ports)})


def _refuses_connections(host: str, ports: list[int]) -> bool:
    """Return whether a machine refuses connections to all ports at which a driver listened.

    Executors on all machines of the cluster connect to these ports, so a refusal proves that the driver has ended. No
    answer, or an unknown host name, proves nothing.
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
    """Return the owner for this process: the Java virtual machine among its ancestors, if the system reveals it."""
    pid: int | None = os.getpid()
    while pid is not None and pid > 1 and _read_process_name(pid) != "java":
        pid = _find_parent_pid(pid)
    if pid is not None and pid <= 1:
        pid = None
    return {**_identify_process(pid), "ports": [] if pid is None else _find_listening_ports(pid)}


def _identify_process(pid: int | None) -> dict[str, object]:
    """Return facts that identify a process of this machine uniquely; ``pid`` None: an unknown process."""
    started = None if pid is None else _read_start_time(pid)
    return {
        "host": socket.gethostname(),
        "boot": _read_boot_id(),
        "space": _read_pid_namespace(),
        "pid": pid,
        "started": started,
    }


def _read_boot_id() -> str | None:
    """Return the boot id of this machine, None if unavailable."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return None


def _read_pid_namespace() -> str | None:
    """Return the namespace of process ids that this process sees, None if unavailable."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path of a file
    return None


def _find_listening_ports(pid: int) -> list[int]:
    """Return the ports at which other machines can reach a process."""
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
                # State 0A is LISTEN. Loopback addresses are reachable only from this machine.
                if state == "0A" and f"socket:[{inode}]" in held and not _is_loopback_address(host):
                    found.add(int(port, 16))
    return sorted(found)


def _is_loopback_address(address: str) -> bool:
    """Return whether an address of ``/proc/net/tcp`` is in 127.0.0.0/8, also if mapped to IPv6, or is ::1."""
    raw = bytes.fromhex(address)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    mapped = words[:-4] in (b"", bytes(10) + b"\xff\xff")
    return (mapped and words[-4] == 127) or words == bytes(15) + b"\x01"


def _read_process_stat(pid: int) -> tuple[str, list[str]] | None:
    """Return the name and the further fields of ``/proc/PID/stat``, None if the file or process does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name may contain parentheses, so it ends at the last one.
    head, _, tail = text.rpartition(")")
    return head.partition("(")[2], tail.split()


def _read_process_name(pid: int) -> str | None:
    facts = _read_process_stat(pid)
    return None if facts is None else facts[0]


def _find_parent_pid(pid: int) -> int | None:
    facts = _read_process_stat(pid)
    return None if facts is None else int(facts[1][1])


def _read_start_time(pid: int) -> str | None:
    """Return the start time of a process in the system's units, None if it no longer exists."""
    facts = _read_process_stat(pid)
    # Zombies have ended, too.
    return None if facts is None or facts[1][0] in "ZX" else facts[1][19]


def _find_child_pids(parent: int) -> list[int]:
    """Return the ids of the existing child processes of a process."""
    return [int(one.name) for one in Path("/proc").glob("[0-9]*") if _find_parent_pid(int(one.name)) == parent]

"""Names of masters, and a check that a standalone one answers (sowctl-spark(7), SESSIONS AND JAVA).

The master is asked before a virtual machine is started for it: Spark itself would try one that does not answer for a
minute, and then end with the traces of what failed behind that.
"""

from __future__ import annotations

import socket

from sowctl.errors import ConfigError

_SCHEME = "spark://"
_DEFAULT_PORT = 7077
CONNECT_TIMEOUT_SECONDS = 5.0
"""Seconds that each address gets to accept a connection."""


def is_local(master: str) -> bool:
    """Return whether the executors are threads of the session's own virtual machine."""
    # ``local-cluster[...]`` starts processes of its own and is not meant.
    return master.split("[", 1)[0] == "local"


def parse_addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of ``spark://host:port,host:port``; none for other masters."""
    if not master.startswith(_SCHEME):
        return []
    found = []
    for address in master.removeprefix(_SCHEME).split(","):
        # From the right, because an address of version 6 has colons of its own.
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ConfigError(
                "SOW-SPK-004",
                f"{address!r} is not the address of a master",
                place=master,
                hint=f"give host and port, for example {_SCHEME}{host or address}:{_DEFAULT_PORT}",
            )
        found.append((host.strip("[]"), int(port)))
    return found


def require_master(master: str, patience: float = CONNECT_TIMEOUT_SECONDS) -> None:
    """Raise ConfigError ``SOW-SPK-004`` where ``master`` is a standalone one and none of its addresses answers."""
    reasons = []
    for host, port in parse_addresses(master):
        try:
            socket.create_connection((host, port), patience).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if reasons:
        raise ConfigError(
            "SOW-SPK-004",
            f"the master does not answer ({'; '.join(reasons)})",
            place=master,
            hint="start it, or use another --master; local[*] needs none",
        )

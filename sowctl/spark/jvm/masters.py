"""Names of masters, and a check that a standalone master answers (sowctl-spark(7), SESSIONS AND JAVA).

The check runs before a virtual machine is started: Spark itself would try to connect for a minute and then end with
tracebacks of subsequent errors.
"""

from __future__ import annotations

import socket

from sowctl.errors import ConfigError

_SCHEME = "spark://"
_DEFAULT_PORT = 7077
CONNECT_TIMEOUT_SECONDS = 5.0
"""Timeout of the connection to each address."""


def is_local(master: str) -> bool:
    """Return whether the executors are threads of the session's own virtual machine."""
    # ``local-cluster[...]`` starts separate processes, so it is not local in this sense.
    return master.split("[", 1)[0] == "local"


def parse_addresses(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of ``spark://host:port,host:port``, [] for other masters.

    Raises ConfigError ``SOW-SPK-004`` for an invalid address."""
    if not master.startswith(_SCHEME):
        return []
    found = []
    for address in master.removeprefix(_SCHEME).split(","):
        # Split at the last colon, because IPv6 addresses contain colons.
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
    """Raise ConfigError ``SOW-SPK-004`` if ``master`` is a standalone master and none of its addresses answers."""
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

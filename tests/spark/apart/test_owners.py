"""Staging of drivers on other machines: removed once they say that nobody is there any more."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.engine.bulk import owner
from sowctl.engine.bulk.owner import _find_listening_ports, _is_loopback_address
from sowctl.spark.writing.staging import Staging, remove_stale_directories

LISTENS = """
import socket, sys
with socket.create_server(("0.0.0.0", 0)) as one, socket.create_server(("127.0.0.1", 0)) as local:
    print(one.getsockname()[1], local.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def test_a_driver_elsewhere_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    with socket.create_server(("127.0.0.1", 0)) as held:
        dead = held.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as held:
        alive = held.getsockname()[1]
        for name, host, ports in (
            ("dead", "127.0.0.1", [dead]),
            ("living", "127.0.0.1", [dead, alive]),
            ("unheard", "127.0.0.1", []),
            ("unknown", "no such host.invalid", [dead]),
            ("young", "127.0.0.1", [dead]),
        ):
            staging = Staging(tmp_path / f"write-{name}", json.dumps({"host": host, "pid": 1, "ports": ports}))
            staging.open()
            if name != "young":
                before = time.time() - owner.MIN_QUIET_SECONDS - 10
                os.utime(staging.directory, (before, before))
        remove_stale_directories(tmp_path)
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left == ["write-living", "write-unheard", "write-unknown", "write-young"]
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))
        # Nobody asks for ever.
        remove_stale_directories(tmp_path)
        assert not list(tmp_path.iterdir())


def test_a_process_id_means_something_in_its_own_space_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        mine = json.loads(owner.describe_driver())
        ended = mine | {"pid": process.pid, "started": "1"}
        assert not owner.has_ended(json.dumps(mine), 0)
        assert owner.has_ended(json.dumps(ended), 0)
        # A container has the name of its host, and processes of its own.
        assert not owner.has_ended(json.dumps(ended | {"space": "pid:[1]"}), owner.MIN_QUIET_SECONDS + 1)
        # A machine that was started again, or its namesake.
        assert not owner.has_ended(json.dumps(mine | {"boot": "another"}), owner.MIN_QUIET_SECONDS - 1)
        assert owner.has_ended(json.dumps(mine | {"boot": "another"}), owner.MIN_QUIET_SECONDS + 1)
        # Written by a release before.
        former = {name: ended[name] for name in ("host", "pid", "started", "ports")}
        assert owner.has_ended(json.dumps(former), 0)


def test_the_ports_that_others_reach() -> None:
    command = [sys.executable, "-c", LISTENS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reached, _ = map(int, process.stdout.readline().split())
        assert _find_listening_ports(process.pid) == [reached]
        process.communicate()
    assert _find_listening_ports(process.pid) == []


def test_addresses_of_this_machine_alone() -> None:
    for address, local in (
        ("0100007F", True),
        ("00000000", False),
        ("0B01A8C0", False),
        ("00000000000000000000000001000000", True),
        ("0000000000000000FFFF00000100007F", True),
        ("0000000000000000FFFF00000B01A8C0", False),
        ("0" * 32, False),
    ):
        assert _is_loopback_address(address) == local, address

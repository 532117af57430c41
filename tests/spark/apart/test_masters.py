"""A master that is not there: said at once, and no virtual machine is started for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from sowctl.errors import ConfigError
from sowctl.spark.jvm.masters import parse_addresses, require_master


@pytest.fixture
def closed() -> Iterator[str]:
    """An address where nobody listens, and nobody can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def mute() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for one in taken:
            one.close()


def test_only_standalone_masters_have_addresses() -> None:
    assert parse_addresses("spark://a:1,b:22, [::1]:333") == [("a", 1), ("b", 22), ("::1", 333)]
    assert parse_addresses("local[*]") == parse_addresses("yarn") == parse_addresses("k8s://https://a:1") == []


@pytest.mark.parametrize(
    "master", ["spark://", "spark://host", "spark://host:", "spark://host:x", "spark://host:99999"]
)
def test_an_address_without_a_port_is_refused(master: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_master(master)
    assert (caught.value.code, caught.value.place) == ("SOW-SPK-004", master)
    assert f"'{master.removeprefix('spark://')}'" in caught.value.message


def test_one_of_several_masters_is_enough(closed: str, mute: str) -> None:
    require_master(f"spark://{closed},{mute}")
    with pytest.raises(ConfigError, match=rf"\({closed}: Connection refused; {closed}: ") as caught:
        require_master(f"spark://{closed},{closed}")
    assert (caught.value.code, caught.value.exit_status) == ("SOW-SPK-004", 4)


def ended(master: str, where: Path) -> tuple[int, str, float]:
    """A command with this master: status, what it said, seconds."""
    (where / "sowctl.xml").write_text(
        "<AMPSConfig><Name>m</Name><SOW><Topic><Name>t</Name><MessageType>json</MessageType><Key>/id</Key>"
        "<FileName>sow/%n.sow</FileName></Topic></SOW></AMPSConfig>"
    )
    (where / "t.ndjson").write_text('{"id":1}\n')
    begin = time.monotonic()
    environment = {**os.environ, "TMPDIR": str(where)}
    command = [sys.executable, "-m", "sowctl", "pipeline", "load", "t", "t.ndjson", "--master", f"spark://{master}"]
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begin


def test_a_command_ends_at_once(closed: str, tmp_path: Path) -> None:
    status, said, seconds = ended(closed, tmp_path)
    assert status == 4 and seconds < 30
    assert said.startswith(f"error[SOW-SPK-004]: spark://{closed}: ") and f" ({closed}: Connection refused)\n" in said
    assert len(said.splitlines()) == 2
    assert not list(tmp_path.glob("sowctl-spark-*"))


def test_a_master_that_takes_no_application_is_given_up(mute: str, tmp_path: Path, deep: bool) -> None:
    if not deep:
        pytest.skip("Spark asks for a minute: the long form, with --deep")
    status, said, seconds = ended(mute, tmp_path)
    assert status == 4 and seconds < 180
    assert said.startswith("error[SOW-SPK-003]: ") and "Traceback" not in said
    assert not list(tmp_path.glob("sowctl-spark-*"))

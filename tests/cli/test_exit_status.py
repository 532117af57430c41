"""Every exit status of sowctl(1), by a real process, in text and as JSON; pipes and signals of a running publish."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from sowctl.journal.format import FILE_MAGIC
from tests.support.damage import flip_bit
from tests.support.instances import config_xml, topic_xml

COMMAND = [sys.executable, "-m", "sowctl"]
XML = config_xml(topic_xml("t") + topic_xml("gone", "<Durability>transient</Durability>", file=None), ("t",))


def run(directory: Path, *words: str, data: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SOWCTL")} | {"NO_COLOR": "1"} | more
    return subprocess.run(
        [*COMMAND, *words], cwd=directory, input=data, capture_output=True, timeout=60, env=environment
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A directory with a configuration and three records in topic t."""
    (tmp_path / "sowctl.xml").write_text(XML)
    done = run(tmp_path, "publish", "t", data=b'{"id":1}\n{"id":2}\n{"id":3}\n')
    assert done.returncode == 0, done.stderr
    return tmp_path


def damage_store(shop: Path) -> None:
    store = shop / "sow" / "t.json.sow"
    place = store.read_bytes().index(b'{"id":2}')
    flip_bit(store, 8 * place + 3)


def make_newer(shop: Path) -> None:
    journal = next((shop / "journal").glob("*.journal"))
    raw = bytearray(journal.read_bytes())
    raw[len(FILE_MAGIC)] = 9
    raw[76:80] = zlib.crc32(raw[:76]).to_bytes(4, "little")
    journal.write_bytes(raw)


CASES = [
    (0, ["query", "t"], ""),
    (1, ["get", "t", "99"], ""),
    (1, ["hash", "t", "--expect", "0" * 32], "SOW-CLI-017"),
    (2, ["query", "t", "/id = "], "SOW-EXP"),
    (2, ["query", "t", "--no-such-option"], "SOW-CLI"),
    (2, ["query", "t", "--skip-n", "1"], "SOW-QRY-010"),
    (2, ["query", "t", "--batch-size", "10001"], "SOW-CLI"),
    (2, ["delete", "t", "--filter", "1=1", "--sow-key", "1", "--yes"], "SOW-CLI-014"),
    (4, ["query", "t", "-c", "missing.xml"], "SOW-CFG-030"),
    (4, ["validate", "broken.xml"], ""),
    (7, ["query", "t", "/x LIKE '(a+)+$'"], "SOW-EXP-030"),
    (8, ["delete", "t", "--filter", "1=1"], "SOW-CLI-007"),
    (8, ["publish", "gone"], "SOW-ENG-021"),
    (10, ["query", "nothing"], "SOW-ENG-012"),
    (0, ["query", "gone"], ""),
    (10, ["query", "./no/such.sow"], "SOW-ENG"),
    (10, ["publish", "t", "nosuch.json"], "SOW-CLI-062"),
    (10, ["eval", "/a", "nosuch.json"], "SOW-CLI-062"),
    (10, ["key", "t", "nosuch.json"], "SOW-CLI-062"),
    (10, ["delete", "t", "--data", "nosuch.json", "--yes"], "SOW-CLI-062"),
    (10, ["pipeline", "load", "t", "nosuch.json"], "SOW-SPK-040"),
]


@pytest.mark.parametrize(
    ("status", "words", "code"), CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else str(value)
)
def test_status(shop: Path, status: int, words: list[str], code: str) -> None:
    (shop / "broken.xml").write_text("<AMPSConfig><Name>x</Name><SOW></AMPSConfig>")
    if status == 7:
        run(shop, "publish", "t", data=b'{"id":9,"x":"' + b"a" * 60 + b'!"}\n')
    done = run(shop, *words, data=b'{"id":1}\n')
    assert done.returncode == status, done.stderr.decode()
    if code:
        assert done.stderr.decode().startswith(f"error[{code}")
        row = json.loads(run(shop, *words, "--error-format", "json", data=b'{"id":1}\n').stderr.splitlines()[-1])
        assert (row["level"], row["exit"], row["code"][: len(code)]) == ("error", status, code)


def test_3_some_input_was_refused(shop: Path) -> None:
    done = run(shop, "publish", "t", "--on-error", "skip", data=b'{"id":4}\nnonsense\n')
    assert (done.returncode, b"1 rejected" in done.stderr) == (3, True)
    assert run(shop, "publish", "t", data=b"nonsense\n").returncode == 3


def test_5_damage_names_the_command_that_helps(shop: Path) -> None:
    damage_store(shop)
    done = run(shop, "query", "t")
    assert done.returncode == 5
    assert b"sowctl replay t" in done.stderr
    assert b"checksum" in done.stderr
    assert run(shop, "check").returncode == 5
    replayed = run(shop, "replay", "t")
    assert (replayed.returncode, b"rebuilt" in replayed.stderr) == (0, True)
    assert (shop / "sow" / "t.json.sow.damaged-1").exists()
    assert run(shop, "query", "t", "--count").stdout == b"3\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_6_a_full_disk(shop: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "query", "t"], cwd=shop, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 6
    assert b"no space left" in done.stderr


def test_9_a_newer_format(shop: Path) -> None:
    make_newer(shop)
    done = run(shop, "journal", "list")
    assert (done.returncode, b" 9" in done.stderr) == (9, True)


def test_11_a_lock_that_is_held(shop: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(shop)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        done = run(shop, "publish", "t", "--lock-wait", "50ms", data=b'{"id":4}\n')
        assert done.returncode == 11
        assert str(holder.pid).encode() in done.stderr
    finally:
        holder.kill()
        holder.wait()


HOLD = """
import sys
from sowctl.engine.instance import Instance
from sowctl.engine.writing.session import WriteSession
with WriteSession(Instance.open(sys.argv[1] + "/sowctl.xml")) as session:
    with session.journal.hold_lock():
        print("held", flush=True)
        sys.stdin.read()
"""


def test_70_a_bug_asks_for_a_report(shop: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUG],
        cwd=shop,
        capture_output=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 70
    assert b"bug in sowctl" in done.stderr
    assert b"Traceback" not in done.stderr


BUG = """
import sys
import sowctl.engine.verbs.query
sowctl.engine.verbs.query.start_query = None
sys.argv = ["sowctl", "query", "t"]
from sowctl.cli.main import run
run()
"""


def publisher(shop: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, "publish", "t", *words],
        cwd=shop,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_silent_input_still_gets_its_batch_acknowledged(shop: Path) -> None:
    process = publisher(shop, "--tee", "--linger", "50ms")
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id":7}\n')
        process.stdin.flush()
        assert process.stdout.readline() == b'{"id":7}\n'
        assert run(shop, "get", "t", "--fields", "7").stdout == b'{"id":7}\n'
        other = run(shop, "publish", "t", "--lock-wait", "2s", data=b'{"id":8}\n')
        assert other.returncode == 0, other.stderr
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_publish_says_what_is_durable(shop: Path, number: int, status: int) -> None:
    process = publisher(shop, "--tee", "--linger", "10ms")
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b'{"id":7}\n{"id":8}\n')
        process.stdin.flush()
        assert process.stdout.readline() == b'{"id":7}\n'
        process.send_signal(number)
        assert process.wait(30) == status
        assert re.search(rb"\b2 messages .*\btxid 5\b", process.stderr.read())
    finally:
        process.kill()
        process.wait()
    assert run(shop, "query", "t", "--count").stdout == b"5\n"


def test_a_reader_that_has_seen_enough_ends_a_query_quietly(shop: Path) -> None:
    lines = b"".join(b'{"id":%d,"pad":"%s"}\n' % (n, b"x" * 200) for n in range(20_000))
    assert run(shop, "publish", "t", data=lines).returncode == 0
    started = time.monotonic()
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m sowctl query t 2>err; echo $? >status"],
        cwd=shop, stdout=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m sowctl query t 2>err | head -1; echo ${{PIPESTATUS[0]}} >status"],
        cwd=shop, capture_output=True, timeout=60,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 1
    assert (shop / "status").read_text().strip() == "141"
    assert (shop / "err").read_bytes() == b""
    assert time.monotonic() - started < 60

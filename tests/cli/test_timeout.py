"""--timeout ends every command with status 124, in time, and leaves nothing incomplete."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.instances import config_xml, topic_xml
from tests.support.queues import lab_xml, queue_xml

COMMAND = [sys.executable, "-m", "sowctl"]
LIMIT_SECONDS = 1.0
GRACE_SECONDS = 10.0
"""For start and exit on a busy machine; without the limit these commands take minutes, or never end."""
RECORDS = 10_000
MANY = 600_000
SLOW = "/s LIKE '^(a|aa)+$'"
"""A pattern that takes thousands of steps on every record below, and matches none."""


def start(directory: Path, words: Sequence[str], **streams: int) -> subprocess.Popen[bytes]:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("SOWCTL")}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen([*COMMAND, *words], cwd=directory, env=environment | {"NO_COLOR": "1"}, **output | streams)


def run(directory: Path, *words: str) -> bytes:
    with start(directory, words) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance of one large topic, a topic for new messages, and an empty queue."""
    directory = tmp_path_factory.mktemp("made")
    topics_xml = topic_xml("big") + topic_xml("new")
    queue = queue_xml("<LeasePeriod>1h</LeasePeriod>")
    (directory / "sowctl.xml").write_text(
        lab_xml(queue, topics_xml=topics_xml, logged=("big", "new", "orders", "failed"))
    )
    chosen = random.Random(1)
    text = "a" * 22 + "b"
    lines = [f'{{"id":{number},"n":{chosen.random()},"s":"{text}"}}\n' for number in range(RECORDS)]
    (directory / "lines.ndjson").write_text("".join(lines))
    run(directory, "publish", "big", "lines.ndjson")
    return directory


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "shop"))


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def is_beside_output(name: str) -> bool:
    return "/" not in name


ENDLESS: list[tuple[str, list[str]]] = [
    ("sql", ["sql", "SELECT count(*) FROM big a, big b, big c WHERE a.n + b.n > c.n"]),
    ("query", ["query", "big", SLOW]),
    ("count", ["query", "big", "--count", SLOW]),
    ("grouping", ["query", "big", SLOW, "--projection", "COUNT(/id) AS /c", "--grouping", "/n"]),
    ("projection", ["query", "big", "--projection", f"MAX(IF({SLOW}, 1, 0)) AS /c", "--grouping", "/id"]),
    ("export", ["export", "big", "out.parquet", SLOW]),
    ("export ndjson", ["export", "big", "out.ndjson", SLOW]),
    ("delete", ["delete", "big", "--filter", SLOW, "--yes"]),
    ("stats", ["stats", "big", "--filter", SLOW]),
    ("schema", ["schema", "big", SLOW]),
    ("subscribe", ["subscribe", "big"]),
    ("subscribe filter", ["subscribe", "new", SLOW]),
    ("tail", ["journal", "tail", "-f", "big"]),
    ("order", ["query", "big", SLOW, "--order-by", "/n"]),
    ("first of an order", ["query", "big", SLOW, "--order-by", "/n", "-n", "5"]),
    ("queue run", ["queue", "run", "work", "cat"]),
]


@pytest.mark.parametrize("words", [words for _, words in ENDLESS], ids=[name for name, _ in ENDLESS])
def test_a_command_without_end(words: list[str], shop: Path) -> None:
    before = files(shop)
    begin = time.monotonic()
    with start(shop, ["--timeout", f"{LIMIT_SECONDS}s", *words]) as process:
        _, err = process.communicate(timeout=60)
    took = time.monotonic() - begin
    assert (process.returncode, b"timed out" in err) == (124, True), err
    assert took < LIMIT_SECONDS + GRACE_SECONDS
    assert not {name for name in files(shop) - before if is_beside_output(name)}
    run(shop, "check")


def test_publish_from_a_pipe_that_stays_open(shop: Path) -> None:
    begin = time.monotonic()
    # Long enough for the message to be read on a busy machine.
    limit = 5 * LIMIT_SECONDS
    with start(shop, ["publish", "new", "--timeout", f"{limit}s"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b'{"id":1}\n')
        process.stdin.flush()
        assert process.wait(60) == 124, process.stderr.read()
        assert time.monotonic() - begin < limit + GRACE_SECONDS
    assert run(shop, "query", "new", "--count") == b"1\n"
    run(shop, "check")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance with so many records that rebuilding or copying their store takes some seconds."""
    directory = tmp_path_factory.mktemp("loaded")
    (directory / "sowctl.xml").write_text(config_xml(topic_xml("many"), ("many",), size="1GB"))
    (directory / "lines.ndjson").write_text("".join(f'{{"id":{n},"n":{n * 7919 % 600_007}}}\n' for n in range(MANY)))
    run(directory, "publish", "many", "lines.ndjson")
    (directory / "lines.ndjson").unlink()
    return directory


LONG: list[tuple[str, list[str]]] = [
    ("replay", ["replay", "many", "--rebuild"]),
    ("replay into", ["replay", "many", "--into", "other.sow"]),
    ("snapshot", ["snapshot", "many", "--at", "2099-01-01", "--output", "then.sow"]),
    ("order", ["query", "many", "--order-by", "/n", "--output", "lines.ndjson"]),
]


@pytest.mark.parametrize("words", [words for _, words in LONG], ids=[name for name, _ in LONG])
def test_a_long_command(words: list[str], loaded: Path) -> None:
    before = files(loaded)
    with start(loaded, [*words, "--timeout", "0.4s"]) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, b"timed out" in err) == (124, True), err
    assert files(loaded) == before
    assert run(loaded, "query", "many", "--count") == f"{MANY}\n".encode()
    run(loaded, "check")


def test_a_worker_with_a_message_in_hand(shop: Path) -> None:
    """Its command is ended, and the message returned: other workers can lease it within the hour of its lease."""
    (shop / "one.ndjson").write_text('{"id":1}\n')
    run(shop, "publish", "orders", "one.ndjson")
    command = ["sh", "-c", "echo $$ > pid; exec sleep 600"]
    with start(shop, ["queue", "run", "work", "--timeout", f"{5 * LIMIT_SECONDS}s", "--", *command]) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, b"timed out" in err) == (124, True), err
    assert not Path("/proc", (shop / "pid").read_text().strip()).exists()
    assert run(shop, "queue", "run", "work", "--until-empty", "--", "cat").strip() == b'{"id":1}'
    run(shop, "check")

"""A publish that ends for lack of space: a user who follows its advice publishes each message once.

The file system is real: a tmpfs filled by another file, if this user may mount it.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sowctl
from tests.support.instances import config_xml, topic_xml

XML = config_xml(topic_xml("orders"), ("orders",))
MESSAGES = 500
CHILD = """
import json, os, subprocess, sys
from pathlib import Path

def run(*argv, stdin=None):
    done = subprocess.run([sys.executable, "-m", "sowctl", *argv], capture_output=True, text=True, input=stdin)
    return {"status": done.returncode, "out": done.stdout, "err": done.stderr}

def publish(*argv, stdin=None):
    return run("publish", "orders", "--error-format", "json", *argv, stdin=stdin)

names, filled = ["in.ndjson", "--batch", "50"], Path(sys.argv[1]) / "filler"
first = publish("first.ndjson")
with filled.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
    file.truncate(max(file.tell() - int(sys.argv[2]), 0))
found = {"first": first, "full": publish(*names)}
found["again"] = run("query", "orders", "--count")
filled.unlink()
error = next(row for row in map(json.loads, found["full"]["err"].splitlines()) if row["level"] == "error")
advice = error.get("resume", "")
if ": tail" in advice:
    rest = subprocess.run(advice.partition(": ")[2].partition(", then")[0], shell=True, capture_output=True, text=True)
    found["rest"] = publish("-", stdin=rest.stdout)
found["next"] = publish("last.ndjson")
found["dump"] = run("journal", "dump")
found["count"] = run("query", "orders", "--count")
found["check"] = run("check")
print(json.dumps(found | {"error": error}))
"""


@pytest.fixture
def namespace() -> list[str]:
    """A prefix for a command, which allows it to mount file systems that no other process sees."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount anything")
    return ["unshare", "-m", "sh", "-c"]


def lines(first: int, count: int) -> str:
    """Messages of a certain size, so that their records need pages of their own."""
    return "".join(
        json.dumps({"id": number, "v": random.Random(number).randbytes(100).hex()}) + "\n"
        for number in range(first, first + count)
    )


@pytest.mark.parametrize(("full", "room"), [("sow", 0), ("sow", 65536), ("journal", 0), ("journal", 32768)])
def test_what_is_durable_is_published_once(namespace: list[str], tmp_path: Path, full: str, room: int) -> None:
    (tmp_path / "sowctl.xml").write_text(XML)
    (tmp_path / "first.ndjson").write_text(lines(0, 10))
    (tmp_path / "in.ndjson").write_text(lines(1000, MESSAGES))
    (tmp_path / "last.ndjson").write_text(lines(5000, 1))
    place = tmp_path / full
    place.mkdir()
    script = f'mount -t tmpfs -o size=2m none {shlex.quote(str(place))} && exec "$@"'
    said = subprocess.run(
        [*namespace, script, "sh", sys.executable, "-c", CHILD, str(place), str(room)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(sowctl.__file__).parent.parent)},
    )
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    error = found["error"]
    assert found["full"]["status"] == 6, found["full"]
    assert error["code"] == {"sow": "SOW-STO-040", "journal": "SOW-JRN-021"}[full]
    if full == "sow":
        assert f"{MESSAGES} messages are durable" in error["durable"]
        assert "sowctl replay orders" in error["hint"]
        assert "tail" not in error["resume"]
        # Readers see them at once.
        assert found["again"]["out"].strip() == str(10 + MESSAGES)
    elif room:
        durable = int(re.findall(r"\d+", error["durable"])[0])
        assert 0 < durable < MESSAGES and f" line {durable + 1}" in error["resume"]
        assert "not on disk" in error["hint"]
    else:
        # Nothing of this run is on disk: there is no rest, and all messages must be published.
        assert "resume" not in error and "durable" not in error
        return
    ids = [json.loads(line)["data"]["id"] for line in found["dump"]["out"].splitlines()]
    assert sorted(ids) == [*range(10), *range(1000, 1000 + MESSAGES), 5000]
    assert found["count"]["out"].strip() == str(len(ids))
    assert found["check"]["status"] == 0, found["check"]

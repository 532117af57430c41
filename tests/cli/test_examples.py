"""Every example of every command, and so of every manual page, run by a shell in a fresh copy of the demo."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS, PIPELINE_GROUP
from tests.support.instances import topic_xml

ROOT = Path(__file__).parents[2]
LINES = [
    (command.name, line)
    for command in COMMANDS
    if command.group != PIPELINE_GROUP  # tests/spark runs those, in one session
    for line in load_command(command).examples
]
OTHER_STATUS = {
    # These need a terminal.
    "sowctl browse": 2,
    "sowctl browse orders": 2,
    # The clock of the examples is before the newest entry of the demo, which doctor reports.
    "sowctl doctor": 1,
    "sowctl doctor --json": 1,
    "sowctl publish orders in.ndjson --on-error skip --rejects bad.ndjson": 3,
    "sowctl hash orders --expect 9f3c0e6a1d5b48e7a2c4f06b8d917e35": 1,
    "sowctl diff orders@2026-01-05T10:00:00Z orders --stat": 1,
    "sowctl diff orders@1200..1210": 1,
    "sowctl diff customers golden.ndjson": 1,
    "sowctl diff customers@2026-01-05T09:00:00Z --filter \"/region = 'APAC'\" --only /creditLimit": 1,
    # The command before the pipe reports a difference.
    "sowctl diff other.xml sowctl.xml --format envelopes | sowctl publish --framing envelope -c other.xml": 1,
    "sowctl config diff sowctl.xml other.xml": 1,
    "sowctl config diff sowctl.xml other.xml --format json": 1,
    "sowctl queue cancel work '11853365263938241052|502|,1795442002362920'": 1,
}
"""Examples with a status other than 0."""
ENDLESS = {
    "sowctl tail orders",
    "sowctl tail orders \"/symbol = 'IBM'\" --format raw",
    "sowctl subscribe orders",
    "sowctl subscribe orders \"/symbol = 'IBM'\" --no-sow --data-only",
    "sowctl subscribe orders --oof -o '/price DESC' --top-n 10 --skip-n 0",
    "sowctl journal tail -f orders",
    "sowctl conflate --follow slow-quotes",
    "sowctl queue run work -- ./process-order",
    "sowctl queue run work --batch 100 --dead-letter failed -- ./load-lines",
}
"""Examples that run until they are ended."""
LISTEN = 5
"""Seconds after which they are interrupted; all of them start at once and must be running by then."""
FILES = {
    "fills.ndjson": '{"orderId":10001,"status":"filled"}\n',
    "in.ndjson": '{"orderId":10001}\nnonsense\n',
    "golden.ndjson": '{"customerId":"C0001"}\n',
    "lake/day=2026-01-01/part-0.csv": "orderId,qty\n10001,100\n",
    "fills.csv": "orderId,status,qty\n10001,filled,100\n",
    "fills.json": '[\n  {"orderId": 10001, "qty": 100}\n]\n',
    "done.ndjson": '{"orderId":10002}\n',
    "topics.xml": topic_xml("t"),
    "shop.bookmarks": "",
    "checks.txt": "info orders\nquery orders '/qty > 500' --count\n",
    "process-order": "#!/bin/sh\nexec cat\n",
    "load-lines": "#!/bin/sh\nexec cat\n",
    "load.py": "import pathlib, sys\npathlib.Path(sys.argv[1]).read_text()\n",
    "bin/producer": "#!/bin/sh\necho '{\"orderId\":1}'\n",
    "bin/kcat": '#!/bin/sh\necho \'{"topic":"orders","ts":1,"value":{"orderId":1}}\'\n',
    "bin/sowctl": f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m sowctl "$@"\n',
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo instance with the files that the examples name."""
    place = tmp_path_factory.mktemp("examples") / "demo"
    command = [sys.executable, "-m", "sowctl", "demo", str(place)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=120)
    config = (place / "sowctl.xml").read_text(encoding="utf-8")
    (place / "amps.xml").write_text(config, encoding="utf-8")
    (place / "other.xml").write_text(
        config.replace(">sow/", ">sow2/").replace(">journal<", ">journal2<"), encoding="utf-8"
    )
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True, parents=True)
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    (place / "fills.csv.gz").write_bytes(gzip.compress(FILES["fills.csv"].encode()))
    for directory in (".zfunc", ".config/fish/completions", ".local/share/bash-completion/completions"):
        (place / directory).mkdir(parents=True)
    command = [sys.executable, "-m", "sowctl", "backup", str(place / "backups"), "-c", str(place / "sowctl.xml")]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=120)
    return place


def run(demo: Path, place: Path, line: str) -> subprocess.CompletedProcess[bytes]:
    """Run an example in a copy of the demo below ``place``. Endless ones are interrupted."""
    here = shutil.copytree(demo, place / "here")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SOWCTL")}
    environment = kept | {
        "PATH": f"{here / 'bin'}:{os.environ['PATH']}",
        "HOME": str(here),
        "SOWCTL_CONFIG": "sowctl.xml",
        "SOWCTL_NOW": "2026-01-05T11:40:00Z",
    }
    words = line.replace("/tmp/morning", str(place / "morning"))
    if line == "sowctl demo":
        shutil.rmtree(here / "demo", ignore_errors=True)
    ended = f"timeout --preserve-status --signal INT {LISTEN} " if line in ENDLESS else ""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {ended}{words}"],
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=180,
    )


@pytest.fixture(scope="module")
def interrupted(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[bytes]]:
    """The endless examples, run at the same time: they mostly wait."""
    lines = sorted(ENDLESS)
    with ThreadPoolExecutor(len(lines)) as pool:
        ended = pool.map(lambda line: run(demo, tmp_path_factory.mktemp("endless"), line), lines)
        return dict(zip(lines, ended, strict=True))


@pytest.mark.parametrize("line", [line for _, line in LINES], ids=[f"{name}-{n}" for n, (name, _) in enumerate(LINES)])
def test_an_example_does_what_it_says(demo: Path, tmp_path: Path, line: str, request: pytest.FixtureRequest) -> None:
    endless = line in ENDLESS
    done = request.getfixturevalue("interrupted")[line] if endless else run(demo, tmp_path, line)
    assert done.returncode == OTHER_STATUS.get(line, 130 if endless else 0), done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_the_exceptions_are_examples() -> None:
    assert set(OTHER_STATUS) | ENDLESS <= {line for _, line in LINES}

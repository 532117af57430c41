"""A process that damaged pages would kill ends with the status for damage and reports it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sowctl.cli.crash import FATAL_SIGNALS

CHILD = """
import os, sys
from sowctl.cli.crash import install_handlers
install_handlers(as_json=sys.argv[2] == "json")
os.kill(os.getpid(), int(sys.argv[1]))
"""
MAPPED = """
import mmap, os, sys
from sowctl.cli.crash import install_handlers
install_handlers(as_json=False)
with open(sys.argv[1], "r+b") as file:
    view = mmap.mmap(file.fileno(), 8192)
    os.truncate(sys.argv[1], 0)
    print(view[5000])
"""


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", *words], capture_output=True, timeout=30, cwd=Path(__file__).parents[2]
    )


@pytest.mark.parametrize("number", FATAL_SIGNALS)
def test_the_signals_that_lmdb_dies_of(number: int) -> None:
    done = run(CHILD, str(int(number)), "text")
    assert done.returncode == 5
    assert done.stderr.startswith(b"error[SOW-CLI-061]: ")
    row = json.loads(run(CHILD, str(int(number)), "json").stderr)
    assert (row["code"], row["exit"]) == ("SOW-CLI-061", 5)


def test_a_real_fault_in_a_mapped_file(tmp_path: Path) -> None:
    file = tmp_path / "mapped"
    file.write_bytes(bytes(8192))
    done = run(MAPPED, str(file))
    assert (done.returncode, done.stdout) == (5, b"")
    assert b"sowctl check" in done.stderr

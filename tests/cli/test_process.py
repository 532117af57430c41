"""The real program: pipes, closed streams, locales, signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sowctl.cli.commands.bodies import demo
from tests.support.instances import config_xml, topic_xml

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "sowctl"]
BASE = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
LOCALES = [
    {"LC_ALL": "C"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "C.UTF-8"},
    {"LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "iso-8859-1", "PYTHONUTF8": "0"},
    {"LC_ALL": "tr_TR.UTF-8"},
    {"TZ": "America/St_Johns"},
]
ENDINGS = [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)]


def run(*argv: str, shell: str = "", **environ: str) -> subprocess.CompletedProcess[bytes]:
    command: list[str] = [*COMMAND, *argv]
    if shell:
        command = ["bash", "-c", shell.replace("sowctl", " ".join(COMMAND))]
    return subprocess.run(command, env=BASE | environ, cwd=ROOT / "tests", capture_output=True, check=False)


@pytest.mark.parametrize("environ", LOCALES, ids=lambda environ: ",".join(environ.values()))
def test_output_does_not_depend_on_locale_or_zone(environ: dict[str, str]) -> None:
    for argv in (["--help"], ["query", "--help"], ["query\x1b", "x"]):
        reference, found = run(*argv, LC_ALL="C.UTF-8"), run(*argv, **environ)
        assert (found.returncode, found.stdout, found.stderr) == (
            reference.returncode,
            reference.stdout,
            reference.stderr,
        )


@pytest.mark.parametrize("environ", LOCALES, ids=lambda environ: ",".join(environ.values()))
def test_records_and_filters_do_not_depend_on_locale_or_zone(environ: dict[str, str], tmp_path: Path) -> None:
    if environ.get("PYTHONIOENCODING"):
        environ = environ | {"LC_ALL": "C.UTF-8"}
    demo.write_demo(tmp_path)
    config = str(tmp_path / "sowctl.xml")
    lines = b"".join((tmp_path / "customers.ndjson").read_bytes().splitlines(keepends=True)[:50])
    (tmp_path / "few.ndjson").write_bytes(lines)
    done = run("-c", config, "publish", "customers", str(tmp_path / "few.ndjson"), SOWCTL_NOW="0s", **environ)
    assert done.returncode == 0, done.stderr
    for form in ("ndjson", "csv", "table"):
        found = run("-c", config, "query", "customers", "/name LIKE '^Chloé'", "-F", form, "--meta", **environ)
        assert (found.returncode, found.stderr) == (0, b"")
        assert "Chloé".encode() in found.stdout
        if form == "csv":
            assert b",1970-01-01T00:00:00.000000Z," in found.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = run(shell="set -o pipefail; sowctl completion bash | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == (b"141\n", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("command", ["sowctl --version", "sowctl --help", "sowctl completion bash"])
def test_a_full_disk_is_an_error(command: str) -> None:
    done = run(shell=f"{command} > /dev/full")
    assert done.returncode == 6
    assert b"no space left" in done.stderr


def test_closed_standard_streams() -> None:
    closed = run(shell="sowctl --help >&-")
    assert closed.returncode == 6
    assert b"SOW-CLI-060" in closed.stderr
    assert run(shell="sowctl nonsense 2>&-").returncode == 2
    assert run(shell="sowctl --version <&-").returncode == 0


def test_a_subscription_says_that_its_output_is_closed(tmp_path: Path) -> None:
    # It uses the descriptor number of its output, to monitor it, before it writes.
    config = tmp_path / "c.xml"
    config.write_text(config_xml(topic_xml("t"), ("t",)))
    closed = run(shell=f"sowctl subscribe t -c {config} --until-now >&-")
    assert closed.returncode == 6
    assert closed.stderr.startswith(b"error[SOW-CLI-060]: ") and b"standard output" in closed.stderr


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_signals(number: int, status: int) -> None:
    program = (
        "import sys, time; from sowctl.cli import main; from sowctl.cli.parsing import dispatch\n"
        "def wait(*_): print('ready', flush=True); time.sleep(30)\n"
        "dispatch.dispatch_command = wait; sys.argv = ['sowctl', 'x']; main.run()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=BASE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    begin = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=25)
    assert time.monotonic() - begin < 25
    assert process.returncode == status
    assert err.strip() == {129: b"hung up", 130: b"interrupted", 143: b"terminated"}[status]


def test_a_timeout_ends_a_run_as_an_interrupt_would() -> None:
    # Standard input stays open without data for longer than the command may take.
    command = [*COMMAND, "eval", "/a", "--timeout", "300ms"]
    with subprocess.Popen(
        command, env=BASE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as p:
        assert p.wait(25) == 124
        assert p.stdout is not None and p.stderr is not None
        assert (p.stdout.read(), p.stderr.read()) == (b"", b"timed out\n")


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_signals_after_all_is_done(number: int, status: int) -> None:
    """All output was written: no traceback, at whatever point of the exit the signal arrives."""
    program = (
        "import os, sys; from sowctl.cli import main\n"
        f"def end(status): os.kill(os.getpid(), {int(number)})\n"
        "main._end_process = end; sys.argv = ['sowctl', '--version']; main.run()"
    )
    done = subprocess.run([sys.executable, "-c", program], env=BASE, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (status, b"")
    assert done.stdout.startswith(b"sowctl ")


ENDING = """
import atexit, sys, threading, time
atexit.register(print, "registered")
from sowctl.cli.main import run
def late():
    time.sleep(0.5)
    print("the thread has ended", flush=True)
if {threads}:
    threading.Thread(target=late).start()
sys.argv = ["sowctl", "--version"]
run()
"""


@pytest.mark.parametrize("threads", [False, True])
def test_what_was_begun_is_ended(threads: bool) -> None:
    """The interpreter is not finalized at the end; exit handlers of other modules still run."""
    command = [sys.executable, "-c", ENDING.format(threads=threads)]
    done = subprocess.run(command, env=BASE, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    expected = [b"the thread has ended", b"registered"] if threads else [b"registered"]
    assert done.stdout.splitlines()[1:] == expected


def test_a_working_directory_that_was_removed_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    done = run(shell=f"mkdir '{gone}'; cd '{gone}'; rmdir '{gone}'; sowctl query orders")
    assert (done.returncode, done.stdout) == (6, b"")
    assert done.stderr.decode().startswith(f"error[SOW-CLI-060]: {gone}: ")

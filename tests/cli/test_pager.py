"""Tables longer than a terminal are shown in a pager; nothing else is, and no pager can change the result."""

from __future__ import annotations

import fcntl
import io
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.cli.main import main
from sowctl.cli.pager import open_pager
from tests.cli.conftest import Cli

CONFIG = """
<AMPSConfig>
  <Name>shop</Name>
  <SOW>
    <Topic><Name>t</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic><Name>u</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
  </SOW>
</AMPSConfig>
"""
ROWS, LINES = 3000, 12
Terminal = Callable[..., tuple[int, str, str]]


@pytest.fixture
def terminal(cli: Cli) -> Terminal:
    """Runs a command line on a terminal of 12 lines, with ``pager`` as the pager: its status, the content of the
    terminal, and what the pager has written to the file ``seen``, if it was started. ``own``: in a separate process."""
    Path("sowctl.xml").write_text(CONFIG)
    rows = b"".join(
        b'{"id":%d,"text":"the record of this number, which is as long as a line may be"}\n' % number
        for number in range(ROWS)
    )
    assert cli("publish", "t", stdin=rows).status == 0
    assert cli("publish", "u", stdin=rows.replace(b"record", b"other record")).status == 0

    def call(*argv: str, own: bool = False, pager: str | None = "cat > seen", **environ: str) -> tuple[int, str, str]:
        Path("seen").unlink(missing_ok=True)
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, 60, 0, 0))
        shown = bytearray()

        def read() -> None:
            # A terminal after its last writer has closed is at its end, which Linux reports as an error.
            try:
                while data := os.read(master, 65536):
                    shown.extend(data)
            except OSError:
                pass

        reader = threading.Thread(target=read)
        reader.start()
        given = {"PATH": os.environ["PATH"], "TERM": "xterm"} | environ
        if pager is not None:
            given["SOWCTL_PAGER"] = pager
        with os.fdopen(slave, "wb", 0) as stream, os.fdopen(slave, "wb", 0, closefd=False) as other:
            if own:
                command = [sys.executable, "-m", "sowctl", *argv]
                status = subprocess.run(
                    command, env=given, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave
                ).returncode
            else:
                status = main(argv, environ=given, stdin=io.BytesIO(), stdout=stream, stderr=other)
        reader.join()
        os.close(master)
        seen = Path("seen").read_text() if Path("seen").exists() else ""
        return status, shown.decode(), seen

    return call


def test_what_is_longer_than_the_terminal_is_paged(terminal: Terminal) -> None:
    status, shown, seen = terminal("query", "t", "--verbose")
    assert status == 0
    assert seen.count("the record") == ROWS
    assert "the record" not in shown
    assert "configuration" in shown
    status, shown, seen = terminal("query", "t", "--top-n", str(LINES - 4))
    assert (status, seen) == (0, "")
    assert shown.count("the record") == LINES - 4


def test_notes_come_behind_what_the_pager_shows(terminal: Terminal) -> None:
    status, shown, seen = terminal("diff", "t", "u", pager="cat > seen; sleep 0.1; printf ended >> seen")
    assert (status, seen[-5:]) == (1, "ended")
    assert "other record" in seen
    assert "3,000 changed" in shown


@pytest.mark.parametrize(("argv", "status"), [(("query", "t"), 0), (("diff", "t", "u"), 1), (("stats", "t"), 0)])
def test_leaving_the_pager_is_no_failure(terminal: Terminal, argv: tuple[str, ...], status: int) -> None:
    found, shown, seen = terminal(*argv, pager="head -c 100 > seen")
    assert (found, len(seen)) == (status, 100)
    assert "error" not in shown


@pytest.mark.parametrize("pager", ["exit 3", "no-such-pager-at-all 2> /dev/null", "cat > /no/such/place 2> /dev/null"])
def test_a_pager_that_fails_is_done_without(terminal: Terminal, pager: str) -> None:
    status, shown, _ = terminal("query", "t", pager=pager)
    assert (status, shown.count("the record")) == (0, ROWS)


@pytest.mark.parametrize(
    ("argv", "environ", "pager"),
    [
        (("--no-pager",), {}, "cat > seen"),
        ((), {"SOWCTL_NO_PAGER": "1"}, "cat > seen"),
        ((), {"TERM": "dumb"}, "cat > seen"),
        ((), {"PAGER": "cat > seen"}, ""),
        ((), {}, "cat"),
        ((), {"PATH": "/no/such/place"}, None),
        (("--format", "ndjson"), {}, "cat > seen"),
    ],
)
def test_where_there_is_no_pager(
    terminal: Terminal, argv: tuple[str, ...], environ: dict[str, str], pager: str | None
) -> None:
    status, shown, seen = terminal("query", "t", *argv, pager=pager, **environ)
    assert (status, shown.count("the record"), seen) == (0, ROWS, "")


def test_the_variable_of_all_programs_counts_where_ours_is_not_set(terminal: Terminal) -> None:
    assert terminal("query", "t", pager=None, PAGER="cat > seen")[2].count("the record") == ROWS
    _, _, seen = terminal("query", "t", pager='echo "$LESS" > seen; cat > /dev/null')
    assert seen == "FRX\n"


def test_a_pipe_is_never_paged(terminal: Terminal, cli: Cli) -> None:
    found = cli("query", "t", "--format", "table", environ={"SOWCTL_PAGER": "cat > seen", "TERM": "xterm"}, tty="out")
    assert found.out.count("the record") == ROWS
    assert not Path("seen").exists()


def test_ctrl_c_belongs_to_the_pager_once_all_is_written(terminal: Terminal) -> None:
    status, shown, seen = terminal("query", "t", own=True, pager="cat > seen; kill -INT $PPID; sleep 0.1")
    assert (status, seen.count("the record")) == (0, ROWS)
    assert "interrupted" not in shown


def test_ctrl_c_before_ends_the_command_and_leaves_the_pager(terminal: Terminal) -> None:
    status, shown, seen = terminal("query", "t", own=True, pager="read line; kill -INT $PPID; cat > seen")
    assert status == 130
    assert "the record" in seen
    assert "interrupted" in shown


def test_the_limit_of_time_stands_still_while_somebody_reads_and_goes_on_behind() -> None:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, 60, 0, 0))
    environ = {"PATH": os.environ["PATH"], "TERM": "xterm", "PAGER": "sleep 0.3; cat > /dev/null; sleep 0.3"}
    with os.fdopen(slave, "wb", 0) as stream:
        pager = open_pager(stream, environ)
        assert pager is not None
        signal.setitimer(signal.ITIMER_REAL, 60)
        try:
            # More than the capacity of a pipe: it waits until the reader reads some of it.
            pager.write(b"a line\n" * 100_000)
            kept = signal.getitimer(signal.ITIMER_REAL)[0]
            pager.end()
            assert 60 >= kept >= signal.getitimer(signal.ITIMER_REAL)[0] > 59.75
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    os.close(master)

"""The progress line: when it is drawn, its content, and that it never interferes with other output."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from shutil import rmtree

from sowctl.cli.progress import ProgressMeter
from sowctl.cli.streams import Streams
from tests.cli.conftest import Cli


class Tty(io.BytesIO):
    def isatty(self) -> bool:
        return True


class Desk:
    """Streams and a meter with a manual clock."""

    def __init__(self, mode: str, *, shown: bool = True) -> None:
        self.now = 100.0
        self.err = Tty()
        self.streams = Streams(io.BytesIO(), Tty(), self.err, {})
        self.meter = ProgressMeter(self.streams, "replay", mode, shown=shown, clock=lambda: self.now)

    def tell(self, seconds: float, done: int, total: int = 1000, what: str = "records") -> str:
        self.now += seconds
        self.meter.show_progress(what, done, total)
        return self.said()

    def said(self) -> str:
        text = self.err.getvalue().decode()
        self.err.seek(0)
        self.err.truncate()
        return text


def test_a_line_after_two_seconds_at_most_five_times_a_second() -> None:
    desk = Desk("auto")
    assert desk.tell(0, 0) == desk.tell(1, 100) == ""
    assert desk.tell(1, 200) == "\r\x1b[Kreplay: 20 % of 1,000 records, 8 s left"
    assert desk.tell(0.1, 210) == ""
    assert desk.tell(2.9, 500) == "\r\x1b[Kreplay: 50 % of 1,000 records, 5 s left"
    # Something else is counted from here: its rate is not known yet.
    assert desk.tell(1, 10, 50, "journal entries") == "\r\x1b[Kreplay: 20 % of 50 journal entries"
    assert desk.tell(1, 0, 0) == "\r\x1b[Kreplay: 0 records"
    assert desk.tell(1, 1500, 0) == "\r\x1b[Kreplay: 1,500 records"


def test_who_asked_to_see_it_always_sees_each_thing_that_is_counted() -> None:
    desk = Desk("always")
    assert desk.tell(0, 5, 10, "bytes to compare") == "\r\x1b[Kreplay: 50 % of 10 bytes to compare"
    assert desk.tell(0, 9, 10, "bytes to compare") == ""
    assert desk.tell(0, 10, 10, "bytes to compare").endswith("100 % of 10 bytes to compare, finishing")
    assert desk.tell(0, 0, 7) == "\r\x1b[Kreplay: 0 % of 7 records"
    auto = Desk("auto")
    assert auto.tell(2, 1)
    assert auto.tell(0, 1, 7, "bytes") == ""


def test_no_time_is_promised_for_what_is_not_counted() -> None:
    desk = Desk("auto")
    desk.tell(0, 0)
    assert desk.tell(3, 998).endswith("99 % of 1,000 records")
    assert desk.tell(0.01, 1000) == "\r\x1b[Kreplay: 100 % of 1,000 records, finishing"


def test_what_is_said_or_printed_takes_the_line_away() -> None:
    desk = Desk("always")
    assert desk.tell(0, 1)
    desk.streams.write_stderr("a note")
    assert desk.said() == "\r\x1b[Ka note\n"
    assert desk.tell(1, 2)
    desk.streams.stdout.write(b"data")
    assert desk.said() == "\r\x1b[K"
    assert desk.tell(1, 3)
    desk.meter.end()
    assert desk.said() == "\r\x1b[K"
    assert desk.tell(9, 4) == ""


def test_objects_for_programs() -> None:
    desk = Desk("json", shown=False)
    assert desk.tell(0.5, 1) == ""
    row = json.loads(desk.tell(1.5, 251))
    assert row == {"command": "replay", "counted": "records", "done": 251, "total": 1000, "seconds_left": 4.5}
    desk.meter.end()
    assert desk.tell(1, 1000)


def test_nothing_is_drawn_where_nobody_looks() -> None:
    desk = Desk("auto", shown=False)
    assert desk.tell(10, 1) == ""
    desk.err.close()
    lost = Desk("always")
    lost.err.close()
    lost.meter.show_progress("records", 1, 2)


def test_commands_draw_it_and_leave_nothing(cli: Cli) -> None:
    assert cli("demo", "d").status == 0
    config = ("-c", str(Path("d/sowctl.xml")))
    Path("o.ndjson").write_text('{"orderId":10417,"qty":3}\n')
    Path("o.csv").write_text("orderId,qty\n10417,3\n")
    for argv, *told in (
        (("query", "orders", "--no-index", "/qty > 1", "--count"), "900 records"),
        (("query", "orders", "--count", "--at", "2026-01-05T10:00:00Z"), "journal entries"),
        (("replay", "orders", "--rebuild"), "journal entries", "records to write"),
        (("delete", "customers", "--filter", "1=1", "--yes"), "deletions to journal", "changes of the store"),
        (("check", "orders"), "records"),
        (("journal", "check"), "bytes of the journal"),
        (("journal", "search", "--filter", "/qty > 1", "--count"), "journal entries"),
        (("store", "reindex", "orders"), "records to index", "indexes to build"),
        (("store", "compact", "orders", "--always"), "records"),
        (("backup", "b"), "bytes of a store"),
        (("backup", "b", "--verify"), "bytes to compare", "records to prove"),
        (("restore", "b", "--to", "r"), " bytes", "bytes of the journal", "records to prove"),
        (("store", "check", "--read-data", "100%"), "pages of data"),
        (("store", "repair", "orders", "--yes"), "records"),
        (("publish", "orders", "o.ndjson", "--dry-run"), "100 % of"),
        (("publish", "orders", "--from", "o.csv", "--dry-run"), " rows"),
    ):
        rmtree("r", ignore_errors=True)
        drawn = cli(*argv, *config, "--progress", "always")
        rmtree("r", ignore_errors=True)
        silent = cli(*argv, *config)
        assert drawn.status == silent.status, drawn.err
        # Reports of writing commands include durations and results.
        assert drawn.out == silent.out or argv[0] in ("store", "backup", "publish", "replay", "restore")
        assert all(what in drawn.err for what in told), argv
        assert drawn.err.endswith("\x1b[K") or drawn.err.endswith("\n"), argv
        assert "\x1b[K" not in silent.err


def test_the_line_of_publish_is_erased_before_messages(cli: Cli) -> None:
    assert cli("demo", "d").status == 0
    argv = ("publish", "orders", "-c", "d/sowctl.xml", "--on-error", "skip", "--verbose", "--progress", "always")
    with subprocess.Popen(
        (sys.executable, "-m", "sowctl", *argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        text = b""
        # One message after the other, until the line is drawn; then one that is refused.
        for number in range(1000):
            running.stdin.write(b'{"orderId":%d}\n' % number)
            running.stdin.flush()
            time.sleep(0.05)
            if select.select((running.stderr,), (), (), 0)[0]:
                text += os.read(running.stderr.fileno(), 1 << 16)
            if b" published, " in text:
                break
        running.stdin.write(b"{oops\n")
        running.stdin.close()
        text += running.stderr.read()
    assert running.returncode == 3
    visible = [line.rpartition(b"\r\x1b[K")[2] for line in text.split(b"\n")]
    assert b" published, " in text
    assert not any(b" published, " in line for line in visible)
    assert any(line.startswith(b"warning: [SOW-MSG-002]") for line in visible)

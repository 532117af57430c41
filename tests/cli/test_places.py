"""``sowctl subscribe --store``: positions stored after messages are printed, or acknowledged by the consumer."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sowctl
from sowctl.cli.commands.bodies.places import PLACE_LIMITS
from sowctl.cli.main import main
from sowctl.engine.subscriptions.bookmark_stores.file import FileStore
from sowctl.engine.subscriptions.bookmark_stores.protocol import PlaceAdvance, Subscriber
from sowctl.identity.hashes import hash_client_name
from tests.cli.conftest import Cli
from tests.support.instances import Lab, config_xml, topic_xml

KEYS = "<Key>/clientName</Key><Key>/subId</Key>"
STORE = f"<Topic><Name>marks</Name><MessageType>json</MessageType>{KEYS}<FileName>sow/marks.sow</FileName></Topic>"
WHO = ("--client", "c", "--sub-id", "1")
P = hash_client_name("p")
PIPE_BYTES = 2000 + (64 << 10)
"""The bytes that were read from a pipe, and its capacity."""
BASE = ("subscribe", "t", "--no-sow", "--until-now")


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """An instance with topics t and marks, both journalled."""
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + STORE, ("t", "marks")))
    return cli


def publish(cli: Cli, first: int, last: int) -> None:
    lines = "".join(f'{{"id":{number}}}\n' for number in range(first, last + 1))
    result = cli("publish", "t", "--client", "p", "--sequence", str(first), "--batch", "1", stdin=lines.encode())
    assert result.status == 0, result.err


def told(cli: Cli, *words: str, stdin: str = "") -> list[object]:
    """The ids of messages, and the names of other events."""
    result = cli(*BASE, *words, stdin=stdin.encode())
    assert result.status == 0, result.err
    events = [json.loads(line) for line in result.out.splitlines()]
    return [event["data"]["id"] if event.get("data") else event["command"] for event in events]


def place(cli: Cli, store: str) -> str:
    return cli("bookmark", "get", store, *WHO).out.strip()


@pytest.mark.parametrize("store", ["a.bookmarks", "marks"])
def test_the_store_has_the_bookmark_of_the_last_message(shop: Cli, store: str) -> None:
    keep = ("--store", store, *WHO, "--commit")
    publish(shop, 1, 5)
    assert told(shop, *keep) == [1, 2, 3, 4, 5, "completed"]
    assert place(shop, store) == f"{P}|5|"
    publish(shop, 6, 6)
    assert told(shop, *keep, "--ack", stdin=f"{P}|6|\n") == [6, "completed"]
    assert place(shop, store) == f"{P}|6|"
    # Entries of other topics after it have been read, too: then the position includes them.
    shop("publish", "marks", stdin=b'{"clientName":"x","subId":"y","bookmark":"0"}')
    assert told(shop, *keep) == ["completed"]
    assert place(shop, store).startswith(f"{hash_client_name('test')}|")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_closed_pipe_did_not_take_comes_again(shop: Cli, unbuffered: str) -> None:
    lines = "".join(f'{{"id":{number},"text":"{"x" * 600}"}}\n' for number in range(3000))
    assert shop("publish", "t", "--client", "p", "--sequence", "1", stdin=lines.encode()).status == 0
    keep = ("--store", "a.bookmarks", *WHO, "--commit")
    with subprocess.Popen(
        [sys.executable, "-m", "sowctl", *BASE, *keep],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        taken = process.stdout.raw.read(2000)  # type: ignore[attr-defined]
        process.stdout.close()
        assert (process.wait(), taken[:1]) == (141, b"{")
    stored = place(shop, "a.bookmarks")
    # The bytes that were in the pipe are of unknown status.
    number = 0 if stored == "0" else int(stored.split("|")[1])
    assert number <= PIPE_BYTES // 600
    assert told(shop, *keep)[0] == number


@pytest.mark.parametrize("store", ["a.bookmarks", "marks"])
def test_nothing_is_processed_before_the_consumer_says_so(shop: Cli, store: str) -> None:
    keep = ("--store", store, *WHO, "--commit", "--ack")
    publish(shop, 1, 3)
    assert told(shop, *keep) == told(shop, *keep) == [1, 2, 3, "completed"]
    assert place(shop, store) == "0"
    assert told(shop, *keep, stdin=f"{P}|1|\n{P}|2|\n") == [1, 2, 3, "completed"]
    assert place(shop, store) == f"{P}|2|"


@pytest.mark.parametrize("store", ["a.bookmarks", "marks"])
def test_a_subscription_goes_on_where_it_was(shop: Cli, store: str) -> None:
    keep = ("--store", store, *WHO)
    publish(shop, 1, 3)
    # Without --commit a position is read, but not moved.
    assert told(shop, *keep) == told(shop, *keep) == [1, 2, 3, "completed"]
    assert place(shop, store) == "0"
    assert told(shop, *keep, "--commit") == [1, 2, 3, "completed"]
    first = place(shop, store)
    assert first != "0"
    assert told(shop, *keep, "--commit") == ["completed"]
    publish(shop, 4, 5)
    assert told(shop, *keep, "--commit", "--max", "1") == [4]
    assert told(shop, *keep, "--commit") == [5, "completed"]
    assert told(shop, *keep, "--bookmark", "0") == [1, 2, 3, 4, 5, "completed"] if store == "marks" else True
    assert told(shop, *keep, "--bookmark", "recent") == ["completed"]
    shop("bookmark", "rewind", store, "--to", f"{P}|3|")
    assert told(shop, *keep, "--commit") == [4, 5, "completed"]


def test_what_a_file_knows_to_be_acknowledged_does_not_come_again(shop: Cli) -> None:
    keep = ("--store", "a.bookmarks", *WHO)
    publish(shop, 1, 5)
    ack = f"{P}|2|\n{P}|4\n{P}|77|\n"
    assert told(shop, *keep, "--commit", "--ack", stdin=ack) == [1, 2, 3, 4, 5, "completed"]
    assert place(shop, "a.bookmarks") == "0"
    assert told(shop, *keep, "--commit", "--ack", stdin=f"{P}|1|\n") == [1, 3, 5, "completed"]
    assert place(shop, "a.bookmarks") == f"{P}|1|"
    assert told(shop, *keep, "--commit", "--ack", stdin=f"{P}|3|\n{P}|5|\n") == [3, 5, "completed"]
    assert told(shop, *keep) == ["completed"]
    # Also if it begins before the stored position.
    assert told(shop, *keep, "--bookmark", "0") == ["completed"]


def test_a_topic_keeps_the_place_alone(shop: Cli) -> None:
    keep = ("--store", "marks", *WHO, "--commit", "--ack")
    publish(shop, 1, 4)
    assert told(shop, *keep, stdin=f"{P}|1|\n{P}|3|\n") == [1, 2, 3, 4, "completed"]
    assert place(shop, "marks") == f"{P}|1|"
    assert told(shop, *keep, stdin=f"{P}|2|\n") == [2, 3, 4, "completed"]
    assert place(shop, "marks") == f"{P}|2|"


def test_a_filter_that_matches_nothing_moves_the_place(shop: Cli) -> None:
    publish(shop, 1, 3)
    keep = ("--store", "a.bookmarks", *WHO, "--commit", "--filter", "/id > 9")
    assert told(shop, *keep) == ["completed"]
    assert place(shop, "a.bookmarks") == f"{hash_client_name('test')}|3|"
    publish(shop, 10, 10)
    assert told(shop, *keep) == [10, "completed"]


def test_a_range_stays_one(shop: Cli) -> None:
    publish(shop, 1, 5)
    keep = ("--store", "a.bookmarks", *WHO, "--commit")
    assert told(shop, *keep, "--bookmark", f"[{P}|2|:{P}|4|]", "--max", "1") == [2]
    # A message's position is stored only when another one follows, or its group is known to be complete.
    stored = place(shop, "a.bookmarks")
    assert stored.endswith(f":{P}|4|]")
    assert told(shop, *keep)[-3:] == [3, 4, "completed"]


def test_an_id_of_its_own(shop: Cli) -> None:
    publish(shop, 1, 2)
    told(shop, "--store", "a.bookmarks", "--client", "c", "--commit", "/id > 1")
    rows = [json.loads(line) for line in shop("bookmark", "list", "a.bookmarks").out.splitlines()]
    assert [(row["client"], row["sub_id"]) for row in rows] == [("c", "t /id > 1")]
    assert told(shop, "--store", "a.bookmarks", "--client", "c", "/id > 1") == ["completed"]


def test_control_lines_and_acknowledgements_share_an_input(shop: Cli) -> None:
    publish(shop, 1, 3)
    keep = ("--store", "a.bookmarks", *WHO, "--commit", "--ack", "--control")
    stdin = f'{P}|1|\n{{"command":"pause"}}\nnonsense\n{{"command":"stop"}}\n{P}|2|\n'
    result = shop(*BASE[:-1], *keep, stdin=stdin.encode())
    assert result.status == 0
    assert "SOW-IDN-001" in result.err
    assert place(shop, "a.bookmarks") == f"{P}|2|"


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        ("--commit", 2, "SOW-CLI-033"),
        ("--client c", 2, "SOW-CLI-033"),
        ("--store a.bookmarks --client c --ack", 2, "SOW-CLI-033"),
        ("--store a.bookmarks --client c --commit-every 5", 2, "SOW-CLI-033"),
        ("--store a.bookmarks --client c --commit --commit-every never", 2, "SOW-CLI-022"),
        ("--store a.bookmarks --commit", 2, "SOW-BKM-006"),
        ("--store t --client c --commit", 2, "SOW-BKM-009"),
        ("--store none --client c --commit", 10, "SOW-BKM-001"),
        ("--bookmark recent", 2, "SOW-FOL-022"),
        ("--bookmark 99 --bookmark-not-found fail", 10, "SOW-ENG-070"),
    ],
)
def test_refusals(shop: Cli, words: str, status: int, code: str) -> None:
    publish(shop, 1, 1)
    result = shop(*BASE, *words.split())
    assert (result.status, code in result.err) == (status, True), result.err


class Out(io.BytesIO):
    """Standard output that records which bytes have left the process; beyond a byte limit no more leave it."""

    def __init__(self, room: int = 1 << 30) -> None:
        super().__init__()
        self.room = room
        self.left = b""

    def flush(self) -> None:
        if len(self.getvalue()) > self.room:
            raise OSError(errno.ENOSPC, "no room")
        self.left = self.getvalue()


@pytest.mark.parametrize("looks", [0.0, 100.0])
@pytest.mark.parametrize("words", [("--commit-every", "0s"), ("--rate", "200"), ()])
def test_a_place_is_stored_behind_what_has_left_the_process(
    shop: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], looks: float
) -> None:
    publish(shop, 1, 30)
    out, steps = Out(), []
    advance = FileStore.advance_place
    monkeypatch.setattr(PLACE_LIMITS, "commit_interval_seconds", looks)

    def checked(self: FileStore, who: Subscriber, step: PlaceAdvance) -> None:
        steps.append(step)
        printed = {json.loads(line)["bookmark"] for line in out.left.splitlines()}
        assert step.bookmark in printed or not step.bookmark
        assert all(f"{P}|{number}|" in printed for number in range(1, step.passed.get(P, 0) + 1))
        advance(self, who, step)

    monkeypatch.setattr(FileStore, "advance_place", checked)
    line = [*BASE, "--store", "a.bookmarks", *WHO, "--commit", *words]
    assert main(line, environ={}, stdin=io.BytesIO(), stdout=out, stderr=io.BytesIO()) == 0
    assert steps
    assert steps[-1].bookmark == f"{P}|30|" or steps[-1].bookmark == f"{hash_client_name('test')}|30|"


@pytest.mark.parametrize("room", [0, 100, 1000, 3000])
def test_what_cannot_leave_the_process_is_not_taken_as_printed(
    shop: Cli, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    publish(shop, 1, 30)
    out = Out(room)
    monkeypatch.setattr(PLACE_LIMITS, "commit_interval_seconds", 0.0)
    line = [*BASE, "--store", "a.bookmarks", *WHO, "--commit", "--commit-every", "0s", "--rate", "500"]
    assert main(line, environ={}, stdin=io.BytesIO(), stdout=out, stderr=io.BytesIO()) == 6
    printed = [json.loads(text) for text in out.left.splitlines()]
    stored = place(shop, "a.bookmarks")
    assert stored == "0" or stored in {event["bookmark"] for event in printed}
    seen = {event["data"]["id"] for event in printed if event["command"] == "publish"}
    again = {one for one in told(shop, "--store", "a.bookmarks", *WHO) if isinstance(one, int)}
    assert seen | again == set(range(1, 31))


@pytest.mark.parametrize("every", ["1", "2", "0s", "5s"])
def test_however_seldom_a_place_is_stored_it_is_at_the_end(shop: Cli, every: str) -> None:
    publish(shop, 1, 5)
    keep = ("--store", "a.bookmarks", *WHO, "--commit", "--commit-every", every)
    assert told(shop, *keep) == [1, 2, 3, 4, 5, "completed"]
    assert told(shop, *keep) == ["completed"]


def test_a_place_that_was_pruned_is_an_error_that_names_the_first_entry(cli: Cli) -> None:
    lab = Lab(Path.cwd(), config_xml(topic_xml("t"), ("t",)))
    lab.journal_size = 1024
    for number in range(1, 7):
        lab.publish("t", f'{{"id":{number},"pad":"{"x" * 800}"}}', client="p", sequence=number)
    keep = ("--store", "a.bookmarks", *WHO)
    assert told(cli, *keep, "--commit", "--max", "2") == [1, 2]
    for path in lab.journals()[:4]:
        path.unlink()
    result = cli(*BASE, *keep)
    assert (result.status, result.out) == (10, "")
    assert "SOW-ENG-071" in result.err
    assert f"{P}|2|" in result.err
    assert f"bookmark {P}|5| and txid 5" in result.err
    check = cli("bookmark", "check", "a.bookmarks")
    assert (check.status, json.loads(check.out)["state"]) == (1, "lost")
    assert told(cli, *keep, "--bookmark-not-found", "epoch") == [5, 6, "completed"]


def test_a_place_has_one_run_at_a_time(shop: Cli) -> None:
    publish(shop, 1, 2)
    keep = ("--store", "a.bookmarks", *WHO)
    with sowctl.open("sowctl.xml").place("a.bookmarks", "c", "1"):
        second = shop(*BASE, *keep, "--commit")
        assert (second.status, second.out) == (11, "")
        assert "SOW-BKM-010" in second.err
        assert f"process {os.getpid()} " in second.err
        assert "--sub-id" in second.err
        # Reading is allowed, and so is another id.
        assert told(shop, *keep) == [1, 2, "completed"]
        assert told(shop, *keep[:-1], "2", "--commit") == [1, 2, "completed"]
        # A position set explicitly would be lost: the run stores its own position over it.
        for command in (("set", "a.bookmarks", "1"), ("rewind", "a.bookmarks", "--to", "0"), ("purge", "a.bookmarks")):
            refused = shop("bookmark", *command, *WHO, *(["--yes"] if command[0] == "purge" else []))
            expected = 0 if command[0] != "set" else 11
            assert refused.status == expected, refused.err
    assert told(shop, *keep, "--commit") == [1, 2, "completed"]
    with sowctl.open("sowctl.xml").place("a.bookmarks", "c", "1"):
        assert shop("bookmark", "rewind", "a.bookmarks", "--to", "0", *WHO).status == 11
        assert shop("bookmark", "purge", "a.bookmarks", *WHO, "--yes").status == 11
        assert shop("bookmark", "purge", "a.bookmarks", *WHO, "--dry-run").status == 0


def test_a_mistyped_store_is_no_empty_one(shop: Cli) -> None:
    publish(shop, 1, 1)
    told(shop, "--store", "shop.bookmarks", *WHO, "--commit")
    assert shop("bookmark", "list", "shop.bookmarks").status == 0
    # A topic without published messages is an empty store.
    assert (shop("bookmark", "list", "marks").status, shop("bookmark", "list", "marks").out) == (0, "")
    for name, near in (("shp.bookmarks", "shop.bookmarks"), ("mark", "marks"), ("./shp.bookmarks", "./shop.bookmarks")):
        for command in ("list", "check"):
            refused = shop("bookmark", command, name)
            assert (refused.status, refused.out) == (10, "")
            assert "SOW-BKM-001" in refused.err
            assert f"did you mean {near}?" in refused.err
    assert shop("bookmark", "rewind", "x.bookmarks", "--to", "0").status == 10
    assert shop("bookmark", "purge", "x.bookmarks", "--all", "--yes").status == 10
    assert shop("bookmark", "set", "x.bookmarks", "0", *WHO).status == 0
    assert shop("bookmark", "get", "x.bookmarks", *WHO).out == "0\n"


def test_a_line_without_an_end_is_left_out_and_said(shop: Cli) -> None:
    publish(shop, 1, 3)
    keep = ("--store", "a.bookmarks", *WHO, "--commit", "--ack")
    stdin = f"{P}|1|\n{'1' * 3_000_000}\n{P}|2|\n"
    result = shop(*BASE, *keep, stdin=stdin.encode())
    assert result.status == 0
    assert result.err.count("SOW-FOL-027") == 1
    assert place(shop, "a.bookmarks") == f"{P}|2|"

"""The client recorded if none is named: who wrote what, without sequence numbers, duplicate detection or digests."""

from __future__ import annotations

import getpass
import io
import json
import os
import pwd
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sowctl
from sowctl.cli.main import main
from sowctl.engine.instance import Instance
from sowctl.engine.topics.log_places import find_last_entry
from sowctl.engine.topics.positions import open_whole_log
from sowctl.identity.bookmarks import parse_bookmark
from tests.support.examples import examples
from tests.support.instances import config_xml, topic_xml

QUEUE = (
    "<Queue><Name>q</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Semantics>at-least-once</Semantics><LeasePeriod>60s</LeasePeriod></Queue>"
)
HISTORY = "<History><Window>1d</Window><Granularity>1s</Granularity></History>"
XML = config_xml(topic_xml("t") + topic_xml("kept", HISTORY) + topic_xml("alone") + QUEUE, ("t", "kept"))


class Shop:
    """An instance; the clock advances one second per command."""

    def __init__(self, root: Path, comment: str = "") -> None:
        root.mkdir(exist_ok=True)
        self.root, self.now = root, 1_790_000_000
        (root / "sowctl.xml").write_text(XML.replace("<AMPSConfig>", f"{comment}<AMPSConfig>", 1))

    def run(self, *argv: str, stdin: str = "", who: str | None = None, status: int = 0) -> str:
        self.now += 1
        out, err = io.BytesIO(), io.BytesIO()
        words = [*argv, "-c", str(self.root / "sowctl.xml"), "--now", f"{self.now}s"]
        environ = {} if who is None else {"SOWCTL_CLIENT": who}
        found = main(words, environ=environ, stdin=io.BytesIO(stdin.encode()), stdout=out, stderr=err)
        assert found == status, err.getvalue().decode()
        return out.getvalue().decode()

    def put(self, number: int, *more: str, topic: str = "t", who: str | None = None, v: int = 0) -> dict[str, Any]:
        row = json.dumps({"id": number, "v": v})
        return dict(json.loads(self.run("publish", topic, *more, "--json", stdin=row, who=who)))

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("journal", "dump").splitlines()]

    def clients(self) -> list[tuple[str | None, int | None]]:
        return [(row.get("client"), row.get("sequence")) for row in self.entries()]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "one")


def test_the_name_of_the_environment_is_recorded(shop: Shop, tmp_path: Path) -> None:
    plain = Shop(tmp_path / "two")
    for one, who in ((shop, "alice"), (plain, None)):
        for _ in range(2):
            assert one.put(1, who=who)["published"] == 1
        one.put(2, who=who)
        one.run("delete", "t", "--key", "2", "--yes", who=who)
    assert shop.clients() == [("alice", None)] * 4
    assert plain.clients() == [(None, None)] * 4
    assert [row["bookmark"] for row in shop.entries()] == [row["bookmark"] for row in plain.entries()]
    assert shop.run("hash", "t") == plain.run("hash", "t")
    shop.run("check")


def test_what_is_named_counts(shop: Shop) -> None:
    shop.put(1, "--client", "loader", who="alice")
    row = json.dumps({"topic": "t", "client": "sender", "sequence": 7, "data": {"id": 2}})
    shop.run("publish", "--framing", "envelope", stdin=row, who="alice")
    assert shop.clients() == [("loader", 1), ("sender", 7)]
    # With a sequence number it is a client like any other.
    assert shop.put(3, "--sequence", "5", who="alice")["published"] == 1
    assert shop.put(3, "--sequence", "5", who="alice")["duplicates"] == 1
    assert shop.put(3, who="alice")["published"] == 1
    assert shop.put(3, "--sequence", "5", who="alice")["duplicates"] == 1
    assert shop.put(3, "--client", "alice")["published"] == 1
    assert shop.clients()[2:] == [("alice", 5), ("alice", None), ("alice", 6)]


def test_history_blame_and_tail_show_it(shop: Shop) -> None:
    shop.put(1, topic="kept", who="alice")
    shop.put(1, topic="kept", v=5, who="bob")
    for words in (("history", "kept", "1"), ("history", "kept", "1", "--journal")):
        versions = [json.loads(line) for line in shop.run(*words, "--format", "ndjson").splitlines()]
        assert [row["client"] for row in versions] == ["alice", "bob"], words
        assert shop.run(*words, "--format", "csv").splitlines()[1].split(",")[4] == "alice"
        assert "client bob" in shop.run(*words, "--diff")
    fields = [json.loads(line) for line in shop.run("blame", "kept", "1", "--format", "ndjson").splitlines()]
    assert {row["field"]: row["client"] for row in fields} == {"/id": "alice", "/v": "bob"}
    assert json.loads(shop.run("journal", "tail", "-n", "1"))["client"] == "bob"
    found = shop.run("journal", "search", "--client", "alice")
    assert len(found.splitlines()) == 1


def test_versions_without_a_client_have_no_column(shop: Shop) -> None:
    shop.put(1, topic="kept")
    assert "client" not in shop.run("history", "kept", "1", "--format", "csv")
    assert "client" not in json.loads(shop.run("history", "kept", "1"))


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ("<!-- sowctl: client user@host -->", "{user}@{host}"),
        ("<!-- sowctl: client user@host/program because of the audit -->", "{user}@{host}/sowctl-publish"),
        ("<!-- sowctl: client nightly -->", "nightly"),
        ("<!-- sowctl: client one --><!-- sowctl: client two -->", "two"),
        ("<!-- sowctl: client -->", None),
        ("<!-- sowctl: client two words -->", None),
        ("<!-- client user@host -->", None),
        ("", None),
    ],
)
def test_the_setting_of_an_instance(tmp_path: Path, comment: str, name: str | None) -> None:
    shop = Shop(tmp_path / "one", comment)
    shop.put(1)
    user = pwd.getpwuid(os.geteuid()).pw_name
    wanted = name and name.format(user=user, host=socket.gethostname())
    assert shop.clients() == [(wanted, None)]
    shop.put(1, who="alice")
    assert shop.clients()[1:] == [("alice", None)]


def test_the_environment_does_not_change_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "mallory")
    assert getpass.getuser() == "mallory"
    shop = Shop(tmp_path / "one", "<!-- sowctl: client user -->")
    shop.put(1)
    assert shop.clients() == [(pwd.getpwuid(os.geteuid()).pw_name, None)]


@pytest.mark.parametrize(
    ("comment", "found"),
    [("client user@host", False), ("client", True), ("client two words", True), ("cleint user", True)],
)
def test_lint_reports_a_comment_without_effect(tmp_path: Path, comment: str, found: bool) -> None:
    shop = Shop(tmp_path / "one", f"<!-- sowctl: {comment} -->")
    report = json.loads(shop.run("lint", "--json"))
    assert any("comment" in one["message"] for one in report["findings"]) is found
    part = tmp_path / "one" / "part.xml"
    part.write_text(f"<!-- sowctl: {comment} --><Name>t</Name>")
    text = (tmp_path / "one" / "sowctl.xml").read_text()
    text = text.replace("<Name>test</Name>", "<Include>part.xml</Include>", 1).replace(
        f"<!-- sowctl: {comment} -->", ""
    )
    (tmp_path / "one" / "sowctl.xml").write_text(text)
    report = json.loads(shop.run("lint", "--json"))
    assert any("comment" in one["message"] or "client" in one["message"] for one in report["findings"])


def test_a_dump_keeps_it(shop: Shop, tmp_path: Path) -> None:
    shop.put(1, who="alice")
    shop.put(2, "--client", "alice")
    shop.put(3, who="alice")
    shop.put(4)
    shop.run("delete", "t", "--key", "3", "--yes", who="bob")
    dump = shop.run("journal", "dump")
    other = Shop(tmp_path / "two")
    # Another client with the same name and other numbers was recorded before.
    other.now = shop.now - 100
    for _ in range(3):
        other.put(9, who="alice")
    other.now = shop.now
    other.run("publish", "--framing", "envelope", stdin=dump, who="carol")
    assert other.clients()[3:] == shop.clients()
    assert other.run("query", "t", "/id < 9") == shop.run("query", "t", "/id < 9")


def test_a_topic_without_a_journal_keeps_nothing_of_it(shop: Shop, tmp_path: Path) -> None:
    shop.put(1, topic="alone", who="alice")
    plain = Shop(tmp_path / "two")
    plain.put(1, topic="alone")
    assert shop.run("hash", "alone") == plain.run("hash", "alone")
    assert shop.put(1, "--client", "alice", "--sequence", "1", topic="alone")["duplicates"] == 0


def test_messages_of_a_queue_are_acknowledged_by_their_bookmarks(shop: Shop) -> None:
    for number in (1, 2):
        shop.put(number, who="alice")
    shop.put(3, "--client", "alice")
    shop.run("queue", "lease", "q", "-n", "3")
    marks = [json.loads(line)["bookmark"] for line in shop.run("queue", "peek", "q").splitlines()]
    assert marks == [row["bookmark"] for row in shop.entries()[:3]]
    shop.run("queue", "ack", "q", *marks)
    assert shop.run("queue", "peek", "q") == ""
    shop.run("check")


def test_a_subscription_goes_on_behind_such_an_entry(shop: Shop) -> None:
    for number in (1, 2, 3):
        shop.put(number, who="alice")
    mark = shop.entries()[0]["bookmark"]
    lines = shop.run("subscribe", "t", "--no-sow", "--bookmark", mark, "--until-now", "--data-only", "--format", "raw")
    assert [json.loads(line)["id"] for line in lines.splitlines()] == [2, 3]


def test_programs_name_it(shop: Shop) -> None:
    with sowctl.open(shop.root, client="notebook") as instance:
        instance.topic("t").publish([{"id": 1}])
    assert shop.clients() == [("notebook", None)]


STEPS = st.lists(st.tuples(st.sampled_from([None, "alice", "test"]), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=examples(15), deadline=None)
@given(STEPS)
def test_every_entry_is_found_by_its_bookmark(steps: list[tuple[str | None, bool]]) -> None:
    """Also if a client has the name of the instance, and numbered entries are among recorded ones."""
    with tempfile.TemporaryDirectory() as directory:
        shop = Shop(Path(directory) / "one")
        for number, (who, numbered) in enumerate(steps):
            if numbered and who == "alice":
                shop.put(number, "--client", who)
            else:
                shop.put(number, who=who)
        entries = shop.entries()
        assert len({row["bookmark"] for row in entries}) == len(entries) == len(steps)
        with Instance.open(shop.root) as instance, open_whole_log(instance) as log:
            for row in entries:
                place = find_last_entry(log, parse_bookmark(row["bookmark"]), instance)
                assert place is not None and place.txid == row["txid"]


def test_a_replacement_records_the_client_too(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "replaced")
    shop.run("publish", "t", stdin='{"id":1}\n{"id":2}\n', who="first")
    shop.run("publish", "t", "--replace-all", stdin='{"id":2,"a":1}\n{"id":3}\n', who="second")
    entries = [json.loads(line) for line in shop.run("journal", "dump", "t").splitlines()]
    assert [entry.get("client") for entry in entries] == ["first"] * 2 + ["second"] * 3
    assert all(not entry.get("sequence") for entry in entries)
    shop.run("check")
    shop.run("publish", "alone", "--replace-all", stdin='{"id":1}\n', who="second")

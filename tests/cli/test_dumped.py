"""Envelopes printed from journals and stores restore the same instance."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from sowctl.cli.main import main
from tests.support.instances import topic_xml

QUEUE = (
    "<Queue><Name>q</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Semantics>at-least-once</Semantics><LeasePeriod>60s</LeasePeriod></Queue>"
)
TOPICS = ("t", "mine", "log", "chosen", "P.*", "timed")


class Place:
    """An instance with topics of every key mode, all in the journal; the clock advances one second per command."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root, self.now = root, 1_790_000_000
        topics_xml = (
            topic_xml("t")
            + topic_xml("mine", key=None)
            + topic_xml("timed", "<Expiration>1h</Expiration>")
            + topic_xml("patterned", "<Pattern>^P[.]</Pattern>", file="sow/patterned.sow")
        )
        logged = ("t", "mine", "timed", "log", "patterned")
        log = "".join(f"<Topic><Name>{name}</Name><MessageType>json</MessageType></Topic>" for name in logged)
        (root / "sowctl.xml").write_text(
            f"<AMPSConfig><Name>x</Name><SOW>{topics_xml}{QUEUE}</SOW><TransactionLog>"
            f"<JournalDirectory>journal</JournalDirectory>{log}</TransactionLog></AMPSConfig>"
        )

    def run(self, *argv: str, stdin: bytes = b"", status: int = 0) -> str:
        self.now += 1
        out, err = io.BytesIO(), io.BytesIO()
        words = [*argv, "-c", str(self.root / "sowctl.xml"), "--now", f"{self.now}s"]
        found = main(words, environ={}, stdin=io.BytesIO(stdin), stdout=out, stderr=err)
        assert found == status, (argv, found, err.getvalue().decode())
        return out.getvalue().decode()

    def put(self, topic: str, row: dict[str, Any], *more: str) -> None:
        self.run("publish", topic, *more, stdin=json.dumps(row).encode())

    def state(self) -> list[dict[str, Any]]:
        """All records with their stamps, and all entries of the journal but those of queues."""
        lines = [line for topic in ("t", "mine", "timed") for line in self.run("query", topic, "--meta").splitlines()]
        lines += self.run("query", "P.a", "--meta").splitlines() + self.run("query", "P.b", "--meta").splitlines()
        dumped = [line for line in self.dump().splitlines() if '"message_bookmark"' not in line]
        return [{**json.loads(line), "bookmark": None, "txid": None} for line in lines + dumped]

    def dump(self) -> str:
        return self.run("journal", "dump")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "one")
    for number in (3, 1, 2):
        for topic in ("t", "log", "P.a", "timed"):
            made.put(topic, {"id": number, "of": topic}, "--client", f"c{number % 2}")
        made.put("mine", {"x": number}, "--sow-key", f"{number}")
    made.put("P.b", {"id": 1})
    made.put("timed", {"id": 4}, "--expiration", "0")
    made.run("delete", "t", "--filter", "/id = 1", "--yes")
    made.run("delete", "mine", "--sow-key", "2", "--yes")
    made.run("delete", "P.a", "--filter", "/id = 3", "--yes")
    made.put("t", {"id": 2, "of": "again"}, "--client", "c1")
    made.put("t", {"id": 1, "of": "back"})
    return made


def test_a_dump_makes_the_instance_again(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "two")
    other.now = place.now
    other.run("publish", "--framing", "envelope", stdin=place.dump().encode())
    assert other.state() == place.state()
    # Messages of a client are not published twice.
    own = [line for line in place.dump().splitlines() if '"client":"c1"' in line]
    report = other.run("publish", "--framing", "envelope", "--summary", "json", stdin="\n".join(own).encode())
    assert json.loads(report)["duplicates"] == len(own) > 0


def test_entries_of_queues_are_refused_one_by_one(place: Place, tmp_path: Path) -> None:
    place.run("queue", "lease", "q")
    mark = json.loads(place.run("queue", "peek", "q").splitlines()[0])["bookmark"]
    place.run("queue", "ack", "q", mark)
    dump = place.dump()
    assert '"message_bookmark"' in dump
    other = Place(tmp_path / "two")
    other.now = place.now
    other.run("publish", "--framing", "envelope", "--on-error", "skip", stdin=dump.encode(), status=3)
    assert other.state() == place.state()


@pytest.mark.parametrize("target", ["t|timed|mine", "^P[.]"])
def test_an_export_of_several_topics_is_published_again(target: str, place: Place, tmp_path: Path) -> None:
    file = str(tmp_path / "x.ndjson.gz")
    place.run("export", target, file, "--meta")
    other = Place(tmp_path / "two")
    other.now = place.now
    other.run("publish", "--framing", "envelope", file)
    names = ("t", "timed", "mine") if target[0] == "t" else ("P.a", "P.b")
    for name in names:
        first, again = (
            [{**json.loads(line), "txid": None} for line in one.run("query", name, "--meta").splitlines()]
            for one in (place, other)
        )
        assert first == again != []


def test_entries_that_were_committed_together_may_have_one_number(tmp_path: Path) -> None:
    made = Place(tmp_path / "one")
    rows = [
        {"topic": "t", "client": "c", "sequence": number, "operation": "publish", "data": {"id": at}}
        for at, number in enumerate((1, 1, 1, 2, 2))
    ]
    data = "\n".join(map(json.dumps, rows)).encode()
    for inserted, duplicates in ((5, 0), (0, 5)):
        report = json.loads(made.run("publish", "--framing", "envelope", "--summary", "json", stdin=data))
        assert (report["inserted"], report["duplicates"]) == (inserted, duplicates)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"topic": "t", "operation": "delete"}, "SOW-PUB-028"),
        ({"topic": "t", "operation": "delete", "sow_key": "x"}, "SOW-PUB-028"),
        ({"topic": "log", "operation": "delete", "sow_key": "1"}, "SOW-PUB-028"),
        ({"topic": "t", "operation": "ack"}, "SOW-PUB-019"),
        ({"topic": "t", "operation": "publish"}, "SOW-INP-014"),
        ({"topic": "t", "operation": 1, "data": {}}, "SOW-INP-013"),
    ],
)
def test_what_is_no_entry_of_a_message_is_refused(row: dict[str, Any], code: str, tmp_path: Path) -> None:
    made = Place(tmp_path / "one")
    rejects = tmp_path / "rejects"
    data = json.dumps(row).encode() + b'\n{"topic":"t","data":{"id":1}}\n'
    more = ("--on-error", "skip", "--rejects", str(rejects))
    made.run("publish", "--framing", "envelope", *more, stdin=data, status=3)
    assert json.loads(rejects.read_text())["code"] == code
    assert len(made.run("query", "t").splitlines()) == 1


def test_several_publishers_do_not_go_into_one_group(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "two")
    data = place.dump().encode()
    other.run("publish", "--framing", "envelope", "--on-error", "abort", stdin=data, status=3)
    assert other.run("query", "t") == ""


def test_key_refuses_what_deletes(tmp_path: Path) -> None:
    made = Place(tmp_path / "one")
    data = b'{"topic":"t","operation":"delete","sow_key":"1"}'
    assert made.run("key", "t", "--framing", "envelope", stdin=data, status=3) == ""

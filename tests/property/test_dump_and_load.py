"""Law: the envelopes of all topics, published into an empty instance of the same configuration, give the same records.

What follows from them - views, conflated topics, queues - is left out, and is right again by itself.
"""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.cli.main import main
from tests.support.examples import examples
from tests.support.instances import config_xml, topic_xml

TOPICS = ("t", "mine", "timed", "P.a")
DERIVED = (
    "<View><Name>sums</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic><Projection>"
    "<Field>/of</Field><Field>COUNT(/id) AS /n</Field></Projection><Grouping><Field>/of</Field></Grouping></View>"
    "<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Interval>1s</Interval></ConflatedTopic>"
    "<Queue><Name>q</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Semantics>at-least-once</Semantics><LeasePeriod>60s</LeasePeriod></Queue>"
)
XML = config_xml(
    topic_xml("t")
    + topic_xml("mine", key=None)
    + topic_xml("timed", "<Expiration>1h</Expiration>")
    + topic_xml("patterned", "<Pattern>^P[.]</Pattern>", file="sow/patterned.sow")
    + DERIVED,
    ("t", "mine", "timed", "patterned"),
)


class Place:
    """An instance; the clock goes on a second a command."""

    def __init__(self, root: Path, now: int = 1_790_000_000) -> None:
        root.mkdir()
        (root / "sowctl.xml").write_text(XML)
        self.root, self.now, self.notes = root, now, ""

    def run(self, *argv: str, stdin: bytes = b"") -> str:
        self.now += 1
        out, err = io.BytesIO(), io.BytesIO()
        words = [*argv, "-c", str(self.root / "sowctl.xml"), "--now", f"{self.now}s"]
        status = main(words, environ={}, stdin=io.BytesIO(stdin), stdout=out, stderr=err)
        self.notes = err.getvalue().decode()
        assert status in (0, 1), self.notes
        return out.getvalue().decode()

    def records(self, topic: str) -> list[dict[str, Any]]:
        lines = self.run("query", topic, "--meta").splitlines()
        rows = [{**json.loads(line), "txid": None, "bookmark": None} for line in lines]
        return sorted(rows, key=lambda row: str(row["sow_key"]))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "publish", "delete"]),
        st.sampled_from(TOPICS),
        st.integers(1, 4),
        st.sampled_from(["x", "y"]),
        st.sampled_from([None, "0", "2s", "10m"]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("way", ["query", "export"])
@settings(max_examples=examples(12), deadline=None)
@given(STEPS)
def test_everything_is_there_again(way: str, steps: list[tuple[str, str, int, str, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        one = Place(Path(directory) / "one")
        for what, topic, number, of, lifetime in steps:
            if what == "delete":
                one.run("delete", topic, "--filter", f"/id = {number}", "--yes")
                continue
            more = ["--sow-key", str(number)] if topic == "mine" else []
            more += ["--expiration", lifetime] if topic == "timed" and lifetime is not None else []
            one.run("publish", topic, *more, stdin=json.dumps({"id": number, "of": of}).encode())
        file = Path(directory) / "all.ndjson"
        if way == "query":
            file.write_text(one.run("query", ".*", "--meta"))
        else:
            one.run("export", ".*", str(file), "--meta")
        two = Place(Path(directory) / "two", one.now)
        two.run("publish", "--framing", "envelope", str(file))
        two.now = one.now
        for topic in (*TOPICS, "sums"):
            there, here = one.records(topic), two.records(topic)
            stamps = ("timestamp",) if topic == "sums" else ()
            assert [{**row, **dict.fromkeys(stamps)} for row in there] == [
                {**row, **dict.fromkeys(stamps)} for row in here
            ]


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    one = Place(tmp_path / "one")
    one.run("publish", "t", stdin=b'{"id":1,"of":"x"}\n{"id":2,"of":"y"}\n')
    one.run("delete", "t", "--filter", "/id = 1", "--yes")
    found = one.run("query", ".*", "--meta")
    assert [json.loads(line)["topic"] for line in found.splitlines()] == ["t"]
    assert all(name in one.notes for name in ("sums", "slow", "q"))
    # Only a pattern leaves out, and only where something is left; a table is for people.
    assert len(one.run("query", "q", "--meta").splitlines()) == 2
    assert json.loads(one.run("query", "sums", "--meta"))["topic"] == "sums"
    assert one.run("query", "sums|q", "--meta").count("\n") > 1
    assert "sums" in one.run("query", ".*", "--meta", "--format", "csv")
